"""Points, tags, images and news of runs, asked of a real hub."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.hub import HubProcess
from tbhub import SummaryWriter
from tbhub.api.packed_series import CONTENT_TYPE, Series, unpack

POINTS = 20_000


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("series")
    for number in range(3):
        with SummaryWriter(where / "runs" / f"run{number}") as writer:
            for step in range(POINTS):
                value = 1e6 if step == 7777 else np.sin(step / 1000) + number
                writer.add_scalar("loss", value, step, walltime=1000.0 + step)
            if number < 2:
                for step in range(10):
                    writer.add_scalar("samples", 64.0 * step, 2000 * step)
    with SummaryWriter(where / "runs" / "pictures") as writer:
        for step in range(3):
            writer.add_image("eye", np.full((3, 4, 5), 40 * step, np.uint8), step)
            writer.add_images("many", np.zeros((2, 3, 4, 5), np.uint8), step)
            writer.add_scalar("nan", float("nan") if step == 1 else step, step)
    return where


@pytest.fixture(scope="module")
def hub(where: Path) -> Iterator[HubProcess]:
    with HubProcess(where / "home", auth="users", logdirs=where / "runs") as hub:
        hub.wait_for_runs(4)
        yield hub


@pytest.fixture(scope="module")
def ids(hub: HubProcess) -> dict[str, int]:
    return {run["path"]: run["id"] for run in hub.wait_for_runs(4)}


def ask(hub: HubProcess, token: str | None = None, **query: Any) -> tuple[Any, list[Series]]:
    answer = hub.ask("POST", "/api/v1/series", token, json=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == CONTENT_TYPE
    header, found = unpack(answer.content)
    return header, list(found)


def test_series_are_thinned_out_and_keep_their_extremes(
    hub: HubProcess, ids: dict[str, int]
) -> None:
    runs = [ids["run2"], ids["run0"]]
    header, found = ask(hub, runs=runs, tags=["loss", "nothing"], points=500)
    assert [each["run"] for each in header["series"]] == runs
    assert header["loading"] == []
    assert header["problems"] == {}
    for series in found:
        assert series.about["tag"] == "loss"
        assert series.about["total"] == POINTS
        assert series.about["restarts"] == []
        assert 400 < len(series.values) <= 500
        assert list(series.steps[[0, -1]]) == [0, POINTS - 1]
        assert series.steps[np.argmax(series.values)] == 7777
        assert np.all(np.diff(series.steps) > 0)
        np.testing.assert_array_equal(series.wall_times, 1000.0 + series.steps)
    exact = np.sin(found[1].steps / 1000)
    exact[np.argmax(found[1].values)] = 1e6
    np.testing.assert_array_equal(found[1].values, exact.astype(np.float32))


def test_all_tags_without_any(hub: HubProcess, ids: dict[str, int]) -> None:
    _, found = ask(hub, runs=[ids["run0"], ids["run2"]], points=10)
    named = [(each.about["run"], each.about["tag"]) for each in found]
    assert named == [(ids["run0"], "loss"), (ids["run0"], "samples"), (ids["run2"], "loss")]


@pytest.mark.parametrize(
    ("x", "low", "high"),
    [("step", 100, 199), ("step", 99.5, 199.5), ("wall", 1100, 1199), ("relative", 100, 199)],
)
def test_a_narrower_range_has_every_point(
    hub: HubProcess, ids: dict[str, int], x: str, low: float, high: float
) -> None:
    _, (series,) = ask(hub, runs=[ids["run0"]], tags=["loss"], points=1000, x=x, min=low, max=high)
    # One more beyond each bound: the lines that enter and leave end there.
    assert list(series.steps) == list(range(99, 201))


def test_half_a_range_is_thinned_out(hub: HubProcess, ids: dict[str, int]) -> None:
    _, (series,) = ask(hub, runs=[ids["run0"]], tags=["loss"], points=100, min=7000)
    assert list(series.steps[[0, -1]]) == [6999, POINTS - 1]
    assert 7777 in series.steps
    assert len(series.values) <= 100


def test_over_another_tag(hub: HubProcess, ids: dict[str, int]) -> None:
    runs = [ids["run0"], ids["run2"]]
    header, (with_it, without) = ask(hub, runs=runs, tags=["loss"], points=50, x_tag="samples")
    assert header["x_tag"] == "samples"
    assert with_it.xs is not None
    assert without.xs is not None
    np.testing.assert_array_equal(with_it.xs, 64.0 * np.minimum(with_it.steps // 2000, 9))
    assert np.isnan(without.xs).all()


def test_means_are_of_all_points_in_between(hub: HubProcess, ids: dict[str, int]) -> None:
    _, (series,) = ask(hub, runs=[ids["run0"]], tags=["loss"], points=101, means=True)
    assert series.means is not None
    every = np.sin(np.arange(POINTS) / 1000)
    every[7777] = 1e6
    starts = [0, *(series.steps[:-1].astype(int) + 1)]
    exact = [
        every[start : int(stop) + 1].mean()
        for start, stop in zip(starts, series.steps, strict=True)
    ]
    np.testing.assert_allclose(series.means, exact, rtol=1e-5, atol=1e-6)
    _, (few,) = ask(hub, runs=[ids["pictures"]], tags=["nan"], means=True)
    np.testing.assert_array_equal(few.means, few.values)


def test_nan_stays_nan(hub: HubProcess, ids: dict[str, int]) -> None:
    _, (series,) = ask(hub, runs=[ids["pictures"]], tags=["nan"])
    np.testing.assert_array_equal(series.values, np.array([0, np.nan, 2], np.float32))


def test_too_many_points_are_not_sent(hub: HubProcess, ids: dict[str, int]) -> None:
    answer = hub.ask("POST", "/api/v1/series", json={"runs": list(ids.values()), "points": 2**20})
    assert answer.status_code == 422
    assert "points" in answer.json()["error"]["message"]


def test_tags_are_counted_by_what_they_are(hub: HubProcess, ids: dict[str, int]) -> None:
    found = hub.json("POST", "/api/v1/series/tags", json={"runs": list(ids.values())})
    assert found["tags"]["scalars"] == [
        {"tag": "loss", "runs": 3, "single": False},
        {"tag": "nan", "runs": 1, "single": False},
        {"tag": "samples", "runs": 2, "single": False},
    ]
    assert [(each["tag"], each["runs"]) for each in found["tags"]["images"]] == [
        ("eye", 1),
        ("many", 1),
    ]
    assert found["loading"] == []


def test_images_are_listed_and_sent(hub: HubProcess, ids: dict[str, int]) -> None:
    found = hub.json("POST", "/api/v1/series/images", json={"runs": list(ids.values())})["images"]
    assert [(each["tag"], each["steps"], each["samples"]) for each in found] == [
        ("eye", [0, 1, 2], 1),
        ("many", [0, 1, 2], 1),
    ]
    eye = found[0]
    place = {"run": eye["run"], "tag": "eye", "step": 2, "wall_time": eye["wall_times"][2]}
    answer = hub.ask("GET", "/api/v1/series/image", params=place)
    assert answer.headers["content-type"] == "image/png"
    assert "immutable" in answer.headers["cache-control"]
    assert answer.content.startswith(b"\x89PNG")
    only = hub.json("POST", "/api/v1/series/images", json={"runs": [eye["run"]], "tags": ["many"]})
    assert [each["tag"] for each in only["images"]] == ["many"]
    for wrong in ({"step": 5}, {"sample": 7}, {"tag": "loss"}, {"wall_time": 1.5}):
        assert hub.ask("GET", "/api/v1/series/image", params=place | wrong).status_code == 404


def test_a_run_that_may_not_be_seen_is_as_one_that_is_not_there(
    hub: HubProcess, ids: dict[str, int]
) -> None:
    token = hub.create_user("eve")
    assert hub.ask("DELETE", "/api/v1/workspaces/default/members/eve").is_success
    for run in (ids["run0"], 987654):
        answer = hub.ask("POST", "/api/v1/series", token, json={"runs": [run]})
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == f"no run {run}"


def test_news_tell_which_runs_have_some(hub: HubProcess, where: Path) -> None:
    with SummaryWriter(where / "runs" / "live") as writer:
        writer.add_scalar("loss", 1.0, 0)
        writer.flush()
        found = {run["path"]: run["id"] for run in hub.wait_for_runs(5)}
        both = [found["live"], found["run0"]]
        _, (series,) = ask(hub, runs=[found["live"]], tags=["loss"])
        assert list(series.steps) == [0]
        with (
            hub.client() as client,
            client.stream("POST", "/api/v1/series/news", json={"runs": both}) as stream,
        ):
            lines = (json.loads(line) for line in stream.iter_lines() if line.strip())
            assert next(lines) == {"runs": []}
            writer.add_scalar("loss", 2.0, 1)
            writer.flush()
            assert next(lines) == {"runs": [found["live"]]}
        _, (series,) = ask(hub, runs=[found["live"]], tags=["loss"])
        assert list(series.values) == [1.0, 2.0]


def test_another_host_answers_where_one_has_died(hub: HubProcess, ids: dict[str, int]) -> None:
    _, before = ask(hub, runs=[ids["run0"]], tags=["loss"], points=100)
    for path in (hub.home / "hosts").glob("*.pid"):
        if not path.with_suffix(".exit").exists():
            os.killpg(int(path.read_text()), signal.SIGKILL)
    _, after = ask(hub, runs=[ids["run0"]], tags=["loss"], points=100)
    np.testing.assert_array_equal(before[0].values, after[0].values)
