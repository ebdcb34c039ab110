"""Two hubs on one PostgreSQL, the one that leads killed under load.

Clients ask through a load balancer in small: each request goes to the next replica, and to the
other one when that breaks off or answers 5xx. A write counts as acknowledged when a 2xx came back;
whether it is kept is looked up in the database.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import engines
from benchmarks.hub import Hub, hub, seed, temporary
from benchmarks.measure import Row, time_text

_RUNS = 1000
_WRITERS = 4
_READERS = 4
_BEFORE = 4.0  # seconds of load before the kill, and after reads are back
_PATIENCE = 30.0
_PAUSE = 0.02  # a client that was told 5xx by both waits so long
_GOAL = 3.0


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Writes that were acknowledged and are lost; how long nobody answers."""
    with engines.postgresql() as server:
        found = []
        for number in range(repeats):
            say(f"replicas: {number}/{repeats}")
            found.append(_killed(server.create()))
    lost = sum(each.lost for each in found)
    acknowledged = sum(each.acknowledged for each in found)
    yield Row(
        f"two hub replicas, the leading one killed under load ({repeats} times): writes lost",
        f"{lost} of {acknowledged:,} acknowledged",
        *("–", "–", "–"),
        "0",
        lost == 0,
    )
    middle = statistics.median(each.silent for each in found)
    worst = max(each.silent for each in found)
    yield Row(
        f"the same: kill → every one of {_READERS} readers is answered again",
        f"{time_text(middle)} (at most {time_text(worst)})",
        *("–", "–", "–"),
        f"≤ {_GOAL:g} s",
        worst <= _GOAL,
    )


@dataclass(frozen=True)
class _Found:
    acknowledged: int
    lost: int
    silent: float


@dataclass
class _Load:
    """Clients at work, and what they were told.

    Attributes:
        notes: The last number that was acknowledged as the note of a run.
        made: Runs whose making was acknowledged, by number and name.
        reads: When reads that were answered had been asked for, and when they were, by reader.
    """

    ports: tuple[int, int]
    token: str
    over: threading.Event = field(default_factory=threading.Event)
    notes: dict[int, int] = field(default_factory=dict)
    made: dict[int, str] = field(default_factory=dict)
    reads: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    writes: int = 0

    def reader(self, number: int) -> None:
        balancer = _Balancer(self.ports, self.token, number)
        mine = self.reads.setdefault(number, [])
        while not self.over.is_set():
            asked = time.perf_counter()
            if balancer.ask("GET", f"/api/v1/runs/{number + 1}") is not None:
                mine.append((asked, time.perf_counter()))

    def writer(self, number: int) -> None:
        balancer = _Balancer(self.ports, self.token, number)
        run = 100 + number
        for count in itertools.count(1):
            if self.over.is_set():
                return
            if balancer.ask("PATCH", f"/api/v1/runs/{run}", {"note": str(count)}) is not None:
                self.notes[run] = count
                self.writes += 1
            name = f"made-{number}-{count}"
            made = balancer.ask("POST", "/api/v1/runs", {"name": name, "experiment": "load"})
            if made is not None:
                self.made[made["run"]["id"]] = name


class _Balancer:
    """Asks one replica, and the other if that one does not answer."""

    def __init__(self, ports: tuple[int, int], token: str, first: int) -> None:
        self._turns = itertools.cycle(ports if first % 2 else ports[::-1])
        self._kept: dict[int, http.client.HTTPConnection] = {}
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON of an answer; none if neither has one."""
        for _ in range(2):
            port = next(self._turns)
            there = self._kept.setdefault(
                port, http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
            )
            try:
                there.request(method, path, json.dumps(body) if body else None, self._headers)
                response = there.getresponse()
                text = response.read()
            except (OSError, http.client.HTTPException):
                self._kept.pop(port).close()
                continue
            if response.status < 300:
                return json.loads(text)
            if response.status < 500:
                raise RuntimeError(f"{method} {path}: {response.status} {text[:200]!r}")
            self._kept.pop(port).close()
        time.sleep(_PAUSE)
        return None


def _killed(url: str) -> _Found:
    with temporary() as directory:
        home = directory / "home"
        seed(home, _RUNS, url)
        settings = {"database": url, "replicas": True}
        ports = engines.free_port(), engines.free_port()
        with hub(home, port=ports[0], **settings) as leading, _standing_by(home, ports[1], url):
            leading.until(lambda: _answers(ports[1], leading.token))
            load = _Load(ports, leading.token)
            killed = _under_load(load, leading)
        silent = max(_first_after(killed, times) for times in load.reads.values())
        return _Found(load.writes + len(load.made), _lost(url, load), silent)


def _under_load(load: _Load, leading: Hub) -> float:
    """When the hub that leads was killed."""
    work = [load.writer] * _WRITERS + [load.reader] * _READERS
    threads = [
        threading.Thread(target=each, args=(number,), daemon=True)
        for number, each in enumerate(work)
    ]
    for each in threads:
        each.start()
    try:
        time.sleep(_BEFORE)
        killed = time.perf_counter()
        os.kill(leading.pid, signal.SIGKILL)
        leading.until(lambda: all(_is_back(killed, times) for times in load.reads.values()))
        time.sleep(_BEFORE)
    finally:
        load.over.set()
        for each in threads:
            each.join(_PATIENCE)
    return killed


def _is_back(killed: float, times: list[tuple[float, float]]) -> bool:
    return bool(times) and times[-1][0] > killed


def _first_after(killed: float, times: list[tuple[float, float]]) -> float:
    """Seconds until a read was answered that had been asked for after the kill."""
    return next(answered for asked, answered in times if asked > killed) - killed


def _lost(url: str, load: _Load) -> int:
    """Writes that were acknowledged and are not there. A note may be newer: who was killed may have
    written what it could not acknowledge."""
    from sqlalchemy import select

    from tbhub.database.engine import open_database
    from tbhub.database.tables import runs

    database = open_database(url)
    with database.read() as connection:
        there = {
            row.id: row for row in connection.execute(select(runs.c.id, runs.c.name, runs.c.note))
        }
    database.close()
    notes = sum(int(there[run].note or 0) < count for run, count in load.notes.items())
    made = sum(n not in there or there[n].name != name for n, name in load.made.items())
    return int(notes + made)


@contextmanager
def _standing_by(home: Path, port: int, url: str) -> Iterator[None]:
    given = {"HOME": home, "PORT": port, "DATABASE": url, "REPLICAS": True, "LOG_LEVEL": "warning"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tbhub.hub"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **{f"TBHUB_{name}": str(value) for name, value in given.items()}},
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(_PATIENCE)
        engines.end_hosts(home)  # which outlive a replica


def _answers(port: int, token: str) -> bool:
    return _Balancer((port, port), token, 0).ask("GET", "/api/v1/status") is not None
