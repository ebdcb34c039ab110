"""Limits of boards while no host serves them yet, and the quotas of workspaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.conducted import ADMIN, Catalog, Conducted, log, running
from tbhub.api.models import BoardChange, NewBoard, State
from tbhub.api.problems import Forbidden, TensorboardLimitExceeded
from tbhub.database.engine import Database, open_database
from tbhub.database.tables import members, workspaces
from tbhub.hub.quotas import quotas
from tbhub.hub.settings import Settings
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


@running
async def test_a_viewer_takes_no_place_of_a_workspace(database: Database, tmp_path: Path) -> None:
    catalog = Catalog(database)
    run = catalog.run(log(tmp_path / "a", 1.0))
    viewer = catalog.user("vera", default="viewer")
    member = catalog.user("maria", default="member")
    with database.begin() as connection:
        connection.execute(workspaces.update().values(max_boards=1))

    def used() -> int:
        with database.read() as connection:
            return quotas(connection, Settings(home=tmp_path), ADMIN).workspaces[0].used

    async with Conducted(database, tmp_path, QueueingLauncher()) as hub:
        create = hub.conductor.create
        for _ in range(2):
            assert (await create(viewer, NewBoard(trials=[run]))).workspace is None
        with pytest.raises(Forbidden, match="Requires role member in this workspace"):
            await create(viewer, NewBoard(trials=[run], workspace="default"))
        assert used() == 0
        board = await create(member, NewBoard(trials=[run]))
        assert (board.workspace, used()) == ("default", 1)
        with pytest.raises(TensorboardLimitExceeded):
            await create(member, NewBoard(trials=[run], workspace="default"))
        # Who is a viewer from now on, or has left, gives the place back, and takes none.
        mine = members.c.user_id == member.user_id
        with database.begin() as connection:
            connection.execute(members.update().where(mine).values(role="viewer"))
        assert used() == 0
        await hub.conductor.stop(member, board.id)
        other = catalog.user("otto", default="member")
        await create(other, NewBoard(trials=[run]))
        assert used() == 1
        started = await hub.conductor.start_board(member, board.id)
        assert (started.state, used()) == (State.QUEUED, 1)
