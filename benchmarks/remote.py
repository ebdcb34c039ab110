"""Boards over runs in a bucket: how soon they are there, how live, and what they ask for.

TensorBoard's reader asks one thing after the other, round and round: over a thousand runs a round
takes minutes, and the first shows nothing before it is done. So its requests are counted over a
minute after that, or, where that takes too long, over the last minute it was waited for.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.boards import (
    Start,
    Viewer,
    last_step,
    stock,
    tbhub_view,
    wait_until_read,
    wait_until_served,
)
from benchmarks.corpus import TAGS, corpus
from benchmarks.measure import SCRATCH, Row, changed_environment, in_turns, time_text
from benchmarks.s3_server import BUCKET, S3Server, s3_server

STOCK = "`tensorboard --load_fast=false` with s3fs"
_RUNS, _TAGS, _POINTS = 100, 5, 1000
_FINISHED, _LIVE = 1000, 10
_IDLE_SECONDS = 60.0
_STOCK_PATIENCE = 240.0  # seconds for its first round over 1,010 runs
_STOCK_BLIND = 40.0  # seconds that it is given to show what is new
_GROWTHS = 20


def upload(directory: Path, prefix: str) -> str:
    """A directory, put into the bucket; its URI."""
    from tbhub.storage.open import open_store

    uri = f"s3://{BUCKET}/{prefix}"
    store, path = open_store(uri)
    for file in sorted(directory.rglob("*")):
        if file.is_file():
            store.put(f"{path}/{file.relative_to(directory)}", file.read_bytes())
    store.close()
    return uri


def until_served(start: Start, uri: str) -> dict[str, float]:
    """Seconds from the command until every run is served to its last step."""
    with start(uri) as viewer:
        served = wait_until_served(viewer, _RUNS, _TAGS, _POINTS, TAGS[0])
        return {"seconds": served - viewer.began}


@contextmanager
def stock_s3(uri: str) -> Iterator[Viewer]:
    """TensorBoard's Python reader, the only one of its two that reads from a store.

    It takes s3fs where there is no boto3, which this environment has for tensorboardX.
    """
    with tempfile.TemporaryDirectory() as first:
        Path(first, "boto3.py").write_text("raise ImportError('not here')\n")
        with changed_environment(PYTHONPATH=first), stock(uri, "--load_fast=false") as viewer:
            yield viewer


@contextmanager
def stock_s3_fresh(uri: str) -> Iterator[Viewer]:
    """The same, as it can see what is new: s3fs keeps listings for ever unless told otherwise."""
    settings = '{"use_listings_cache": false}'
    with changed_environment(FSSPEC_S3=settings), stock_s3(uri) as viewer:
        yield viewer


def fill_cache(uri: str, cache: str) -> None:
    """Opens the board once, and waits until its columns are kept."""
    with tbhub_view(uri, cache=cache):
        deadline = time.monotonic() + 120
        while sum(len(files) for _, _, files in os.walk(cache)) < _RUNS:
            if time.monotonic() > deadline:
                raise RuntimeError("the columns are not kept")
            time.sleep(0.1)


class Growing:
    """Event files in the bucket that grow as a publisher's last segment does."""

    def __init__(self, uri: str, names: list[str]) -> None:
        from tbhub.storage.open import open_store

        self._store, prefix = open_store(uri)
        entries = {entry.path: entry for entry in self._store.list(prefix)}
        self._paths = {
            name: next(path for path in entries if path.startswith(f"{prefix}/{name}/"))
            for name in names
        }
        self._data = {name: self._store.read(path) for name, path in self._paths.items()}

    def grow(self, name: str, step: int) -> None:
        """One more step of the first tag."""
        from tbhub._kernel import Sink

        sink = Sink(None)
        sink.take()  # the record every file begins with
        sink.add_scalar(TAGS[0], float(step), step, time.time())
        self._data[name] += sink.take()
        self._store.put(self._paths[name], self._data[name])


def idle(
    start: Start, uri: str, server: S3Server, live: list[str], points: int, patience: float
) -> tuple[float, float | None]:
    """Requests per minute of an open board whose live runs log every ten seconds.

    Also how many seconds it had taken to read all; None where it did not in time.
    """
    growing = Growing(uri, live)
    with start(uri) as viewer:
        opened = time.monotonic()
        took = None
        while time.monotonic() - opened < patience:
            if last_step(viewer, TAGS[0], live[-1]) == points - 1:
                took = time.monotonic() - opened
                break
            time.sleep(0.5)
        ended = threading.Event()
        grown = 0

        def log() -> None:
            nonlocal grown
            step = points
            while not ended.wait(_IDLE_SECONDS / 6):
                for name in live:
                    growing.grow(name, step)
                    grown += 1
                step += 1

        before, began = server.proxy.requests, time.monotonic()
        writing = threading.Thread(target=log)
        writing.start()
        time.sleep(_IDLE_SECONDS)
        asked = server.proxy.requests - before
        seconds = time.monotonic() - began
        ended.set()
        writing.join()
    return (asked - grown) * 60 / seconds, took


