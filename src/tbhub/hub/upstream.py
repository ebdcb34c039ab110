"""Requests to hosts, with as little as possible between their sockets and ours.

What a host sends is handed on in the pieces in which it was received: nothing is parsed but the
head, nothing is put together or taken apart. aiohttp's client copies an answer three times more,
which for charts of 7 MB took twice as long as all the rest.

A connection has one request at a time and is used again. What is not read is not received: a client
that reads slowly slows its host down, and takes no memory here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any, cast
from urllib.parse import urlsplit

import httptools

from tbhub.boards.host_address import HostAddress
from tbhub.boards.wsgi import Headers
from tbhub.errors import TbhubError
from tbhub.hub import host_tls

_CONNECT_SECONDS = 5.0
# Shorter than the time after which a host closes a connection that is not used.
_IDLE_SECONDS = 30.0
# Few enough to stay in the processor's cache between being received and sent.
_MOST_WAITING, _FEW_WAITING = 1 << 18, 1 << 17  # bytes received and not yet taken
_MOST_HEAD = 1 << 16


class UpstreamError(TbhubError, ConnectionError):
    """A host does not answer, or stopped in the middle."""


class ImpostorError(UpstreamError):
    """Somebody else answers where a host should be."""


class Answer:
    """The answer of a host: its head is there, its body comes."""

    def __init__(self, status: int, headers: Headers, connection: _Connection) -> None:
        self.status = status
        self.headers = headers
        self._connection = connection

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The body, as it comes.

        Raises:
            UpstreamError: It broke off.
        """
        while piece := await self._connection.next_piece():
            yield piece

    def close(self) -> None:
        """Ends the exchange; a connection with nothing left on it is kept."""
        self._connection.release()


class Upstream:
    """Connections to all hosts. Belongs to one event loop."""

    def __init__(self) -> None:
        self._idle: dict[str, list[_Connection]] = {}
        self._tls = host_tls.context()

    async def ask(
        self,
        address: str,
        method: str,
        target: str,
        headers: Headers,
        body: AsyncIterator[bytes] | None = None,
    ) -> Answer:
        """Sends a request and waits for the head of its answer.

        A body has its length among the headers, or is sent in chunks.

        Raises:
            ImpostorError: Another answers; it has been told nothing.
            UpstreamError: The host does not answer.
        """
        while True:
            idle = self._idle.get(address)
            was_used = bool(idle)
            connection = idle.pop() if idle else await self._connect(address)
            try:
                return await connection.ask(method, target, headers, body)
            except UpstreamError:
                # The host may just have closed a connection that was long unused.
                if body is not None or not was_used:
                    raise
            except BaseException:
                connection.abort()
                raise

    async def _connect(self, address: str) -> _Connection:
        where = HostAddress.parse(address)
        parts = urlsplit(where.url)
        loop = asyncio.get_running_loop()
        is_secure = where.fingerprint is not None
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                transport, connection = await loop.create_connection(
                    lambda: _Connection(self._idle.setdefault(address, []), parts.netloc),
                    parts.hostname or "",
                    parts.port or (443 if is_secure else 80),
                    ssl=self._tls if is_secure else None,
                )
        except (OSError, TimeoutError) as error:
            raise UpstreamError(f"{where.url} cannot be reached: {error}") from error
        if where.fingerprint is not None and not host_tls.is_host(transport, where.fingerprint):
            transport.abort()
            raise ImpostorError(f"{where.url} {host_tls.OTHER_CERTIFICATE}")
        return connection

    def close(self) -> None:
        """Closes the connections that are not in use."""
        for connections in self._idle.values():
            for each in list(connections):
                each.abort()


