"""Several hosts share the boards of a hub: by data and load, and without one that goes."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest
from sqlalchemy import Connection

from support.conducted import ADMIN, PATIENCE, Catalog, Conducted, log, running
from support.hub import HubProcess
from tbhub.api.models import Board, NewBoard, State
from tbhub.api.problems import NotFound
from tbhub.database.engine import Database
from tbhub.hub import keeper
from tbhub.hub.host_store import note_drain
from tbhub.hub.placement import Data
from tbhub.launchers.base import Details, LaunchError, Status
from tbhub.launchers.local import LocalLauncher

BOARDS = 12


async def three_hosts(hub: Conducted) -> None:
    """Waits until they take boards."""
    async with asyncio.timeout(PATIENCE):
        while [each.state for each in hub.conductor.hosts()] != ["running"] * 3:
            await asyncio.sleep(0.02)


async def boards(hub: Conducted) -> list[Board]:
    return (await hub.conductor.list(ADMIN, limit=1000)).boards


def experiments(database: Database, where: Path) -> list[int]:
    """A run each of so many experiments."""
    catalog = Catalog(database)
    return [
        catalog.run(log(where / f"{each}", 1), f"exp{each}", name=f"a{each}")
        for each in range(BOARDS)
    ]


async def make(hub: Conducted, runs: list[int]) -> dict[str, Board]:
    """A board that is up for each run, by id."""
    for run in runs:
        await hub.conductor.create(ADMIN, NewBoard(trials=[run]))
    return {each.id: await hub.until(each.id, State.RUNNING) for each in await boards(hub)}


async def kill(hub: Conducted, host: str) -> None:
    """Kills a host, and waits until the hub knows."""
    link = hub.conductor._keeper.hosts.get(host)
    assert link is not None
    os.kill((await link.health())["pid"], signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        while any(each.host == host for each in await boards(hub)):
            await asyncio.sleep(0.02)


@running
async def test_boards_of_a_dead_host_go_to_the_others(database: Database, tmp_path: Path) -> None:
    runs = experiments(database, tmp_path)
    async with Conducted(database, tmp_path, min_hosts=3) as hub:
        await three_hosts(hub)
        before = await make(hub, runs)
        made = sorted(before, key=lambda board: before[board].created)
        assert list(Counter(each.host for each in before.values()).values()) == [BOARDS // 3] * 3

        dead = next(each.host for each in before.values())
        assert dead is not None
        await kill(hub, dead)
        after = {each: await hub.until(each, State.RUNNING) for each in before}
        for board in after.values():
            assert board.url == before[board.id].url
            assert await hub.names(board.id) == [f"a{made.index(board.id)}"]
            stayed = before[board.id].host != dead
            assert (board.host == before[board.id].host) == stayed
        await three_hosts(hub)  # another has taken its place


@running
async def test_a_host_that_died_while_no_hub_was_there(database: Database, tmp_path: Path) -> None:
    runs = experiments(database, tmp_path)
    first = Conducted(database, tmp_path, min_hosts=3)
    await first.start()
    await three_hosts(first)
    before = await make(first, runs)
    dead = next(each.host for each in before.values())
    link = first.conductor._keeper.hosts.get(dead)
    assert link is not None
    process = psutil.Process((await link.health())["pid"])
    await first.close(stop_hosts=False)
    process.kill()
    async with Conducted(database, tmp_path, min_hosts=3) as second:
        for board in before.values():
            async with asyncio.timeout(PATIENCE):
                # It may take a moment until the end of its process is known.
                while (after := await second.until(board.id, State.RUNNING)).host == dead:
                    await asyncio.sleep(0.02)
            assert after.url == board.url
            assert board.host in (after.host, dead)


class AwayLauncher(LocalLauncher):
    """An engine that cannot be asked while it is away."""

    away = True

    async def poll(self, details: Details) -> Status:
        if self.away:
            raise LaunchError("the engine does not answer")
        return await super().poll(details)

    async def find(self) -> Mapping[str, Details]:
        raise LaunchError("the engine does not answer")


@running
async def test_an_engine_that_is_away_ends_no_board(database: Database, tmp_path: Path) -> None:
    run = Catalog(database).run(log(tmp_path / "a", 1), name="a")
    launcher = AwayLauncher(tmp_path / "hosts")
    async with Conducted(database, tmp_path, launcher) as hub:
        board = await hub.create(ADMIN, trials=[run])  # its host registers by itself
        assert (board.state, board.host) == (State.RUNNING, "local-1")
        link = hub.conductor._keeper.hosts.get("local-1")
        assert link is not None
        os.kill((await link.health())["pid"], signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while link.is_connected:
                await asyncio.sleep(0.02)
        assert (await hub.conductor.get(ADMIN, board.id)).state == State.RUNNING
        launcher.away = False  # and now it tells
        async with asyncio.timeout(PATIENCE):
            while (await hub.until(board.id, State.RUNNING)).host == "local-1":
                await asyncio.sleep(0.01)


@running
async def test_each_board_has_a_host_of_its_own_if_so_set(
    database: Database, tmp_path: Path
) -> None:
    run = Catalog(database).run(log(tmp_path / "a", 1), name="a")
    own = {"boards_per_host": 1, "min_hosts": 0, "max_hosts": 2, "host_linger": 0}
    async with Conducted(database, tmp_path, **own) as hub:
        assert hub.conductor.hosts() == []
        made = [await hub.conductor.create(ADMIN, NewBoard(trials=[run])) for _ in range(3)]
        first, second = [await hub.until(each.id, State.RUNNING) for each in made[:2]]
        assert first.host != second.host
        third = await hub.conductor.get(ADMIN, made[2].id)
        assert third.state == State.QUEUED  # there are two hosts, and no more
        await hub.conductor.kill(ADMIN, first.id)
        third = await hub.until(third.id, State.RUNNING)
        assert third.host != second.host
        for board in (second, third):
            await hub.conductor.stop(ADMIN, board.id)
        async with asyncio.timeout(PATIENCE):
            while hub.conductor.hosts():
                await asyncio.sleep(0.02)


class GatedLauncher(LocalLauncher):
    """An engine that starts hosts only when its gate is open."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.gate = asyncio.Event()

    async def start(self, host: str, environment: Mapping[str, str]) -> Details:
        await self.gate.wait()
        return await super().start(host, environment)


