"""Hosts as actors of a Ray cluster: detached, named, without GPUs.

An actor is known by its id, and by a name with those of its hub and host where that was lost. It
stays when its host has ended, for its exit code and its log, until it is stopped. Ray itself is in
another process: see `ray_agent`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any, Self

from tbhub.launchers import ray_options
from tbhub.launchers.base import Details, Exited, LaunchError, Site, Status
from tbhub.launchers.ray_link import Link
from tbhub.launchers.ray_options import Ray, actor_name, actor_options, prefix, variables
from tbhub.launchers.ray_status import ended, status_of

_STOP_SECONDS = 5.0  # between asking and killing
_LAST_LINES, _REMEMBERED = 50, 100  # of how many that we have ended


class RayLauncher:
    """Has Ray make an actor for each host.

    Raises:
        LaunchError: Ray is not installed.
    """

    name = "ray"
    shares = False
    Options = Ray

    def __init__(self, site: Site, options: Ray) -> None:
        if importlib.util.find_spec("ray") is None:
            raise LaunchError("the ray launcher needs Ray: pip install 'tbhub[ray]'")
        self._hub = site.hub
        self._options = options
        self._link = Link(options.address, options.runtime_env, site.directory / "ray.log")
        self._ended: dict[str, tuple[Exited, list[str]]] = {}

    @classmethod
    def make(cls, site: Site, options: Ray) -> Self:
        """A launcher whose actors bear the name of the hub."""
        return cls(site, options)

    async def start(self, host_id: str, environment: Mapping[str, str]) -> Details:
        """Has an actor made; it may have to wait for a place."""
        actor: str = await self._link.ask(
            "start",
            options=actor_options(self._options, self._hub, host_id),
            environment=variables(self._options, environment),
            module=ray_options.MODULE,
        )
        return {"host": host_id, "actor": actor}

    async def find(self) -> Mapping[str, Details]:
        """By the names of actors; also of hosts that have ended, so that these are removed."""
        found = await self._link.ask("find", prefix=prefix(self._hub))
        return {host: {"host": host, "actor": actor} for host, actor in found.items()}

    async def poll(self, details: Details) -> Status:
        """By what Ray knows of its actor, and where that lives by its own answer."""
        actor = details.get("actor", "")
        if actor in self._ended:
            return self._ended[actor][0]
        if not actor:  # its start was not answered
            return Exited(None, "before it had begun")
        return status_of(await self._link.ask("poll", **self._of(details)), self._options)

    async def stop(self, details: Details) -> None:
        """Asks it to end, kills it when it has not done so in time, and its actor with it."""
        left = await self._link.ask(
            "stop", **self._of(details), seconds=_STOP_SECONDS, tail=_LAST_LINES
        )
        if left is not None and (actor := details.get("actor")):
            self._ended.setdefault(actor, (ended(left), left["lines"]))
            for oldest in list(self._ended)[:-_REMEMBERED]:
                del self._ended[oldest]

    async def logs(self, details: Details, tail: int) -> list[str]:
        """The last lines it printed; where its actor was killed, as long as its node is there."""
        if tail <= 0:
            return []
        if (actor := details.get("actor", "")) in self._ended:
            return self._ended[actor][1][-tail:]
        lines: list[str] = await self._link.ask("logs", **self._of(details), tail=tail)
        return lines

    async def close(self) -> None:
        """Ends the process that talks to Ray."""
        await self._link.close()

    def _of(self, details: Details) -> dict[str, Any]:
        name = actor_name(self._hub, str(details["host"]))
        return {"name": name, "actor": str(details.get("actor", ""))}
