"""Hosts as pods of a Kubernetes cluster.

What a host consists of is said in `kubernetes_manifests`, how it is in `kubernetes_status`, and how
that is known in `kubernetes_watch`. Here is what is asked, in which order. A host is known by the
name of its Deployment; deleting that deletes all else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import httpx2

from tbhub.launchers.base import Details, Exited, LaunchError, Site, Starting, Status
from tbhub.launchers.kubernetes_manifests import (
    CONTAINER,
    HOST_LABEL,
    Kubernetes,
    Manifest,
    children,
    deployment,
    selector,
)
from tbhub.launchers.kubernetes_status import is_over, last_warning, last_words, status

if TYPE_CHECKING:
    from lightkube import AsyncClient
    from lightkube.resources.apps_v1 import Deployment

    from tbhub.launchers.kubernetes_watch import PodWatch

_MISSING, _TAKEN = 404, 409
_PATIENCE = 20.0  # for one answer
_STOP_SECONDS = 60.0  # for a cluster to delete what it has been told to
_LOOK_SECONDS = 0.2
_EVENT_SECONDS = 2.0  # between looks at what the cluster warns of, and before the first
_LAST_LINES, _REMEMBERED = 50, 100  # of how many that were deleted

T = TypeVar("T")


class KubernetesLauncher:
    """Starts hosts as Deployments of one pod."""

    name = "kubernetes"
    shares = False
    Options = Kubernetes

    def __init__(self, site: Site, options: Kubernetes) -> None:
        self._options = options
        self._hub = site.hub
        self._connected: AsyncClient | None = None
        self._watching: PodWatch | None = None
        self._ended: dict[str, tuple[Exited, list[str]]] = {}
        self._warned: dict[str, tuple[float, str]] = {}  # of hosts on their way: when, and of what

    @classmethod
    def make(cls, site: Site, options: Kubernetes) -> Self:
        """A launcher whose objects bear the name of the hub."""
        return cls(site, options)

    async def start(self, host_id: str, environment: Mapping[str, str]) -> Details:
        """Creates the Deployment, what it owns, and then its pod."""
        from lightkube.codecs import from_dict
        from lightkube.resources.apps_v1 import Deployment

        client = self._client()
        namespace = client.namespace
        told = deployment(self._options, self._hub, host_id, environment, namespace)
        here = told["metadata"]["name"]
        owner = await self._create(told)
        try:
            uid = str(owner.metadata.uid if owner.metadata is not None else "")
            made = children(self._options, self._hub, host_id, environment, namespace, uid)
            creating = (_asked(client.create(from_dict(each))) for each in made)
            # Each is answered before anything is deleted: what came later would have no owner.
            for answer in await asyncio.gather(*creating, return_exceptions=True):
                if isinstance(answer, BaseException):
                    raise answer
            await _asked(client.patch(Deployment, here, {"spec": {"replicas": 1}}))
        except LaunchError:
            await self._delete(here, namespace)
            raise
        self._ended.pop(host_id, None)
        return {"host": host_id, "deployment": here, "namespace": namespace}

    async def find(self) -> Mapping[str, Details]:
        """By labels; what was told to go goes without us."""
        from lightkube.resources.apps_v1 import Deployment

        client = self._client()

        async def listed() -> dict[str, Details]:
            found: dict[str, Details] = {}
            async for each in client.list(Deployment, labels={**selector(self._hub)}):
                metadata = each.to_dict()["metadata"]
                if "deletionTimestamp" in metadata:
                    continue
                host = metadata["labels"][HOST_LABEL]
                found[host] = {
                    "host": host,
                    "deployment": metadata["name"],
                    "namespace": metadata["namespace"],
                }
            return found

        return await _asked(listed())

    async def poll(self, details: Details) -> Status:
        """By the pods that are watched; where there is none, by the Deployment."""
        host = str(details["host"])
        if host in self._ended:
            return self._ended[host][0]
        pods = await self._pods(host)
        found = status(pods, None if pods else await self._deployment(details))
        if not pods or not isinstance(found, Starting):
            self._warned.pop(host, None)
            return found
        warning = await self._warning(host, pods)
        return Starting(f"{found.text}: {warning}", found.queued) if warning else found

    async def stop(self, details: Details) -> None:
        """Deletes the Deployment, and waits until nothing of it runs."""
        if "deployment" not in details:  # it was never started
            return
        host = str(details["host"])
        if await self._deployment(details) is None and not await self._pods(host):
            return
        before, lines = await self.poll(details), await self.logs(details, _LAST_LINES)
        await self._delete(details["deployment"], details["namespace"])
        deadline = time.monotonic() + _STOP_SECONDS
        while not await self._is_over(details):
            if time.monotonic() > deadline:
                raise LaunchError(f"{details['deployment']} runs {_STOP_SECONDS:g} s after its end")
            await asyncio.sleep(_LOOK_SECONDS)
        over = before if isinstance(before, Exited) else Exited(None, "by being stopped")
        self._ended[host] = over, lines
        for oldest in list(self._ended)[:-_REMEMBERED]:
            del self._ended[oldest]

    async def logs(self, details: Details, tail: int) -> list[str]:
        """The last lines of its pod, or what was kept of a container that has ended."""
        if tail <= 0:
            return []
        host = str(details["host"])
        if host in self._ended:
            return self._ended[host][1][-tail:]
        lines: list[str] = []
        for pod in await self._pods(host):
            lines += last_words(pod) or await self._lines(pod["metadata"]["name"], tail)
        return lines[-tail:]

    async def close(self) -> None:
        """Ends the watch and closes the connections."""
        if self._watching is not None:
            await self._watching.close()
            self._watching = None
        if self._connected is not None:
            await self._connected.close()
            self._connected = None

    # --- what is asked

    async def _pods(self, host: str) -> list[dict[str, Any]]:
        from tbhub.launchers.kubernetes_watch import PodWatch

        if self._watching is None:
            self._watching = PodWatch(self._client(), selector(self._hub))
        pods = await self._watching.pods()
        return [each for each in pods if each["metadata"]["labels"].get(HOST_LABEL) == host]

    async def _warning(self, host: str, pods: Sequence[Mapping[str, Any]]) -> str:
        """What the cluster warns of, of a host that is slow to start; it is asked now and then."""
        from lightkube.resources.core_v1 import Event

        now = time.monotonic()
        asked, warning = self._warned.setdefault(host, (now, ""))
        if now - asked < _EVENT_SECONDS:
            return warning
        client = self._client()

        async def listed() -> list[dict[str, Any]]:
            found = []
            for pod in pods:
                fields = {"involvedObject.uid": pod["metadata"]["uid"]}
                found += [each.to_dict() async for each in client.list(Event, fields=fields)]
            return found

        with suppress(LaunchError):  # which the hub may not be allowed to
            warning = last_warning(await _asked(listed()))
        self._warned[host] = now, warning
        return warning

    async def _deployment(self, details: Details) -> dict[str, Any] | None:
        from lightkube.resources.apps_v1 import Deployment

        try:
            here, namespace = details["deployment"], details["namespace"]
            found = await _asked(self._client().get(Deployment, here, namespace=namespace))
        except _MissingError:
            return None
        return found.to_dict()

    async def _is_over(self, details: Details) -> bool:
        pods = await self._pods(str(details["host"]))
        if pods:
            return all(is_over(each) for each in pods)
        return await self._deployment(details) is None  # or its pod is yet to come

    async def _create(self, told: Manifest) -> Deployment:
        """Makes a Deployment; an older one by its name may be on its way out."""
        from lightkube.codecs import from_dict

        name, namespace = told["metadata"]["name"], told["metadata"]["namespace"]
        deadline = time.monotonic() + _STOP_SECONDS
        while True:
            try:
                return cast("Deployment", await _asked(self._client().create(from_dict(told))))
            except _TakenError:
                there = await self._deployment({"deployment": name, "namespace": namespace})
                leaves = there is None or "deletionTimestamp" in there["metadata"]
                if not leaves or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_LOOK_SECONDS)

    async def _delete(self, here: str, namespace: str) -> None:
        from lightkube.resources.apps_v1 import Deployment
        from lightkube.types import CascadeType

        # It stays until all it owns is gone, so that its end is the end of everything.
        with suppress(_MissingError):
            gone = self._client().delete(
                Deployment, here, namespace=namespace, cascade=CascadeType.FOREGROUND
            )
            await _asked(gone)

    async def _lines(self, pod: str, tail: int) -> list[str]:
        client = self._client()

        async def read() -> list[str]:
            lines = client.log(pod, container=CONTAINER, tail_lines=tail, newlines=False)
            return [line async for line in lines]

        with suppress(LaunchError):  # it has not begun, or is gone
            return await _asked(read())
        return []

    def _client(self) -> AsyncClient:
        if self._connected is None:
            self._connected = self._connect()
        return self._connected

    def _connect(self) -> AsyncClient:
        try:
            from lightkube import AsyncClient, KubeConfig
            from lightkube.core.exceptions import ConfigError
        except ImportError:
            raise LaunchError(
                "the kubernetes launcher needs lightkube: pip install 'tbhub[kubernetes]'"
            ) from None
        try:
            config = KubeConfig.from_env().get(context_name=self._options.context or None)
            return AsyncClient(
                config=config,
                namespace=self._options.namespace or None,
                timeout=httpx2.Timeout(_PATIENCE),
            )
        except (ConfigError, OSError) as error:
            raise LaunchError(f"no cluster is known here (KUBECONFIG): {error}") from error


class _MissingError(LaunchError):
    """What was asked about is not there."""


class _TakenError(LaunchError):
    """Something has that name already."""


async def _asked(answer: Awaitable[T]) -> T:
    """An answer of the cluster.

    Raises:
        _MissingError: There is no such object.
        _TakenError: There is one by that name.
        LaunchError: It refuses, or cannot be reached.
    """
    try:
        return await answer
    except httpx2.HTTPStatusError as error:
        code = error.response.status_code
        kind = {_MISSING: _MissingError, _TAKEN: _TakenError}.get(code, LaunchError)
        raise kind(f"the cluster refuses ({code}): {error}") from error
    except (httpx2.HTTPError, OSError) as error:
        text = str(error) or type(error).__name__
        raise LaunchError(f"the cluster cannot be reached: {text}") from error
