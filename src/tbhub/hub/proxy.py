"""Requests passed on to the process that serves a board, and its answers passed back, as they come.

The host learns nothing of who asks: no cookie and no token goes through, only the secret by which
it knows the hub. The client learns nothing of the host: redirects are turned into the hub's own
addresses, and a host cannot set cookies. Whoever of the two goes away ends the request of the
other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from tbhub.api.problems import TooLarge, Unavailable
from tbhub.boards.handover import HEADER, Offer
from tbhub.boards.host_address import HostAddress
from tbhub.boards.wsgi import Headers, Message, Receive, Scope, Send
from tbhub.hub import host_tls
from tbhub.hub.answers import SECURITY
from tbhub.hub.handover import Handovers
from tbhub.hub.upstream import Answer, ImpostorError, Upstream, UpstreamError

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_NOT_TO_HOST = _HOP_BY_HOP | {
    b"host",
    b"cookie",
    b"authorization",
    b"expect",
    b"forwarded",
    b"origin",
    b"referer",
}
_NOT_TO_HOST_BEGINNINGS = (b"x-forwarded-", b"x-tbhub-", b"sec-websocket-")
_NOT_TO_CLIENT = _HOP_BY_HOP | {
    b"set-cookie",
    b"server",
    b"date",
    HEADER,
    *(name for name, _ in SECURITY),
}
_CONNECT_SECONDS = 5.0
_FRAMES = (b"content-security-policy", b"frame-ancestors 'self'")
_SILENT = "the process that serves this board does not answer"
_IMPOSTOR = f"the process that serves this board {host_tls.OTHER_CERTIFICATE}"

logger = logging.getLogger("tbhub.proxy")


@dataclass(frozen=True)
class Target:
    """Where a request goes.

    Args:
        address: The host's, ``http://127.0.0.1:4711``; see `HostAddress`.
        root: What the board's paths begin with there: ``/b/<id>/``.
        path: What follows, as the client has written it.
        public: What stands for `root` in the hub's addresses.
        count: Told how many bytes an answer had when it has ended.
        stream: Told +1 when an endless answer begins and -1 when it ends.
        handover: Where the host takes clients' sockets, if it is on this machine.
    """

    address: str
    secret: str
    root: str
    path: str
    public: str
    count: Callable[[int], None]
    stream: Callable[[int], None]
    handover: str | None = None

    def target(self, query: bytes) -> str:
        """What is asked of the host."""
        text = self.root + self.path
        return f"{text}?{query.decode('latin-1')}" if query else text


@dataclass(eq=False)
class Stream:
    """An answer that does not end by itself: the events of an open page.

    Attributes:
        scope: Of the request.
        ended: The hub has ended it.
    """

    scope: Scope
    answer: Answer
    ended: bool = False

    def end(self) -> None:
        """End the answer in good order; a browser then requests it again."""
        self.ended = True
        self.answer.close()


class HostGoneError(Unavailable):
    """The process that serves a board does not answer."""


class Proxy:
    """Connections to hosts."""

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._upstream = Upstream()
        self._handovers = Handovers()
        self._session: aiohttp.ClientSession | None = None
        self._streams: set[Stream] = set()

    @property
    def session(self) -> aiohttp.ClientSession:
        """For websockets; made at first use, in the event loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session

    def end_streams(self) -> None:
        """Ends what would never end by itself; the hub is about to."""
        for each in self.streams:
            each.end()

    @property
    def streams(self) -> list[Stream]:
        """The streams of open pages."""
        return list(self._streams)

    async def close(self) -> None:
        """Closes all connections."""
        self._upstream.close()
        self._handovers.close()
        if self._session is not None:
            await self._session.close()

    # --- requests

    async def forward(self, scope: Scope, receive: Receive, send: Send, target: Target) -> None:
        """Passes a request on, and its answer back.

        Raises:
            HostGoneError: Nobody answers; nothing has been sent yet.
            TooLarge: The body is larger than is taken; nothing has been sent yet.
        """
        client = _Client(receive, self._max_body, scope)
        task = asyncio.current_task()
        assert task is not None
        watch = asyncio.create_task(client.cancel_when_gone(task))
        try:
            await self._exchange(scope, send, target, client)
        except asyncio.CancelledError:
            if not client.gone or task.uncancel():
                raise
        finally:
            watch.cancel()

    async def _exchange(self, scope: Scope, send: Send, target: Target, client: _Client) -> None:
        headers = _to_host(scope, target.secret)
        wire = self._handovers.wire(scope, target.handover)
        if wire is not None:
            headers.append((HEADER, b"1"))
        body = client.body() if client.has_body else None
        asked = target.target(scope["query_string"])
        try:
            answer = await self._upstream.ask(target.address, scope["method"], asked, headers, body)
        except ImpostorError as error:
            logger.error("%s", error)
            raise HostGoneError(_IMPOSTOR) from error
        except UpstreamError as error:
            if client.too_large:
                raise TooLarge(client.too_large) from None
            raise HostGoneError(_SILENT) from error
        back, is_stream = _to_client(answer, target)
        offer = None if wire is None else Offer.found_in(answer.headers)
        if offer is not None:
            back.append((b"content-length", b"%d" % offer.size))
        size = lent = 0
        stream = Stream(scope, answer)
        if is_stream:
            self._streams.add(stream)
            target.stream(+1)
        try:
            await send({"type": "http.response.start", "status": answer.status, "headers": back})
            if wire is not None and offer is not None:
                lent = await self._handovers.lend(wire, target.handover, offer)
            async for piece in answer.pieces():
                size += len(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            if wire is not None and lent and not size:
                wire.sent(lent)
        except UpstreamError:
            # Leaving the answer unfinished tells the client that it broke off.
            if not stream.ended:
                return
        finally:
            if is_stream:
                self._streams.discard(stream)
                target.stream(-1)
            target.count(size or lent)  # how much of what broke off, only the host knows
            answer.close()
        await send({"type": "http.response.body", "body": b""})

    # --- websockets

    async def websocket(self, scope: Scope, receive: Receive, send: Send, target: Target) -> None:
        """Connects the two ends of a websocket.

        Raises:
            HostGoneError: The host does not take it; nothing has been sent yet.
        """
        await receive()  # websocket.connect
        where = HostAddress.parse(target.address)
        url = URL(where.url + target.target(scope["query_string"]), encoded=True)
        headers = [
            (name.decode(), value.decode("latin-1"))
            for name, value in _to_host(scope, target.secret)
        ]
        try:
            upstream = await self.session.ws_connect(
                url,
                headers=CIMultiDict(headers),
                ssl=host_tls.for_aiohttp(where),
                protocols=scope.get("subprotocols", ()),
                autoclose=True,
                autoping=True,
                max_msg_size=self._max_body,
            )
        except aiohttp.ServerFingerprintMismatch as error:
            logger.error("%s %s", where.url, host_tls.OTHER_CERTIFICATE)
            raise HostGoneError(_IMPOSTOR) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise HostGoneError(_SILENT) from error
        target.stream(+1)
        try:
            async with upstream:
                await send({"type": "websocket.accept", "subprotocol": upstream.protocol})
                there = asyncio.create_task(_pump_to_host(receive, upstream))
                back = asyncio.create_task(_pump_to_client(upstream, send, target))
                try:
                    await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in (there, back):
                        each.cancel()
                        with suppress(asyncio.CancelledError, Exception):
                            await each
        finally:
            target.stream(-1)


class _Client:
    """The client's side of a request: its body, and whether it is still there."""

    def __init__(self, receive: Receive, max_body: int, scope: Scope) -> None:
        self._receive = receive
        self._max_body = max_body
        self._all_read = asyncio.Event()
        self.gone = False
        self.too_large = ""
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > max_body:
            raise TooLarge(_too_large(max_body))
        self.has_body = length != b"0" or b"transfer-encoding" in headers
        if not self.has_body:
            self._all_read.set()

    async def body(self) -> AsyncIterator[bytes]:
        size = 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                self.gone = True
                raise UpstreamError("the client has gone")
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self._max_body:
                self.too_large = _too_large(self._max_body)
                raise UpstreamError(self.too_large)
            if chunk:
                yield chunk
            if not message.get("more_body"):
                self._all_read.set()
                return

    async def cancel_when_gone(self, task: asyncio.Task[Any]) -> None:
        await self._all_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        task.cancel()


def _too_large(limit: int) -> str:
    return f"a request may have {limit >> 20} MB"


def _to_host(scope: Scope, secret: str) -> Headers:
    named: list[bytes] = []
    for name, value in scope["headers"]:
        if name == b"connection":
            named = [each.strip().lower() for each in value.split(b",")]
    made = [
        (name, value)
        for name, value in scope["headers"]
        if name not in _NOT_TO_HOST
        and name not in named
        and not name.startswith(_NOT_TO_HOST_BEGINNINGS)
    ]
    made.append((b"authorization", b"Bearer " + secret.encode("ascii")))
    client = scope.get("client")
    # Hosts compress what goes to other machines.
    if client is not None and not client[0].startswith("127.") and client[0] != "::1":
        made.append((b"x-forwarded-for", client[0].encode("latin-1")))
    return made


def _to_client(answer: Answer, target: Target) -> tuple[Headers, bool]:
    headers: Headers = list(SECURITY)
    is_stream = False
    has_policy = False
    for name, value in answer.headers:
        if name in _NOT_TO_CLIENT:
            continue
        if name == b"location":
            value = _rewritten(value, target)
        elif name == b"content-type":
            is_stream = value.startswith(b"text/event-stream")
        elif name == b"content-security-policy":
            has_policy = True
            value += b";frame-ancestors 'self'"
        headers.append((name, value))
    if not has_policy:
        headers.append(_FRAMES)
    return headers, is_stream


def _rewritten(location: bytes, target: Target) -> bytes:
    """A redirect of the host's, as an address of the hub's."""
    own = HostAddress.parse(target.address).url
    path = location.decode("latin-1").removeprefix(own).removeprefix(own[own.index("//") :])
    if path.startswith(target.root):
        return (target.public + path.removeprefix(target.root)).encode("latin-1")
    return location


async def _pump_to_host(receive: Receive, upstream: aiohttp.ClientWebSocketResponse) -> None:
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            await upstream.close(code=message.get("code") or 1000)
            return
        if (text := message.get("text")) is not None:
            await upstream.send_str(text)
        else:
            await upstream.send_bytes(message["bytes"])


async def _pump_to_client(
    upstream: aiohttp.ClientWebSocketResponse, send: Send, target: Target
) -> None:
    async for message in upstream:
        found: Message = {"type": "websocket.send"}
        if message.type is aiohttp.WSMsgType.TEXT:
            found["text"] = message.data
        else:
            found["bytes"] = message.data
        target.count(len(message.data))
        await send(found)
    code = upstream.close_code
    # 1006 says that nothing was said; it cannot be sent.
    await send({"type": "websocket.close", "code": 1011 if code in (None, 1006) else code})
