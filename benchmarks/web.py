"""The compare page in Chromium, beside stock TensorBoard's Time Series: 100 runs × 50,000 points.

Both servers have read everything before the page is opened. Ours draws from all points, extremes
kept; stock from the 1,000 it has sampled. Chromium has no graphics card here, on both sides.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from benchmarks.boards import STOCK, run_names, stock, wait_until_read
from benchmarks.boards_page import chromium, until_drawn
from benchmarks.corpus import TAGS, corpus
from benchmarks.measure import SCRATCH, Row, in_turns, time_text
from tbhub import SummaryWriter
from tbhub.client.hub import Hub

_RUNS, _POINTS = 100, 50_000
_PATIENCE = 120.0
_MOVES = 10
_HOVERS = 40
_SAMPLES = 20


@contextmanager
def hub_over(logdir: str) -> Iterator[str]:
    """The address of a hub that knows the runs of a log directory."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as home:
        process = subprocess.Popen(
            [sys.executable, "-m", "tbhub.hub"],
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "TBHUB_HOME": f"{home}/hub",
                "TBHUB_CACHE_DIR": f"{home}/cache",
                "TBHUB_LOGDIRS": logdir,
                "TBHUB_AUTH": "none",
                "TBHUB_PORT": "0",
                "TBHUB_LOG_LEVEL": "warning",
            },
        )
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_PATIENCE)


def run_ids(url: str, number: int) -> list[int]:
    """The runs of a hub, when it knows so many."""
    deadline = time.monotonic() + _PATIENCE
    with Hub(url) as hub:
        while time.monotonic() < deadline:
            found = hub.runs(limit=number).runs
            if len(found) >= number:
                return [run.id for run in found]
            time.sleep(0.2)
    raise RuntimeError(f"the hub does not know {number} runs")


