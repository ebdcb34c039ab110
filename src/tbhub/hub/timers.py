"""Things to do at a time: one heap and one timer of the event loop, however many there are."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable


class Timers:
    """Calls `due` with a key when its time has come.

    A key may be set again; the earlier time still comes and is then one too many, so `due` looks
    for itself whether there is something to do, and sets the next time.
    """

    def __init__(self, due: Callable[[str], None]) -> None:
        self._due = due
        self._heap: list[tuple[float, int, str]] = []
        self._soonest: dict[str, float] = {}
        self._numbers = itertools.count()
        self._handle: asyncio.TimerHandle | None = None

    def set(self, key: str, when: float) -> None:
        """Calls at a time of the event loop's clock, unless a call for the key comes before."""
        if self._soonest.get(key, float("inf")) <= when:
            return
        self._soonest[key] = when
        heapq.heappush(self._heap, (when, next(self._numbers), key))
        self._arm()

    def close(self) -> None:
        """Calls nothing more."""
        self._heap.clear()
        self._soonest.clear()
        if self._handle is not None:
            self._handle.cancel()

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._heap:
            loop = asyncio.get_running_loop()
            self._handle = loop.call_at(self._heap[0][0], self._fire)

    def _fire(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            when, _, key = heapq.heappop(self._heap)
            if self._soonest.get(key) == when:
                del self._soonest[key]
                self._due(key)
        self._arm()
