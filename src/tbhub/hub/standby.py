"""A hub that stands by: it passes connections on to the one that leads, until it leads itself.

What it passes on are bytes. It need not understand requests, so streams, websockets and TLS go
through as they are, and a load balancer in front may ask any of the hubs.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress

from tbhub.api.problems import Unavailable
from tbhub.hub.answers import problem
from tbhub.hub.lease import Lease

_LOOK_SECONDS = 0.25
_GRACE = 0.75  # seconds in which a hub that has lost the lease sees it, and ends
_CONNECT_SECONDS = 2.0
_PIECE = 1 << 18
logger = logging.getLogger("tbhub.hub")


async def stand_by(lease: Lease, listening: socket.socket) -> None:
    """Passes on what comes in until the lease is ours; then nothing is being passed on any more."""
    relay = Relay()
    server = await asyncio.start_server(relay.accept, sock=listening.dup())
    try:
        while not await _take(lease, relay):
            await asyncio.sleep(_LOOK_SECONDS)
        if relay.stood_by:
            await asyncio.sleep(_GRACE)
    finally:
        server.close()
        await relay.close()


async def _take(lease: Lease, relay: Relay) -> bool:
    """Whether it is ours; if not, the relay knows whose."""
    try:
        if await lease.take():
            return True
        relay.lead_to(await lease.leader())
    except Unavailable as error:
        if relay.leader is not None or not relay.stood_by:
            logger.warning("standing by, but %s", error)
        relay.lead_to(None)
    return False


class Relay:
    """Connections that are passed on.

    Attributes:
        leader: Where to; ``host:port``, or none if nobody leads.
        stood_by: Whether another hub has led, or may have.
    """

    def __init__(self) -> None:
        self.leader: str | None = None
        self.stood_by = False
        self._tasks: set[asyncio.Task[None]] = set()

    def lead_to(self, leader: str | None) -> None:
        """Another leads now. What goes to the one before ends with it."""
        if leader is not None and leader != self.leader:
            logger.info("standing by: the hub at %s leads", leader)
        self.leader = leader
        self.stood_by = True

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A client has connected."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()  # we lead now: it will ask again
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            host, _, port = (self.leader or "").rpartition(":")
            async with asyncio.timeout(_CONNECT_SECONDS):
                there = await asyncio.open_connection(host.strip("[]"), int(port))
        except (OSError, ValueError, TimeoutError):
            writer.write(_nobody())
            await writer.drain()
            return
        to_leader = asyncio.create_task(_pump(reader, there[1]))
        to_client = asyncio.create_task(_pump(there[0], writer))
        try:
            await asyncio.wait((to_leader, to_client), return_when=asyncio.FIRST_COMPLETED)
            if to_leader.done() and to_leader.exception() is None:
                await to_client  # the client has said all, and waits for an answer
        finally:
            for each in (to_leader, to_client):
                each.cancel()
            await asyncio.gather(to_leader, to_client, return_exceptions=True)
            there[1].close()

    async def close(self) -> None:
        """Ends what is being passed on."""
        for each in list(self._tasks):
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def _nobody() -> bytes:
    """What is answered while no hub leads; whoever speaks TLS sees a connection that breaks off."""
    found = Unavailable("no hub leads just now; another will in a second", retry_after=0)
    answer = problem(found, (b"connection", b"close"))
    head = [b"HTTP/1.1 503 Service Unavailable", *(b"%b: %b" % each for each in answer.headers)]
    return b"\r\n".join([*head, b"", answer.body])