@running
async def test_who_asked_first_is_served_first(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the database takes to say what each of them shows."""
    look, looked = keeper.shown_by, list[str]()
    second_is_known = threading.Event()

    def first_is_slow(connection: Connection, board: str) -> Data:
        looked.append(board)
        if looked[0] == board:
            assert second_is_known.wait(PATIENCE)
        return look(connection, board)

    monkeypatch.setattr(keeper, "shown_by", first_is_slow)
    run = Catalog(database).run(log(tmp_path / "a", 1), name="a")
    launcher = GatedLauncher(tmp_path / "hosts")
    one = {"boards_per_host": 1, "min_hosts": 0, "max_hosts": 1}
    async with Conducted(database, tmp_path, launcher, **one) as hub:
        first, second = [
            await hub.conductor.create(ADMIN, NewBoard(trials=[run])) for _ in range(2)
        ]
        async with asyncio.timeout(PATIENCE):
            while len(hub.conductor._keeper.hosts._waiting) < 2:
                if hub.conductor._keeper.hosts._waiting:
                    second_is_known.set()
                await asyncio.sleep(0.01)
        launcher.gate.set()
        await hub.until(first.id, State.RUNNING)
        assert (await hub.conductor.get(ADMIN, second.id)).state == State.QUEUED
        await hub.conductor.kill(ADMIN, first.id)
        await hub.until(second.id, State.RUNNING)


@running
async def test_boards_of_the_same_data_share_a_host(database: Database, tmp_path: Path) -> None:
    catalog = Catalog(database)
    runs = [catalog.run(log(tmp_path / f"{n}", 1), f"exp{n % 3}") for n in range(BOARDS)]
    async with Conducted(database, tmp_path, min_hosts=3) as hub:
        await three_hosts(hub)
        for run in runs:
            await hub.create(ADMIN, trials=[run])
        on = {each.id: each.host for each in await boards(hub)}
        made = [on[each.id] for each in sorted(await boards(hub), key=lambda board: board.created)]
        assert len(set(made[:3])) == 3
        assert made == made[:3] * (BOARDS // 3)


@running
async def test_a_drained_host_ends_and_its_boards_go_on(database: Database, tmp_path: Path) -> None:
    runs = experiments(database, tmp_path)
    async with Conducted(database, tmp_path, min_hosts=3) as hub:
        await three_hosts(hub)
        before = await make(hub, runs)
        gone = next(each.host for each in before.values())
        assert gone is not None
        assert (await hub.conductor.drain(gone)).state == "draining"
        async with asyncio.timeout(PATIENCE):
            while gone in [each.id for each in hub.conductor.hosts()]:
                await asyncio.sleep(0.02)
        for board in before.values():
            after = await hub.until(board.id, State.RUNNING)
            assert after.url == board.url
            assert after.host != gone
            assert (after.host == board.host) == (board.host != gone)
        await three_hosts(hub)  # another has taken its place
        with pytest.raises(NotFound, match="no host"):
            await hub.conductor.drain(gone)


@running
async def test_the_only_host_is_drained_when_another_is_there(
    database: Database, tmp_path: Path
) -> None:
    run = Catalog(database).run(log(tmp_path / "a", 1), name="a")
    async with Conducted(database, tmp_path, max_hosts=1) as hub:
        board = await hub.create(ADMIN, trials=[run])
        assert board.host == "local-1"
        await hub.conductor.drain("local-1")
        async with asyncio.timeout(PATIENCE):
            while (await hub.until(board.id, State.RUNNING)).host == "local-1":
                await asyncio.sleep(0.02)
        assert await hub.names(board.id) == ["a"]
        log_lines = await hub.conductor.logs(ADMIN, board.id)
        assert "host local-1 is drained; another host will be chosen" in [
            each.text for each in log_lines.lines
        ]


@running
async def test_a_hub_that_is_killed_while_it_drains_goes_on(
    database: Database, tmp_path: Path
) -> None:
    run = Catalog(database).run(log(tmp_path / "a", 1), name="a")
    first = Conducted(database, tmp_path)
    await first.start()
    board = await first.create(ADMIN, trials=[run])
    await first.close(stop_hosts=False)
    with database.begin() as connection:
        note_drain(connection, "local-1")
    async with Conducted(database, tmp_path) as second, asyncio.timeout(PATIENCE):
        while (await second.until(board.id, State.RUNNING)).host == "local-1":
            await asyncio.sleep(0.02)
        while "local-1" in [each.id for each in second.conductor.hosts()]:
            await asyncio.sleep(0.02)
        assert await second.names(board.id) == ["a"]


def test_whoever_looks_at_a_board_does_not_see_it_move(tmp_path: Path) -> None:
    log(tmp_path / "runs" / "a", 1)
    with HubProcess(tmp_path / "home", logdirs=tmp_path / "runs") as hub:
        hub.wait_for_runs(1)
        board = hub.create_board(runs="all")
        hub.ask("POST", "/api/v1/hosts/local-1/drain").raise_for_status()
        asked = 0
        while "local-1" in [each["id"] for each in hub.json("GET", "/api/v1/hosts")]:
            assert hub.json("GET", f"/boards/{board['id'][:8]}/data/runs") == ["a"]
            asked += 1
        assert asked
        assert hub.json("GET", f"/api/v1/boards/{board['id']}")["host"] == "local-2"
