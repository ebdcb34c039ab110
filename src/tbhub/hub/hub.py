"""A hub: its home, its database, and everything that works on them.

Making one takes the home and brings the database up to date; `start` begins all that goes on by
itself, in an event loop. Whatever is in memory can be found again: a hub may be killed at any time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote

from sqlalchemy import select

from tbhub.api.models import Event, NewLogdir
from tbhub.api.problems import Conflict
from tbhub.catalog.workspaces import add_logdir, ensure_defaults
from tbhub.database.engine import open_database
from tbhub.database.rows import chunks
from tbhub.database.tables import boards, runs
from tbhub.hub import status, users
from tbhub.hub.access import Caller
from tbhub.hub.board_access import BoardAccess
from tbhub.hub.bus import Bus
from tbhub.hub.conductor import Conductor
from tbhub.hub.connections import Connections
from tbhub.hub.files import RunFiles
from tbhub.hub.gate import Gate
from tbhub.hub.heartbeats import Heartbeats
from tbhub.hub.home import Home
from tbhub.hub.host_payload import Credentials, with_environment
from tbhub.hub.identity import Identity
from tbhub.hub.indexer_child import IndexerChild
from tbhub.hub.invitations import Invitations
from tbhub.hub.login_links import LoginLinks
from tbhub.hub.metrics import Metrics
from tbhub.hub.oidc import OpenIdConnect
from tbhub.hub.proxy import Proxy
from tbhub.hub.series import Series
from tbhub.hub.settings import Settings
from tbhub.hub.shares import Shares
from tbhub.hub.shipping import Bucket
from tbhub.hub.visits import Visits
from tbhub.launchers.base import Site
from tbhub.launchers.choose import make_launcher
from tbhub.storage.store import Patience

logger = logging.getLogger("tbhub.hub")

_PATIENCE = Patience(retries=2, total=30)  # with the bucket that the hub keeps files in

P = ParamSpec("P")
T = TypeVar("T")


class Hub:
    """Everything there is once.

    Attributes:
        url: Where people reach it, without a slash at the end.
        user: The person whose hub it is.
        token: Theirs, for this machine.
        started: When.
    """

    def __init__(self, settings: Settings, *, url: str) -> None:
        """`url` is where it will be reached from this machine.

        Raises:
            HomeTakenError: Another hub has the home.
            HomeError: The home cannot be used.
            Unavailable: The database cannot be used.
        """
        self.settings = settings
        self.local_url = url
        self.url = settings.public_url or url
        self.started = datetime.now(UTC)
        self.home = Home(settings.home, is_replica=settings.replicas)
        try:
            self.database = open_database(settings.database_url)
            self.database.upgrade()
            with self.database.begin() as connection:
                ensure_defaults(connection)
            self.identity = Identity(self.database, settings)
            self.invitations = Invitations(self.database, settings)
            self.login_links = LoginLinks(self.database, settings)
            self.user, self.token = self.identity.first_user(self.home.known_token)
            with self.database.begin() as connection:
                for path in settings.logdirs:
                    with suppress(Conflict):  # it is being watched already
                        add_logdir(connection, NewLogdir(path=str(path)), None)
        except BaseException:
            self.home.close()
            raise
        self.bus = Bus()
        self.metrics = Metrics(version("tbhub"))
        self.metrics.add_gauges(lambda: status.gauges(self))
        self.gate = Gate(self.identity, settings, self.home.secret)
        self.access = BoardAccess(self.database)
        self.shares = Shares(self.database, self.identity, self.access, self.home.secret)
        self.oidc = (
            OpenIdConnect(settings, self.database, self.home.secret)
            if settings.oidc_issuer
            else None
        )
        self.connections = Connections(self.database, self.home.secret)
        self.files = RunFiles(
            settings.files,
            self.database,
            self._bucket(settings.bucket),
            tell_late=lambda run: self._indexer.run_written(run),
        )
        self.heartbeats = Heartbeats(self.database, settings.heartbeat_timeout, self.runs_changed)
        site = Site(self.home.id, self.home.path / "hosts")
        launcher = make_launcher(settings.launcher, settings.launcher_options, site)
        credentials = self._credentials_of_hosts(settings)
        self.conductor = Conductor(self.database, launcher, self.bus, settings, credentials)
        self.series = Series(self.database, self.conductor.ready_host, credentials)
        self.proxy = Proxy(settings.max_body)
        self.visits = Visits(
            self.conductor, self.gate, self.access, self.shares, self.proxy, settings
        )
        self.identity.subscribe(self.access_changed)
        self._indexer = IndexerChild(settings.database_url, self._take_news, self.connections.told)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def _credentials_of_hosts(self, settings: Settings) -> Credentials:
        """Local hosts inherit the hub's environment; others get its keys with each place."""
        if settings.launcher == "local":
            return self.connections.credentials
        own = settings.launcher_options.get("environment", {})
        return with_environment(self.connections.credentials, {**os.environ, **own})

    def _bucket(self, uri: str) -> Bucket | None:
        """By a connection that is for all, or by what the hub's machine may."""
        if not uri:
            return None
        return Bucket(uri, lambda: self.connections.open(uri, (), patience=_PATIENCE))

    @property
    def open_url(self) -> str:
        """The address to open in a browser, which logs its person in."""
        if self.settings.auth == "none":
            return f"{self.url}/"
        return f"{self.url}/?token={quote(self.token)}"

    @property
    def indexing(self) -> Mapping[str, Any]:
        """How far the indexer is."""
        return self._indexer.progress

    async def start(self) -> None:
        """Begins: finds the hosts and boards there are, and looks for runs."""
        self._loop = asyncio.get_running_loop()
        internal_url = self.settings.hosts_url or self.local_url
        await self.conductor.start(internal_url=internal_url, public_url=self.url)
        self._indexer.start()
        self.heartbeats.start()
        await asyncio.to_thread(self.files.start)
        self.home.announce(self.url, None if self.settings.auth == "none" else self.token)

    async def stop(self) -> None:
        """Ends streams, children and connections, and gives the home up."""
        self.bus.close()
        await self.heartbeats.close()
        await self._indexer.close()
        for task in self._tasks:
            task.cancel()
        # Another replica goes on with the hosts of this one.
        keep = self.settings.keep_hosts or self.settings.replicas
        await self.conductor.close(stop_hosts=not keep)
        self.series.close()
        await self.proxy.close()
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Gives up what has been taken; enough for a hub that was never started."""
        self.files.close()
        self.database.close()
        self.home.close()

    def rescan(self) -> None:
        """Logdirs have changed. Any thread may say so."""
        self._indexer.rescan_soon()

    def rights_changed(self, user_id: int | None = None) -> None:
        """Forget what is remembered of users' rights, and notify owners of boards. Any thread.

        Args:
            user_id: The user whose rights have changed; none: any user's.
        """
        self.identity.forget()  # which calls `access_changed`
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.conductor.rights_changed, user_id)

    def access_changed(self) -> None:
        """Recheck who may see open pages of boards. Any thread may call it."""
        self.access.forget()
        self.shares.forget()
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.visits.recheck_soon)

    def connections_changed(self) -> None:
        """Storage connections have come or gone. Any thread may say so."""
        self.connections.forget()
        self.rights_changed()
        if self.files.shipping is not None:
            self.files.shipping.reopen()
        self._indexer.connections_changed()
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._begin, self.conductor.connections_changed)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def run_started(self) -> None:
        """Somebody has started a run, or goes on with one. Any thread may say so."""
        self.heartbeats.begun()
        self._indexer.run_started()

    def run_renamed(self, run: int) -> None:
        """Have boards show a run under its new name. Any thread may call it."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(
                    self._begin, lambda: self.conductor.run_renamed(run)
                )

    def run_ended(self, run: int) -> None:
        """Have the last of what a run has logged read now. Any thread may call it."""
        self._indexer.run_written(run)

    def runs_changed(self, ids: list[int], places: Collection[int]) -> None:
        """Runs of some workspaces have come or changed. Any thread may say so."""
        self.bus.publish(Event(kind="runs", data={"count": len(ids)}), workspaces=places)
        self.files.runs_changed(ids)
        self._notify(self.conductor.runs_changed, ids)

    def runs_deleted(self, ids: Sequence[int]) -> None:
        """Take deleted runs and experiments out of boards. Any thread may call it."""
        self._notify(self.conductor.runs_deleted, ids)

    def _notify(self, notify: Callable[[Sequence[int]], None], ids: Sequence[int]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(notify, ids)

    async def in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Does what asks the database, from an event loop."""
        return await asyncio.to_thread(work, *arguments, **named)

    async def delete_user(self, caller: Caller, name: str) -> None:
        """Deletes a user; their boards end first, unless the user may not be deleted."""

        def their_boards() -> list[str]:
            with self.database.read() as connection:
                users.require_deletable(connection, name)
                user = users.get_user(connection, name)
                chosen = select(boards.c.id).where(boards.c.owner_id == user.id)
                return list(connection.scalars(chosen))

        def delete() -> None:
            with self.database.begin() as connection:
                users.delete_user(connection, name)

        for board_id in await asyncio.to_thread(their_boards):
            await self.conductor.delete(caller, board_id)
        await asyncio.to_thread(delete)
        self.identity.forget()

    # --- news of the indexer

    def _take_news(self, news: Mapping[str, Any]) -> None:
        task = asyncio.create_task(self._tell(news))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self, news: Mapping[str, Any]) -> None:
        ids = [each for each in news.get("runs", ()) if isinstance(each, int)]
        try:
            places = await asyncio.to_thread(self._workspaces_of, ids)
            self.conductor.runs_changed(ids)
        except Exception:
            logger.exception("news of %d runs were lost", len(ids))
            return
        data = {"count": len(ids), "new": news.get("new", 0), "gone": news.get("gone", 0)}
        if places or data["gone"]:
            # Where runs have gone, nobody can tell any more whose they were.
            where = None if data["gone"] else places
            self.bus.publish(Event(kind="runs", data=data), workspaces=where)

    def _workspaces_of(self, ids: list[int]) -> set[int]:
        found: set[int] = set()
        with self.database.read() as connection:
            for chunk in chunks(ids):
                chosen = select(runs.c.workspace_id).where(runs.c.id.in_(chunk)).distinct()
                found.update(connection.scalars(chosen))
        return found
