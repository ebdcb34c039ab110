"""Which workers are still heard of: one timer for all runs.

It sleeps until the run that has been silent for longest would be lost, and looks then. While the
hub was away nobody could be heard: everybody has the whole time again after it has started, and
after the hub's clock has been set, because nothing tells then how long anybody has been silent.
Workers' clocks count nowhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from tbhub.api.problems import Problem
from tbhub.catalog.attempts import lose, most_silent
from tbhub.database.engine import Database

_AGAIN = 5.0  # seconds, when the database does not answer
_MARGIN = 0.05
_STEP = 2.0  # seconds that the clock is set by, at least: corrections of less take nobody's life

logger = logging.getLogger("tbhub.hub")

Tell = Callable[[list[int], set[int]], None]  # runs that have changed, and their workspaces


class Heartbeats:
    """Loses runs whose workers are silent.

    Args:
        timeout: Seconds after which a silent worker counts as gone.
    """

    def __init__(self, database: Database, timeout: float, tell: Tell) -> None:
        self._database = database
        self._timeout = timeout
        self._tell = tell
        self._started = time.time()
        self._ahead = time.time() - time.monotonic()
        self._running = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def fresh_since(self) -> float:
        """Who was heard of after this moment counts as alive."""
        return self._silent_since(time.time())

    def start(self) -> None:
        """Begins, in the running event loop."""
        self._started = time.time()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._watch(), name="heartbeats")

    def begun(self) -> None:
        """A run is running now. Any thread may say so."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._running.set)

    async def close(self) -> None:
        """Looks no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _silent_since(self, now: float) -> float:
        ahead = now - time.monotonic()
        if abs(ahead - self._ahead) > _STEP:
            logger.warning("the clock has been set by %+.0f s", ahead - self._ahead)
            self._ahead, self._started = ahead, now
        since = now - self._timeout
        return since if since >= self._started else float("-inf")

    async def _watch(self) -> None:
        while True:
            self._running.clear()
            try:
                due = await asyncio.to_thread(self._look)
            except Problem as error:
                logger.warning("which runs are lost is not known: %s", error)
                await asyncio.sleep(_AGAIN)
                continue
            if due is None:
                await self._running.wait()
            else:
                await asyncio.sleep(max(0.0, due - time.time()) + _MARGIN)

    def _look(self) -> float | None:
        """Loses who is silent; when to look again, if anybody runs."""
        with self._database.begin() as connection:
            lost = lose(connection, self._silent_since(time.time()))
            oldest = most_silent(connection)
        if lost:
            ids = [run for run, _ in lost]
            logger.info("lost: no sign of runs %s", ", ".join(map(str, ids[:20])))
            self._tell(ids, {workspace for _, workspace in lost})
        return None if oldest is None else max(oldest, self._started) + self._timeout
