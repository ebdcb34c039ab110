"""The two sides of the comparison of boards, as a user starts them: `tbhub view`, `tensorboard`.

Both are processes that are asked over HTTP. What is measured is wall time: from the command on, as
the user waits for it.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlencode, urlsplit

from benchmarks.measure import SCRATCH, resident

BIN = Path(sys.executable).parent
TIME_SERIES = "/experiment/defaultExperimentId/data/plugin/timeseries/timeSeries"
STOCK = "`tensorboard --load_fast=true`"
_PATIENCE = 300.0
_PAUSE = 0.05


@dataclass(frozen=True)
class Viewer:
    """A server of boards that runs."""

    url: str
    pid: int
    began: float  # when the command was given, by time.time()

    def get(self, path: str) -> bytes:
        """What a path is answered."""
        return self._ask("GET", path)

    def time_series(self, tag: str, run: str | None = None) -> bytes:
        """What a card of the page asks for: a tag of every run, or of one."""
        wanted = {"plugin": "scalars", "tag": tag, **({"run": run} if run else {})}
        return self._ask("POST", TIME_SERIES, urlencode({"requests": json.dumps([wanted])}))

    def resident(self) -> int:
        """Memory of its processes, in bytes."""
        return sum(map(resident, [self.pid, *children(self.pid)]))

    def cpu(self) -> float:
        """Seconds its processes have computed."""
        return sum(map(_cpu, [self.pid, *children(self.pid)]))

    def _ask(self, method: str, path: str, form: str | None = None) -> bytes:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=_PATIENCE)
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
        try:
            connection.request(method, path, form, headers)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise RuntimeError(f"{method} {self.url}{path}: {response.status} {body[:200]!r}")
        return body


Start = Callable[..., AbstractContextManager[Viewer]]


def warm(logdir: str) -> None:
    """Has the system read the files, for both sides alike: it lets go of what is long unused, and
    whoever came first would pay for it."""
    buffer = bytearray(1 << 20)
    for path in Path(logdir).rglob("*tfevents*"):
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


@contextmanager
def tbhub_view(logdir: str, *options: str, cache: str | None = None) -> Iterator[Viewer]:
    """`tbhub view`, with a cache that is empty unless one is given."""
    warm(logdir)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as empty:
        began = time.time()
        process = subprocess.Popen(
            [str(BIN / "tbhub"), "view", logdir, "--json", "--no-browser", "--port=0", *options],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TBHUB_CACHE_DIR": cache or empty},
        )
        assert process.stdout is not None
        with ended(process):
            url = json.loads(process.stdout.readline())["url"]
            _drain(process.stdout)
            yield Viewer(url.rstrip("/"), process.pid, began)


@contextmanager
def stock(logdir: str, *options: str) -> Iterator[Viewer]:
    """`tensorboard --load_fast=true`: its Rust server reads, and keeps 1,000 points of a series."""
    warm(logdir)
    began = time.time()
    process = subprocess.Popen(
        [str(BIN / "tensorboard"), "--load_fast=true", f"--logdir={logdir}", "--port=0", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with ended(process):
        for line in process.stderr:
            if " at http" in line:
                url = line.split(" at ")[1].split()[0]
                break
        else:
            raise RuntimeError("tensorboard did not start")
        _drain(process.stderr)
        yield Viewer(url.rstrip("/"), process.pid, began)


def _drain(stream: IO[str]) -> None:
    """Nobody listens, and the process must not be held up by that."""
    threading.Thread(target=lambda: sum(1 for _ in stream), daemon=True).start()


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """Ends a process of ours and its children, which end with it."""
    try:
        yield
    finally:
        left = children(process.pid)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        deadline = time.monotonic() + 10
        while any(map(resident, left)) and time.monotonic() < deadline:
            time.sleep(_PAUSE)


def children(pid: int) -> list[int]:
    """The processes a process has started, and those that they have."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            for child in map(int, path.read_text().split()):
                found += [child, *children(child)]
    return found


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_names(runs: int) -> list[str]:
    """The names of a corpus's runs."""
    return [f"run{number:04d}" for number in range(runs)]


class Polling:
    """Asks again and again, at most a third of the time: the server has other work to do."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + _PATIENCE

    def until(self, ask: Callable[[], bool]) -> None:
        """Returns when the answer is yes."""
        while True:
            start = time.monotonic()
            if ask():
                return
            if time.monotonic() > self._deadline:
                raise RuntimeError("it is not served")
            time.sleep(max(_PAUSE, 2 * (time.monotonic() - start)))


def last_step(viewer: Viewer, tag: str, run: str) -> int:
    """The last step of a series that is served; -1 without any."""
    series = json.loads(viewer.time_series(tag, run))[0].get("runToSeries", {})
    return max((point["step"] for point in series.get(run, ())), default=-1)


def wait_until_read(
    viewer: Viewer, tag: str, run: str, step: int, polling: Polling | None = None
) -> None:
    """Waits until the last step of a series is served."""
    (polling or Polling()).until(lambda: last_step(viewer, tag, run) == step)


def wait_until_served(viewer: Viewer, runs: int, tags: int, points: int, tag: str) -> float:
    """Waits for all tags of every run, and for the last step of one tag of every run.

    The answer for all runs is expensive: it is asked for when a run that was behind no longer is.
    Returns when the request was sent that showed everything, by time.time(): how long its answer
    takes is another question.
    """
    polling = Polling()

    def has_tags() -> bool:
        found = json.loads(viewer.get("/data/plugin/timeseries/tags"))["scalars"]["runTagInfo"]
        return len(found) == runs and all(len(each) == tags for each in found.values())

    polling.until(has_tags)
    behind = run_names(runs)[-1]
    while True:
        wait_until_read(viewer, tag, behind, points - 1, polling)
        asked = time.time()
        late = _behind(viewer.time_series(tag), run_names(runs), points - 1)
        if not late:
            return asked
        behind = late[0]


def _behind(answer: bytes, names: list[str], step: int) -> list[str]:
    series: dict[str, list[dict[str, Any]]] = json.loads(answer)[0].get("runToSeries", {})
    return [name for name in names if not series.get(name) or series[name][-1]["step"] != step]
