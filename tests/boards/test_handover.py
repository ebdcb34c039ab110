"""Answers written to a client whose socket was handed over; and what else can become of them."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.conducted import running
from tbhub.boards import handover
from tbhub.boards.handover import HEADER, Handovers, Offer
from tbhub.boards.wsgi import Headers, Response

BODY = bytes(range(256)) * 32768  # 8 MB: more than the system keeps of what is not read


class Exchange:
    """A request of the hub's, and how it is answered."""

    def __init__(self, path: Path, handovers: Handovers, *, can_lend: bool = True) -> None:
        self.path = path
        self.handovers = handovers
        self.scope = {"headers": [(HEADER, b"1")] if can_lend else []}
        self.sent: list[Any] = []
        self.news = asyncio.Event()
        self.gone = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        self.news.set()

    async def answer(self, body: bytes = BODY, headers: Headers | None = None) -> None:
        if headers is None:
            headers = [(b"content-length", b"%d" % len(body)), (b"x-kept", b"yes")]
        send = self.handovers.sender(self.scope, self.receive, self.send)
        await Response(200, headers, body).send(send)

    async def offer(self) -> Offer:
        await self.news.wait()
        found = Offer.found_in(self.sent[0]["headers"])
        assert found is not None
        return found

    def lend(self, client: socket.socket, ticket: bytes) -> None:
        """What the hub does."""
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", client.fileno()))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendmsg([ticket], [rights], 0, str(self.path))
        client.close()

    @property
    def bodies(self) -> list[bytes]:
        return [each["body"] for each in self.sent[1:]]


@contextmanager
def exchange(where: Path, **options: Any) -> Iterator[Exchange]:
    path = where / "host.sock"
    made = Exchange(path, Handovers(str(path)), **options)
    gc.collect()  # what earlier tests have left is closed now, and not while this one runs
    before = set(os.listdir("/proc/self/fd"))
    try:
        yield made
        assert not made.handovers._offers
        assert set(os.listdir("/proc/self/fd")) <= before  # nothing is held of any client
    finally:
        made.handovers.close()
    assert not made.path.exists()


async def all_of(client: socket.socket) -> bytes:
    """What a client gets, to the end of its connection."""
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    pieces = []
    while piece := await loop.sock_recv(client, 1 << 20):
        pieces.append(piece)
    client.close()
    return b"".join(pieces)


async def lent(hub: Exchange) -> tuple[asyncio.Task[None], socket.socket]:
    """An answer whose client was handed over, and the client's end."""
    answering = asyncio.create_task(hub.answer())
    ours, theirs = socket.socketpair()
    hub.lend(ours, (await hub.offer()).ticket)
    return answering, theirs


@running
async def test_the_client_gets_it_and_the_hub_is_told(tmp_path: Path) -> None:
    with exchange(tmp_path) as hub:
        assert hub.path.stat().st_mode & 0o777 == 0o600
        answering, client = await lent(hub)
        assert await all_of(client) == BODY
        await answering
        assert (await hub.offer()).size == len(BODY)
        head = dict(hub.sent[0]["headers"])
        assert b"content-length" not in head  # which would be that of another body
        assert head[b"x-kept"] == b"yes"
        assert hub.bodies == [b""]


@running
async def test_many_at_once_do_not_mix(tmp_path: Path) -> None:
    with exchange(tmp_path) as first:
        hubs = [first, *(Exchange(first.path, first.handovers) for _ in range(9))]
        bodies = [bytes([number]) * len(BODY) for number in range(10)]
        answering = [
            asyncio.create_task(hub.answer(body)) for hub, body in zip(hubs, bodies, strict=True)
        ]
        clients = []
        for hub in hubs:
            ours, theirs = socket.socketpair()
            hub.lend(ours, (await hub.offer()).ticket)
            clients.append(theirs)
        assert await asyncio.gather(*map(all_of, clients)) == bodies
        await asyncio.gather(*answering)


@running
async def test_what_nobody_comes_for_goes_by_way_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "_PATIENCE", 0.01)
    with exchange(tmp_path) as hub:
        await hub.answer()
        assert hub.bodies == [BODY]
        # Too late: it must not be written twice.
        ours, client = socket.socketpair()
        hub.lend(ours, (await hub.offer()).ticket)
        assert await all_of(client) == b""


@running
async def test_a_ticket_is_good_once_and_no_other_is(tmp_path: Path) -> None:
    with exchange(tmp_path) as hub:
        answering = asyncio.create_task(hub.answer())
        ticket = (await hub.offer()).ticket
        for wrong in (b"", b"0" * 32, ticket[:-1], ticket + b"x"):
            ours, client = socket.socketpair()
            hub.lend(ours, wrong)
            assert await all_of(client) == b""
        ours, client = socket.socketpair()
        second, thief = socket.socketpair()
        hub.lend(ours, ticket)
        hub.lend(second, ticket)
        assert await all_of(thief) == b""
        assert await all_of(client) == BODY
        await answering
        assert hub.bodies == [b""]


@running
async def test_a_ticket_without_a_socket_takes_nothing_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "_PATIENCE", 0.05)
    with exchange(tmp_path) as hub:
        answering = asyncio.create_task(hub.answer())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto((await hub.offer()).ticket, str(hub.path))
            sender.sendto(b"", str(hub.path))
        await answering
        assert hub.bodies == [BODY]


@running
async def test_a_hub_that_goes_in_the_middle_ends_it(tmp_path: Path) -> None:
    with exchange(tmp_path) as hub:
        answering, client = await lent(hub)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        got = len(await loop.sock_recv(client, 1000))
        hub.gone.set()
        await answering
        got += len(await all_of(client))
        assert 1000 <= got < len(BODY)
        assert hub.bodies == []  # never finished


@running
async def test_a_hub_that_goes_before_it_comes_leaves_nothing(tmp_path: Path) -> None:
    with exchange(tmp_path) as hub:
        answering = asyncio.create_task(hub.answer())
        await hub.offer()
        hub.gone.set()
        await answering
        assert hub.bodies == []


@pytest.mark.parametrize("is_there", [True, False])
@running
async def test_a_client_that_takes_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    monkeypatch.setattr(handover, "_STALLED", 0.05)
    monkeypatch.setattr(handover, "_PATIENCE", 0.05)
    with exchange(tmp_path) as hub:
        answering, client = await lent(hub)
        if not is_there:
            client.close()
        await answering
        assert hub.bodies == []
        client.close()


@pytest.mark.parametrize(
    ("body", "length", "can_lend"),
    [
        (BODY, len(BODY), False),
        (b"small", 5, True),
        (BODY, None, True),
        (b"", len(BODY), True),  # of a HEAD
        (BODY[:-1], len(BODY), True),  # the first part
    ],
)
@running
async def test_all_else_is_answered_as_ever(
    tmp_path: Path, body: bytes, length: int | None, can_lend: bool
) -> None:
    with exchange(tmp_path, can_lend=can_lend) as hub:
        headers = [] if length is None else [(b"content-length", b"%d" % length)]
        await hub.answer(body, headers)
        assert hub.sent[0]["headers"] == headers
        assert hub.bodies == [body]


@running
async def test_no_more_wait_than_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "_MOST_OFFERS", 0)
    with exchange(tmp_path) as hub:
        await hub.answer()
        assert hub.bodies == [BODY]
