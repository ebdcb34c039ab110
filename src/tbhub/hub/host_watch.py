"""Watches one host from its start to its end: how far it is, what it tells, and how it ended.

A host that is being started is looked at; one that has registered tells of itself, and is looked at
only when its stream breaks off. While its engine does not say that it has ended, it has not: a host
that nobody can reach for a moment keeps its boards.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

from tbhub.boards.life import Cause
from tbhub.errors import TbhubError
from tbhub.hub.host_link import HostGoneError, HostImpostorError, HostLink
from tbhub.launchers.base import Exited, Launcher, LaunchError, Starting, Status

_LOOK_SECONDS = 0.1  # at a host that is being started
_DYING_SECONDS = 2.0  # until the end of a process whose connection broke is known
_HUNG_SECONDS = 30.0  # until a process that does not answer is ended

logger = logging.getLogger("tbhub.hosts")

Tell = Callable[[HostLink, str], Awaitable[None]]
Take = Callable[[HostLink, dict[str, Any]], Awaitable[None]]


class HostWatch:
    """Watches hosts of a launcher.

    Args:
        launcher: Who knows whether a host lives.
        start_timeout: Seconds from the start of a host until it has registered.
        tell: Is told how far the start of a host is.
        take: Is given what a host tells.
    """

    def __init__(self, launcher: Launcher, start_timeout: float, tell: Tell, take: Take) -> None:
        self._launcher = launcher
        self._start_timeout = start_timeout
        self._tell = tell
        self._take = take

    async def until_ended(self, link: HostLink) -> Exited:
        """Waits for the end of a host; answers how it ended."""
        status = await self._until_registered(link)
        pause, lost_since = 0.02, None
        while status is None:
            try:
                async with aclosing(link.news()) as news:  # type: ignore[type-var]
                    async for message in news:
                        pause, lost_since = 0.02, None
                        await self._take(link, message)
            except HostImpostorError as error:
                logger.error("%s", error)
            except HostGoneError as error:
                logger.debug("%s", error)
            link.is_connected = False
            lost_since = lost_since or time.monotonic()
            status = await self._how_it_ended(link, patience=_DYING_SECONDS if pause < 1 else 0)
            if status is None and time.monotonic() - lost_since > _HUNG_SECONDS:
                status = await self._end_hung(link)
            if status is None:
                await asyncio.sleep(pause)
                pause = min(2 * pause, 2.0)
        return status

    async def poll(self, link: HostLink) -> Status | None:
        """How a host is; none while the engine does not say."""
        try:
            return await self._launcher.poll(link.details)
        except LaunchError as error:
            logger.warning("host %s: %s", link.id, error)
            return None

    async def _until_registered(self, link: HostLink) -> Exited | None:
        """Waits; answers how it ended if it did not come to that."""
        seconds = self._start_timeout
        deadline = time.monotonic() + seconds
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await link.registered.wait()
            if link.registered.is_set():
                link.progress = ""
                return None
            status = await self.poll(link)
            if isinstance(status, Exited):
                return status
            if isinstance(status, Starting):
                await self._tell(link, status.text)
                if status.queued:
                    deadline = time.monotonic() + seconds
            if time.monotonic() > deadline:
                with suppress(LaunchError):  # or it is found later
                    await self._launcher.stop(link.details)
                return Exited(None, f"after it had not registered within {seconds:g} s")

    async def _how_it_ended(self, link: HostLink, patience: float) -> Exited | None:
        """None if it lives; a process needs a moment to end after its connections have."""
        deadline = time.monotonic() + patience
        while True:
            status = await self.poll(link)
            if isinstance(status, Exited):
                return status
            if time.monotonic() >= deadline or await _answers(link):
                return None
            await asyncio.sleep(0.02)

    async def _end_hung(self, link: HostLink) -> Exited | None:
        """Ends a host that does not answer; none if that cannot be done now."""
        logger.error("host %s does not answer and is ended", link.id)
        try:
            await self._launcher.stop(link.details)
        except LaunchError as error:
            logger.warning("host %s: %s", link.id, error)
            return None
        status = await self._how_it_ended(link, patience=_DYING_SECONDS)
        # The signal was the hub's; what the host had hung for counts.
        return None if status is None else replace(status, cause=Cause.CRASH)


async def _answers(link: HostLink) -> bool:
    try:
        await link.health()
    except TbhubError:
        return False
    return True
