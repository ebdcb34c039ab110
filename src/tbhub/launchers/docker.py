"""Hosts as containers of a Docker engine, or of podman behind the same interface.

A container is known by its id, or by labels with the names of its hub and host where that was lost.
It stays when its process has ended, for its exit code and its log, until it is stopped; `stop`
leaves nothing. The engine does not start it anew: the hub does, where boards are to go on.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from tbhub.boards.life import Cause
from tbhub.launchers.base import (
    Details,
    Exited,
    LaunchError,
    Running,
    Site,
    Starting,
    Status,
)
from tbhub.launchers.docker_container import (
    HOST_LABEL,
    HUB_LABEL,
    DockerOptions,
    choose_port,
    container,
    ending,
    endpoint,
)

# Where Cloud Storage FUSE is expected to have been mounted, and where it is found then.
_GCS_HERE, _GCS_THERE = "~/gcs", "/gcs"
_MAX_PORTS_TRIED = 20
_STOP_SECONDS = 5  # between asking and killing
_PATIENCE = 60.0  # for one answer of an engine
_PULL_SECONDS = 1800.0
_FRESH_SECONDS = 0.1  # for which a list of containers is believed
_NOW = math.inf
_MISSING, _CONFLICT = 404, 409
_LAST_LINES, _REMEMBERED = 50, 100  # of how many that were removed
_STARTING = ("created", "configured", "initialized")  # the last two are podman's
_LIVING = ("running", "paused", "restarting")

logger = logging.getLogger("tbhub.launchers")

T = TypeVar("T")


class DockerLauncher:
    """Starts hosts as containers.

    Raises:
        LaunchError: The SDK is not installed.
    """

    name = "docker"
    shares = False
    Options = DockerOptions

    def __init__(self, site: Site, options: DockerOptions) -> None:
        try:
            import docker
        except ImportError:
            raise LaunchError(
                "the docker launcher needs Docker's SDK: pip install 'tbhub[docker]'"
            ) from None
        self._docker = docker
        self._options = _with_gcs(options)
        self._hub = site.hub
        self._engine = options.engine or os.environ.get("DOCKER_HOST", "")
        self._connected: Any = None
        self._ended: dict[str, tuple[Exited, list[str]]] = {}
        self._listed: tuple[float, dict[str, dict[str, Any]]] = (-math.inf, {})
        self._listing = threading.Lock()
        self._reserved: set[int] = set()  # ports of containers that are being started
        self._reserving = threading.Lock()

    @classmethod
    def make(cls, site: Site, options: DockerOptions) -> Self:
        """A launcher whose containers bear the name of the hub."""
        return cls(site, options)

    # --- the interface

    async def start(self, host_id: str, environment: Mapping[str, str]) -> Details:
        """Creates a container and starts it; an image that is missing is pulled before."""
        return await asyncio.to_thread(self._start, host_id, environment)

    async def find(self) -> Mapping[str, Details]:
        """By labels; also what has ended, so that it is removed."""
        return await asyncio.to_thread(self._find)

    async def poll(self, details: Details) -> Status:
        """By what the engine knows of its containers; how one has ended is asked apart."""
        return await asyncio.to_thread(self._poll, details)

    async def stop(self, details: Details) -> None:
        """Asks it to end, kills it when it has not done so in time, and removes its container."""
        await asyncio.to_thread(self._stop, details)

    async def logs(self, details: Details, tail: int) -> list[str]:
        """The last lines of its container, also if we have removed it."""
        return await asyncio.to_thread(self._logs, details, tail) if tail > 0 else []

    async def close(self) -> None:
        """Closes the connections to the engine."""
        self._let_go()

    # --- in threads

    def _start(self, host_id: str, environment: Mapping[str, str]) -> Details:
        if self._options.network != "host" and _is_loopback(environment.get("TBHUB_HUB_URL", "")):
            raise LaunchError(
                f"a container in the network {self._options.network} cannot reach the hub at "
                f"{environment['TBHUB_HUB_URL']}: have the hub listen on an address of that "
                "network (TBHUB_HOST), or run hosts in the network host"
            )
        if not self._options.ports:
            return self._start_at(host_id, environment, None)
        refused: set[int] = set()
        while True:
            port = self._reserve(refused)
            try:
                return self._start_at(host_id, environment, port)
            except LaunchError as error:
                refused.add(port)  # by a program that is no container
                if not _is_taken(error) or len(refused) == _MAX_PORTS_TRIED:
                    raise
            finally:
                with self._reserving:
                    self._reserved.discard(port)

    def _start_at(self, host_id: str, environment: Mapping[str, str], port: int | None) -> Details:
        at = endpoint(self._options, self._engine, port)
        told = container(self._options, self._hub, host_id, environment, at)
        return {"host": host_id, "container": self._start_container(told)}

    def _reserve(self, refused: Collection[int]) -> int:
        """Return a port that no container of the engine has, and keep it until it is started.

        podman is not left to find out: a container that it cannot start takes the port away from
        the one that has it.

        Raises:
            LaunchError: All are taken.
        """
        with self._reserving:
            taken = self._reserved | self._published() | set(refused)
            found = choose_port(self._options, taken)
            if found is None:
                ((_, place),) = self._options.ports.items()
                raise LaunchError(
                    f"every port of {place} is in use on the engine's machine: stop a board, give "
                    "`ports` a larger range, or 0 for any port"
                )
            self._reserved.add(found)
            return found

    def _published(self) -> set[int]:
        """Return the ports that containers of the engine have, those of other programs' as well."""
        listed = self._ask(lambda: self._client().api.containers())
        return {
            port["PublicPort"]
            for each in listed
            for port in each.get("Ports") or ()
            if port.get("PublicPort")
        }

    def _start_container(self, told: dict[str, Any]) -> str:
        created = self._ask(lambda: self._create(told))
        try:
            self._ask(created.start)
        except LaunchError:
            self._ask(lambda: self._remove(created))
            raise
        return str(created.id)

    def _create(self, told: dict[str, Any]) -> Any:
        errors = self._docker.errors
        containers = self._client().containers
        try:
            return containers.create(**told)
        except errors.ImageNotFound:
            self._pull(str(told["image"]))
        return containers.create(**told)

    def _pull(self, image: str) -> None:
        if self._options.pull == "never":
            raise LaunchError(
                f"the engine has no image {image}: build it (`make image`) or pull it"
            )
        logger.info("image %s is being pulled", image)
        client = self._connect(_PULL_SECONDS)
        try:
            client.images.pull(image)
        except self._docker.errors.APIError as error:
            text = f"the engine has no image {image} and cannot pull it: {_text(error)}"
            raise LaunchError(text) from error
        finally:
            client.close()

    def _find(self) -> dict[str, Details]:
        return {
            each["Labels"][HOST_LABEL]: {
                "host": each["Labels"][HOST_LABEL],
                "container": each["Id"],
            }
            for each in self._all(_NOW).values()
        }

    def _all(self, since: float) -> dict[str, dict[str, Any]]:
        """The containers of this hub as they were then or later, asked once for all who ask."""
        with self._listing:
            asked, found = self._listed
            if asked < since:
                asked = time.monotonic()
                mine = {"label": f"{HUB_LABEL}={self._hub}"}
                listed = self._ask(lambda: self._client().api.containers(all=True, filters=mine))
                found = {each["Id"]: each for each in listed}
                self._listed = asked, found
            return found

    def _poll(self, details: Details) -> Status:
        number = details.get("container", "")
        if number in self._ended:
            return self._ended[number][0]
        found = self._all(time.monotonic() - _FRESH_SECONDS).get(number)
        state = "" if found is None else str(found["State"]).lower()
        if state in _STARTING:
            return Starting("its container has been created")
        if state in _LIVING:
            return Running()
        return self._ending(details)

    def _ending(self, details: Details, *, by_us: bool = False) -> Status:
        found = self._get(details)
        if found is None:
            return Exited(None, "when its container was removed", Cause.TERMINATED)
        if found.attrs["State"].get("Running"):  # the list was older
            return Running()
        return ending(found.attrs["State"], 0 if by_us else self._options.memory_bytes)

    def _stop(self, details: Details) -> None:
        found = self._get(details)
        if found is None:
            return
        was_up = found.attrs["State"].get("Running", False)
        with suppress(_GoneError):  # by another who was told the same
            self._halt(found)
            status, lines = self._ending(details, by_us=was_up), self._logs(details, _LAST_LINES)
            if isinstance(status, Exited):  # for whoever asks how it went
                self._remember(found.id, status, lines)
            self._ask(lambda: self._remove(found))

    def _halt(self, found: Any) -> None:
        """Stop the processes of a container; what an engine refuses to stop is removed anyway."""
        try:
            if found.attrs["State"].get("Paused"):
                self._ask(found.unpause)
            self._ask(lambda: found.stop(timeout=_STOP_SECONDS))
        except _RefusedError as error:
            logger.warning("container %s is killed, as it cannot be stopped: %s", found.name, error)

    def _remember(self, number: str, status: Exited, lines: list[str]) -> None:
        """Before it is removed, and once: who comes second finds nothing to tell."""
        self._ended.setdefault(number, (status, lines))
        for oldest in list(self._ended)[:-_REMEMBERED]:
            self._ended.pop(oldest, None)

    def _remove(self, made: Any) -> None:
        try:
            made.remove(v=True, force=True)
        except self._docker.errors.NotFound:
            pass
        except self._docker.errors.APIError as error:
            if error.status_code != _CONFLICT:  # it is being removed
                raise

    def _logs(self, details: Details, tail: int) -> list[str]:
        if (number := details.get("container")) in self._ended:
            return self._ended[number][1][-tail:]
        found = self._get(details)
        if found is None:
            return []
        text: bytes = self._ask(lambda: found.logs(stdout=True, stderr=True, tail=tail))
        return text.decode("utf-8", "replace").splitlines()[-tail:]

    def _get(self, details: Details) -> Any:
        """A container; none if it is gone."""
        if "container" not in details:  # its start was not answered
            return None
        with suppress(_GoneError):
            return self._ask(lambda: self._client().containers.get(details["container"]))
        return None

    def _ask(self, ask: Callable[[], T]) -> T:
        """An answer of the engine.

        Raises:
            _GoneError: There is no such container.
            LaunchError: The engine refuses, or cannot be reached.
        """
        errors = self._docker.errors
        try:
            return ask()
        except errors.APIError as error:
            # podman calls what goes meanwhile an error of its own.
            is_gone = error.status_code == _MISSING or "no such container" in str(error).lower()
            kind = _GoneError if is_gone else _RefusedError
            raise kind(f"the engine refuses: {_text(error)}") from error
        except (errors.DockerException, OSError) as error:  # those of requests among the latter
            self._let_go()
            where = self._engine or "its usual place"
            text = (
                f"the Docker engine at {where} cannot be reached: {_cause(error)}; start it, or "
                "say where it is by DOCKER_HOST or the option `engine`"
            )
            raise LaunchError(text) from error

    def _let_go(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            connected.close()

    def _client(self) -> Any:
        if self._connected is None:
            self._connected = self._connect(_PATIENCE)
        return self._connected

    def _connect(self, patience: float) -> Any:
        if self._options.engine:
            client = self._docker.DockerClient(
                base_url=self._options.engine, version="auto", timeout=patience
            )
        else:
            client = self._docker.from_env(version="auto", timeout=patience)
        return client


class _GoneError(LaunchError):
    """What was asked about is not there."""


class _RefusedError(LaunchError):
    """The engine answers, but does not do what was asked."""


def _with_gcs(options: DockerOptions) -> DockerOptions:
    gcs = os.path.expanduser(_GCS_HERE)
    if not options.mount_gcs_path or gcs in options.volumes or not os.path.isdir(gcs):
        return options
    return options.model_copy(update={"volumes": {**options.volumes, gcs: _GCS_THERE}})


def _is_loopback(url: str) -> bool:
    name = urlsplit(url).hostname or ""
    if name == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return False


def _is_taken(error: LaunchError) -> bool:
    """Whether an engine refused because somebody else has the port; Docker and podman differ."""
    text = str(error).lower()
    return "already allocated" in text or "already in use" in text


def _text(error: Any) -> str:
    """What an engine says, without the request it says it of."""
    return str(error.explanation or error).strip()


def _cause(error: BaseException) -> str:
    """What lies below: requests and the SDK wrap the reason, in one place or another."""
    below = next((each for each in error.args if isinstance(each, BaseException)), error.__cause__)
    if below is not None:
        return _cause(below)
    return getattr(error, "strerror", None) or str(error)
