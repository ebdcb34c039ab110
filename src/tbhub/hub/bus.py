"""News inside the hub: whoever changes something publishes it, open streams pass it on.

Publishing never waits, whatever a reader does: a reader that has fallen too far behind loses what
it has not read and is told so, by a ``hello`` that asks it to look at everything anew.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from tbhub.api.models import Event
from tbhub.hub.access import Caller

_MOST_WAITING = 1000
RESYNC = Event(kind="hello", data={"resync": True})


@dataclass(frozen=True)
class _News:
    """An event and whom it concerns."""

    event: Event
    owner: int | None
    workspaces: frozenset[int] | None

    def concerns(self, caller: Caller | None) -> bool:
        if caller is None or caller.visible is None:
            return True
        if caller.share is not None:
            return self.event.kind == "board" and self.event.id == caller.share
        if self.owner is not None:
            return self.owner == caller.user_id
        return self.workspaces is None or not self.workspaces.isdisjoint(caller.visible)


class Subscription:
    """Events from now on, as far as they concern somebody; the first is a ``hello``.

    An asynchronous iterator, which ends when the bus closes. Close it when done.
    """

    def __init__(self, bus: Bus, caller: Caller | None) -> None:
        self.caller = caller
        self._bus = bus
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Event] = deque([Event(kind="hello")])
        self._news: asyncio.Future[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._waiting:
            await self._until_news(None)
        return self._waiting.popleft()

    async def next(self, timeout: float) -> Event | None:
        """The next event; None if there is none for so long.

        Raises:
            StopAsyncIteration: The bus is closed.
        """
        if not self._waiting:
            await self._until_news(timeout)
        return self._waiting.popleft() if self._waiting else None

    async def _until_news(self, timeout: float | None) -> None:
        if self._bus.is_closed:
            raise StopAsyncIteration
        self._news = self._loop.create_future()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._news

    def put(self, event: Event) -> None:
        """Any thread; never waits."""
        if len(self._waiting) >= _MOST_WAITING:
            self._waiting.clear()
            event = RESYNC
        self._waiting.append(event)
        self.wake()

    def wake(self) -> None:
        """Has whoever waits look."""
        with suppress(RuntimeError):  # its loop has ended
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def aclose(self) -> None:
        """Listens no more."""
        self._bus.forget(self)


class Bus:
    """Any thread may publish; readers belong to the event loop they subscribe in."""

    def __init__(self) -> None:
        self._readers: set[Subscription] = set()
        self._lock = threading.Lock()
        self.is_closed = False

    def publish(
        self,
        event: Event,
        *,
        owner: int | None = None,
        workspaces: Iterable[int] | None = None,
    ) -> None:
        """Tells every reader whom it concerns: the `owner` of a board, or members of `workspaces`.

        Admins are told of everything; without either, everybody is.
        """
        where = None if workspaces is None else frozenset(workspaces)
        news = _News(event, owner, where)
        with self._lock:
            for reader in self._readers:
                if news.concerns(reader.caller):
                    reader.put(event)

    def subscribe(self, caller: Caller | None = None) -> Subscription:
        """Events from now on, as far as they concern `caller`, or all of them."""
        made = Subscription(self, caller)
        with self._lock:
            self._readers.add(made)
        return made

    def forget(self, reader: Subscription) -> None:
        """A reader is told no more."""
        with self._lock:
            self._readers.discard(reader)

    def close(self) -> None:
        """Ends all streams."""
        self.is_closed = True
        with self._lock:
            for reader in self._readers:
                reader.wake()

    @property
    def readers(self) -> int:
        """How many are listening."""
        return len(self._readers)
