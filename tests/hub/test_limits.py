"""Limits of boards while no host serves them yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.conducted import ADMIN, Catalog, Conducted, log, running
from tbhub.api.models import BoardChange, NewBoard, State
from tbhub.database.engine import open_database
from tbhub.launchers.base import Details, Starting, Status


class QueueingLauncher:
    """Starts hosts that wait in a queue for ever."""

    name = "queueing"
    shares = True

    async def start(self, host_id: str, environment: object) -> Details:
        return {"host": host_id}

    async def find(self) -> dict[str, Details]:
        return {}

    async def poll(self, details: Details) -> Status:
        return Starting("waiting for resources", queued=True)

    async def stop(self, details: Details) -> None:
        pass

    async def logs(self, details: Details, tail: int) -> list[str]:
        return []

    async def close(self) -> None:
        pass


@running
async def test_a_limit_of_a_queued_board_is_changed_without_waiting_for_its_host(
    sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tbhub.hub.conductor._SETTLE_SECONDS", 3600)
    path = tmp_path / "hub.db"
    path.write_bytes(sqlite_template.read_bytes())
    database = open_database(f"sqlite:///{path}")
    run = Catalog(database).run(log(tmp_path / "a", 1.0))
    async with Conducted(database, tmp_path, QueueingLauncher()) as hub:
        board = await hub.conductor.create(ADMIN, NewBoard(trials=[run], max_runtime=60))
        assert (board.state, board.max_runtime, board.deadline) == (State.QUEUED, 60, None)
        change = BoardChange(max_runtime=120, idle_timeout=30)
        changed = await hub.conductor.change(ADMIN, board.id, change)
        assert (changed.max_runtime, changed.idle_timeout) == (120, 30)
    database.close()
