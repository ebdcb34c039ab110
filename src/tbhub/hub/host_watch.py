"""Watches one host from its start to its end: how far it is, what it tells, and how it ended.

A host that is being started is looked at; one that has registered tells of itself, and is looked at
only when its stream breaks off. While its engine does not say that it has ended, it has not: a host
that nobody can reach for a moment keeps its boards.

A host that sends nothing is requested to answer. If it does not for `hung_after` seconds, it is
stopped. Only time in which the hub itself runs counts: after a suspension of the machine, or where
the hub is slow as well, hosts are not to blame.
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
# Of the seconds after which a host is taken to hang:
_TICK = 1 / 30  # how often its silence is counted
_REQUEST_AFTER = 1 / 6  # the silence after which it is requested to answer
_REPORT_AFTER = 1 / 3  # the silence that is reported to users

logger = logging.getLogger("tbhub.hosts")

Tell = Callable[[HostLink, str], Awaitable[None]]
Take = Callable[[HostLink, dict[str, Any]], Awaitable[None]]
Changed = Callable[[HostLink], None]


class HostWatch:
    """Watches hosts of a launcher.

    Args:
        launcher: Who knows whether a host lives.
        start_timeout: Seconds from the start of a host until it has registered.
        tell: Is told how far the start of a host is.
        take: Is given what a host tells.
        hung_after: Seconds without an answer after which a host is stopped.
        silence_changed: Is called when a host has become silent, or answers again.
    """

    def __init__(
        self,
        launcher: Launcher,
        start_timeout: float,
        tell: Tell,
        take: Take,
        *,
        hung_after: float,
        silence_changed: Changed,
    ) -> None:
        self._launcher = launcher
        self._start_timeout = start_timeout
        self._tell = tell
        self._take = take
        self._hung_after = hung_after
        self._silence_changed = silence_changed

    async def until_ended(self, link: HostLink) -> Exited:
        """Wait for the end of a host and return how it ended."""
        status = await self._until_registered(link)
        while status is None:
            listening = asyncio.create_task(self._listen(link))
            counting = asyncio.create_task(self._until_hung(link))
            try:
                await asyncio.wait({listening, counting}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (listening, counting):
                    task.cancel()
                await asyncio.gather(listening, counting, return_exceptions=True)
            if not listening.cancelled():
                return listening.result()
            counting.result()
            link.is_connected = False
            status = await self._end_hung(link)
        return status

    def is_silent(self, link: HostLink) -> bool:
        """Return whether a host has not answered for so long that users should know."""
        return link.silent_for >= self._hung_after * _REPORT_AFTER

    async def _until_hung(self, link: HostLink) -> None:
        """Count for how long a host has not answered, until that is `hung_after` seconds."""
        tick = self._hung_after * _TICK
        link.silent_for, counted_at, was_silent = 0.0, time.monotonic(), False
        asking: asyncio.Task[bool] | None = None
        try:
            while link.silent_for < self._hung_after:
                is_due = link.silent_for >= self._hung_after * _REQUEST_AFTER
                if is_due and (asking is None or asking.done()):
                    asking = asyncio.create_task(_answers(link, self._hung_after))
                await asyncio.sleep(tick)
                now = time.monotonic()
                link.silent_for += min(now - counted_at, 2 * tick)
                counted_at = now
                if self.is_silent(link) != was_silent:
                    was_silent = not was_silent
                    self._silence_changed(link)
        finally:
            if asking is not None:
                asking.cancel()

    async def _listen(self, link: HostLink) -> Exited:
        """Receive what a host tells until it has ended, and return how it ended."""
        status, pause = None, 0.02
        while status is None:
            try:
                async with aclosing(link.news()) as news:  # type: ignore[type-var]
                    async for message in news:
                        pause = 0.02
                        await self._take(link, message)
            except HostImpostorError as error:
                logger.error("%s", error)
            except HostGoneError as error:
                logger.debug("%s", error)
            link.is_connected = False
            status = await self._how_it_ended(link, patience=_DYING_SECONDS if pause < 1 else 0)
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
        """Stop a host that does not answer; return none if that cannot be done now."""
        status = await self.poll(link)
        if isinstance(status, Exited):
            return status
        seconds = f"{link.silent_for:.0f} s"
        logger.error("host %s has not answered for %s; stopping it", link.id, seconds)
        try:
            await self._launcher.stop(link.details)
        except LaunchError as error:
            logger.warning("host %s: %s", link.id, error)
            return None
        ended = await self._how_it_ended(link, patience=_DYING_SECONDS)
        if ended is None:
            return None
        # How the engine saw it end is how the hub stopped it.
        return replace(ended, reason=f"after it had not answered for {seconds}", cause=Cause.HANG)


async def _answers(link: HostLink, timeout: float | None = None) -> bool:
    try:
        await link.health(timeout)
    except TbhubError:
        return False
    return True
