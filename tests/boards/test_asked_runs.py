"""Runs are followed while somebody asks for them, and some minutes longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.conducted import log
from tbhub.boards.asked_runs import KEPT_SECONDS, AskedRuns, Wanted
from tbhub.boards.charts import Fragments
from tbhub.boards.series_query import PointsQuery, TooManyPointsError, points, tags
from tbhub.series.follower import Follower

PATIENCE = 60


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def follower() -> Iterator[Follower]:
    follower = Follower(use_cache=False)
    yield follower
    follower.close()


def wanted(*paths: Path, alone: bool = True) -> list[Wanted]:
    return [Wanted(number, str(path), alone) for number, path in enumerate(paths)]


def test_a_run_is_let_go_some_minutes_after_the_last_request(
    follower: Follower, tmp_path: Path
) -> None:
    clock = Clock()
    runs = AskedRuns(follower, clock=clock)
    one, other = wanted(log(tmp_path / "a", 1.0), log(tmp_path / "b", 1.0))
    first = runs.get([one, other])
    clock.now = KEPT_SECONDS - 1
    assert runs.get([one]) == first[:1]
    clock.now = KEPT_SECONDS + 1
    runs.sweep()
    assert len(runs) == 1
    assert first[0].root is not None
    assert first[0].root.runs
    assert first[1].root is not None
    assert not first[1].root.runs
    clock.now = 3 * KEPT_SECONDS
    runs.sweep()
    assert len(runs) == 0


def test_nobody_loses_a_run_whose_news_they_listen_for(follower: Follower, tmp_path: Path) -> None:
    clock = Clock()
    runs = AskedRuns(follower, clock=clock)
    (run,) = runs.get(wanted(log(tmp_path / "a", 1.0)))
    run.listeners.add(print)
    clock.now = 10 * KEPT_SECONDS
    runs.sweep()
    assert len(runs) == 1
    run.listeners.clear()
    runs.sweep()
    assert len(runs) == 0


def test_beyond_the_most_those_go_that_were_not_asked_for_longest(
    follower: Follower, tmp_path: Path
) -> None:
    runs = AskedRuns(follower, most=2)
    a, b, c = wanted(*(log(tmp_path / name, 1.0) for name in "abc"))
    first = runs.get([a, b])
    runs.get([a])
    runs.get([c])
    assert len(runs) == 2
    assert runs.get([a]) == first[:1]
    assert runs.get([b]) != first[1:]


def test_directories_below_a_run_name_its_tags(follower: Follower, tmp_path: Path) -> None:
    log(tmp_path / "run", 1.0)
    log(tmp_path / "run" / "eval", 2.0, 3.0)
    found = AskedRuns(follower).get(wanted(tmp_path / "run", alone=False))
    assert follower.wait_until_loaded(PATIENCE)
    counted = tags(dict(enumerate(found)))["tags"]["scalars"]
    assert counted == [
        {"tag": "eval/loss", "runs": 1, "single": False},
        {"tag": "loss", "runs": 1, "single": True},
    ]


def test_an_answer_has_an_end(
    follower: Follower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tbhub.boards.series_query.MOST_POINTS", 3)
    found = AskedRuns(follower).get(wanted(log(tmp_path / "a", 1.0, 2.0, 3.0, 4.0)))
    assert follower.wait_until_loaded(PATIENCE)
    runs = dict(enumerate(found))
    assert points(runs, PointsQuery(None, 3), Fragments(1 << 20))
    with pytest.raises(TooManyPointsError, match="at most 3"):
        points(runs, PointsQuery(None, 4), Fragments(1 << 20))