def stock_sees(uri: str) -> str:
    """What TensorBoard makes of an object that grows."""
    name = "run0001"
    growing = Growing(uri, [name])
    with stock_s3(uri) as viewer:
        wait_until_read(viewer, TAGS[0], name, _POINTS - 1)
        growing.grow(name, _POINTS)
        begun = time.monotonic()
        while (waited := time.monotonic() - begun) < _STOCK_BLIND:
            if last_step(viewer, TAGS[0], name) == _POINTS:
                return time_text(waited)
            time.sleep(0.2)
    return f"not within {_STOCK_BLIND:.0f} s"


def visible(uri: str) -> list[float]:
    """Seconds from the moment an object is replaced by a longer one until a page can see it."""
    name = "run0000"
    growing = Growing(uri, [name])
    found = []
    with tbhub_view(uri) as viewer:
        wait_until_read(viewer, TAGS[0], name, _POINTS - 1)
        for step in range(_POINTS, _POINTS + _GROWTHS):
            time.sleep(0.37 * (step % 7))
            growing.grow(name, step)
            start = time.monotonic()
            while last_step(viewer, TAGS[0], name) < step:
                time.sleep(0.02)
            found.append(time.monotonic() - start)
    return found


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Cold, from the cache, and live."""
    with s3_server(), tempfile.TemporaryDirectory(dir=SCRATCH) as cache:
        say("uploading 100 runs")
        uri = upload(corpus("simple", _RUNS, _TAGS, _POINTS, say), "hundred")
        fill_cache(uri, cache)
        found = in_turns(
            {
                "cold": partial(until_served, tbhub_view, uri),
                "cached": partial(until_served, partial(tbhub_view, cache=cache), uri),
                "tensorboard": partial(until_served, stock_s3, uri),
            },
            repeats,
            lambda said: say(f"100 runs in a bucket: {said}"),
        )
        theirs = found["tensorboard"]["seconds"]
        for case, text, goal in (("cold", "cold", 10), ("cached", "reopened from the cache", 50)):
            ours = found[case]["seconds"]
            yield Row(
                f"board over 100 runs × 5 tags × 1 k on S3, {text} → all points",
                time_text(ours),
                STOCK,
                time_text(theirs),
                f"{theirs / ours:.1f}×",
                f"≥ {goal}× sooner",
                theirs / ours >= goal,
            )
        say("growing objects: tbhub")
        times = sorted(visible(uri))
        say("growing objects: tensorboard")
        theirs_sees = stock_sees(uri)
        late = times[int(0.95 * (len(times) - 1))]
        yield Row(
            "growing object on S3 → visible, p95",
            f"{time_text(late)} (median {time_text(statistics.median(times))})",
            STOCK,
            theirs_sees,
            "",
            "≤ 4 s",
            late <= 4,
        )


def idle_rows(say: Callable[[str], None]) -> Iterator[Row]:
    """What a board over many runs asks for while little happens."""
    with s3_server() as server:
        yield _idle_row(server, say)


def _idle_row(server: S3Server, say: Callable[[str], None]) -> Row:
    say("uploading 1,010 runs")
    runs, points = _FINISHED + _LIVE, 10
    uri = upload(corpus("simple", runs, 1, points, say), "thousand")
    live = [f"run{number:04d}" for number in range(_FINISHED, runs)]
    say("1,010 runs, idle: tbhub")
    ours, took = idle(tbhub_view, uri, server, live, points, _STOCK_PATIENCE)
    say("1,010 runs, idle: tensorboard")
    again = upload(corpus("simple", runs, 1, points, say), "thousand-again")
    theirs, read = idle(stock_s3_fresh, again, server, live, points, _STOCK_PATIENCE)
    first = f"after {read:.0f} s" if read else f"not within {_STOCK_PATIENCE:.0f} s"
    return Row(
        "requests per minute, 1,000 finished and 10 live runs open and idle",
        f"{ours:.0f} (all read after {took or _STOCK_PATIENCE:.1f} s)",
        f"{STOCK} that keeps no listings, and so sees what is new",
        f"{theirs:,.0f} (all read {first}; it asks one thing after the other)",
        f"{theirs / ours:.0f}×",
        "≥ 50× fewer",
        theirs / ours >= 50,
    )
