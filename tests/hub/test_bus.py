"""News inside the hub: who is told what, and what becomes of those who do not listen."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing

import pytest

from tbhub.api.models import Event
from tbhub.hub.access import Caller
from tbhub.hub.bus import Bus

ADMIN = Caller(1, "root", "admin", "admin")
ADA = Caller(2, "ada", "member", "write", {7: "member"})
SHARED = Caller(2, "a share link", "viewer", "read", share="board")


def board(name: str) -> Event:
    return Event(kind="board", id=name)


async def read(bus: Bus, caller: Caller | None, number: int) -> list[str | None]:
    async with aclosing(bus.subscribe(caller)) as news:
        assert (await anext(news)).kind == "hello"
        bus.publish(board("ada's"), owner=2)
        bus.publish(board("bob's"), owner=3)
        bus.publish(Event(kind="runs", id="seven"), workspaces=[7])
        bus.publish(Event(kind="runs", id="eight"), workspaces=[8])
        bus.publish(board("board"), owner=3)
        bus.publish(Event(kind="runs", id="everybody's"))
        return [(await anext(news)).id for _ in range(number)]


def test_everybody_is_told_what_concerns_them() -> None:
    bus = Bus()
    everything = ["ada's", "bob's", "seven", "eight", "board", "everybody's"]
    assert asyncio.run(read(bus, None, 6)) == everything
    assert asyncio.run(read(bus, ADMIN, 6)) == everything
    assert asyncio.run(read(bus, ADA, 3)) == ["ada's", "seven", "everybody's"]
    assert asyncio.run(read(bus, SHARED, 1)) == ["board"]
    assert bus.readers == 0


def test_who_does_not_read_is_told_to_look_anew_and_keeps_nobody_waiting() -> None:
    async def test() -> None:
        bus = Bus()
        async with aclosing(bus.subscribe()) as news:
            for number in range(100_500):
                bus.publish(board(str(number)))
            found = [await anext(news)]
            while (event := await news.next(0)) is not None:
                found.append(event)
            assert len(found) <= 1000
            assert found[0].data == {"resync": True}
            assert found[-1].id == "100499"

    asyncio.run(test())


def test_any_thread_may_publish() -> None:
    async def test() -> None:
        bus = Bus()
        async with aclosing(bus.subscribe()) as news:
            await anext(news)
            thread = threading.Thread(target=bus.publish, args=(board("x"),))
            thread.start()
            assert (await anext(news)).id == "x"
            thread.join()

    asyncio.run(test())


def test_streams_end_when_the_bus_closes() -> None:
    async def test() -> None:
        bus = Bus()
        async with aclosing(bus.subscribe()) as news:
            await anext(news)
            assert await news.next(0.01) is None
            asyncio.get_running_loop().call_later(0.01, bus.close)
            assert [event async for event in news] == []
            with pytest.raises(StopAsyncIteration):
                await anext(news)

    asyncio.run(test())
