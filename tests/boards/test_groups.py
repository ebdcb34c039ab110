"""``--group-by``: runs alike in their hyperparameters are shown as one, through the whole host."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.endpoints import PLUGIN, requests_for
from support.live import append, eventually, scalar
from support.ours import Ours
from tbhub import SummaryWriter
from tbhub.boards.board import BoardOptions
from tbhub.boards.grouping import LINES

Hparams = dict[str, Any]


def log(run: Path, values: list[float], hparams: Hparams | None = None, first: int = 0) -> Path:
    """A run with a series "loss"; returns the file that is appended to."""
    if hparams is not None:
        with SummaryWriter(run, filename_suffix=".hparams") as writer:
            writer.add_hparams(hparams, {}, run_name=".")
    with SummaryWriter(run) as writer:
        for step, value in enumerate(values, first):
            writer.add_scalar("loss", value, step, 100.0 + step)
    return max(file for file in run.iterdir() if not file.name.endswith(".hparams"))


def grouped(logdir: Path, by: str, **more: Any) -> Ours:
    return Ours(logdir, BoardOptions(group_by=by, samples=10**9, **more))


def lines(label: str) -> set[str]:
    return {f"{label}/{line}" for line in LINES}


def shown(ours: Ours, tag: str = "loss") -> dict[str, list[float]]:
    return {run: [point["value"] for point in points] for run, points in ours.series(tag).items()}


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    """Two learning rates with three and two seeds, and a run without hyperparameters."""
    random = np.random.default_rng(0)
    for lr, count in ((0.1, 3), (0.5, 2)):
        for seed in range(count):
            values = random.standard_normal(20).tolist()
            log(tmp_path / f"lr{lr}-{seed}", values, {"lr": lr, "seed": seed, "net": "big"})
    log(tmp_path / "lonely", [1.0, 2.0])
    return tmp_path


@pytest.mark.parametrize(
    ("by", "first", "second"),
    [
        ("lr", "lr=.1", "lr=.5"),
        ("hparams.lr", "lr=.1", "lr=.5"),
        ("net,lr", "net=big,lr=.1", "net=big,lr=.5"),
        ("all except seed", "lr=.1,net=big", "lr=.5,net=big"),
    ],
)
def test_groups_are_runs_with_the_statistics_of_their_members(
    seeds: Path, by: str, first: str, second: str
) -> None:
    with grouped(seeds, by) as ours:
        runs = ours.json("/data/runs")
        logged = {"lr0.1-0", "lr0.1-1", "lr0.1-2", "lr0.5-0", "lr0.5-1", "lonely"}
        assert set(runs) == logged | lines(first) | lines(second)
        assert [run for run in runs if run.startswith(first)] == [f"{first}/{n}" for n in LINES]
        series = shown(ours)
        for label, number, count in ((first, "lr0.1", 3), (second, "lr0.5", 2)):
            members = np.array([series[f"{number}-{seed}"] for seed in range(count)])
            mean, std = members.mean(axis=0), members.std(axis=0, ddof=1)
            np.testing.assert_allclose(series[f"{label}/mean"], mean, rtol=1e-6)
            np.testing.assert_allclose(series[f"{label}/+std"], mean + std, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(series[f"{label}/-std"], mean - std, rtol=1e-6, atol=1e-9)
            assert series[f"{label}/min"] == members.min(axis=0).tolist()
            assert series[f"{label}/max"] == members.max(axis=0).tolist()


def test_every_way_to_ask_knows_groups(seeds: Path) -> None:
    with grouped(seeds, "lr", hide_grouped=True) as ours:
        run = "lr=.1/mean"
        values = shown(ours)[run]
        tags = ours.json(f"{PLUGIN}/scalars/tags")
        assert tags[run]["loss"]["displayName"] == "loss"
        timeseries = ours.json(f"{PLUGIN}/timeseries/tags")
        assert timeseries["scalars"]["runTagInfo"][run] == ["loss"]
        query = {"run": run, "tag": "loss"}
        asked = ours.json(f"{PLUGIN}/scalars/scalars", **query)
        assert [value for _, _, value in asked] == values
        form = {"runs": [run], "tag": "loss"}
        _, _, body = ours.post(f"{PLUGIN}/scalars/scalars_multirun", form)
        assert json.loads(body)[run] == asked
        assert ours.json("/tbhub/scalars", **query) == asked
        _, _, csv = ours.get(f"{PLUGIN}/scalars/scalars", **query, format="csv")
        assert len(csv.splitlines()) == 21
        custom = ours.json(f"{PLUGIN}/custom_scalars/scalars", run=run, tag="lo.*")
        assert custom["tag_to_events"]["loss"] == asked
        for request in requests_for(ours):
            assert request.send(ours)[0] < 500, request


def test_hidden_are_those_in_groups_only(seeds: Path) -> None:
    with grouped(seeds, "lr", hide_grouped=True) as ours:
        runs = ours.json("/data/runs")
        assert set(runs) == {"lonely"} | lines("lr=.1") | lines("lr=.5")
        assert shown(ours)["lonely"] == [1, 2]
        status, _, _ = ours.get("/tbhub/scalars", run="lr0.1-0", tag="loss")
        assert status == 404


def test_train_and_test_are_grouped_apart(tmp_path: Path) -> None:
    for seed in range(2):
        run = tmp_path / f"run{seed}"
        log(run, [], {"lr": 1, "seed": seed})
        log(run / "train", [seed, seed])
        log(run / "test", [10 + seed])
    with grouped(tmp_path, "all except seed", hide_grouped=True) as ours:
        series = shown(ours)
        assert series["lr=1/train/mean"] == [0.5, 0.5]
        assert series["lr=1/test/mean"] == [10.5]
        assert series["lr=1/test/max"] == [11]


def test_a_group_follows_its_members(tmp_path: Path) -> None:
    file = log(tmp_path / "a", [1.0], {"lr": 1, "seed": 0})
    with grouped(tmp_path, "lr") as ours:
        assert shown(ours)["lr=1/mean"] == [1]
        order = ours.json("/data/runs")
        append(file, scalar("loss", 1, 5.0, 101.0))
        eventually(lambda: shown(ours)["lr=1/mean"] == [1, 5])
        log(tmp_path / "b", [3.0, 7.0], {"lr": 1, "seed": 1})
        eventually(lambda: shown(ours)["lr=1/mean"] == [2, 6])
        assert shown(ours)["lr=1/min"] == [1, 5]
        assert ours.json("/data/runs") == [*order, "b"]  # colours stay
        log(tmp_path / "c", [0.0], {"lr": 2, "seed": 1})
        eventually(lambda: shown(ours).get("lr=2/mean") == [0])
        shutil.rmtree(tmp_path / "c")
        eventually(lambda: "lr=2/mean" not in ours.json("/data/runs"))
        assert shown(ours)["lr=1/mean"] == [2, 6]


def test_members_with_tags_of_their_own(tmp_path: Path) -> None:
    for seed in range(2):
        run = tmp_path / str(seed)
        log(run, [1.0], {"lr": 1, "seed": seed})
        with SummaryWriter(run) as writer:
            writer.add_scalar(f"only {seed}", seed + 5, 1)
    with grouped(tmp_path, "lr") as ours:
        assert shown(ours, "only 0")["lr=1/mean"] == [5]
        assert shown(ours, "only 1")["lr=1/mean"] == [6]
        assert shown(ours, "only 1")["lr=1/+std"] == [6]


def test_steps_that_differ_are_interpolated(tmp_path: Path) -> None:
    log(tmp_path / "a", [0.0, 2.0], {"lr": 1, "seed": 0}, first=0)
    log(tmp_path / "b", [10.0, 10.0], {"lr": 1, "seed": 1}, first=1)
    with grouped(tmp_path, "lr") as ours:
        points = ours.series("loss")["lr=1/mean"]
        assert [(p["step"], p["value"]) for p in points] == [(0, 0), (1, 6), (2, 10)]


def test_a_name_that_is_taken_is_numbered(tmp_path: Path) -> None:
    log(tmp_path / "run", [1.0], {"lr": 1})
    log(tmp_path / "lr=1" / "mean", [7.0])
    for hidden in (False, True):
        with grouped(tmp_path, "lr", hide_grouped=hidden) as ours:
            series = shown(ours)
            assert series["lr=1/mean"] == [7]
            assert series["lr=1_2/mean"] == [1]


def test_groups_whose_names_become_alike_are_told_apart(tmp_path: Path) -> None:
    log(tmp_path / "a", [1.0], {"data": "x/y"})
    log(tmp_path / "b", [3.0], {"data": "x//y"})
    with grouped(tmp_path, "data", hide_grouped=True) as ours:
        found = {run: values for run, values in shown(ours).items() if run.endswith("mean")}
        assert sorted(found.values()) == [[1], [3]]
        assert len(found) == 2


def test_a_template_and_groups(seeds: Path) -> None:
    with grouped(seeds, "lr", template="{run} lr={lr}") as ours:
        runs = ours.json("/data/runs")
        assert "lr0.1-0 lr=.1" in runs
        assert "lonely lr=NA" in runs
        assert lines("lr=.1") <= set(runs)
        assert [notice.id for notice in ours.board.notices()] == ["template"]


def test_columns_group_too(tmp_path: Path) -> None:
    for run in ("a", "b"):
        log(tmp_path / run / "train", [1.0])
    with grouped(tmp_path, "workspace", hide_grouped=True) as ours:
        assert set(ours.json("/data/runs")) == lines(f"workspace={tmp_path.name}/train")


def test_no_hyperparameters_no_groups(tmp_path: Path) -> None:
    log(tmp_path / "a", [1.0])
    for hidden in (False, True):
        with grouped(tmp_path, "lr", hide_grouped=hidden) as ours:
            assert ours.json("/data/runs") == ["a"]
            assert shown(ours) == {"a": [1]}


@pytest.mark.parametrize(
    ("by", "fields"),
    [
        ("nosuchparam", "field nosuchparam"),
        ("hparams.learning_rat", "field hparams.learning_rat"),
        ("(((", "field ((("),
        ("lr, sead, nett", "fields sead, nett"),
        ("all except sead", "field sead"),
    ],
)
def test_a_field_that_no_run_has_is_reported(seeds: Path, by: str, fields: str) -> None:
    with grouped(seeds, by) as ours:
        (notice,) = ours.board.notices()
        assert notice.id == "group_by"
        assert notice.text.startswith(f"no run has the {fields} of --group-by (there are ")
        assert all(name in notice.text for name in ("lr", "seed", "net"))


@pytest.mark.parametrize("by", ["lr", "hparams.seed", "lr, workspace", "all except seed", "run"])
def test_fields_that_some_run_has_are_not_reported(seeds: Path, by: str) -> None:
    with grouped(seeds, by) as ours:
        assert ours.board.notices() == []


def test_the_report_ends_when_a_run_has_the_field(tmp_path: Path) -> None:
    with grouped(tmp_path, "lr") as ours:
        assert ours.board.notices() == []  # there is no run yet
        log(tmp_path / "a", [1.0])
        eventually(lambda: [notice.id for notice in ours.board.notices()] == ["group_by"])
        log(tmp_path / "b", [1.0], {"lr": 1})
        eventually(lambda: ours.board.notices() == [])


def test_groups_have_nothing_but_scalars(tmp_path: Path) -> None:
    for seed in range(2):
        with SummaryWriter(tmp_path / str(seed)) as writer:
            writer.add_hparams({"lr": 1, "seed": seed}, {}, run_name=".")
            writer.add_image("image", np.zeros((3, 2, 2)), 1)
            writer.add_text("text", "text", 1)
            writer.add_scalar("loss", float("nan"), 1)
    with grouped(tmp_path, "lr", hide_grouped=True) as ours:
        assert ours.json(f"{PLUGIN}/images/tags") == {}
        assert ours.json(f"{PLUGIN}/text/tags") == {}
        assert shown(ours) == {}  # nothing finite, nothing to draw
        for request in requests_for(ours):
            assert request.send(ours)[0] < 500, request
