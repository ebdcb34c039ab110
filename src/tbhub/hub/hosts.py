"""The hosts: started, found again after a restart, watched, and replaced when they die.

As many are kept as `placement` says: for boards that share hosts one is always ready, so that a
board need not wait for a process to start; where each board has its own, it comes and goes with the
board. Everything a later hub needs to find a host again is in the database before the host can have
a board. What the launcher has of hosts that nobody knows any more is ended, at the start and now
and then.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import aiohttp
from sqlalchemy import Connection

from tbhub.api.models import Host
from tbhub.api.problems import BadRequest, NotAuthenticated, NotFound, Problem
from tbhub.boards.host_address import AddressError, HostAddress
from tbhub.boards.life import Cause
from tbhub.database.engine import Database
from tbhub.errors import TbhubError
from tbhub.hub import host_store as store
from tbhub.hub.host_link import HostGoneError, HostLink, HostRefusedError
from tbhub.hub.host_watch import HostWatch
from tbhub.hub.placement import Data, Policy
from tbhub.hub.settings import Settings
from tbhub.launchers.base import Exited, Launcher, LaunchError, Status

_MOST_FAILURES = 3  # of starts one after the other, before boards that wait are told
_LONGEST_PAUSE = 30.0
_REAP_SECONDS = 300.0
_FIRST_REAP_SECONDS = 10.0
_LAST_LINES = 20
_EARLY_SECONDS = 60.0  # a host that ends by itself so soon, without a board, has failed to start

logger = logging.getLogger("tbhub.hosts")
T = TypeVar("T")


class NoHostError(TbhubError):
    """No host can be started; says why."""


@dataclass(frozen=True)
class Death:
    """How a host ended."""

    host: str
    exit_code: int | None
    reason: str
    last_lines: tuple[str, ...]
    cause: Cause = Cause.CRASH


class _Waiter(NamedTuple):
    """Who waits for a host, and since when: a board and what it shows, or somebody who wants one to
    be ready. `alone`: the board needs a host of its own."""

    board: str | None
    data: Data
    since: float
    alone: bool = False


class Listener(Protocol):
    """Who is told of news of the hosts."""

    async def host_has(self, host: str, boards: set[str]) -> None:
        """Which boards a host has, whenever we have connected to it."""

    async def board_stands(self, host: str, board: str, state: dict[str, Any]) -> None:
        """How a board stands."""

    def host_silence_changed(self, host: str) -> None:
        """A host has not answered for a while, or answers again."""

    async def host_died(self, death: Death) -> None:
        """A host is gone."""

    async def boards_wait(self, boards: Collection[str], why: str) -> None:
        """What boards that have no host yet are waiting for."""


class Hosts:
    """All hosts of a hub."""

    def __init__(
        self, database: Database, launcher: Launcher, settings: Settings, listener: Listener
    ) -> None:
        self._database = database
        self._launcher = launcher
        self._settings = settings
        self._policy = _policy(settings, shares=launcher.shares)
        self._listener = listener
        self._watch = HostWatch(
            launcher,
            settings.start_timeout,
            self._tell,
            self._take,
            hung_after=settings.host_hung_after,
            silence_changed=lambda link: listener.host_silence_changed(link.id),
        )
        self._links: dict[str, HostLink] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.Future[HostLink], _Waiter] = {}
        self._failures = 0
        self._starting = 0  # that have no link yet
        self._balancing: asyncio.TimerHandle | None = None
        self._closing = False
        self._hub_url = ""
        self._session: aiohttp.ClientSession | None = None

    # --- what the hub calls

    async def start(self, hub_url: str) -> dict[str, Death]:
        """Finds the hosts that live, watches them, and tells of those that ended meanwhile.

        Hosts register at `hub_url`.
        """
        self._hub_url = hub_url.rstrip("/")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )
        deaths = {}
        for row in await self._read(store.known_hosts):
            death = await self._adopt(row)
            if death is not None:
                deaths[row.id] = death
        # Before others are started: these may be given the names of hosts that nobody knows.
        try:
            async with asyncio.timeout(_FIRST_REAP_SECONDS):
                await self._reap_once()
        except TimeoutError:
            self._is_away(f"it does not answer within {_FIRST_REAP_SECONDS:g} s")
        self._balance()
        self._run(self._reap())
        return deaths

    async def close(self, *, stop: bool) -> None:
        """Watches no more; ends the hosts as well if told to, and otherwise leaves them be."""
        self._closing = True
        if self._balancing is not None:
            self._balancing.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in list(self._waiting):
            each.cancel()
        await asyncio.gather(*(self._leave(link, stop) for link in list(self._links.values())))
        await self._launcher.close()
        if self._session is not None:
            await self._session.close()

    async def _leave(self, link: HostLink, stop: bool) -> None:
        try:
            if link.launch is not None:  # what has been begun is known before it is left
                link.details = await link.launch
            if stop:
                await self._launcher.stop(link.details)
                status = await self._launcher.poll(link.details)
                code = status.code if isinstance(status, Exited) else None
                await self._write(lambda c: store.note_end(c, link.id, code))
        except LaunchError as error:  # it ends by itself when it has heard of no hub for long
            logger.error("host %s is left behind: %s", link.id, error)

    def place(
        self,
        board: str | None = None,
        data: Data = frozenset(),
        since: float = 0.0,
        *,
        alone: bool = False,
    ) -> asyncio.Future[HostLink]:
        """A host that takes a board of some data, as soon as there is one; cancelled, nobody waits
        for it.

        Who waits since earlier, on the monotonic clock, is served first. The place is the board's
        until it is given back by `let_go`. With `alone` the host is reserved for the board until
        then. Raises `NoHostError` when hosts do not start.
        """
        future: asyncio.Future[HostLink] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda future: self._deal() if future.cancelled() else None)
        self._waiting[future] = _Waiter(board, data, since, alone)
        self._deal()
        why = next((link.progress for link in self._links.values() if link.progress), "")
        if board is not None and why and not future.done():
            self._run(self._listener.boards_wait([board], why))
        return future

    async def ready(self) -> HostLink:
        """A host that would take a board; waits until there is one."""
        return await self.place()

    def take(self, host: str, board: str) -> None:
        """A board is on a host already."""
        if host in self._links:
            self._links[host].boards.add(board)

    async def drain(self, host: str) -> None:
        """Gives a host no more boards, and ends it as soon as it has none.

        Raises:
            NotFound: There is no such host.
        """
        link = self._links.get(host)
        if link is None:
            raise NotFound(f"There is no host {host}.")
        await self._write(lambda c: store.note_drain(c, host))
        link.draining = True
        self._deal()

    @property
    def draining(self) -> list[str]:
        """Hosts that are to have no boards."""
        return [link.id for link in self._links.values() if link.draining]

    def let_go(self, host: str, board: str) -> None:
        """A board is not on a host any more."""
        link = self._links.get(host)
        if link is not None and board in link.boards:
            link.boards.discard(board)
            if link.reserved_for == board:
                link.reserved_for = None
            link.idle_since = time.monotonic()
            self._deal()

    def abandon(self, host: str, board: str) -> bool:
        """Stop a host that does not answer, if it serves no other board; return whether it will be.

        Its news may still come by a connection that is open, so it is not known to hang.
        """
        link = self._links.get(host)
        if link is None or board not in link.boards or len(link.boards) > 1:
            return False
        if not link.ending:
            logger.warning("host %s does not answer and has no other board; stopping it", host)
            link.ending = True
            self._run(self._retire(link))
        return True

    @property
    def room(self) -> int | None:
        """How many more hosts there may be; None: any number."""
        most = self._policy.max_hosts
        return max(0, most - len(self._links) - self._starting) if most else None

    def get(self, host: str | None) -> HostLink | None:
        """A host that has not ended."""
        return None if host is None else self._links.get(host)

    def silence(self, host: str | None) -> str:
        """Return for how long a host has not answered, in words; empty while that is short."""
        link = self.get(host)
        if link is None or not self._watch.is_silent(link):
            return ""
        return f"Host {link.id} has not answered for {link.silent_for:.0f} s."

    async def register(self, host: str, token: str, address: str, pid: int) -> str:
        """A host tells where it is, and is given the secret by which it will know us.

        Raises:
            NotAuthenticated: Its token is not the one it was started with, or was used.
            BadRequest: Its address is none, or without TLS where that is wanted.
        """
        self._check_address(address)
        link = self._links.get(host)
        secret = secrets.token_hex(32)
        is_ours = await self._write(lambda c: store.register(c, host, token, address, secret))
        if not is_ours or link is None:
            raise NotAuthenticated("no host is expected with this token")
        link.address, link.secret = address, secret
        link.registered.set()
        logger.info("host %s is at %s, process %d", host, address, pid)
        return secret

    def _check_address(self, address: str) -> None:
        try:
            where = HostAddress.parse(address)
        except AddressError as error:
            raise BadRequest(str(error)) from None
        if self._settings.host_tls and where.fingerprint is None:
            raise BadRequest(f"host_tls is set, and {address} is without TLS")

    def describe(self) -> list[Host]:
        """The hosts there are, for people."""
        return [
            Host(
                id=link.id,
                launcher=self._launcher.name,
                state=link.state,
                message=self.silence(link.id),
                address=link.address,
                boards=len(link.boards),
                created=datetime.fromtimestamp(link.created, UTC),
            )
            for link in self._links.values()
        ]

    # --- as many as there should be

    def _deal(self) -> None:
        """Gives places to who waits for one, and sees that there are as many hosts as needed."""
        ready = [link for link in self._links.values() if link.takes_boards]
        in_turn = sorted(self._waiting, key=lambda each: self._waiting[each].since) if ready else []
        for future in in_turn:
            if not future.done():
                waiter = self._waiting[future]
                link = self._choose(ready, waiter)
                if link is None:
                    continue
                if waiter.board is not None:
                    self._failures = 0
                    link.boards.add(waiter.board, waiter.data)
                    link.reserved_for = waiter.board if waiter.alone else None
                future.set_result(link)
            del self._waiting[future]
        self._balance()

    def _choose(self, ready: list[HostLink], waiter: _Waiter) -> HostLink | None:
        free = [link for link in ready if link.reserved_for is None]
        if waiter.alone:
            return next((link for link in free if not link.boards), None)
        return self._policy.choose(((link, link.boards) for link in free), waiter.data)

    def _balance(self) -> None:
        """Starts hosts that are needed, ends those that have not been for a while."""
        if self._closing:
            return
        for future in [each for each in self._waiting if each.done()]:
            del self._waiting[future]
        for link in self._links.values():
            if link.draining and not link.boards and not link.ending:
                link.ending = True
                self._run(self._retire(link))
        staying = [link for link in self._links.values() if not link.is_going]
        reserved = sum(link.reserved_for is not None for link in staying)
        idle = [link for link in staying if not link.boards]
        busy = len(staying) - len(idle) - reserved
        alone = sum(each.alone for each in self._waiting.values())
        waiting = len(self._waiting) - alone
        wanted = self._policy.wanted(busy=busy, waiting=waiting, alone=alone, reserved=reserved)
        there = len(idle) + self._starting
        for _ in range(wanted - there):
            self._starting += 1
            self._run(self._start_one())
        # Those on their way go first, then the youngest.
        idle.sort(key=lambda link: (link.is_connected, -link.created))
        self._end_unneeded(idle[: max(0, there - wanted)])

    def _end_unneeded(self, links: list[HostLink]) -> None:
        now, linger = time.monotonic(), self._settings.host_linger
        left = [link.idle_since + linger - now for link in links if link.idle_since + linger > now]
        for link in links:
            if link.idle_since + linger <= now:
                link.ending = True
                self._run(self._retire(link))
        if self._balancing is not None:
            self._balancing.cancel()
            self._balancing = None
        if left:
            loop = asyncio.get_running_loop()
            self._balancing = loop.call_later(min(left), self._balance)

    async def _retire(self, link: HostLink) -> None:
        """Ends a host that is not needed; who watches it sees it go."""
        try:
            if link.launch is not None:
                link.details = await asyncio.shield(link.launch)
            await self._launcher.stop(link.details)
        except LaunchError as error:
            logger.warning("host %s could not be ended: %s", link.id, error)
            await asyncio.sleep(_LONGEST_PAUSE)
            link.ending = False  # it is tried again, or used
            self._balance()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_tell_of_failure)

    # --- starting

    async def _start_one(self) -> None:
        if self._failures:
            await asyncio.sleep(min(0.5 * 2**self._failures, _LONGEST_PAUSE))
        link: HostLink | None = None
        try:
            token = secrets.token_urlsafe(32)
            name = self._launcher.name
            host = await self._write(lambda c: store.new_host(c, name, token))
            assert self._session is not None
            link = self._links[host] = HostLink(host, self._session, created=time.time())
            self._starting -= 1
            start = self._launcher.start(host, self._environment(host, token))
            link.launch = asyncio.ensure_future(start)
            link.details = await asyncio.shield(link.launch)
            await self._write(lambda c: store.keep_details(c, host, link.details))
        except (LaunchError, Problem) as error:
            if link is None:
                self._starting -= 1
            else:
                del self._links[link.id]
                await self._drop(link)
            self._failed(str(error))
            return
        await self._supervise(link)

    async def _drop(self, link: HostLink) -> None:
        """Leaves nothing of a host that cannot be used."""
        with suppress(LaunchError):  # or it is found later
            if link.details:
                await self._launcher.stop(link.details)
        with suppress(Problem):
            await self._write(lambda c: store.note_end(c, link.id, None))

    def _environment(self, host: str, token: str) -> dict[str, str]:
        environment = {
            "TBHUB_HOST_ID": host,
            "TBHUB_HOST_TOKEN": token,
            "TBHUB_HUB_URL": self._hub_url,
            "TBHUB_HOST_LOST_AFTER": str(self._settings.host_lost_after),
            "TBHUB_HOST_TLS": "1" if self._settings.host_tls else "0",
        }
        if self._settings.memory_budget:
            environment["TBHUB_HOST_MEMORY"] = str(self._settings.memory_budget)
        if self._settings.tls_cert is not None:
            environment["TBHUB_HUB_CERT"] = _fingerprint(self._settings.tls_cert)
        return environment

    def _failed(self, why: str) -> None:
        """No host came of it; boards that wait are told when it is likely to stay so."""
        self._failures += 1
        logger.error("no host could be started: %s", why)
        if self._failures >= _MOST_FAILURES:
            waiting, self._waiting = self._waiting, {}
            for each in waiting:
                if not each.done():
                    each.set_exception(NoHostError(f"no host could be started: {why}"))
        elif boards := self._boards_waiting():
            text = f"no host could be started, which is tried again: {why}"
            self._run(self._listener.boards_wait(boards, text))
        self._balance()

    # --- watching

    async def _supervise(self, link: HostLink) -> None:
        """Watches a host from its start to its end."""
        await self._ended(link, await self._watch.until_ended(link))

    async def _tell(self, link: HostLink, text: str) -> None:
        """Who waits for a host is told how far it is."""
        why = f"host {link.id}: {text}" if text else ""
        if why == link.progress:
            return
        link.progress = why
        boards = self._boards_waiting()
        if why and boards:
            with suppress(Problem):  # it is no more than news
                await self._listener.boards_wait(boards, why)

    def _boards_waiting(self) -> list[str]:
        return [each.board for each in self._waiting.values() if each.board is not None]

    async def _take(self, link: HostLink, message: dict[str, Any]) -> None:
        try:
            if "boards" in message:
                link.is_connected = True
                if link.connected_at is None:
                    link.connected_at = time.monotonic()
                await self._listener.host_has(link.id, set(message["boards"]))
                self._deal()
            else:
                await self._listener.board_stands(link.id, message["board"], message["state"])
        except Problem as error:  # the database is away; it will be told again
            logger.warning("news of host %s could not be kept: %s", link.id, error)

    async def _ended(self, link: HostLink, status: Exited) -> None:
        was_needed = not link.ending
        has_failed = was_needed and _ended_early(link, status)
        lines = await self._last_lines(link.details)
        self._links.pop(link.id, None)
        if was_needed:
            logger.error("host %s ended %s", link.id, status.reason)
        else:
            logger.info("host %s was not needed any more", link.id)
        death = Death(link.id, status.code, status.reason, lines, status.cause)
        if was_needed and not has_failed:
            self._failures = 0
        if not has_failed:
            self._balance()  # the next one starts while the boards of this one are seen to
        await _insist(lambda: self._listener.host_died(death))
        await _insist(lambda: self._write(lambda c: store.note_end(c, link.id, status.code)))
        with suppress(LaunchError):  # what the engine still has of it; or that is found later
            await self._launcher.stop(link.details)
        if has_failed:
            last = next((line for line in reversed(lines) if line.strip()), "")
            self._failed(f"it ended {status.reason}. {last}".strip())
        self._balance()

    async def _last_lines(self, details: Any) -> tuple[str, ...]:
        try:
            return tuple(await self._launcher.logs(details, _LAST_LINES))
        except LaunchError as error:
            return (f"(what it printed is not known: {error})",)

    # --- after a restart

    async def _adopt(self, row: Any) -> Death | None:
        """A host that an earlier hub has started; tells how it ended if it has."""
        details = row.details or {"host": row.id}
        if row.launcher != self._launcher.name:
            return await self._disown(row)
        if row.state == "ended":
            return Death(row.id, row.exit_code, "", await self._last_lines(details))
        link = HostLink(row.id, self._link_session, details, row.address, row.secret, row.created)
        status: Status | None = Exited(None, "before it had registered")
        if row.address is not None and row.secret is not None:
            status = await self._watch.poll(link)
        elif row.details:
            # It knows where the earlier hub was, not where we are; it has no boards yet.
            with suppress(LaunchError):  # or it is found later
                await self._launcher.stop(details)
        if isinstance(status, Exited):
            code = status.code
            await self._write(lambda c: store.note_end(c, row.id, code))
            lines = await self._last_lines(details)
            return Death(row.id, code, status.reason, lines, status.cause)
        link.draining = row.state == "draining"
        for board, data in (await self._read(lambda c: store.boards_on(c, row.id))).items():
            link.boards.add(board, data)
        link.registered.set()
        link.connected_at = -_EARLY_SECONDS  # with an earlier hub
        self._links[row.id] = link
        self._run(self._supervise(link))
        return None

    async def _disown(self, row: Any) -> Death:
        """A host of the launcher that the hub had before: it ends, its boards come to ours."""
        if row.address is not None and row.secret is not None:
            link = HostLink(row.id, self._link_session, {}, row.address, row.secret)
            with suppress(HostGoneError, HostRefusedError):
                await link.shutdown()
        await self._write(lambda c: store.note_end(c, row.id, None))
        reason = f"when the hub changed from launcher {row.launcher} to {self._launcher.name}"
        return Death(row.id, None, reason, (), Cause.DRAIN)

    @property
    def _link_session(self) -> aiohttp.ClientSession:
        assert self._session is not None
        return self._session

    async def _reap(self) -> None:
        """Ends what the launcher has of hosts that nobody knows any more."""
        while True:
            await asyncio.sleep(_REAP_SECONDS)
            await self._reap_once()

    async def _reap_once(self) -> None:
        try:
            for host, details in (await self._launcher.find()).items():
                if not await self._is_known(host):
                    logger.warning("host %s belongs to nobody and is ended", host)
                    await self._launcher.stop(details)
        except LaunchError as error:
            self._is_away(str(error))
        except Problem as error:
            logger.warning("hosts that belong to nobody were not looked for: %s", error)

    def _is_away(self, why: str) -> None:
        logger.warning("launcher %s cannot be used now: %s", self._launcher.name, why)

    async def _is_known(self, host: str) -> bool:
        return host in self._links or await self._read(lambda c: store.lives(c, host))

    # --- the database

    async def _read(self, ask: Callable[[Connection], T]) -> T:
        def work() -> T:
            with self._database.read() as connection:
                return ask(connection)

        return await asyncio.to_thread(work)

    async def _write(self, work: Callable[[Connection], T]) -> T:
        def transaction() -> T:
            with self._database.begin() as connection:
                return work(connection)

        return await asyncio.to_thread(transaction)


def _ended_early(link: HostLink, status: Exited) -> bool:
    """Return whether a host ended before it was of use: it never answered, or ended by itself soon
    after, without a board."""
    if link.connected_at is None:
        return True
    lived = time.monotonic() - link.connected_at
    return lived < _EARLY_SECONDS and not link.boards and not status.cause.taken


async def _insist(work: Callable[[], Awaitable[None]]) -> None:
    """Does something that must be done, also if the database is away for a while."""
    pause = 0.1
    while True:
        try:
            await work()
            return
        except Problem as error:
            logger.warning("will be tried again: %s", error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, 5.0)


def _tell_of_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.error("a host is not watched any more", exc_info=task.exception())


def _policy(settings: Settings, *, shares: bool) -> Policy:
    """What is set; where nothing is, boards share a host that is kept, or have one each."""
    per_host, kept = settings.boards_per_host, settings.min_hosts
    return Policy(
        boards_per_host=(0 if shares else 1) if per_host is None else per_host,
        min_hosts=(1 if shares else 0) if kept is None else kept,
        max_hosts=settings.max_hosts,
    )


def _fingerprint(certificate: Path) -> str:
    text = certificate.read_text()
    end = "-----END CERTIFICATE-----"
    first = text[text.index("-----BEGIN CERTIFICATE-----") : text.index(end) + len(end)]
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).hexdigest()
