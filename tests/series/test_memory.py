"""The budget holds, what was viewed longest ago goes first, and nothing is lost by that."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

from support.live import VERSION, append, cache_at, loaded, scalar, shown
from tbhub.series.cache import ColumnCache
from tbhub.series.column import Part
from tbhub.series.memory import Memory, default_budget
from tbhub.series.run_log import RunLog

POINTS = 100
RUN_BYTES = POINTS * 12


class Stored:
    """A column in no file at all."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.loads = 0

    def load(self) -> Part:
        self.loads += 1
        return Part((0, 1), np.zeros(self.size), np.zeros(self.size, np.float32))


def make_runs(tmp_path: Path, cache: ColumnCache, count: int) -> list[RunLog]:
    """Runs that have been read and nothing more."""
    logs = []
    for number in range(count):
        path = tmp_path / f"run{number}" / "tfevents"
        path.parent.mkdir()
        path.write_bytes(VERSION + b"".join(scalar("a", s, s + number) for s in range(POINTS)))
        logs.append(RunLog(str(path.parent), cache))
        logs[-1].refresh()
    return logs


def test_what_is_looked_at_stays_within_the_budget() -> None:
    memory = Memory(12 * 1000)
    columns = [Stored(100) for _ in range(30)]
    for column in columns:
        memory.load(column)
        assert memory.used <= memory.budget
    assert memory.used == memory.budget
    for column in columns[20:]:
        memory.load(column)
    assert [column.loads for column in columns[20:]] == [1] * 10
    memory.load(columns[19])
    memory.load(columns[21])
    assert columns[19].loads == 2
    memory.load(columns[20])  # was the first to go
    assert columns[20].loads == 2


def test_one_column_larger_than_the_budget_can_be_looked_at() -> None:
    memory = Memory(100)
    large, small = Stored(1000), Stored(1)
    assert len(memory.load(large)) == 1000
    assert memory.load(large) is memory.load(large)
    memory.load(small)
    assert memory.used == 12
    memory.forget(id(small))
    assert memory.used == 0
    memory.forget(id(small))
    assert memory.used == 0


def test_the_heap_leaves_less_to_what_is_looked_at() -> None:
    memory = Memory(12 * 1000)
    memory.grow(12 * 700)
    for column in [Stored(100) for _ in range(30)]:
        memory.load(column)
    assert memory.used == memory.budget


def test_runs_viewed_longest_ago_are_stored_first(tmp_path: Path) -> None:
    cache = cache_at(tmp_path / "cache", budget=RUN_BYTES * 8)
    logs = make_runs(tmp_path, cache, 10)
    assert cache.memory.used == RUN_BYTES * 10
    for number in (3, 0):
        assert logs[number].view.points("a") is not None
    cache.memory.relieve()
    assert cache.memory.used <= cache.memory.budget
    left = {number for number, log in enumerate(logs) if log.heap}
    assert left == {0, 3, 8, 9}
    assert sum(log.heap for log in logs) == cache.memory.used


def test_a_budget_that_is_kept_costs_nothing(tmp_path: Path) -> None:
    cache = cache_at(tmp_path / "cache", budget=RUN_BYTES * 8)
    make_runs(tmp_path, cache, 6)
    cache.memory.relieve()
    assert cache.memory.used == RUN_BYTES * 6
    assert not (tmp_path / "cache").exists()


def test_without_a_cache_everything_stays(tmp_path: Path) -> None:
    cache = cache_at(None, budget=1)
    logs = make_runs(tmp_path, cache, 3)
    cache.memory.relieve()
    assert cache.memory.used == RUN_BYTES * 3
    for log in logs:
        assert shown(log.view) == loaded(log.path)["."]


@pytest.mark.parametrize("budget", [0, 1, RUN_BYTES, RUN_BYTES * 4])
def test_everything_is_exact_under_a_tiny_budget(tmp_path: Path, budget: int) -> None:
    cache = cache_at(tmp_path / "cache", budget)
    logs = make_runs(tmp_path, cache, 6)
    for round_ in range(5):
        for number, log in enumerate(logs):
            append(Path(log.path) / "tfevents", scalar("a", 100 + round_, round_))
            append(Path(log.path) / "tfevents", scalar(f"new{round_}", round_, number))
            log.refresh()
            cache.memory.relieve()
            assert shown(log.view) == loaded(log.path)["."]
        for log in logs:
            assert shown(log.view) == loaded(log.path)["."]
    assert cache.memory.used <= max(budget, RUN_BYTES * 2)


def test_what_a_reader_holds_stays_readable(tmp_path: Path) -> None:
    cache = cache_at(tmp_path / "cache", budget=0)
    logs = make_runs(tmp_path, cache, 3)
    views = [log.view for log in logs]
    points = [view.points("a") for view in views]
    cache.memory.relieve()
    later = [log.view.points("a") for log in logs]
    for before, after, view, log in zip(points, later, views, logs, strict=True):
        assert before is not None
        assert after is not None
        assert before.values.tolist() == after.values.tolist()
        assert shown(view) == loaded(log.path)["."]


def test_runs_that_are_let_go_are_not_counted(tmp_path: Path) -> None:
    cache = cache_at(tmp_path / "cache")
    logs = make_runs(tmp_path, cache, 3)
    logs[0].store()
    view = logs[0].view
    assert shown(view)
    assert cache.memory.used == RUN_BYTES * 3
    for log in logs:
        log.close()
        log.refresh()  # one that was under way
    assert cache.memory.used == RUN_BYTES
    assert shown(view)
    del view, logs, log
    gc.collect()
    assert cache.memory.used == 0


def test_the_default_is_a_part_of_what_there_is() -> None:
    assert 1 << 20 < default_budget() < 1 << 50
