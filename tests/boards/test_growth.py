"""Boards with very many tags or runs work like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.endpoints import PLUGIN
from support.live import VERSION, append, scalar
from support.ours import Ours
from tbhub import SummaryWriter
from tbhub.boards.board import Board, BoardOptions
from tbhub.boards.kinds import RunIndex
from tbhub.boards.run_index import index_of

TAGS = 50_000
RUNS = 2_000


@pytest.fixture(scope="module")
def many_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs")
    for number in range(RUNS):
        run = directory / f"exp{number // 10}" / f"run{number}"
        run.mkdir(parents=True)
        append(run / "events.out.tfevents.1", VERSION + scalar("loss", 1, number))
    return directory


@pytest.fixture(scope="module")
def ours(many_runs: Path) -> Iterator[Ours]:
    with Ours(many_runs) as made:
        yield made


def test_many_tags(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "run") as writer:
        for tag in range(TAGS):
            writer.add_scalar(f"layer{tag // 100}/weight{tag % 100}", tag, 1)
    with Ours(tmp_path) as ours:
        assert ours.json("/data/runs") == ["run"]
        assert len(ours.json(f"{PLUGIN}/scalars/tags")["run"]) == TAGS
        tags = ours.json(f"{PLUGIN}/timeseries/tags")["scalars"]["runTagInfo"]["run"]
        assert len(tags) == TAGS
        assert tags == sorted(tags)
        (point,) = ours.series("layer499/weight99")["run"]
        assert point["value"] == TAGS - 1
        custom = ours.json(f"{PLUGIN}/custom_scalars/scalars", run="run", tag="layer7/.*")
        assert len(custom["tag_to_events"]) == 100


def test_many_runs(ours: Ours) -> None:
    assert len(ours.json("/data/runs")) == RUNS
    assert len(ours.json(f"{PLUGIN}/timeseries/tags")["scalars"]["runTagInfo"]) == RUNS
    assert len(ours.json(f"{PLUGIN}/scalars/tags")) == RUNS
    assert ours.json("/data/plugins_listing")["scalars"]["enabled"]
    points = ours.series("loss")
    assert len(points) == RUNS
    assert points["exp7/run77"][0]["value"] == 77
    form = {"tag": "loss", "runs": list(points)}  # more fields than TensorBoard would take
    status, _, body = ours.post(f"{PLUGIN}/scalars/scalars_multirun", form)
    assert status == 200
    assert len(json.loads(body)) == RUNS


@pytest.mark.parametrize(
    "options", [BoardOptions(template="{run}_{lr}"), BoardOptions(group_by="all except seed")]
)
def test_many_runs_with_names_and_groups(many_runs: Path, options: BoardOptions) -> None:
    with Ours(many_runs, options) as ours:
        assert len(ours.json("/data/runs")) == RUNS
        assert len(ours.series("loss")) == RUNS


def test_new_points_change_nothing_of_the_tags(tmp_path: Path) -> None:
    file = tmp_path / "run" / "events.out.tfevents.1"
    file.parent.mkdir()
    append(file, VERSION + scalar("loss", 1, 1))
    with Ours(tmp_path) as ours:
        before = index(ours.board)
        append(file, scalar("loss", 2, 2))
        ours.look()
        assert index(ours.board) is before
        assert len(ours.series("loss")["run"]) == 2
        listed = ours.host.application._tensorboard._data_provider.list_scalars(
            experiment_id="one", plugin_name="scalars"
        )
        assert listed["run"]["loss"].max_step == 2
        append(file, scalar("new", 1, 1))
        ours.look()
        assert list(index(ours.board).scalars) == ["loss", "new"]
        assert set(ours.json(f"{PLUGIN}/scalars/tags")["run"]) == {"loss", "new"}


def index(board: Board) -> RunIndex:
    return index_of(board.runs["run"].view)
