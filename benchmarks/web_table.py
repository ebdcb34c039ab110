"""The web page's table of runs, in Chromium: from the address to rows that answer; beside MLflow's
and Aim's tables of as many runs.

A table counts as usable when cells of runs are there, and the browser has drawn them and is at rest
for another frame. Each time the browser's cache is empty. Each side shows what it shows first: we
the table of all runs, of which there are ten hyperparameters and ten metrics; the others a first
page of runs with four and three.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, sync_playwright

from benchmarks.hub import Hub, hub, seed
from benchmarks.measure import SCRATCH, Row, time_text
from benchmarks.web_peers import Peer, aim, mlflow, served

_FEW, _MANY = 10_000, 100_000
_CELLS = 20
_REST = 4.0
_PATIENCE = 120_000  # milliseconds
_PEERS: dict[str, Callable[[], Peer]] = {"MLflow": mlflow, "Aim": aim}
_OURS = "[role=grid] [role=row].run [role=gridcell]"
_DRAWN = """([cells, most]) => new Promise((done) => {
  const look = () => document.querySelectorAll(cells).length > most
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(true)))
    : requestAnimationFrame(look);
  look();
})"""


def opened(browser: Any, url: str, cells: str, login: str = "") -> float:
    """Seconds from the address until the table can be used, for somebody who is logged in."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(_PATIENCE)
    page = context.new_page()
    if login:
        page.goto(login, wait_until="commit")
    context.add_init_script("localStorage.clear()")
    page.goto("about:blank")
    begin = time.perf_counter()
    page.goto(url, wait_until="commit")
    # A page that goes on to another address takes the question with it.
    while True:
        try:
            page.evaluate(_DRAWN, [cells, _CELLS])
            break
        except Error as error:
            if "context was destroyed" not in str(error):
                raise
    seconds = time.perf_counter() - begin
    context.close()
    return seconds


def ours(browser: Any, runs: int, repeats: int) -> float:
    """The median of our own."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        home = Path(scratch) / "home"
        seed(home, runs)
        with hub(home) as running:
            return _median(lambda: _opened_ours(browser, running), repeats)


def _opened_ours(browser: Any, running: Hub) -> float:
    login = f"{running.url}/login?token={running.token}"
    return opened(browser, f"{running.url}/", _OURS, login)


def theirs(browser: Any, peer: Peer, runs: int, repeats: int) -> float:
    """The median of a peer."""
    with served(peer, runs) as url:
        return _median(lambda: opened(browser, url + peer.path, peer.cells), repeats)


def _median(measure: Callable[[], float], repeats: int) -> float:
    measure()  # the server is warm then, and has come to rest
    time.sleep(_REST)
    return statistics.median(measure() for _ in range(repeats))


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Opening the table of many runs beside the peers', and of ten times as many."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        say(f"table: {_FEW:,} runs")
        few = ours(browser, _FEW, repeats)
        for name, make in _PEERS.items():
            say(f"table: {_FEW:,} runs in {name} (logged first, if they are not there)")
            yield _beside(browser, few, name, make, repeats)
        say(f"table: {_MANY:,} runs")
        many = ours(browser, _MANY, repeats)
        yield Row(
            f"open → table of {_MANY:,} runs usable, in Chromium",
            time_text(many),
            f"{_FEW:,} runs",
            time_text(few),
            f"{few / many:.1f}×",
            "≤ 2 s",
            many <= 2,
        )
        browser.close()


def _beside(browser: Any, few: float, name: str, make: Callable[[], Peer], repeats: int) -> Row:
    work = f"open → table of {_FEW:,} runs usable, in Chromium"
    try:
        peer = make()
        number = min(_FEW, peer.most)
        found = theirs(browser, peer, number, repeats)
    except (RuntimeError, OSError, Error) as error:
        said = str(error).splitlines()[0]
        return Row(work, time_text(few), name, said, "–", "≤ 1 s", few <= 1)
    ratio = found / few
    known = peer.name if number == _FEW else f"{peer.name}, of {number:,} runs only"
    met = few <= 1 and ratio >= 3
    return Row(work, time_text(few), known, time_text(found), f"{ratio:.1f}×", "≤ 1 s, ≥ 3×", met)
