"""A conductor with real hosts: all of a hub but its pages and its API."""

from __future__ import annotations

import asyncio
import functools
import inspect
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from tbhub import SummaryWriter
from tbhub.api.models import Board, NewBoard, Role, State
from tbhub.api.problems import Problem
from tbhub.catalog.run_records import create_run
from tbhub.database.engine import Database
from tbhub.database.tables import members, users, workspaces
from tbhub.hub.access import Caller
from tbhub.hub.bus import Bus
from tbhub.hub.conductor import Conductor
from tbhub.hub.settings import Settings
from tbhub.launchers.base import Launcher
from tbhub.launchers.local import LocalLauncher

# Seconds; only against hangs.
PATIENCE = 60
_IP_FREEBIND = 15  # of Linux; not named by Python


def running(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Makes a test of a coroutine function; fixtures go through."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(2 * PATIENCE):
                await test(*arguments, **named)

        asyncio.run(bounded())

    run.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    return run


def log(directory: Path, *values: float, tag: str = "loss") -> Path:
    """A run with some values of a scalar."""
    with SummaryWriter(directory) as writer:
        for step, value in enumerate(values):
            writer.add_scalar(tag, value, step)
    return directory


class Conducted:
    """A conductor between ``start`` and ``close``, or in a ``with`` block.

    Attributes:
        address: Where hosts find it; another one than this may be that of a network yet to come.
    """

    address = "127.0.0.1"

    def __init__(
        self, database: Database, home: Path, launcher: Launcher | None = None, **settings: Any
    ) -> None:
        self.database = database
        self.home = home
        self.bus = Bus()
        self.settings = Settings(home=home, **settings)
        self.launcher = launcher or LocalLauncher(home / "hosts")
        self.conductor = Conductor(database, self.launcher, self.bus, self.settings)
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Conducted:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        application = web.Application()
        application.router.add_post("/base/internal/hosts/register", self._register)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        listening = socket.socket()
        listening.setsockopt(socket.SOL_IP, _IP_FREEBIND, 1)
        listening.bind((self.address, 0))
        await web.SockSite(self._runner, listening).start()
        address = self._runner.addresses[0]
        url = f"http://{self.address}:{address[1]}/base"
        await self.conductor.start(internal_url=url, public_url="https://hub.example/base")

    async def close(self, *, stop_hosts: bool = True) -> None:
        await self.conductor.close(stop_hosts=stop_hosts)
        if self._runner is not None:
            await self._runner.cleanup()

    async def _register(self, request: web.Request) -> web.Response:
        asked = await request.json()
        try:
            secret = await self.conductor.register_host(**asked)
        except Problem as problem:
            return web.json_response(problem.to_json(), status=problem.status)
        return web.json_response({"secret": secret})

    async def create(self, caller: Caller, **fields: Any) -> Board:
        """Makes a board and waits until it is up or has ended."""
        board = await self.conductor.create(caller, NewBoard(**fields))
        return await self.until(board.id, *UP_OR_ENDED)

    async def until(self, board_id: str, *states: State) -> Board:
        """Waits until a board is in one of some states."""
        async with asyncio.timeout(PATIENCE):
            async with aclosing(self.bus.subscribe()) as news:
                async for _ in news:
                    board = await self.conductor.get(ADMIN, board_id)
                    if board.state in states:
                        return board
        raise AssertionError

    async def names(self, board_id: str) -> list[str]:
        """The runs a board shows, asked of its host as the proxy does."""
        found: list[str] = await self.ask(board_id, "data/runs")
        return sorted(found)

    async def ask(self, board_id: str, path: str, secret: str | None = None) -> Any:
        """What the host answers for a board."""
        route = self.conductor.route(board_id)
        assert route is not None
        headers = {"authorization": f"Bearer {secret or route.secret}"}
        async with aiohttp.ClientSession() as session:
            url = f"{route.address}/b/{route.board_id}/{path}"
            async with session.get(url, headers=headers) as response:
                return await response.json() if response.status == 200 else response.status

    async def shows(self, board_id: str, names: Iterable[str]) -> None:
        """Waits until a board shows exactly these runs."""
        wanted = sorted(names)
        async with asyncio.timeout(PATIENCE):
            while await self.names(board_id) != wanted:
                await asyncio.sleep(0.01)


UP_OR_ENDED = (State.WAITING, State.RUNNING, State.STOPPED, State.TERMINATED, State.FAILED)
ADMIN = Caller(1, "admin", "admin", "admin")


class Catalog:
    """People, workspaces and runs in a database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.workspaces: dict[str, int] = {}
        self.user("admin", "admin")
        self.workspace("default")

    def user(self, name: str, role: Role = "member", **workspaces: Role) -> Caller:
        """A person, and their roles in workspaces."""
        with self.database.begin() as connection:
            values = {"name": name, "role": role, "created": 1.0}
            number = connection.execute(users.insert(), values).inserted_primary_key[0]
            for workspace, own in workspaces.items():
                row = {
                    "workspace_id": self.workspaces[workspace],
                    "user_id": number,
                    "role": own,
                }
                connection.execute(members.insert(), row)
        where = {self.workspaces[each]: own for each, own in workspaces.items()}
        return Caller(number, name, role, "admin" if role == "admin" else "write", where)

    def workspace(self, name: str) -> int:
        with self.database.begin() as connection:
            values = {"name": name, "created": 1.0}
            number = connection.execute(workspaces.insert(), values).inserted_primary_key[0]
        self.workspaces[name] = number
        return int(number)

    def run(
        self, location: Path, experiment: str = "exp", workspace: str = "default", **more: Any
    ) -> int:
        """A run of the catalog; its number."""
        with self.database.begin() as connection:
            number = self.workspaces[workspace]
            return create_run(connection, number, experiment, str(location), **more).id
