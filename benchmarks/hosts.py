"""Hosts that share the boards of a hub: how soon boards are back when one of them dies."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.boards import children
from benchmarks.corpus import corpus
from benchmarks.hub import Hub, hub, temporary
from benchmarks.measure import Row, time_text

_HOSTS = 3
_BOARDS = 300
_GOAL = 5.0


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """One host killed of three."""
    logdir = str(corpus("simple", 10, 5, 1000, say))
    took = []
    for number in range(repeats):
        say(f"one host of {_HOSTS} killed: {number}/{repeats}")
        took.append(killed(logdir))
    middle = statistics.median(took)
    yield Row(
        f"one host killed of {_HOSTS} with {_BOARDS} boards: all back, same addresses",
        time_text(middle),
        *("–", "–", "–"),
        f"≤ {_GOAL:g} s",
        middle <= _GOAL,
    )


def killed(logdir: str) -> float:
    """Seconds from the end of a host until its boards are up on the others."""
    with temporary() as directory, hub(directory / "home", min_hosts=_HOSTS) as running:
        running.until(lambda: _ready(running) == _HOSTS)
        connection = running.connect()
        for number in range(_BOARDS):
            new = {"uris": [f"{logdir}/run{number % 10:04d}"], "idle_timeout": 0}
            running.ask("POST", "/api/v1/boards", new, connection)
        running.until(lambda: _are_up(_boards(running)))
        before = _boards(running)
        victim = before[0]["host"]
        shell = int((running.home / "hosts" / f"{victim}.pid").read_text())
        begin = time.perf_counter()
        for pid in children(shell):
            os.kill(pid, signal.SIGKILL)

        def are_back() -> bool:
            there = _boards(running)
            return _are_up(there) and all(each["host"] != victim for each in there)

        running.until(are_back)
        took = time.perf_counter() - begin
        assert _addresses(_boards(running)) == _addresses(before)
    return took


def _ready(running: Hub) -> int:
    found = running.ask("GET", "/api/v1/status")["hosts"]
    return sum(each["state"] == "running" for each in found)


def _boards(running: Hub) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = running.ask("GET", f"/api/v1/boards?limit={_BOARDS}")["boards"]
    return found


def _are_up(boards: list[dict[str, Any]]) -> bool:
    return len(boards) == _BOARDS and all(each["state"] == "RUNNING" for each in boards)


def _addresses(boards: list[dict[str, Any]]) -> dict[str, str]:
    return {each["id"]: each["url"] for each in boards}
