"""A board answers what TensorBoard answers over the same files, whoever wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support import every_kind
from support.endpoints import PLUGIN, compare
from support.ours import Ours
from support.stock import Stock
from tbhub import SummaryWriter
from tbhub.boards.board import BoardOptions

WRITERS = [
    "tbhub",
    "torch",
    "tensorboardX",
    pytest.param("tensorflow", marks=pytest.mark.tensorflow),
]
# Stock redirects to a file that is not there; we say at once that there are none.
NOTIFICATIONS = "GET /data/notifications:"


@pytest.mark.parametrize("writer", WRITERS)
def test_every_answer_is_stocks(writer: str, tmp_path: Path) -> None:
    getattr(every_kind, f"write_with_{writer}")(tmp_path)
    with Ours(tmp_path, single=True) as ours:
        told = compare(ours, Stock(tmp_path))
        assert [line for line in told if not line.startswith(NOTIFICATIONS)] == []
        assert ours.json("/data/notifications") == {"notifications": []}


def test_an_empty_directory_is_answered_as_stock_does(tmp_path: Path) -> None:
    with Ours(tmp_path, single=True) as ours:
        told = compare(ours, Stock(tmp_path))
    assert [line for line in told if not line.startswith(NOTIFICATIONS)] == []


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    """5,000 points: five times as many as stock shows."""
    directory = tmp_path_factory.mktemp("noisy")
    values = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    values[1234], values[4321] = 100, -100
    with SummaryWriter(directory / "run") as writer:
        for step, value in enumerate(values.tolist()):
            writer.add_scalar("noise", value, step, 1000 + step)
    with Ours(directory, BoardOptions()) as ours:
        yield ours


@pytest.mark.parametrize("way", ["timeSeries", "scalars", "multirun", "custom"])
def test_where_stock_samples_ours_keeps_the_extremes(noisy: Ours, way: str) -> None:
    if way == "timeSeries":
        points = [(p["step"], p["value"]) for p in noisy.series("noise")["run"]]
    else:
        query = {"run": "run", "tag": "noise"}
        if way == "scalars":
            found = noisy.json(f"{PLUGIN}/scalars/scalars", **query)
        elif way == "multirun":
            form = {"tag": "noise", "runs": ["run"]}
            found = json.loads(noisy.post(f"{PLUGIN}/scalars/scalars_multirun", form)[2])["run"]
        else:
            answer = noisy.json(f"{PLUGIN}/custom_scalars/scalars", **query)
            found = answer["tag_to_events"]["noise"]
        points = [(step, value) for _, step, value in found]
    assert len(points) <= 1000
    assert points[0][0] == 0
    assert points[-1][0] == 4999
    assert (1234, 100) in points
    assert (4321, -100) in points
    assert points == sorted(points)


def test_what_is_saved_to_a_file_is_every_point(noisy: Ours) -> None:
    query = {"run": "run", "tag": "noise", "format": "csv"}
    _, _, body = noisy.get(f"{PLUGIN}/scalars/scalars", **query)
    assert len(body.splitlines()) == 5001


def test_as_many_points_as_were_asked_for(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars_batch("loss", np.arange(5000.0), np.arange(5000))
    for samples, least, most in ((10, 8, 10), (3000, 2900, 3000), (10**9, 5000, 5000)):
        with Ours(tmp_path, BoardOptions(samples=samples)) as ours:
            (points,) = ours.series("loss").values()
            assert least <= len(points) <= most
            scalars = ours.json(f"{PLUGIN}/scalars/scalars", run=".", tag="loss")
            assert len(scalars) == len(points)
