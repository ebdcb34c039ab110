"""The hub's end of a host: what it is asked, and the one stream of news it sends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp
import orjson

from tbhub.boards.host_address import HostAddress
from tbhub.errors import TbhubError
from tbhub.hub import host_tls
from tbhub.hub.placement import Load
from tbhub.launchers.base import Details

# A host pings every 20 s; one that says nothing for longer is not well.
_SILENCE = 50.0
_QUICK = aiohttp.ClientTimeout(total=10, sock_connect=5)
_CHECK = aiohttp.ClientTimeout(total=30, sock_connect=5)  # TensorBoard may have to be imported
_THOROUGH = aiohttp.ClientTimeout(total=300, sock_connect=5)  # a board of many runs is listed
_STREAM = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=_SILENCE)
_MAX_LINE = 64 << 20


class HostGoneError(TbhubError):
    """A host does not answer. It may be dying; its supervisor will know."""


class HostImpostorError(HostGoneError):
    """Somebody else answers where a host should be; they have been told nothing."""


class HostRefusedError(TbhubError):
    """A host does not do what was asked, and says why."""


@dataclass(eq=False)
class HostLink:
    """A host that has not ended, as far as is known.

    Attributes:
        address: Where it is, see `HostAddress`; none before it has registered.
        secret: What it knows us by.
        registered: Set once it has been.
        is_connected: Whether its stream of news is open.
        connected_at: When it was first, on the monotonic clock; none: it never was.
        launch: The start of it, until its details are known and after.
        boards: Those that have a place on it, and what they show.
        progress: How far its start is, as whoever waits is told.
        reserved_for: The one board that may be placed on it; none: any board.
        draining: Somebody wants it to end: it takes no board, and those it has go elsewhere.
        ending: It is not needed any more, and is being ended.
        idle_since: When it had its last board, on the monotonic clock; else when it was made.
        silent_for: Seconds for which it has not answered, counted by `HostWatch`.
    """

    id: str
    session: aiohttp.ClientSession
    details: Details = field(default_factory=dict)
    address: str | None = None
    secret: str | None = None
    created: float = 0.0
    registered: asyncio.Event = field(default_factory=asyncio.Event)
    is_connected: bool = False
    connected_at: float | None = None
    launch: asyncio.Future[Details] | None = None
    boards: Load = field(default_factory=Load)
    progress: str = ""
    reserved_for: str | None = None
    draining: bool = False
    ending: bool = False
    idle_since: float = field(default_factory=time.monotonic)
    silent_for: float = 0.0

    @property
    def takes_boards(self) -> bool:
        """Whether boards can be given to it now."""
        return self.is_connected and not self.is_going

    @property
    def is_going(self) -> bool:
        """Whether it will soon be no more."""
        return self.draining or self.ending

    @property
    def state(self) -> Literal["starting", "running", "draining"]:
        """In a word, for people."""
        if self.draining:
            return "draining"
        return "running" if self.is_connected else "starting"

    @property
    def handover(self) -> str | None:
        """Where it takes clients' sockets, if it is on this machine."""
        found: str | None = self.details.get("handover")
        return found

    async def put(self, board_id: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Makes a board on it what the payload says; how the board stands then."""
        return await self._ask("PUT", f"boards/{board_id}", payload, _THOROUGH)

    async def get(self, board_id: str) -> dict[str, Any]:
        """How a board stands."""
        return await self._ask("GET", f"boards/{board_id}")

    async def delete(self, board_id: str) -> None:
        """Takes a board from it; one that is not there is no matter."""
        await self._ask("DELETE", f"boards/{board_id}", timeout=_QUICK, ok=(200, 404))

    async def health(self, timeout: float | None = None) -> dict[str, Any]:
        """Return how the host is.

        Args:
            timeout: Seconds; none: as for other quick requests.
        """
        limit = _QUICK if timeout is None else aiohttp.ClientTimeout(timeout, sock_connect=5)
        found = await self._ask("GET", "health", timeout=limit)
        if self.is_connected:  # a host without its stream is not well, whatever it answers
            self.silent_for = 0.0
        return found

    async def check(self, board_id: str | None = None) -> dict[str, Any]:
        """Return what the host sees: its TensorBoard and, of a board, the sources."""
        path = "checks" if board_id is None else f"checks/{board_id}"
        return await self._ask("GET", path, timeout=_CHECK)

    async def shutdown(self) -> None:
        """Tells the host to end."""
        await self._ask("POST", "shutdown")

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout: aiohttp.ClientTimeout = _QUICK,
        ok: tuple[int, ...] = (200,),
    ) -> dict[str, Any]:
        data = None if body is None else orjson.dumps(body)
        try:
            async with self.session.request(
                method,
                self._url(path),
                data=data,
                headers=self._headers,
                timeout=timeout,
                ssl=self._ssl,
            ) as response:
                content = await response.read()
        except aiohttp.ServerFingerprintMismatch as error:
            raise HostImpostorError(f"host {self.id} {host_tls.OTHER_CERTIFICATE}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = str(error) or f"nothing came within {timeout.total:g} s"
            raise HostGoneError(f"host {self.id} does not answer: {why}") from error
        try:
            answer: dict[str, Any] = orjson.loads(content)
        except ValueError:
            answer = {}
        if response.status == 503:
            raise HostGoneError(f"host {self.id} is ending")
        if response.status not in ok:
            text = answer.get("error") or f"host {self.id} answered {response.status}"
            raise HostRefusedError(text)
        return answer

    async def news(self) -> AsyncIterator[dict[str, Any]]:
        """What it tells, until the stream ends or nothing has been heard for long."""
        try:
            async with self.session.get(
                self._url("events"), headers=self._headers, timeout=_STREAM, ssl=self._ssl
            ) as response:
                if response.status != 200:
                    raise HostGoneError(f"host {self.id} answered {response.status}")
                rest = b""
                async for chunk in response.content.iter_any():
                    self.silent_for = 0.0
                    *messages, rest = (rest + chunk).split(b"\n\n")
                    if len(rest) > _MAX_LINE:
                        raise HostGoneError(f"host {self.id} sends what cannot be understood")
                    for message in messages:
                        if message.startswith(b"data: "):
                            yield orjson.loads(message[6:])
        except aiohttp.ServerFingerprintMismatch as error:
            raise HostImpostorError(f"host {self.id} {host_tls.OTHER_CERTIFICATE}") from error
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise HostGoneError(f"host {self.id} does not answer: {error}") from error

    def _url(self, path: str) -> str:
        return f"{self._where.url}/control/{path}"

    @property
    def _where(self) -> HostAddress:
        if self.address is None:
            raise HostGoneError(f"host {self.id} has not registered")
        return HostAddress.parse(self.address)

    @property
    def _ssl(self) -> aiohttp.Fingerprint | bool:
        return host_tls.for_aiohttp(self._where)

    @property
    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secret}"}