@contextmanager
def compare_page(runs: int) -> Iterator[Page]:
    """An empty page that will note when a chart has drawn so many lines."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        context.set_default_timeout(_PATIENCE * 1000)
        context.add_init_script(f"window.wanted = {json.dumps({'runs': runs})}")
        context.add_init_script(path=Path(__file__).parent / "compare.js")
        yield context.pages[0]
        context.close()


def ours(url: str, ids: list[int]) -> dict[str, float]:
    """Click → drawn, a change of the smoothing, and a move of the cursor."""
    where = f"/compare?runs={','.join(map(str, ids))}&tags=^{TAGS[0]}$"
    with compare_page(len(ids)) as page:
        page.goto(url + "/")
        page.wait_for_selector("nav")
        time.sleep(1)  # the user looks for the runs; the browser is quiet
        began = page.evaluate(
            "where => { const link = document.createElement('a'); link.href = where;"
            " document.body.append(link); const began = Date.now(); link.click(); return began; }",
            where,
        )
        _until(page, "compared.all")
        seconds = (page.evaluate("compared.all") - began) / 1000
        time.sleep(1)
        return {"seconds": seconds, "smoothing": _smoothing(page), "hover": _hover(page)}


def _smoothing(page: Page) -> float:
    """The median, from the change until the next frame has been drawn."""
    return _median(
        page.evaluate(
            """async (moves) => {
              const slider = document.querySelector("input[type=range]");
              const frame = () => new Promise((done) =>
                requestAnimationFrame(() => setTimeout(done, 0)));
              const times = [];
              for (let at = 0; at < moves; at++) {
                await new Promise((done) => setTimeout(done, 100));
                const began = performance.now();
                slider.value = String(0.5 + 0.04 * at);
                slider.dispatchEvent(new Event("input", { bubbles: true }));
                await frame();
                times.push(performance.now() - began);
              }
              return times;
            }""",
            _MOVES,
        )
    )


def _hover(page: Page) -> float:
    """The median time the page is busy with one move of the cursor: what answers the event at once
    and what that puts off to the next microtask; then the frame, with its layout and painting. The
    wait for the frame in between is not counted."""
    return _median(
        page.evaluate(
            """async (moves) => {
              const over = document.querySelector(".u-over");
              const box = over.getBoundingClientRect();
              over.dispatchEvent(new PointerEvent("pointerenter"));
              const times = [];
              const { port1, port2 } = new MessageChannel();
              for (let at = 0; at < moves; at++) {
                await new Promise((done) => setTimeout(done, 30));
                const place = { clientX: box.left + box.width * (0.1 + 0.8 * at / moves),
                  clientY: box.top + box.height / 2, bubbles: true, view: window };
                let framed = 0;
                // Asked for first, so that it is called before what the page asks for.
                const frame = new Promise((done) => requestAnimationFrame(() => {
                  framed = performance.now();
                  // A message comes behind the frame's painting.
                  port1.onmessage = () => done(performance.now());
                  port2.postMessage(0);
                }));
                const began = performance.now();
                over.dispatchEvent(new MouseEvent("mousemove", place));
                await Promise.resolve();
                await Promise.resolve();
                const answered = performance.now() - began;
                const painted = await frame;
                times.push(answered + painted - framed);
              }
              return times;
            }""",
            _HOVERS,
        )
    )


def _until(page: Page, expression: str) -> None:
    """Waits until something is true; the page itself may not evaluate texts."""
    deadline = time.monotonic() + _PATIENCE
    while not page.evaluate(expression):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{expression} did not come true")
        time.sleep(0.02)


def _median(milliseconds: list[float]) -> float:
    return statistics.median(milliseconds) / 1000


def theirs(url: str) -> dict[str, float]:
    """The same of TensorBoard: its page opened, and its smoothing changed."""
    with chromium(_RUNS, _POINTS - 1) as page:
        began = time.time()
        page.goto(f"{url}/", wait_until="commit")
        found = until_drawn(page)
        seconds = found["all"] / 1000 - began
        time.sleep(3)
        return {"seconds": seconds, "smoothing": _their_smoothing(page)}


def _their_smoothing(page: Page) -> float:
    """From the change of the number until the first chart has drawn the lines that it was given."""
    field = page.locator(".scalars-smoothing input.slider-input").first
    if not field.is_visible():
        page.locator("button[title*='settings side pane' i]").first.click()
    times: list[float] = []
    for value in ("0.8", "0.5", "0.9"):
        before = page.evaluate("drawn.steps.length")
        began = time.time()
        field.fill(value)
        _until(page, f"drawn.steps.length > {before}")
        times.append(page.evaluate("drawn.steps.at(-1)[1]") / 1000 - began)
        time.sleep(2)
    return statistics.median(times)


def live(say: Callable[[str], None]) -> list[float]:
    """Seconds from add_scalar until the open chart has drawn the point, several times."""
    samples: list[float] = []
    with tempfile.TemporaryDirectory(dir=SCRATCH) as logdir:
        writer = SummaryWriter(f"{logdir}/training")
        writer.add_scalar("loss", 1.0, 0)
        writer.flush()
        with hub_over(logdir) as url, compare_page(1) as page:
            (run,) = run_ids(url, 1)
            page.goto(f"{url}/compare?runs={run}")
            _until(page, "compared.all")
            page.evaluate(_NOTE_STEPS)
            time.sleep(2)
            for step in range(1, _SAMPLES + 1):
                say(f"logged → on the chart: {step}/{_SAMPLES}")
                logged = time.time()
                writer.add_scalar("loss", 1 / step, step)
                _until(page, f"drawnSteps[{step}] ?? 0")
                samples.append(page.evaluate(f"drawnSteps[{step}]") / 1000 - logged)
                time.sleep(0.7 + 0.05 * step)  # in no rhythm with the page's own
        writer.close()
    return samples


# The chart's last step is on its element, once it is drawn.
_NOTE_STEPS = """() => {
  window.drawnSteps = {};
  const chart = document.querySelector("[data-lines]");
  new MutationObserver(() => requestAnimationFrame(() => setTimeout(() => {
    drawnSteps[Number(chart.dataset.last)] ??= Date.now();
  }, 0))).observe(chart, { attributeFilter: ["data-last"] });
}"""


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Compare, smoothing, hover, live."""
    logdir = str(corpus("simple", _RUNS, 1, _POINTS, say))
    with hub_over(logdir) as url, stock(logdir) as viewer:
        ids = run_ids(url, _RUNS)
        for name in run_names(_RUNS):
            wait_until_read(viewer, TAGS[0], name, _POINTS - 1)
        sides: dict[str, Callable[[], dict[str, Any]]] = {
            "tbhub": partial(ours, url, ids),
            "tensorboard": partial(theirs, viewer.url),
        }
        found = in_turns(sides, repeats, lambda said: say(f"compare: {said}"))
    mine, stocks = found["tbhub"], found["tensorboard"]
    ratio = stocks["seconds"] / mine["seconds"]
    yield Row(
        f"compare {_RUNS} runs × 50 k points: click → drawn",
        time_text(mine["seconds"]),
        STOCK,
        time_text(stocks["seconds"]),
        f"{ratio:.1f}×",
        "≤ 0.6 s, ≥ 6×",
        mine["seconds"] <= 0.6 and ratio >= 6,
    )
    ratio = stocks["smoothing"] / mine["smoothing"]
    yield Row(
        "changing the smoothing of that chart",
        time_text(mine["smoothing"]),
        STOCK,
        time_text(stocks["smoothing"]),
        f"{ratio:.1f}×",
        "≤ 80 ms, ≥ 15×",
        mine["smoothing"] <= 0.08 and ratio >= 15,
    )
    yield Row(
        "hovering over it",
        time_text(mine["hover"]),
        "–",
        "–",
        "–",
        "≤ 16 ms",
        mine["hover"] <= 0.016,
    )
    samples = live(say)
    late = statistics.quantiles(samples, n=20, method="inclusive")[-1]
    yield Row(
        f"log call → drawn in the compare page ({len(samples)} points)",
        f"p50 {time_text(statistics.median(samples))}, p95 {time_text(late)}",
        "–",
        "–",
        "–",
        "p95 ≤ 1.5 s",
        late <= 1.5,
    )
