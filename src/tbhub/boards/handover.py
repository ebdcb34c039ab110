"""Large answers that a host writes to the client itself, past its hub.

Every byte that a third process passes on is copied twice more, and on a small machine that takes as
long as all the rest. A hub on the same machine can do better: with its request it says so (in
`HEADER`), is answered with the head and a ticket, sends the head to the client, and then sends the
ticket and the client's socket itself, in one datagram to a socket in the file system.

The body of the answer to the hub is what of it has not been written to the client: nothing at its
end if the client has got it; all of it if nobody came with the ticket in time. So the exchange with
the hub is the life of a handover. Whoever ends it, by closing its connection or by dying, ends the
other; what was begun is never taken for whole, and nothing is kept.

Only who knows a ticket can hand over, and tickets are told to the hub alone. Each is for one
answer, once.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from tbhub.boards.wsgi import Headers, Message, Receive, Scope, Send

HEADER = b"x-tbhub-handover"
"""Of a request: the hub can hand over. Of an answer: what it may hand over for."""
_LEAST = 1 << 18  # bytes for which it is worth the way
_MOST_OFFERS = 64  # that nobody has come for yet
_PATIENCE = 10.0  # seconds for the hub, however busy, to come with the client's socket
_STALLED = 120.0  # seconds without a byte that the client takes
_TICKET = 32  # letters


@dataclass(frozen=True)
class Offer:
    """An answer of so many bytes, for whoever has its ticket."""

    ticket: bytes
    size: int

    @classmethod
    def found_in(cls, headers: Headers) -> Self | None:
        """What an answer offers."""
        for name, value in headers:
            if name == HEADER:
                ticket, _, size = value.partition(b" ")
                return cls(ticket, int(size))
        return None

    def put_into(self, headers: Headers) -> Headers:
        """Headers of an answer that is offered: its own length may be none."""
        kept = [each for each in headers if each[0] != b"content-length"]
        return [*kept, (HEADER, b"%b %d" % (self.ticket, self.size))]


class Handovers:
    """The socket where clients' sockets come in, and the answers that wait for them.

    Belongs to the running event loop.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._offers: dict[bytes, asyncio.Future[socket.socket]] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.bind(path)
            os.chmod(path, 0o600)
        except BaseException:
            self._socket.close()
            raise
        asyncio.get_running_loop().add_reader(self._socket, self._take)

    def close(self) -> None:
        """Takes no more."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        with suppress(OSError):
            os.unlink(self._path)

    def _take(self) -> None:
        """A ticket has come, with the socket of a client."""
        with suppress(BlockingIOError):
            ticket, descriptors, _, _ = socket.recv_fds(
                self._socket, _TICKET + 1, 1, socket.MSG_CMSG_CLOEXEC
            )
            waiting = self._offers.pop(ticket, None)
            for each in descriptors:
                if waiting is not None and not waiting.done():
                    waiting.set_result(socket.socket(fileno=each))
                else:
                    os.close(each)

    def sender(self, scope: Scope, receive: Receive, send: Send) -> Send:
        """`send` for a request of the hub's: whole large answers are offered to it if it can."""
        if all(name != HEADER for name, _ in scope["headers"]):
            return send
        head: Message | None = None

        async def send_or_offer(message: Message) -> None:
            nonlocal head
            if message["type"] == "http.response.start" and _size(message["headers"]) >= _LEAST:
                head = message  # what comes next shows whether the body is all there
                return
            if head is not None:
                begun, head = head, None
                is_whole = len(message["body"]) == _size(begun["headers"])
                if is_whole and len(self._offers) < _MOST_OFFERS:
                    await self._offer(begun, message["body"], receive, send)
                    return
                await send(begun)
            await send(message)

        return send_or_offer

    async def _offer(self, head: Message, body: bytes, receive: Receive, send: Send) -> None:
        offer = Offer(secrets.token_hex(_TICKET // 2).encode(), len(body))
        taken = asyncio.get_running_loop().create_future()
        self._offers[offer.ticket] = taken
        gone = asyncio.create_task(_until_gone(receive))
        writing = asyncio.create_task(_write(taken, body))
        try:
            await send({**head, "headers": offer.put_into(head["headers"])})
            await asyncio.wait({gone, writing}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                await send({"type": "http.response.body", "body": await writing})
        except OSError:
            # The client has gone, or takes nothing. The hub will see the one by itself; leaving
            # the answer unfinished tells it the other.
            await asyncio.wait({gone}, timeout=_PATIENCE)
        finally:
            self._offers.pop(offer.ticket, None)
            for each in (gone, writing):
                each.cancel()
            await asyncio.gather(gone, writing, return_exceptions=True)
            if taken.done() and not taken.cancelled():
                taken.result().close()


async def _write(taken: asyncio.Future[socket.socket], body: bytes) -> bytes:
    """Writes a body to the client; what is left to be sent by way of the hub."""
    try:
        async with asyncio.timeout(_PATIENCE):
            client = await taken
    except TimeoutError:
        return body
    left = memoryview(body)
    with client:  # it is the hub's again before the hub is told
        client.setblocking(False)
        while left:
            try:
                left = left[client.send(left) :]
            except BlockingIOError:
                async with asyncio.timeout(_STALLED):
                    await _until_writable(client)
    return b""


async def _until_writable(client: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    writable = asyncio.Event()
    loop.add_writer(client, writable.set)
    try:
        await writable.wait()
    finally:
        loop.remove_writer(client)


def _size(headers: Headers) -> int:
    return next((int(value) for name, value in headers if name == b"content-length"), 0)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
