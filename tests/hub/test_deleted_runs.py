"""Runs that are deleted while boards show them: they leave the boards, whose logs say so."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from support.conducted import log
from support.hub import HubProcess, eventually


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub whose indexer finds nothing new."""
    where = tmp_path_factory.mktemp("deleted")
    for experiment in range(3):
        for trial in range(5):
            log(where / "runs" / f"exp{experiment}" / f"trial{trial}", 1, 2)
    with HubProcess(where / "home", logdirs=where / "runs") as hub:
        hub.wait_for_runs(15)
        # Its news would update the boards, too.
        (indexer,) = (
            each
            for each in psutil.Process(hub.process.pid).children(recursive=True)
            if any("indexer" in word for word in each.cmdline())
        )
        indexer.suspend()
        yield hub
        indexer.resume()


def numbers(hub: HubProcess, experiment: str) -> list[int]:
    found = hub.json("GET", f"/api/v1/runs?select=exp:{experiment}")["runs"]
    return sorted(each["id"] for each in found)


def shown(hub: HubProcess, board: str) -> list[str]:
    """Return the runs that a board's open pages would show."""
    return list(hub.json("GET", f"/boards/{board[:8]}/data/runs"))


def texts(hub: HubProcess, board: str) -> list[str]:
    lines = hub.json("GET", f"/api/v1/boards/{board}/logs")["lines"]
    return [line["text"] for line in lines]


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_deleted_run_leaves_live_boards(hub: HubProcess, one_by_one: bool) -> None:
    first, second, *_ = numbers(hub, "exp0")
    board = hub.create_board(trials=[first, second])["id"]
    assert len(shown(hub, board)) == 2
    name = hub.json("GET", f"/api/v1/runs/{first}")["name"]
    path = f"/api/v1/runs/{first}" if one_by_one else f"/api/v1/runs?select=trial:{first}"
    user = hub.json("GET", "/api/v1/me")["user"]["name"]
    assert hub.ask("DELETE", path).is_success
    eventually(lambda: len(shown(hub, board)) == 1, "the run is still shown")
    assert f"run {name} (#{first}) was deleted by {user}" in texts(hub, board)
    assert hub.json("GET", f"/api/v1/boards/{board}")["state"] == "RUNNING"


def test_a_deleted_experiment_leaves_live_boards(hub: HubProcess) -> None:
    deleted, kept = numbers(hub, "exp1"), numbers(hub, "exp2")[:1]
    experiment = hub.json("GET", f"/api/v1/runs/{deleted[0]}")["experiment_id"]
    mixed = hub.create_board(experiments=[experiment], trials=kept)["id"]
    whole = hub.create_board(experiments=[experiment])["id"]
    assert hub.ask("DELETE", f"/api/v1/experiments/{experiment}?files=true").is_success
    eventually(lambda: len(shown(hub, mixed)) == 1, "the runs are still shown")
    (line,) = (each for each in texts(hub, mixed) if "deleted" in each)
    assert line.startswith("5 runs were deleted by ")
    assert line.endswith(" and 2 more")
    waiting = hub.wait_for(whole, "WAITING")
    assert waiting["message"].startswith("All runs that it showed were deleted")
    findings = hub.json("GET", f"/api/v1/boards/{whole}/doctor")["findings"]
    assert findings[0]["text"] == "All runs that it showed were deleted or taken out."
