"""Real engines of this machine, started as the tests start them: PostgreSQL, Slurm, podman, Ray."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT

sys.path.append(str(ROOT / "tests"))  # where `support` is


def has(*programs: str) -> bool:
    """Whether these programs are here."""
    return all(shutil.which(each) for each in programs)


@contextmanager
def postgresql() -> Iterator[Any]:
    """A server; `create()` makes a database with the hub's tables and returns its URL."""
    from support.postgresql import PostgreSQL

    with _closed(PostgreSQL()) as server:
        yield server


@contextmanager
def slurm() -> Iterator[Any]:
    """A controller and two nodes, which ``SLURM_CONF`` names meanwhile."""
    from support.slurm import Slurm

    with _closed(Slurm()) as cluster:
        yield cluster


@contextmanager
def podman() -> Iterator[Any]:
    """An engine behind Docker's interface, with an image that sees this machine's programs."""
    from support.podman import Podman

    with _closed(Podman()) as engine:
        yield engine


@contextmanager
def ray() -> Iterator[Any]:
    """A cluster of one node."""
    from support.ray import RayCluster

    with _closed(RayCluster()) as cluster:
        yield cluster


def free_port() -> int:
    """A port that stays free."""
    from support.ports import free_port

    port: int = free_port()
    return port


def end_hosts(home: Path) -> None:
    """Ends the hosts that a hub has left."""
    from support.hub import end_hosts

    end_hosts(home)


def postgresql_processes(server: Any) -> list[int]:
    """The server and what it has started for its connections."""
    from benchmarks.boards import children

    pid: int = server.process.pid
    return [pid, *children(pid)]


def database_cpu(server: Any) -> float:
    """Seconds a PostgreSQL server has computed, with those of connections that are closed."""
    from benchmarks.hub import cpu

    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / 100
    return ended + sum(map(cpu, postgresql_processes(server)))


@contextmanager
def _closed(engine: Any) -> Iterator[Any]:
    try:
        yield engine
    finally:
        engine.close()
