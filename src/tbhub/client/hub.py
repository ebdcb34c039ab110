"""The hub, as Python sees it: `Hub` waits for answers, `AsyncHub` awaits them.

    from tbhub import Hub

    with Hub() as hub:
        for board in hub.boards().boards:
            print(board.name, board.state, board.url)

Both have the methods of one table, `Methods`. Every call has a timeout; a call is sent again after
a passing failure only if that cannot do anything twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import httpx2

from tbhub.api.models import LogLine
from tbhub.api.problems import NotFound, Unavailable
from tbhub.client import calls
from tbhub.client.calls import Call
from tbhub.client.connection import Connection, find_connection
from tbhub.client.errors import HubUnreachable
from tbhub.client.replies import Lost, Reply, read
from tbhub.client.steps import PASSING, Awaiting, Steps, Waiting, ask, asking, do, do_async
from tbhub.storage.request_log import hide_requests

T = TypeVar("T")

TIMEOUT = 30.0
_CONNECT_TIMEOUT = 5.0
_QUIET = 60.0  # seconds after which a silent stream is asked for anew
_AGAIN = 1.0
_MOST_FAILURES = 30


class Methods:
    """Every call of the API; see `tbhub.client.calls` for what each one takes and answers."""

    version = asking(calls.version)
    me = asking(calls.me)
    status = asking(calls.status)
    login = asking(calls.login)
    logout = asking(calls.logout)
    login_link = asking(calls.login_link)
    hosts = asking(calls.hosts)
    drain_host = asking(calls.drain_host)

    workspaces = asking(calls.workspaces)
    create_workspace = asking(calls.create_workspace)
    change_workspace = asking(calls.change_workspace)
    delete_workspace = asking(calls.delete_workspace)
    members = asking(calls.members)
    set_member = asking(calls.set_member)
    remove_member = asking(calls.remove_member)
    logdirs = asking(calls.logdirs)
    add_logdir = asking(calls.add_logdir)
    remove_logdir = asking(calls.remove_logdir)

    experiments = asking(calls.experiments)
    experiment = asking(calls.experiment)
    change_experiment = asking(calls.change_experiment)
    delete_experiment = asking(calls.delete_experiment)
    runs = asking(calls.runs)
    run = asking(calls.run)
    change_run = asking(calls.change_run)
    create_run = asking(calls.create_run)
    heartbeat = asking(calls.heartbeat)
    finish_run = asking(calls.finish_run)
    find_runs = asking(calls.find_runs)
    run_details = asking(calls.run_details)
    run_log = asking(calls.run_log)
    run_files = asking(calls.run_files)
    delete_runs = asking(calls.delete_runs)

    connections = asking(calls.connections)
    add_connection = asking(calls.add_connection)
    remove_connection = asking(calls.remove_connection)
    test_connection = asking(calls.test_connection)

    boards = asking(calls.boards)
    create_board = asking(calls.create_board)
    find_board = asking(calls.find_board)
    board = asking(calls.board)
    change_board = asking(calls.change_board)
    delete_board = asking(calls.delete_board)
    start_board = asking(calls.start_board)
    stop_board = asking(calls.stop_board)
    kill_board = asking(calls.kill_board)
    restart_board = asking(calls.restart_board)
    add_runs = asking(calls.add_runs)
    remove_runs = asking(calls.remove_runs)
    logs = asking(calls.logs)
    config = asking(calls.config)
    doctor = asking(calls.doctor)
    hosts_doctor = asking(calls.hosts_doctor)
    shares = asking(calls.shares)
    share = asking(calls.share)
    revoke_share = asking(calls.revoke_share)

    users = asking(calls.users)
    create_user = asking(calls.create_user)
    change_user = asking(calls.change_user)
    delete_user = asking(calls.delete_user)
    invite = asking(calls.invite)
    revoke_invitation = asking(calls.revoke_invitation)
    tokens = asking(calls.tokens)
    create_token = asking(calls.create_token)
    revoke_token = asking(calls.revoke_token)


class Hub(Methods, Waiting):
    """A hub; every method waits for its answer.

    Args:
        url: Its address. Without one: ``TBHUB_URL``, what ``tbhub login`` has stored, or the hub
            that runs on this machine.
        token: What shows who asks; without one: ``TBHUB_TOKEN``, or what belongs to the address.
        home: The home of a hub on this machine.
        timeout: Seconds an answer may take.
        keep_alive: Keep connections open between calls, until `close`.

    Raises:
        HubUnreachable: No hub is known; by methods, too: none answers.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        home: str | os.PathLike[str] | None = None,
        timeout: float = TIMEOUT,
        keep_alive: bool = True,
    ) -> None:
        self.connection = find_connection(url, token, home)
        self._client = httpx2.Client(**_settings(self.connection, timeout, keep_alive))

    def do(self, steps: Steps[T]) -> T:
        """Does some steps."""
        return do(steps, self._send)

    def follow_logs(
        self,
        board: str,
        *,
        tail: int | None = None,
        since: datetime | None = None,
        after: int | None = None,
    ) -> Iterator[LogLine]:
        """The lines of a board's log as they come, until the board has ended."""
        follow = _Following(board, tail, since, after, self.connection)
        while True:
            call = follow.call()
            try:
                with self._client.stream(**_request(call), timeout=_stream_timeout()) as response:
                    if response.status_code != 200:
                        follow.refused(response.status_code, response.read())
                    for line in response.iter_lines():
                        if found := follow.line(line):
                            yield found
                if self.do(follow.is_over()):
                    return
            except _Passing:
                pass
            except httpx2.TransportError as error:
                follow.lost(_lost(error, self.connection))
            time.sleep(_AGAIN)

    def close(self) -> None:
        """Closes its connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, call: Call[Any]) -> Reply | Lost:
        try:
            response = self._client.request(**_request(call))
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            return _lost(error, self.connection)
        return _reply(response.status_code, response.content, self.connection)


class AsyncHub(Methods, Awaiting):
    """The same for asyncio: every method is a coroutine.

    Args:
        url: See `Hub`.
        token: See `Hub`.
        home: See `Hub`.
        timeout: See `Hub`.
        keep_alive: See `Hub`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        home: str | os.PathLike[str] | None = None,
        timeout: float = TIMEOUT,
        keep_alive: bool = True,
    ) -> None:
        self.connection = find_connection(url, token, home)
        self._client = httpx2.AsyncClient(**_settings(self.connection, timeout, keep_alive))

    async def do(self, steps: Steps[T]) -> T:
        """Does some steps."""
        return await do_async(steps, self._send)

    async def follow_logs(
        self,
        board: str,
        *,
        tail: int | None = None,
        since: datetime | None = None,
        after: int | None = None,
    ) -> AsyncIterator[LogLine]:
        """The lines of a board's log as they come, until the board has ended."""
        import asyncio

        follow = _Following(board, tail, since, after, self.connection)
        while True:
            call = follow.call()
            try:
                async with self._client.stream(
                    **_request(call), timeout=_stream_timeout()
                ) as response:
                    if response.status_code != 200:
                        follow.refused(response.status_code, await response.aread())
                    async for line in response.aiter_lines():
                        if found := follow.line(line):
                            yield found
                if await self.do(follow.is_over()):
                    return
            except _Passing:
                pass
            except httpx2.TransportError as error:
                follow.lost(_lost(error, self.connection))
            await asyncio.sleep(_AGAIN)

    async def close(self) -> None:
        """Closes its connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _send(self, call: Call[Any]) -> Reply | Lost:
        try:
            response = await self._client.request(**_request(call))
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            return _lost(error, self.connection)
        return _reply(response.status_code, response.content, self.connection)


class _Passing(Exception):  # noqa: N818
    """A stream could not be had just now."""


class _Following:
    """How far a log has been followed; a stream that breaks off is taken up after its last line."""

    def __init__(
        self,
        board: str,
        tail: int | None,
        since: datetime | None,
        after: int | None,
        connection: Connection,
    ) -> None:
        self._board = board
        self._tail = tail
        self._since = since
        self._after = after
        self._connection = connection
        self._failures = 0

    def call(self) -> Call[LogLine]:
        if self._after is not None:
            return calls.follow_logs(self._board, after=self._after)
        return calls.follow_logs(self._board, tail=self._tail, since=self._since)

    def line(self, text: str) -> LogLine | None:
        """A line of the stream; empty ones only say that the hub is there."""
        self._failures = 0
        if not text.strip():
            return None
        found = read(self.call(), _reply(200, text.encode(), self._connection))
        self._after = found.id
        return found

    def refused(self, status: int, body: bytes) -> NoReturn:
        """An answer that is no stream: what the hub says, unless it is being restarted."""
        if status not in PASSING:
            read(self.call(), _reply(status, body, self._connection))
        self.lost(Lost(f"{self._connection.url} answers {status}", sent=True))
        raise _Passing

    def lost(self, lost: Lost) -> None:
        """Goes on a while: hubs are restarted."""
        self._failures += 1
        if self._failures > _MOST_FAILURES or (self._after is None and not lost.sent):
            raise HubUnreachable(lost.text)

    def is_over(self) -> Steps[bool]:
        """Whether the stream ended because the board has, and not because the hub stops."""
        try:
            board = yield from ask(calls.board(self._board))
        except NotFound:
            return True
        except (HubUnreachable, Unavailable) as error:
            self.lost(Lost(str(error), sent=True))
            return False
        return board.ended is not None


def _settings(connection: Connection, timeout: float, keep_alive: bool) -> dict[str, Any]:
    """Of both kinds of client."""
    headers = {"accept": "application/json", "user-agent": "tbhub"}
    if token := _checked(connection):
        headers["authorization"] = f"Bearer {token}"
    hide_requests(connection.url)
    return {
        "base_url": connection.url + "/",
        "headers": headers,
        "timeout": httpx2.Timeout(timeout, connect=min(timeout, _CONNECT_TIMEOUT)),
        # Reading the certificates of the world takes a tenth of a second; SSL_CERT_FILE counts.
        "verify": httpx2.create_ssl_context() if connection.is_encrypted else False,
        # A proxy for the world is none for this machine.
        "trust_env": not connection.is_local,
        "limits": httpx2.Limits(
            max_connections=100, max_keepalive_connections=20 if keep_alive else 0
        ),
    }


def _checked(connection: Connection) -> str:
    """Return the token without the blanks and line ends that are copied along with one.

    Raises:
        ValueError: It cannot be a token. The text names where it is from and does not contain it.
    """
    token = (connection.token or "").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(connection.token_origin.malformed())
    return token


def _reply(status: int, body: bytes, connection: Connection) -> Reply:
    rejected = connection.token_origin.rejected(connection.url) if connection.token else ""
    return Reply(status, body, connection.url, rejected)


def _stream_timeout() -> httpx2.Timeout:
    return httpx2.Timeout(_CONNECT_TIMEOUT, read=_QUIET)


def _request(call: Call[Any]) -> dict[str, Any]:
    request: dict[str, Any] = {"method": call.method, "url": f"api/v1/{call.path}"}
    if call.params:
        request["params"] = dict(call.params)
    if call.json is not None:
        request["json"] = call.json
    return request


def _lost(error: Exception, connection: Connection) -> Lost:
    """Why there is no answer, and what to do."""
    where = f"{connection.url} (from {connection.origin})"
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        why = str(error) or "no connection in time"
        if "CERTIFICATE" in why:
            advice = "SSL_CERT_FILE=FILE names an authority to trust"
            return Lost(f"the certificate of {where} is not trusted: {why}; {advice}", sent=False)
        advice = "`tbhub up` starts it" if connection.home else "is it running?"
        return Lost(f"no hub answers at {where}: {why}; {advice}", sent=False)
    if isinstance(error, httpx2.TimeoutException):
        return Lost(f"the hub at {where} does not answer in time; `tbhub doctor` looks", sent=True)
    why = str(error) or type(error).__name__
    return Lost(f"the hub at {where} broke off: {why}", sent=True)
