"""The indexer as a child of the hub: told of changes on stdin, heard on stdout, replaced if dead.

It is a process of its own so that reading logs never makes an answer wait. When the hub goes, in
whatever way, the child's stdin closes, and it ends by itself. Credentials of storage connections
reach it by that pipe alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import orjson

from tbhub.api.problems import Problem

logger = logging.getLogger("tbhub.hub")

_MODULE = "tbhub.catalog.indexer_process"
_LONGEST_LINE = 64 << 20
_STOP_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


class IndexerChild:
    """Keeps one indexer running.

    Attributes:
        progress: How far it is, as it last said.
        pid: Its process, while there is one.
    """

    def __init__(
        self,
        database_url: str,
        news: Callable[[Mapping[str, Any]], None],
        connections: Callable[[], list[dict[str, object]]] = list,
    ) -> None:
        """`connections` asks the database for what is to be told of them."""
        self.progress: dict[str, Any] = {}
        self.pid: int | None = None
        self._database_url = database_url
        self._news = news
        self._connections = connections
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        self._one_by_one = asyncio.Lock()
        self._telling: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begins, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._keep(), name="indexer")

    def rescan_soon(self) -> None:
        """Logdirs have changed: it is to look at once. Any thread may say so."""
        self._say_soon(b"rescan\n")

    def run_started(self) -> None:
        """Somebody has started a run. Any thread may say so."""
        self._say_soon(b"started\n")

    def run_written(self, run: int) -> None:
        """A run that runs no more was written to. Any thread may say so."""
        self._say_soon(b"written %d\n" % run)

    def connections_changed(self) -> None:
        """Storage connections have come or gone. Any thread may say so."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._connections_changed)

    def _connections_changed(self) -> None:
        task = asyncio.create_task(self._tell_connections(), name="indexer connections")
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_connections(self) -> None:
        """One after the other, so that what is said last is what is true."""
        async with self._one_by_one:
            try:
                known = await asyncio.to_thread(self._connections)
            except Problem as error:
                logger.error("the indexer could not be told of storage connections: %s", error)
                return
            self._say(b"connections " + orjson.dumps(known) + b"\n")

    def _say_soon(self, line: bytes) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._say, line)

    def _say(self, line: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(ConnectionError, RuntimeError):
                self._process.stdin.write(line)

    async def close(self) -> None:
        """Ends the child."""
        self._closing = True
        process = self._process
        if process is not None and process.returncode is None:
            if process.stdin is not None:
                process.stdin.close()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _keep(self) -> None:
        pause = _FIRST_PAUSE
        while not self._closing:
            loop = asyncio.get_running_loop()
            began = loop.time()
            try:
                code = await self._run()
            except OSError as error:
                logger.error("the indexer cannot be started: %s", error)
            else:
                if self._has_ended():
                    return
                logger.error("the indexer ended with code %s; it is started again", code)
            self.pid = None
            lived_long = loop.time() - began > _LONGEST_PAUSE
            pause = _FIRST_PAUSE if lived_long else min(2 * pause, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    def _has_ended(self) -> bool:
        return self._closing

    async def _run(self) -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            _MODULE,
            "--database-env",
            "TBHUB_DATABASE",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "TBHUB_DATABASE": self._database_url},
            limit=_LONGEST_LINE,
            # Ctrl-C goes to the whole group of the terminal; the hub ends its child itself.
            start_new_session=True,
        )
        self._process, self.pid = process, process.pid
        self._connections_changed()
        assert process.stdout is not None
        async for line in process.stdout:
            try:
                news = orjson.loads(line)
            except ValueError:
                logger.warning("the indexer said what is no news: %r", line[:200])
                continue
            if isinstance(news.get("progress"), dict):
                self.progress = news["progress"]
            else:
                self._news(news)
        return await process.wait()
