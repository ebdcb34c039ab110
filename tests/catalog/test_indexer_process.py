"""The indexer as a process: what it says, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import func, select

from support.catalog import log
from support.live import PATIENCE, eventually
from tbhub.api.models import NewLogdir
from tbhub.catalog.workspaces import add_logdir, ensure_defaults
from tbhub.database.engine import Database
from tbhub.database.tables import metrics, runs


class Process:
    """An indexer between start and stop."""

    def __init__(self, url: str, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tbhub.catalog.indexer_process", "--database-env", "OURS"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "OURS": url, "TBHUB_CACHE_DIR": str(directory / "cache")},
        )

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def until(self, key: str, value: Any) -> dict[str, Any]:
        """Reads until a line says something."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            line = self.line()
            if line.get(key, line.get("progress", {}).get(key)) == value:
                return line
        raise AssertionError

    def rescan(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b'{"rescan": true}\n')
        self.process.stdin.flush()

    def end(self) -> tuple[int, str]:
        """Closes its stdin; its exit code and what it complained of."""
        _, complaints = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, complaints.decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def process(database: Database, database_url: str, tmp_path: Path) -> Iterator[Process]:
    with database.begin() as connection:
        ensure_defaults(connection)
        add_logdir(connection, NewLogdir(path=str(tmp_path / "runs")), None)
    started = Process(database_url, tmp_path)
    yield started
    started.kill()


def count(database: Database, table: Any) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0


def test_it_tells_what_it_finds_and_ends_with_its_stdin(
    process: Process, database: Database, tmp_path: Path
) -> None:
    assert process.until("runs", 0)["progress"]["problems"] == {
        str(tmp_path / "runs"): "The logdir is not there"
    }
    log(tmp_path / "runs/a", 1.0)
    log(tmp_path / "more/b", 1.0)
    news = process.until("new", 1)
    assert (len(news["runs"]), news["gone"]) == (1, 0)
    process.until("runs", news["runs"])  # it has been read, too
    with database.begin() as connection:
        add_logdir(connection, NewLogdir(path=str(tmp_path / "more")), None)
    process.rescan()
    assert process.until("new", 1)["runs"] != news["runs"]
    eventually(lambda: count(database, metrics) == 2)
    assert process.end() == (0, "")


def test_a_signal_ends_it(process: Process, tmp_path: Path) -> None:
    process.line()
    process.process.send_signal(signal.SIGTERM)
    assert process.process.wait(PATIENCE) == 0


def test_nobody_listens_any_more(process: Process, tmp_path: Path) -> None:
    process.line()
    assert process.process.stdout is not None
    process.process.stdout.close()
    log(tmp_path / "runs/a", 1.0)
    assert process.process.wait(PATIENCE) == 0
    assert process.process.stderr is not None
    assert process.process.stderr.read() == b""


def test_killed_at_any_time_it_leaves_whole_rows(
    database: Database, database_url: str, process: Process, tmp_path: Path
) -> None:
    for number in range(300):
        log(tmp_path / f"runs/{number:03}", 1.0, 2.0)
    process.rescan()
    while count(database, runs) < 100:
        time.sleep(0.001)
    process.kill()
    with database.read() as connection:
        seen = set(connection.scalars(select(runs.c.id).where(runs.c.seen != "")))
        assert set(connection.scalars(select(metrics.c.run_id))) == seen
    again = Process(database_url, tmp_path)
    eventually(lambda: count(database, metrics) == 300)
    assert again.end()[0] == 0
    assert count(database, runs) == 300


def test_it_costs_nothing_when_nothing_happens(process: Process, tmp_path: Path) -> None:
    """Not a timing: it waits, instead of looking again and again."""
    log(tmp_path / "runs/a", 1.0)
    process.rescan()
    process.until("new", 1)
    process.until("to_read", 0)
    watched = psutil.Process(process.process.pid)
    before = watched.num_ctx_switches().voluntary
    time.sleep(1)
    assert watched.num_ctx_switches().voluntary - before < 30


@pytest.mark.parametrize(
    ("url", "complaint"), [("", "OURS is not set"), ("mysql://x", "no URL of a database we know")]
)
def test_no_database(url: str, complaint: str, tmp_path: Path) -> None:
    process = Process(url, tmp_path)
    code, said = process.end()
    assert code == 2
    assert complaint in said
    assert "Traceback" not in said
