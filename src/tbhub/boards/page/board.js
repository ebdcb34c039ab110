// @ts-check
"use strict";

/**
 * What makes TensorBoard's page a board of tbhub's. It runs before TensorBoard's own script, knows
 * nothing of that script's insides, and touches it in five places only: the browser's storage, the
 * way charts are drawn, the addresses of shared files, the count of requests under way, and the
 * reload button.
 */
(() => {
  const script = /** @type {HTMLScriptElement} */ (document.currentScript);
  const board = script.dataset.board ?? "";
  const shared = new URL(".", script.src);
  const relativeRoot = document.querySelector('meta[name="tb-relative-root"]');
  const root = new URL(relativeRoot?.getAttribute("content") ?? "./", document.baseURI);

  /** One refresh in so many milliseconds at most, and a third of the time is the user's alone. */
  const REFRESH_EVERY = 1000;
  /** While runs are still being read there is news all the time, and other work to do. */
  const REFRESH_EVERY_WHILE_LOADING = 3000;
  /** How often a refresh that has to wait looks whether it may start. */
  const LOOK_AGAIN = 100;
  /** Charts ask for data a moment after the tags have come: only silence means done. */
  const QUIET = 150;
  /** A board that loads faster, or a connection that is back sooner, is not worth a word. */
  const SHOW_LOADING_AFTER = 500;
  const SHOW_LOST_AFTER = 5000;
  const LISTEN_AFTER = 3000;
  const MIN_RETRY = 1000;
  const MAX_RETRY = 30000;
  const COMPILED_AFTER = 1000;

  // Storage. TensorBoard keeps pins, colours and settings by origin; all boards share one origin.

  /**
   * Storage under a prefix that is the board's alone: the slash ends its name and is never in it.
   * Where a browser forbids storage, it lasts as long as the page.
   */
  class BoardStorage {
    #prefix = `tbhub/${encodeURIComponent(board)}/`;
    /** @type {Storage | null} */
    #real = null;
    /** @type {Map<string, string>} */
    #memory = new Map();

    /** @param {"localStorage" | "sessionStorage"} kind */
    constructor(kind) {
      try {
        this.#real = window[kind];
      } catch {
        // Forbidden: cookies are blocked, or the page is in a sandbox.
      }
    }
    #keys() {
      const all = this.#real ? Object.keys(this.#real) : [...this.#memory.keys()];
      return all.filter((each) => each.startsWith(this.#prefix));
    }
    get length() {
      return this.#keys().length;
    }
    /** @param {number} index */
    key(index) {
      return this.#keys()[index]?.slice(this.#prefix.length) ?? null;
    }
    /** @param {string} key */
    getItem(key) {
      const name = this.#prefix + key;
      return this.#real ? this.#real.getItem(name) : (this.#memory.get(name) ?? null);
    }
    /** @param {string} key @param {string} value */
    setItem(key, value) {
      const name = this.#prefix + key;
      if (this.#real) this.#real.setItem(name, value);
      else this.#memory.set(name, String(value));
    }
    /** @param {string} key */
    removeItem(key) {
      if (this.#real) this.#real.removeItem(this.#prefix + key);
      else this.#memory.delete(this.#prefix + key);
    }
    clear() {
      for (const name of this.#keys()) this.removeItem(name.slice(this.#prefix.length));
    }
  }

  /** What all boards share; none where a browser forbids storage. */
  const shelf = (() => {
    try {
      return window.localStorage;
    } catch {
      return null;
    }
  })();
  const session = new BoardStorage("sessionStorage");
  const local = new BoardStorage("localStorage");
  Object.defineProperty(window, "localStorage", { configurable: true, get: () => local });

  // Drawing. Without a graphics card WebGL is computed, and takes seconds for a hundred lines that
  // SVG draws in a fraction of that. TensorBoard takes SVG where there is no WebGL.

  const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;

  function isComputed() {
    const context = document.createElement("canvas").getContext("webgl2");
    const info = context?.getExtension("WEBGL_debug_renderer_info");
    const name = info ? context?.getParameter(info.UNMASKED_RENDERER_WEBGL) : "";
    context?.getExtension("WEBGL_lose_context")?.loseContext();
    return context === null || SOFTWARE.test(String(name));
  }

  const computed = isComputed();
  if (computed) {
    // It asks once, while its script is evaluated; meshes and embeddings need WebGL, and ask later.
    const { getContext } = HTMLCanvasElement.prototype;
    HTMLCanvasElement.prototype.getContext = /** @type {any} */ (
      /** @this {HTMLCanvasElement} @param {string} kind @param {any[]} rest */
      function (kind, ...rest) {
        return kind === "webgl2" ? null : getContext.call(this, kind, ...rest);
      }
    );
    document.addEventListener("DOMContentLoaded", () => {
      HTMLCanvasElement.prototype.getContext = getContext;
    });
  }

  // Addresses. The page's own files come from the shared address, links stay below the board.

  const SHARED_FILES = /^(?:\.\/)?(chart_worker\.js|icon_bundle\.svg)(?:\?|$)/;

  /** @param {string | URL} url */
  function address(url) {
    const file = SHARED_FILES.exec(String(url));
    return file ? new URL(file[1], shared).href : url;
  }

  /** Workers of the first charts: they get ready while TensorBoard's own script does. */
  const ready = computed ? [] : [1, 2].map(() => new Worker(new URL("chart_worker.js", shared)));

  window.Worker = class extends Worker {
    /** @param {string | URL} url @param {WorkerOptions} [options] */
    constructor(url, options) {
      const where = address(url);
      const worker = String(where).endsWith("/chart_worker.js") ? ready.pop() : null;
      if (worker) return worker;
      super(where, options);
    }
  };

  // The CSV and JSON links of a card start at the origin's root, whatever the board's root is.
  if (root.pathname !== "/") {
    /** @param {Event} event */
    const mend = (event) => {
      for (const each of event.composedPath()) {
        if (!(each instanceof HTMLAnchorElement)) continue;
        const href = each.getAttribute("href");
        if (href?.startsWith("/experiment/")) each.href = root.pathname + href.slice(1);
      }
    };
    for (const type of ["pointerover", "focusin", "click"]) addEventListener(type, mend, true);
  }

  // Requests under way.

  let shown = Number(script.dataset.version);
  let listed = -1;
  let underway = 0;
  let lastEnd = 0;
  const ended = () => {
    underway -= 1;
    lastEnd = performance.now();
  };

  /**
   * Each answer says which version of the data it is made from at least. The page asks for its runs
   * and tags first and for all else after: what it shows is as new as the tags, or as the runs
   * where there have come some since.
   * @this {XMLHttpRequest}
   */
  function answered() {
    ended();
    const [, asked] = /\/data\/(?:plugin\/\w+\/)?(runs|tags)(?:\?|$)/.exec(this.responseURL) ?? [];
    if (!asked) return;
    const runs = Number(this.getResponseHeader("x-tbhub-runs"));
    // Both halves of the page ask for the runs: where their answers differ, one half is behind.
    if (asked === "runs") listed = listed < 0 || listed === runs ? runs : NaN;
    if (runs !== listed) return;
    shown = Math.max(shown, Number(this.getResponseHeader("x-tbhub-version")));
  }

  const { open, send, addEventListener: hear } = XMLHttpRequest.prototype;
  /** @param {any[]} rest */
  XMLHttpRequest.prototype.open = function (method, url, ...rest) {
    // @ts-ignore: an argument that is left out is not one that is undefined
    return open.call(this, method, address(url), ...rest);
  };
  XMLHttpRequest.prototype.send = function (body) {
    underway += 1;
    // By the browser's own method: Angular's looks for something to redraw after every event.
    hear.call(this, "loadend", answered, { once: true });
    try {
      send.call(this, body);
    } catch (error) {
      this.removeEventListener("loadend", answered);
      ended();
      throw error;
    }
  };
  const plainFetch = window.fetch;
  window.fetch = (...request) => {
    underway += 1;
    return plainFetch(...request).finally(ended);
  };

  // Live. The server says which version of the data it has; the page shows it when it can.

  let current = shown;
  let started = 0;
  let finished = 0;
  let refreshing = false;
  let held = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  function idle() {
    return underway === 0 && performance.now() - lastEnd >= QUIET;
  }

  /** Ends the refresh that runs, starts the one that is due, or waits: the one place to decide. */
  function advance() {
    clearTimeout(timer);
    const now = performance.now();
    if (refreshing && idle()) {
      refreshing = false;
      finished = lastEnd;
      document.body.classList.remove("tbhub-refreshing");
    }
    if (!refreshing && current > shown && !document.hidden && !held && idle()) {
      const rest = (finished - started) / 2 - (now - finished);
      const every = state?.loading ? REFRESH_EVERY_WHILE_LOADING : REFRESH_EVERY;
      const pause = Math.max(every - (now - started), rest);
      if (pause <= 0) refresh(now);
    }
    const due = current > shown && !document.hidden;
    if (refreshing || due) timer = setTimeout(advance, LOOK_AGAIN);
  }

  /**
   * Presses TensorBoard's reload button, which refreshes what is visible and keeps its state. It is
   * out of the document meanwhile: menus and dialogs close at any click that passes through it.
   * @param {number} now
   */
  function refresh(now) {
    const button = document.querySelector("app-header-reload button");
    // Not there yet, or not for this dashboard (the projector): it is asked again.
    if (!(button instanceof HTMLButtonElement) || button.disabled) return;
    shown = current;
    listed = -1;
    started = now;
    refreshing = true;
    document.body.classList.add("tbhub-refreshing");
    const focused = document.activeElement === button;
    const place = document.createComment("");
    button.replaceWith(place);
    button.dispatchEvent(new MouseEvent("click"));
    place.replaceWith(button);
    if (focused) button.focus();
  }

  addEventListener("pointerdown", () => (held = true), true);
  for (const type of ["pointerup", "pointercancel", "dragend"]) {
    addEventListener(type, () => (held = false), true);
  }
  // The window's own, not that of its elements: the button may come up outside of it.
  addEventListener("blur", () => (held = false));

  /** @typedef {{ id: string, text: string }} Notice */
  /** @typedef {{ done: number, total: number }} Loading */
  /** @typedef {{ version: number, loading: Loading | null, notices: Notice[] }} State */

  /** @type {State | null} */
  let state = null;
  /** @type {EventSource | null} */
  let source = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let retryTimer;
  let retry = MIN_RETRY;
  let lostSince = 0;

  /** How to continue: the page is loaded again, or another one; a board is started first. */
  /** @typedef {{ label: string, url?: string, start?: boolean }} Next */
  /** @typedef {{ text: string, next: Next }} Refusal */

  /** Why there are no events and will be none before the user does something. @type {Refusal | null} */
  let refusal = null;
  let asking = new AbortController();

  /**
   * Listens while the page is visible. A browser opens six connections to one origin: a listener
   * in each of six forgotten tabs would leave none for the seventh. The first message says it all.
   */
  function listen() {
    clearTimeout(retryTimer);
    source?.close();
    source = null;
    lostSince = 0;
    if (!document.hidden) connect();
  }

  /** Not before the page has its first data: it needs all six connections for that. */
  function begin() {
    const settled = (lastEnd > 0 && idle()) || performance.now() > LISTEN_AFTER;
    if (!settled) {
      setTimeout(begin, LOOK_AGAIN);
      return;
    }
    listen();
    setTimeout(() => requestIdleCallback(compile, { timeout: COMPILED_AFTER }), QUIET);
  }

  /**
   * A browser keeps what it has compiled of a script once that has run twice. So it runs again, in a
   * frame where it finds nothing to do, when the first board has been drawn: the next one is there
   * in half the time.
   */
  function compile() {
    const COMPILED = "tbhub-compiled";
    const main = new URL("index.js", shared).href;
    // Where storage is forbidden it would be done for every board.
    if (!shelf || document.hidden || shelf.getItem(COMPILED) === main) return;
    shelf.setItem(COMPILED, main);
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    const inside = /** @type {Window} */ (frame.contentWindow);
    inside.onerror = () => true; // it misses its page, and says so
    inside.document.body.remove();
    const again = inside.document.createElement("script");
    again.src = main;
    // The compiled form is stored a moment after the script has run.
    again.onload = () => setTimeout(() => frame.remove(), COMPILED_AFTER);
    inside.document.documentElement.append(again);
  }

  function connect() {
    const opened = new EventSource(new URL("tbhub/events", root));
    source = opened;
    opened.onmessage = (event) => {
      state = /** @type {State} */ (JSON.parse(event.data));
      current = state.version;
      retry = MIN_RETRY;
      lostSince = 0;
      refusal = null;
      asking.abort();
      advance();
      show();
    };
    opened.onerror = () => {
      lostSince ||= performance.now();
      setTimeout(show, SHOW_LOST_AFTER + LOOK_AGAIN);
      // The browser tries again by itself, except after an answer that is not a stream of events.
      if (opened.readyState !== EventSource.CLOSED) return;
      retryTimer = setTimeout(connect, retry * (0.5 + Math.random() / 2));
      retry = Math.min(2 * retry, MAX_RETRY);
      explain();
    };
  }

  /** Requests the events as JSON: an EventSource does not say why it was refused. */
  async function explain() {
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    /** @type {Refusal | null} */
    let found = null;
    try {
      const headers = { accept: "application/json" };
      const answer = await plainFetch(new URL("tbhub/events", root), { headers, signal });
      if (answer.ok) {
        await answer.body?.cancel();
      } else {
        const { message, details } = (await answer.json()).error;
        if (details.next) found = { text: message, next: details.next };
        // The hub is there, and holds requests back until the board is up.
        else if (answer.status === 503) retry = MIN_RETRY;
      }
    } catch {
      // No answer, or not one of a hub: the page says that it is trying again.
    }
    if (signal.aborted) return;
    refusal = found;
    show();
  }

  // Status. One line for each thing a user should know, in a strip that is there when one is.

  const strip = document.createElement("tbhub-status");
  strip.setAttribute("role", "status");
  const DISMISSED = "dismissed";
  let loadingSince = 0;

  /** @returns {Set<string>} */
  function dismissed() {
    return new Set(JSON.parse(session.getItem(DISMISSED) ?? "[]"));
  }

  /** Names of runs are part of the texts: they are never read as HTML. @param {string} text */
  function line(text) {
    const row = document.createElement("div");
    const words = document.createElement("span");
    words.textContent = text;
    row.append(words);
    return row;
  }

  /** @param {Notice} notice */
  function noticeLine(notice) {
    const row = line(notice.text);
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "✕";
    button.title = "Dismiss";
    button.setAttribute("aria-label", `Dismiss: ${notice.text}`);
    button.onclick = () => {
      session.setItem(DISMISSED, JSON.stringify([...dismissed().add(notice.id)]));
      show();
    };
    row.append(button);
    return row;
  }

  /** @param {Refusal} refused */
  function refusalLine({ text, next }) {
    const row = line(text);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "tbhub-next";
    button.textContent = next.label;
    button.onclick = async () => {
      button.disabled = true;
      if (next.start) await plainFetch(root, { method: "POST", redirect: "manual" }).catch(() => {});
      if (next.url) location.assign(next.url);
      else location.reload();
    };
    row.append(button);
    return row;
  }

  function show() {
    const now = performance.now();
    const lines = [];
    if (refusal) {
      lines.push(refusalLine(refusal));
    } else if (lostSince && now - lostSince >= SHOW_LOST_AFTER) {
      lines.push(line("Connection lost, retrying…"));
    }
    const loading = state?.loading;
    if (!loading) {
      loadingSince = 0;
    } else if (!loadingSince) {
      loadingSince = now;
      setTimeout(show, SHOW_LOADING_AFTER + LOOK_AGAIN);
    } else if (now - loadingSince >= SHOW_LOADING_AFTER) {
      const [done, total] = [loading.done, loading.total].map((n) => n.toLocaleString("en-US"));
      lines.push(line(`Loading ${done} of ${total} runs…`));
    }
    const hidden = dismissed();
    for (const notice of state?.notices ?? []) {
      if (!hidden.has(notice.id)) lines.push(noticeLine(notice));
    }
    strip.replaceChildren(...lines);
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.body.append(strip);
    show();
  });
  document.addEventListener("visibilitychange", () => {
    listen();
    advance();
  });
  begin();
})();
