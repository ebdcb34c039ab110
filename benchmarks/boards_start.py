"""How soon everything is served after the command, and what a further board costs."""

from __future__ import annotations

import http.client
import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.boards import STOCK, Start, Viewer, stock, tbhub_view, wait_until_served
from benchmarks.corpus import TAGS, corpus
from benchmarks.measure import Row, in_process, in_turns, resident, time_text

_BOARDS = 100


def until_served(start: Start, logdir: str, runs: int, tags: int, points: int) -> dict[str, float]:
    """Seconds from the command until everything is served."""
    with start(logdir) as viewer:
        seconds = wait_until_served(viewer, runs, tags, points, TAGS[0]) - viewer.began
        kept = _kept(viewer, runs, tags, points, start is stock)
    return {"seconds": seconds, "kept": kept}


def _kept(viewer: Viewer, runs: int, tags: int, points: int, is_stock: bool) -> float:
    """Of every hundred points of a few series, how many can be had."""
    found = 0
    asked = [(f"run{run:04d}", TAGS[run % tags]) for run in range(0, runs, runs // 3)]
    for run, tag in asked:
        if is_stock:
            found += len(json.loads(viewer.time_series(tag, run))[0]["runToSeries"][run])
        else:
            path = f"/tbhub/scalars?run={run}&tag={tag}&points={2 * points}"
            found += len(json.loads(viewer.get(path)))
    return 100 * found / (len(asked) * points)


def further_boards(logdir: str) -> dict[str, float]:
    """A board more in a running host: created, given its source, asked for its runs over HTTP."""
    from tbhub.boards.board import Source
    from tbhub.boards.host import Host
    from tbhub.boards.server import serve
    from tbhub.boards.sockets import listen
    from tbhub.series.follower import Follower

    follower = Follower(use_cache=False)
    host = Host(follower)
    socket = listen("localhost", 0)
    threading.Thread(target=serve, args=(host, socket), daemon=True).start()
    connection = http.client.HTTPConnection("localhost", socket.getsockname()[1])

    def board(name: str) -> float:
        start = time.perf_counter()
        host.create(name).add(Source(logdir))
        connection.request("GET", f"/b/{name}/data/runs")
        runs = json.loads(connection.getresponse().read())
        seconds = time.perf_counter() - start
        assert len(runs) == len(os.listdir(logdir))
        return seconds

    for number in range(10):  # the first pays for what all share
        board(f"first{number}")
    follower.wait_until_loaded()
    before = resident(os.getpid())
    times = [board(f"board{number}") for number in range(_BOARDS)]
    grown = resident(os.getpid()) - before
    return {"seconds": statistics.median(times), "memory": grown / _BOARDS}


def stock_process(logdir: str) -> dict[str, float]:
    """A `tensorboard` process: until it first answers what runs there are, and its memory."""
    with stock(logdir) as viewer:
        viewer.get("/data/runs")
        return {"seconds": time.time() - viewer.began, "memory": viewer.resident()}


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Command to served, and a further board."""
    sizes = {
        "100 runs × 5 tags × 50 k": (100, 5, 50_000),
        "1,000 runs × 10 tags × 2 k": (1000, 10, 2000),
    }
    for text, (runs, tags, points) in sizes.items():
        size = (str(corpus("simple", runs, tags, points, say)), runs, tags, points)
        found = in_turns(
            {
                "tbhub": partial(until_served, tbhub_view, *size),
                "tensorboard": partial(until_served, stock, *size),
            },
            repeats,
            lambda said, text=text: say(f"{text}: {said}"),  # type: ignore[misc]
        )
        ours, theirs = found["tbhub"], found["tensorboard"]
        ratio = theirs["seconds"] / ours["seconds"]
        yield Row(
            f"command → all of {text} served",
            f"{time_text(ours['seconds'])}, {ours['kept']:.0f} % of the points",
            STOCK,
            f"{time_text(theirs['seconds'])}, {theirs['kept']:.0f} % of the points",
            f"{ratio:.1f}×",
            "≥ 8× sooner, all points kept",
            ratio >= 8 and ours["kept"] == 100,
        )
    few = str(corpus("simple", 10, 5, 50_000, say))
    found = in_turns(
        {
            "tbhub": partial(in_process, further_boards, few),
            "tensorboard": partial(stock_process, few),
        },
        repeats,
        lambda said: say(f"further board: {said}"),
    )
    ours, theirs = found["tbhub"], found["tensorboard"]
    yield Row(
        "a further board of 10 runs in a running host: created, filled, asked for its runs",
        time_text(ours["seconds"]),
        "a `tensorboard` process",
        time_text(theirs["seconds"]),
        f"{theirs['seconds'] / ours['seconds']:,.0f}×",
        "≤ 10 ms",
        ours["seconds"] <= 0.010,
    )
    yield Row(
        "memory of a further board",
        f"{ours['memory'] / 1e3:.0f} KB",
        "a `tensorboard` process",
        f"{theirs['memory'] / 1e6:.0f} MB",
        f"{theirs['memory'] / max(ours['memory'], 1):,.0f}×",
        "≤ 100 KB",
        ours["memory"] <= 100e3,
    )
