"""The hub's clock is set while boards are up: they stay as they are, and more can be started."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.hub import HubProcess
from support.shifted_clock import ShiftedClock, clock, clock_library
from tbhub import SummaryWriter

__all__ = ["clock", "clock_library"]

HOUR = 3600


def test_boards_outlive_a_clock_that_is_set(
    clock: ShiftedClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SummaryWriter(tmp_path / "runs" / "one") as writer:
        writer.add_scalar("loss", 0.5, 1)
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    limits = {"idle_timeout": 2 * HOUR, "max_runtime": 4 * HOUR}
    with HubProcess(tmp_path / "home", logdirs=tmp_path / "runs") as hub:
        monkeypatch.delenv("LD_PRELOAD")
        hub.wait_for_runs(1)
        boards = [hub.create_board(runs="all", name="first", reuse=False, **limits)]
        for hours in (1, -1, 0):
            clock.set(hours * HOUR)
            boards.append(hub.create_board(runs="all", name=f"{hours}", reuse=False, **limits))
            for board in boards:
                path = f"/api/v1/boards/{board['id']}"
                hub.json("PATCH", path, json={"name": f"{board['name']}'"})  # it is looked at anew
                assert hub.json("GET", path)["state"] == "RUNNING"
                shown = hub.ask("GET", f"/boards/{board['id'][:8]}/data/runs")
                assert shown.json() == ["one"]
        stopped = hub.json("POST", f"/api/v1/boards/{boards[0]['id']}/stop")
        assert stopped["id"] == boards[0]["id"]
        hub.wait_for(boards[0]["id"], "STOPPED")
