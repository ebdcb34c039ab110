// When TensorBoard's charts have been drawn, and with what. Runs before the page's own scripts.
//
// A chart is a canvas, or SVG. A canvas belongs to a worker: the page sends it points through a
// MessagePort and is told when it has drawn; then the canvas has to show something else than before.
// Of SVG the lines have to change after the answer that brought the points, and a frame has to pass.
// `wanted` is set by whoever measures: {runs, step}: how many runs, and their last step.
(() => {
  const drawn = (window.drawn = { all: 0, first: 0, given: 0, steps: [], done: [], log: [] });
  const charts = new Map(); // by the page's port
  const LOOK_AGAIN = 40; // milliseconds: looking must not compete with drawing
  let channel = null;

  window.MessageChannel = class extends MessageChannel {
    constructor() {
      super();
      channel = this;
    }
  };

  const transfer = HTMLCanvasElement.prototype.transferControlToOffscreen;
  HTMLCanvasElement.prototype.transferControlToOffscreen = function () {
    const chart = { canvas: this, data: null, redraws: 0, picture: 0, looking: false };
    charts.set(channel.port1, chart);
    const redrawn = (event) => {
      if (event.data.type !== 0) return;
      chart.redraws += 1;
      if (chart.data && !chart.looking) {
        chart.looking = true;
        setTimeout(look, LOOK_AGAIN, chart);
      }
    };
    EventTarget.prototype.addEventListener.call(channel.port1, "message", redrawn);
    return transfer.call(this);
  };

  const post = MessagePort.prototype.postMessage;
  MessagePort.prototype.postMessage = function (message, ...rest) {
    const data = message?.compactDataSeries;
    const chart = charts.get(this);
    if (chart && data && data.idsAndLengths.length) {
      const points = new Float64Array(data.flattenedSeries);
      const done = new Set();
      let end = 0;
      let step = -1;
      for (const { id, length } of data.idsAndLengths) {
        end += 2 * length;
        if (!length) continue;
        step = Math.max(step, points[end - 2]);
        const run = /defaultExperimentId\/([^"]*)/.exec(id)?.[1] ?? id;
        if (points[end - 2] === wanted.step) done.add(run);
      }
      drawn.given += 1;
      drawn.done = [...done];
      chart.data = { all: done.size >= wanted.runs, step };
      note(`${done.size} runs given to a chart`);
      chart.redraws = 0;
    }
    return post.call(this, message, ...rest);
  };

  function look(chart) {
    chart.looking = false;
    const { data } = chart;
    if (!data) return;
    const picture = pictureOf(chart.canvas);
    if (picture === 0 || (picture === chart.picture && chart.redraws < 2)) {
      chart.looking = true;
      setTimeout(look, LOOK_AGAIN, chart);
      return;
    }
    chart.picture = picture;
    chart.data = null;
    show(data);
  }

  /** A number for what a canvas shows, made smaller; 0 when it shows nothing. */
  function pictureOf(canvas) {
    const [width, height] = [100, 50];
    const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0, width, height);
    let number = 0;
    for (const pixel of new Uint32Array(context.getImageData(0, 0, width, height).data.buffer)) {
      number = (Math.imul(number, 31) + pixel) | 0;
    }
    return number;
  }

  // SVG: which points a chart was given is what was answered for its tag.

  const answers = new Map(); // by tag

  function take(text) {
    for (const { tag, runToSeries } of JSON.parse(text)) {
      const done = new Set();
      let step = -1;
      for (const [run, points] of Object.entries(runToSeries ?? {})) {
        const last = points.at(-1)?.step ?? -1;
        step = Math.max(step, last);
        if (last === wanted.step) done.add(run);
      }
      answers.set(tag, { all: done.size >= wanted.runs, step });
      drawn.given += 1;
      drawn.done = [...done];
    }
  }

  new MutationObserver((changes) => {
    for (const card of new Set(changes.map(({ target }) => target.closest?.("scalar-card")))) {
      const tag = card?.querySelector("tb-truncated-path")?.title;
      const data = answers.get(tag);
      // Each run has a line as it is, and a smoothed one.
      const lines = card?.querySelectorAll("line-chart svg.ng-star-inserted > path");
      if (!data || !lines?.length || lines.length < 2 * wanted.runs) continue;
      answers.delete(tag);
      note(`${lines.length} lines in a chart`);
      requestAnimationFrame(() => setTimeout(show, 0, data));
    }
  }).observe(document, { subtree: true, childList: true, attributeFilter: ["d"] });

  function show(data) {
    note("drawn");
    const now = Date.now();
    drawn.first ||= now;
    drawn.steps.push([data.step, now]);
    if (data.all) drawn.all ||= now;
  }

  // The way there, for whoever wants to know where the time goes.

  function note(what) {
    drawn.log.push([what, Date.now()]);
  }
  note("page");
  const open = XMLHttpRequest.prototype.open;
  XMLHttpRequest.prototype.open = function (method, url, ...rest) {
    const name = String(url).split("?")[0].split("/").pop();
    note(`${name} asked`);
    EventTarget.prototype.addEventListener.call(this, "load", () => {
      note(`${name} answered`);
      if (name === "timeSeries" && !charts.size) take(this.responseText);
    });
    return open.call(this, method, url, ...rest);
  };
})();
