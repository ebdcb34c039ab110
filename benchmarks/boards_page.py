"""What a user sees, in Chromium: when a chart is drawn, and when a new point is.

A chart counts as drawn when its canvas shows the points it was given (drawn.js), on both sides.
Chromium has no graphics card here: drawing 100 noisy lines takes it seconds, on both sides too.
"""

from __future__ import annotations

import json
import random
import shutil
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

from benchmarks.boards import (
    STOCK,
    Start,
    Viewer,
    ended,
    run_names,
    stock,
    tbhub_view,
    wait_until_read,
    wait_until_served,
)
from benchmarks.corpus import TAGS, corpus
from benchmarks.measure import ROOT, SCRATCH, Row, in_turns, time_text

_PATIENCE = 120.0
_SAMPLES = 24
_IDLE_SECONDS = 60.0
_FIRST_TAG = min(TAGS[:5])  # the first card's


@contextmanager
def chromium(runs: int, step: int) -> Iterator[Page]:
    """An empty page of a browser that has just been started, with a profile of its own."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        context.set_default_timeout(_PATIENCE * 1000)
        wanted = json.dumps({"runs": runs, "step": step})
        context.add_init_script(f"window.wanted = {wanted}")
        context.add_init_script(path=Path(__file__).parent / "drawn.js")
        yield context.pages[0]
        context.close()


def until_drawn(page: Page, meanwhile: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Waits until a chart shows everything; what `drawn.js` has noted."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        found: dict[str, Any] = page.evaluate("drawn")
        if found["all"]:
            return found
        meanwhile()
        time.sleep(0.05)
    raise RuntimeError(f"no chart was drawn: {found}")


def first_chart(start: Start, logdir: str, runs: int, points: int) -> dict[str, float]:
    """Seconds from the command until a chart shows all runs to their last point.

    Our page shows what is new by itself. Stock's user presses reload, here at the best moment:
    when all runs that were behind in the chart have been read.
    """
    with chromium(runs, points - 1) as page, start(logdir) as viewer:
        page.goto(viewer.url + "/", wait_until="commit")
        reload = partial(_reload_when_worth_it, page, viewer, run_names(runs), points - 1)
        found = until_drawn(page, reload if start is stock else lambda: None)
    return {
        "seconds": found["all"] / 1000 - viewer.began,
        "first": found["first"] / 1000 - viewer.began,
    }


def _reload_when_worth_it(page: Page, viewer: Viewer, names: list[str], step: int) -> None:
    if not page.evaluate("drawn.given"):
        return
    done = set(page.evaluate("drawn.done"))
    behind = [name for name in names if name not in done]
    if not behind:
        return
    for name in behind:
        wait_until_read(viewer, _FIRST_TAG, name, step)
    if len(page.evaluate("drawn.done")) < len(names):
        page.evaluate("drawn.given = 0")  # until there is an answer to this
        page.click("app-header-reload button")


def serve_boards(*paths: str) -> None:
    """A host with a board for each path, until it is ended; tells its address when all is read."""
    from tbhub.boards.board import Source
    from tbhub.boards.host import Host
    from tbhub.boards.server import serve
    from tbhub.boards.sockets import listen
    from tbhub.series.follower import Follower

    follower = Follower(use_cache=False)
    host = Host(follower)
    for number, path in enumerate(paths):
        host.create(f"board{number}").add(Source(path))
    follower.wait_until_loaded()
    assert host.application
    socket = listen("localhost", 0)
    print(f"http://localhost:{socket.getsockname()[1]}", flush=True)
    serve(host, socket)


@contextmanager
def _function(call: str) -> Iterator[subprocess.Popen[str]]:
    """A call of a function of this module, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"from benchmarks import boards_page as m; m.{call}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    with ended(process):
        yield process


def second_board(logdir: str, runs: int, points: int) -> dict[str, float]:
    """Navigation to drawn, of the second and of the third board of a hub in one browser."""
    found = []
    call = f"serve_boards(*{[logdir] * 3!r})"
    with _function(call) as process, chromium(runs, points - 1) as page:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        for number in range(3):
            began = time.time()
            page.goto(f"{url}/b/board{number}/", wait_until="commit")
            found.append(until_drawn(page)["all"] / 1000 - began)
            time.sleep(2)  # the user looks at it; the browser keeps what it has compiled
    return {"first": found[0], "second": found[1], "third": found[2]}


def log_points(logdir: str) -> None:
    """A training: a point whenever a line comes in, and out goes when it was logged."""
    from tbhub import SummaryWriter

    for name in run_names(2):
        with SummaryWriter(f"{logdir}/{name}") as done:
            for step in range(2000):
                done.add_scalar(_FIRST_TAG, random.random(), step)
    writer = SummaryWriter(f"{logdir}/training")
    for step in range(1000):
        writer.add_scalar(_FIRST_TAG, random.random(), step)
    print("ready", flush=True)
    for line in sys.stdin:
        logged = time.time()
        writer.add_scalar(_FIRST_TAG, random.random(), int(line))
        print(logged, flush=True)


