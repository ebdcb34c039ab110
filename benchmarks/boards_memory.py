"""What showing 25 million points takes in memory, and what opening them again does in time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.boards import STOCK, Viewer, run_names, stock, tbhub_view, wait_until_served
from benchmarks.corpus import TAGS, corpus
from benchmarks.measure import SCRATCH, Row, in_process, in_turns, medians, time_text
from benchmarks.reading import read_with_rust

_SIZE = (100, 5, 50_000)
_SMALL = "32M"
_COMPARED = 10  # series


def hold(logdir: str, *options: str) -> tuple[dict[str, float], list[bytes]]:
    """Memory of `tbhub view` after every series has been asked for, and every point of a few."""
    runs, tags, points = _SIZE
    with tbhub_view(logdir, *options) as viewer:
        wait_until_served(viewer, runs, tags, points, TAGS[0])
        for tag in TAGS[:tags]:
            viewer.time_series(tag)
        hot = viewer.resident()
        series = [_every_point(viewer, number) for number in range(_COMPARED)]
        after = max(hot, viewer.resident())
        memory: dict[str, float] = {"hot": after, "peak": _peak(viewer.pid)}
    return memory, series


def _every_point(viewer: Viewer, number: int) -> bytes:
    runs, tags, points = _SIZE
    run, tag = run_names(runs)[number * runs // _COMPARED], TAGS[number % tags]
    return viewer.get(f"/tbhub/scalars?run={run}&tag={tag}&points={2 * points}")


def _peak(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def hold_with_stock(logdir: str) -> dict[str, float]:
    """Memory of stock TensorBoard, which keeps 1,000 points of a series."""
    runs, tags, points = _SIZE
    with stock(logdir) as viewer:
        wait_until_served(viewer, runs, tags, points, TAGS[0])
        for tag in TAGS[:tags]:
            viewer.time_series(tag)
        return {"hot": viewer.resident()}


def open_logs(logdir: str, cache: str, store: bool) -> dict[str, float]:
    """From follow() until everything is there; then, if wanted, stores it as an idle host does."""
    from tbhub.series.follower import Follower

    follower = Follower(cache_dir=Path(cache))
    start = time.perf_counter()
    root = follower.follow(logdir)
    assert follower.wait_until_loaded()
    seconds = time.perf_counter() - start
    runs, tags, points = _SIZE
    for name, log in list(root.runs.items())[:: runs // _COMPARED]:
        found = log.view.points(TAGS[0])
        assert found is not None
        assert len(found.values) == points, name
    assert sum(len(log.view.tags) for log in root.runs.values()) == runs * tags
    if store:
        follower._store_all()
        assert follower.cache.problem is None
    follower.close()
    return {"seconds": seconds}


def open_twice(logdir: str) -> dict[str, float]:
    """The first opening and the second, each in a fresh process."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as cache:
        first = in_process(open_logs, logdir, cache, True)
        size = sum(path.stat().st_size for path in Path(cache).rglob("*") if path.is_file())
        again = in_process(open_logs, logdir, cache, False)
    return {"first": first["seconds"], "again": again["seconds"], "size": size}


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Memory, and opening again."""
    logdir = str(corpus("simple", *_SIZE, say))
    found = in_turns({"opening twice": partial(open_twice, logdir)}, repeats, say)["opening twice"]
    ratio = found["first"] / found["again"]
    yield Row(
        "opening 25 M points again",
        time_text(found["again"]),
        "opening them first",
        time_text(found["first"]),
        f"{ratio:.1f}×",
        "≥ 10× sooner",
        ratio >= 10,
    )
    say("memory: tbhub, everything hot")
    hot, every_point = hold(logdir)
    say(f"memory: tbhub with {_SMALL}")
    small, same = hold(logdir, f"--memory={_SMALL}")
    say("memory: Rust server keeping all")
    rust = medians([read_with_rust(logdir)])
    say("memory: stock")
    sampled = hold_with_stock(logdir)
    yield Row(
        "memory for 25 M points, every series asked for",
        f"{hot['hot'] / 1e6:.0f} MB (peak {hot['peak'] / 1e6:.0f})",
        "Rust data server keeping all",
        f"{rust['peak'] / 1e6:,.0f} MB",
        f"{rust['peak'] / hot['hot']:.1f}×",
        "≤ ¼",
        hot["hot"] <= rust["peak"] / 4,
    )
    exact = every_point == same
    yield Row(
        f"the same with `--memory {_SMALL}`, {'still exact' if exact else 'NOT exact'}",
        f"{small['hot'] / 1e6:.0f} MB (peak {small['peak'] / 1e6:.0f})",
        f"{STOCK}, sampling",
        f"{sampled['hot'] / 1e6:.0f} MB",
        f"{sampled['hot'] / small['hot']:.1f}×",
        "≤ 150 MB, exact",
        small["hot"] <= 150e6 and exact,
    )
