"""``tbhub/scalars``: what is drawn when a chart is zoomed into."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.live import append, scalar
from support.ours import Ours
from tbhub import SummaryWriter

COUNT = 5000


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    directory = tmp_path_factory.mktemp("logs")
    values = np.random.default_rng(0).standard_normal(COUNT).astype(np.float32)
    values[2222] = 50
    with SummaryWriter(directory / "run") as writer:
        for step, value in enumerate(values.tolist()):
            writer.add_scalar("loss", value, step * 10, 1000.0 + step)
    (file,) = (directory / "run").iterdir()
    append(file, scalar("one", 7, 1.5))
    for step in (5, 3, 9, 1):
        append(file, scalar("back", step, step))
    for step, value in enumerate([1.0, float("nan"), float("inf"), float("-inf")]):
        append(file, scalar("odd", step, value))
    with Ours(directory) as made:
        yield made


def ask(ours: Ours, tag: str = "loss", **query: Any) -> list[list[Any]]:
    if "start" in query:
        query["from"] = query.pop("start")
    found: list[list[Any]] = ours.json("/tbhub/scalars", run="run", tag=tag, **query)
    return found


def test_all_points_when_there_is_room(ours: Ours) -> None:
    points = ask(ours, points=COUNT)
    assert len(points) == COUNT
    assert [point[1] for point in points] == list(range(0, COUNT * 10, 10))
    assert points[1][0] == 1001


def test_a_thousand_points_unless_told_otherwise(ours: Ours) -> None:
    points = ask(ours)
    assert 900 < len(points) <= 1000
    assert [1000 + 2222, 22220, 50] in points


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 100])
def test_never_more_points_than_wanted(ours: Ours, count: int) -> None:
    points = ask(ours, points=count)
    assert len(points) <= count
    if count >= 4:
        assert [point[1] for point in points if point[2] == 50] == [22220]


def test_a_range_with_the_lines_that_lead_into_it(ours: Ours) -> None:
    assert [point[1] for point in ask(ours, start=100, to=130)] == [90, 100, 110, 120, 130, 140]
    assert [point[1] for point in ask(ours, start=101, to=109)] == [100, 110]
    assert [point[1] for point in ask(ours, to=5)] == [0, 10]
    assert [point[1] for point in ask(ours, start=COUNT * 10)] == [COUNT * 10 - 10]
    assert ask(ours, start=10, to=5) == []


def test_every_point_is_there_when_zoomed_in(ours: Ours) -> None:
    points = ask(ours, start=20_000, to=25_000, points=1000)
    assert len(points) == 503
    assert max(point[2] for point in points) == 50


def test_bounds_beyond_all_steps(ours: Ours) -> None:
    assert ask(ours, start=-(10**30), to=10**30, points=COUNT) == ask(ours, points=COUNT)
    assert ask(ours, "one", start=-5, to=100) == [[10, 7, 1.5]]


def test_steps_that_go_back(ours: Ours) -> None:
    assert [point[1] for point in ask(ours, "back", start=2, to=6)] == [5, 3]


def test_values_that_are_not_finite_are_text(ours: Ours) -> None:
    assert [point[2] for point in ask(ours, "odd")] == [1, "NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ({}, 400, "give run and tag"),
        ({"run": "run"}, 400, "give run and tag"),
        ({"tag": "loss"}, 400, "give run and tag"),
        ({"run": "run", "tag": "loss", "from": "x"}, 400, "from, to and points are whole numbers"),
        ({"run": "run", "tag": "loss", "to": "1.5"}, 400, "from, to and points are whole numbers"),
        (
            {"run": "run", "tag": "loss", "points": "9" * 5000},
            400,
            "from, to and points are whole numbers",
        ),
        ({"run": "run", "tag": "loss", "points": -1}, 400, "points is between 0 and 1000000"),
        ({"run": "run", "tag": "loss", "points": 10**7}, 400, "points is between 0 and 1000000"),
        ({"run": "run", "tag": "none"}, 404, "no such series in this board"),
        ({"run": "none", "tag": "loss"}, 404, "no such series in this board"),
    ],
)
def test_what_is_wrong_is_told(ours: Ours, query: dict[str, Any], status: int, reason: str) -> None:
    answer = ours.get("/tbhub/scalars", **query)
    assert answer[:2] == (status, "application/json")
    assert json.loads(answer[2]) == {"error": reason}