def live(say: Callable[[str], None]) -> list[float]:
    """Seconds from add_scalar until the open page has drawn the point, several times."""
    samples: list[float] = []
    with (
        tempfile.TemporaryDirectory(dir=SCRATCH) as logdir,
        _function(f"log_points({logdir!r})") as training,
        chromium(3, 1999) as page,
    ):
        assert training.stdin is not None
        assert training.stdout is not None
        training.stdout.readline()
        with tbhub_view(logdir) as viewer:
            page.goto(viewer.url + "/", wait_until="commit")
            page.evaluate("wanted.runs = 2")
            until_drawn(page)
            time.sleep(3)
            for number in range(_SAMPLES):
                say(f"log call → drawn: {number + 1}/{_SAMPLES}")
                step = 5000 + number  # beyond all others: the chart has to become wider
                training.stdin.write(f"{step}\n")
                training.stdin.flush()
                logged = float(training.stdout.readline())
                samples.append(_drawn_at(page, step) - logged)
                time.sleep(random.uniform(1, 2))  # in no rhythm with the page's own
    return samples


def _drawn_at(page: Page, step: int) -> float:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        for drawn_step, when in page.evaluate("drawn.steps"):
            if drawn_step >= step:
                return float(when) / 1000
        time.sleep(0.1)
    raise RuntimeError(f"step {step} was never drawn")


def idle(logdir: str, runs: int, tags: int, points: int, say: Callable[[str], None]) -> float:
    """The share of a core that the server uses while nothing changes and a page is open."""
    with (
        tempfile.TemporaryDirectory(dir=SCRATCH) as cache,
        chromium(runs, points - 1) as page,
        tbhub_view(logdir, cache=cache) as viewer,
    ):
        wait_until_served(viewer, runs, tags, points, TAGS[0])
        page.goto(viewer.url + "/")
        page.wait_for_selector("line-chart")
        say("idle: waiting until everything is stored and drawn")
        _until_stored(Path(cache), runs)
        _until_quiet(viewer)
        say(f"idle: {_IDLE_SECONDS:.0f} s")
        before, start = viewer.cpu(), time.monotonic()
        time.sleep(_IDLE_SECONDS)
        return (viewer.cpu() - before) / (time.monotonic() - start)


def _until_stored(cache: Path, files: int) -> None:
    """What was read is written to the cache once, up to a minute later: that is not idling."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if sum(path.is_file() for path in cache.rglob("*")) >= files:
            return
        time.sleep(1)
    raise RuntimeError("the cache is not written")


def _until_quiet(viewer: Viewer) -> None:
    """Five seconds with next to nothing to do."""
    quiet, before = 0, viewer.cpu()
    deadline = time.monotonic() + _PATIENCE
    while quiet < 5 and time.monotonic() < deadline:
        time.sleep(1)
        now = viewer.cpu()
        quiet = quiet + 1 if now - before <= 0.03 else 0
        before = now


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """First chart, further boards, live points, idling."""
    for runs, goal in ((3, 0.0), (100, 3.0)):
        size = (str(corpus("simple", runs, 5, 50_000, say)), runs, 50_000)
        found = in_turns(
            {
                "tbhub": partial(first_chart, tbhub_view, *size),
                "tensorboard": partial(first_chart, stock, *size),
            },
            repeats if runs == 3 else min(repeats, 2),
            lambda said, runs=runs: say(f"first chart of {runs} runs: {said}"),  # type: ignore[misc]
        )
        ours, theirs = found["tbhub"]["seconds"], found["tensorboard"]["seconds"]
        yield Row(
            f"command → first chart drawn with all of {runs} runs × 50 k points",
            time_text(ours),
            STOCK,
            time_text(theirs),
            f"{theirs / ours:.1f}×",
            f"≥ {goal:g}× sooner" if goal else "sooner",
            theirs / ours >= max(goal, 1),
        )
    few = (str(corpus("simple", 3, 5, 50_000, say)), 3, 50_000)
    board = in_turns({"hub": partial(second_board, *few)}, repeats, say)["hub"]
    yield Row(
        "second board on a hub, 3 runs × 50 k points: navigation → drawn",
        f"{time_text(board['second'])} (the third {time_text(board['third'])})",
        "the first",
        time_text(board["first"]),
        f"{board['first'] / board['second']:.1f}×",
        "≤ 1.2 s",
        board["second"] <= 1.2,
    )
    samples = live(say)
    late = statistics.quantiles(samples, n=20, method="inclusive")[-1]
    yield Row(
        f"log call → drawn in the open page ({len(samples)} points)",
        f"p50 {time_text(statistics.median(samples))}, p95 {time_text(late)}",
        "–",
        "–",
        "–",
        "p95 ≤ 1.5 s",
        late <= 1.5,
    )
    many = (str(corpus("simple", 1000, 10, 2000, say)), 1000, 10, 2000)
    share = idle(*many, say)
    yield Row(
        f"CPU while nothing changes, 1,000 runs, a page open, {_IDLE_SECONDS:.0f} s",
        f"{100 * share:.2f} % of a core",
        "–",
        "–",
        "–",
        "≤ 1 %",
        share <= 0.01,
    )
