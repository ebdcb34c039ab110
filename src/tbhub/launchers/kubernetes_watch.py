"""The pods of a hub as a cluster has them, kept up to date by its own watch.

They are listed once; from there on changes come by themselves, so that asking how a host is asks
nobody. A watch that breaks goes on where it was; where the cluster does not remember that far back
(410), the list is taken again. While there is no connection nothing is known, and who asks is told.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from typing import Any

import httpx2
from lightkube import ApiError, AsyncClient
from lightkube.resources.core_v1 import Pod

from tbhub.launchers.base import LaunchError

_GONE = 410
_LONGEST_PAUSE = 5.0
_WATCH_SECONDS = 300.0
_PATIENCE = 20.0  # for a first list

logger = logging.getLogger("tbhub.launchers")


class PodWatch:
    """Follows the pods that bear some labels, from the first time somebody asks."""

    def __init__(self, client: AsyncClient, labels: dict[str, str]) -> None:
        self._client = client
        self._labels = labels
        self._pods: dict[str, dict[str, Any]] = {}
        self._version: str | None = None
        self._problem = ""
        self._is_fresh = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def pods(self) -> list[dict[str, Any]]:
        """The pods there are.

        Raises:
            LaunchError: The cluster cannot be asked now.
        """
        if self._task is None:
            self._task = asyncio.create_task(self._follow())
        if not self._is_fresh.is_set() and not self._problem:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._is_fresh.wait()
        if not self._is_fresh.is_set():
            raise LaunchError(self._problem or "the cluster does not answer")
        return list(self._pods.values())

    async def close(self) -> None:
        """Watches no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        pause = 0.1
        while True:
            try:
                if self._version is None:
                    await self._list()
                self._is_known()
                pause = 0.1
                async with asyncio.timeout(_WATCH_SECONDS):
                    await self._watch()
            except TimeoutError:  # a connection that has died without a word is not kept longer
                continue
            except httpx2.HTTPStatusError as error:
                if code_of(error) == _GONE:
                    self._version = None
                    continue
                self._is_lost(f"the cluster refuses: {error}")
            except (httpx2.HTTPError, OSError) as error:
                text = str(error) or type(error).__name__
                self._is_lost(f"the cluster cannot be reached: {text}")
            except Exception as error:  # or nobody would notice that nothing comes any more
                logger.exception("the pods of the cluster cannot be followed")
                self._is_lost(f"the cluster answers what is not understood: {error}")
                self._version = None
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _is_known(self) -> None:
        self._problem = ""
        self._is_fresh.set()

    def _is_lost(self, why: str) -> None:
        if self._is_fresh.is_set():
            logger.warning("%s", why)
        self._problem = why
        self._is_fresh.clear()

    async def _list(self) -> None:
        listed = self._client.list(Pod, labels={**self._labels})
        found = {}
        async for each in listed:
            pod = each.to_dict()
            found[pod["metadata"]["uid"]] = pod
        self._pods = found
        self._version = listed.resourceVersion

    async def _watch(self) -> None:
        watched = self._client.watch(Pod, labels={**self._labels}, resource_version=self._version)
        async with aclosing(watched) as changes:  # type: ignore[type-var]
            async for change, each in changes:
                pod = each.to_dict()
                self._is_known()
                self._version = pod["metadata"]["resourceVersion"]
                if change == "DELETED":
                    self._pods.pop(pod["metadata"]["uid"], None)
                else:
                    self._pods[pod["metadata"]["uid"]] = pod


def code_of(error: httpx2.HTTPStatusError) -> int | None:
    """The status a cluster has answered with, by an answer or within a stream."""
    return error.status.code if isinstance(error, ApiError) else error.response.status_code