class _Connection(asyncio.Protocol):
    """One connection, and the exchange that is under way on it."""

    def __init__(self, idle: list[_Connection], authority: str) -> None:
        self._idle = idle
        self._authority = authority.encode("ascii")
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._reset(is_head=False)

    def _reset(self, *, is_head: bool) -> None:
        self._is_head = is_head
        # Typed as Any: httptools has no complete stubs for what its parsers call.
        self._parser: Any = httptools.HttpResponseParser(self)
        self._headers: Headers = []
        self._head_size = 0
        self._left: int | None = None  # bytes of a body whose length is known
        self._is_chunked = False
        self._keeps_alive = True
        self._pieces: deque[bytes] = deque()
        self._waiting_size = 0
        self._is_paused = False
        self._has_head = False
        self._is_complete = False
        self._lost: UpstreamError | None = None
        self._news: asyncio.Future[None] | None = None
        self._sending: asyncio.Task[None] | None = None

    # --- what the hub does

    async def ask(
        self, method: str, target: str, headers: Headers, body: AsyncIterator[bytes] | None
    ) -> Answer:
        if self._timer is not None:
            self._timer.cancel()
        self._reset(is_head=method == "HEAD")
        if self._transport is None or self._transport.is_closing():
            raise UpstreamError("the host has closed the connection")
        self._transport.write(self._request_head(method, target, headers, body is not None))
        if body is not None:
            self._sending = asyncio.create_task(self._send(body, _has_length(headers)))
            self._sending.add_done_callback(self._sent)
        try:
            while not self._has_head:
                await self._until_news()
        except BaseException:
            self.abort()
            raise
        return Answer(self._parser.get_status_code(), self._headers, self)

    def _request_head(self, method: str, target: str, headers: Headers, has_body: bool) -> bytes:
        lines = [
            f"{method} {target} HTTP/1.1\r\n".encode("latin-1"),
            b"host: " + self._authority + b"\r\n",
        ]
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
        if has_body and not _has_length(headers):
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    async def _send(self, body: AsyncIterator[bytes], has_length: bool) -> None:
        async for piece in body:
            await self._can_write.wait()
            if self._transport is None or self._transport.is_closing():
                return
            if has_length:
                self._transport.write(piece)
            elif piece:
                self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if not has_length and self._transport is not None:
            self._transport.write(b"0\r\n\r\n")

    async def next_piece(self) -> bytes:
        """The next piece of the body; empty at its end."""
        while not self._pieces:
            if self._is_complete:
                return b""
            await self._until_news()
        piece = self._pieces.popleft()
        self._waiting_size -= len(piece)
        if self._is_paused and self._waiting_size < _FEW_WAITING:
            self._is_paused = False
            assert self._transport is not None
            self._transport.resume_reading()
        return piece

    def _sent(self, sending: asyncio.Task[None]) -> None:
        """A body that cannot be had ends the exchange; the host must not take it for whole."""
        if not sending.cancelled() and (error := sending.exception()) is not None:
            self._fail(str(error))

    async def _until_news(self) -> None:
        if self._lost is not None:
            raise self._lost
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    def release(self) -> None:
        """The exchange is over: the connection is kept if nothing is left on it."""
        is_over = self._is_complete and not self._pieces and self._lost is None
        has_sent = self._sending is None or self._sending.done()
        if not (is_over and has_sent and self._keeps_alive):
            self.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self.abort)
        self._idle.append(self)

    def abort(self) -> None:
        """Closes the connection, whatever is on it."""
        with suppress(ValueError):
            self._idle.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()
        if self._transport is not None:
            self._transport.abort()

    # --- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._left is not None and not self._is_complete:
            self._take(data)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"the host does not answer in HTTP: {error}")
            return
        if not self._has_head:
            self._head_size += len(data)
            if self._head_size > _MOST_HEAD:
                self._fail("the head of the host's answer is too long")

    def eof_received(self) -> None:
        if self._has_head and self._left is None and not self._is_chunked:
            self._keeps_alive = False
            self._complete()  # an answer that ends with its connection

    def connection_lost(self, error: Exception | None) -> None:
        self._can_write.set()
        self._transport = None
        if not self._is_complete:
            self._fail(f"the host has closed the connection: {error}" if error else "it has gone")
        with suppress(ValueError):
            self._idle.remove(self)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    # --- what the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200:
            self._headers = []
            return
        self._keeps_alive = self._parser.get_http_version() == "1.1"
        length = None
        for name, value in self._headers:
            if name == b"connection" and b"close" in value.lower():
                self._keeps_alive = False
            elif name == b"transfer-encoding":
                self._is_chunked = True
            elif name == b"content-length":
                length = int(value)
        self._has_head = True
        if self._is_head or status in (204, 304):
            # The parser does not know; what it would wait for does not come.
            self._left = 0
            self._complete()
        elif length is not None and not self._is_chunked:
            self._left = length
            if length == 0:
                self._complete()
        self._wake()

    def on_body(self, body: bytes) -> None:
        if self._left is None:
            self._put(body)
        else:
            self._take(body)

    def on_message_complete(self) -> None:
        if self._has_head:
            self._complete()

    # --- pieces

    def _take(self, data: bytes) -> None:
        """A part of a body whose length is known."""
        assert self._left is not None
        if len(data) > self._left:
            self._fail("the host's answer is longer than it said")
            return
        self._left -= len(data)
        self._put(data)
        if self._left == 0:
            self._complete()

    def _put(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._waiting_size += len(piece)
        if self._waiting_size > _MOST_WAITING and not self._is_paused:
            self._is_paused = True
            if self._transport is not None:
                self._transport.pause_reading()
        self._wake()

    def _complete(self) -> None:
        self._is_complete = True
        self._wake()

    def _fail(self, text: str) -> None:
        self._lost = UpstreamError(text)
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


def _has_length(headers: Headers) -> bool:
    return any(name == b"content-length" for name, _ in headers)
