"""A host as a container: what an engine is told to create. Pure; nothing here asks an engine.

What is secret goes by environment alone: labels and arguments are shown in every list. A container
has no capabilities and gains none, and what it mounts it only reads.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from tbhub.boards.host_process import AUTO, in_url
from tbhub.boards.life import Cause
from tbhub.launchers.base import Exited, Options
from tbhub.launchers.endings import exited, how
from tbhub.launchers.sizes import as_bytes, as_size

MODULE = "tbhub.boards.host_process"
HUB_LABEL = "tbhub.hub"
HOST_LABEL = "tbhub.host"
HOST_NETWORK = "host"
_LEAST_MEMORY = 128 << 20  # a host without a board takes so much
_BUDGET = 0.5  # the share of a limit that points may take; TensorBoard and charts need the rest
_KILLED = 137
_NO_NAME = re.compile(r"[^a-zA-Z0-9_.-]+")

HOST_HOME = "/tmp"  # of containers: can be written to, whatever user they run as
ANY_PORTS = range(20_000, 30_000)  # below those a system hands out itself
_RANGE = re.compile(r"(\d{1,5})-(\d{1,5})")
# Settings that programs look for in their home: ~/.config/gcloud, ~/.aws.
_HOME_SETTINGS = re.compile(r"(?:~|/root|/home/[^/]+)/(\..+)")

Port = int | str
"""A port of the engine's machine: a number, which only one host can have and others replace by any
that is free; 0 for any; or a range, ``"8006-8016"``, for ports of it alone."""

Place = Port | tuple[str, Port]
"""A port, perhaps of one address of the engine's machine."""


class DockerOptions(Options):
    """How hosts run as containers.

    Attributes:
        image: What they run; any image in which ``python3`` finds tbhub.
        pull: Whether an image that is missing is fetched.
        ports: Where the engine's machine publishes which port of a host, e.g. ``{6006: 0}`` or
            ``{6006: "8006-8016"}``; none: the hub reaches hosts in their network. One port, since a
            host has no more.
        volumes: What of the engine's machine is seen where, ``{"/data/runs": "/data/runs"}``. Runs
            are looked for where the catalog has them, so mostly both are alike. Only read, unless
            the second ends with ``:rw``. ``~`` is the home of the hub's user on the left and that
            of the container on the right; settings in a home, such as ``/root/.config/gcloud``, are
            seen in the container's home as well.
        mount_gcs_path: Whether ``~/gcs`` is mounted as ``/gcs``, if it is there.
        network: The network of hosts: ``host`` for the machine's own, or any that the hub is in or
            can reach.
        connect: The address by which the hub reaches published ports, if not where the engine is.
        memory: The most memory a host may take: bytes, or ``"2g"``.
        cpus: The most processors it may keep busy.
        user: As whom it runs, ``"1000:1000"``; as the image says unless given.
        labels: More labels, e.g. for accounting.
        environment: More variables, e.g. a proxy or credentials of a store.
        engine: Where the engine is; as ``DOCKER_HOST`` says unless given.
    """

    launcher = "docker"
    image: str = Field(default="tbhub", min_length=1)
    pull: Literal["missing", "never"] = "missing"
    ports: Mapping[int, Place] = Field(default_factory=dict)
    volumes: Mapping[str, str] = Field(default_factory=dict)
    mount_gcs_path: bool = True
    network: str = HOST_NETWORK
    connect: str = ""
    memory: int | str = 0
    cpus: float = Field(default=0.0, ge=0)
    user: str = ""
    labels: Mapping[str, str] = Field(default_factory=dict)
    environment: Mapping[str, str] = Field(default_factory=dict, repr=False)
    engine: str = ""

    @field_validator("memory")
    @classmethod
    def _enough(cls, value: int | str) -> int | str:
        if 0 < as_bytes(value) < _LEAST_MEMORY:
            raise ValueError(f"a host needs {as_size(_LEAST_MEMORY)} or more")
        return value

    @field_validator("ports")
    @classmethod
    def _are_ports(cls, value: Mapping[int, Place]) -> Mapping[int, Place]:
        for place in value.values():
            published_ports(place)
        return value

    @field_validator("volumes")
    @classmethod
    def _whole_paths(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for here, there in value.items():
            if not (os.path.isabs(there) or there.startswith("~/")) or here.startswith("."):
                raise ValueError(f"{here}: {there} has to have whole paths, beginning with / or ~/")
        return value

    @field_validator("labels")
    @classmethod
    def _not_ours(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name in (HUB_LABEL, HOST_LABEL):
            if name in value:
                raise ValueError(f"{name} is the launcher's own")
        return value

    @model_validator(mode="after")
    def _together(self) -> Self:
        if len(self.ports) > 1:
            raise ValueError("ports: a host has one port")
        if self.ports and self.network == HOST_NETWORK:
            raise ValueError("ports: in the network host nothing is published; name a network")
        return self

    @property
    def memory_bytes(self) -> int:
        """The limit in bytes; 0 for none."""
        return as_bytes(self.memory)


@dataclass(frozen=True)
class Endpoint:
    """Where a host listens, and where the hub finds it."""

    bind: str
    port: int = 0  # any
    connect: str = ""  # where it listens unless given
    published: tuple[str, int] | None = None  # on the engine's machine


def endpoint(options: DockerOptions, engine: str, port: int | None) -> Endpoint:
    """Return where a host listens and is reached; `port` is the one it is published at, if any."""
    if options.network == HOST_NETWORK:
        return Endpoint("127.0.0.1", connect=options.connect)
    if port is None:
        return Endpoint(AUTO, connect=options.connect)
    ((inner, place),) = options.ports.items()
    address = place[0] if isinstance(place, tuple) else "127.0.0.1"
    connect = options.connect or urlsplit(engine).hostname or "127.0.0.1"
    return Endpoint("0.0.0.0", inner, in_url(connect, port), (address, port))


def published_ports(place: Place) -> range:
    """Return the ports that a host may be published at; of a single number that one, of 0 none.

    Raises:
        ValueError: It is not a port or a range of ports.
    """
    port = place[1] if isinstance(place, tuple) else place
    text = str(port)
    found = _RANGE.fullmatch(text) or _RANGE.fullmatch(f"{text}-{text}")
    first, last = (int(found[1]), int(found[2])) if found else (-1, -1)
    if text == "0":
        return range(0)
    if not 0 < first <= last <= 65535:
        raise ValueError(f"{port!r} is not a port: expected 8006, 0 for any, or '8006-8016'")
    return range(first, last + 1)


def _is_range(place: Place) -> bool:
    return "-" in str(place[1] if isinstance(place, tuple) else place)


def choose_port(options: DockerOptions, taken: Collection[int]) -> int | None:
    """Return a port to publish a host at that is not taken; None if all are.

    A range is kept to. A single port can serve one host only: the next host gets any that is free.
    """
    wanted = [port for place in options.ports.values() for port in published_ports(place)]
    found = next((port for port in wanted if port not in taken), None)
    if found is None and not any(map(_is_range, options.ports.values())):
        free = [port for port in ANY_PORTS if port not in taken]
        found = random.choice(free) if free else None
    return found


def container(
    options: DockerOptions, hub: str, host_id: str, environment: Mapping[str, str], at: Endpoint
) -> dict[str, Any]:
    """The arguments of the SDK's ``containers.create`` for a host of a hub."""
    made: dict[str, Any] = {
        "image": options.image,
        "name": name(hub, host_id),
        "entrypoint": ["python3", "-P", "-m", MODULE],
        "command": [],
        "working_dir": "/",
        "environment": _environment(options, environment, at),
        "labels": {**options.labels, HUB_LABEL: hub, HOST_LABEL: host_id},
        "network": options.network,
        "mounts": _mounts(options),
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "detach": True,
    }
    if at.published is not None:
        made["ports"] = {f"{at.port}/tcp": at.published}
    if options.memory_bytes:
        # No swap beside it: a host that swaps is slower than one that is replaced.
        made |= {"mem_limit": options.memory_bytes, "memswap_limit": options.memory_bytes}
    if options.cpus:
        made["nano_cpus"] = int(options.cpus * 1e9)
    if options.user:
        made["user"] = options.user
    return made


def ending(state: Mapping[str, Any], limit: int) -> Exited:
    """How a container ended, as its engine has it; `limit` is what it could take of memory.

    podman does not tell on every machine that it was memory; then a kill that nobody has asked for
    is the best guess there is.
    """
    code = state.get("ExitCode")
    size = f" of {as_size(limit)}" if limit else ""
    if state.get("OOMKilled"):
        text = f"because it ran out of its memory limit{size}"
        return Exited(code, text, Cause.OUT_OF_MEMORY)
    if error := state.get("Error"):
        return Exited(code, f"because its container failed: {error}")
    if code is None:
        return Exited(None, f"as its container is {state.get('Status')}")
    if code == _KILLED and limit:
        return Exited(code, f"{how(code)}, likely because it ran out of its memory limit{size}")
    return exited(code)


def name(hub: str, host_id: str) -> str:
    """What a host's container is called: an engine may have hosts of several hubs."""
    return _NO_NAME.sub("-", f"tbhub-{hub}-{host_id}")


def _mounts(options: DockerOptions) -> list[dict[str, Any]]:
    """As mounts, since Docker makes empty directories for volumes whose source is missing."""
    found = []
    for given, there in options.volumes.items():
        here = os.path.expanduser(given)
        place, _, mode = there.partition(":")
        kind = "bind" if os.path.isabs(here) else "volume"
        found += [
            {"Type": kind, "Source": here, "Target": target, "ReadOnly": mode != "rw"}
            for target in _targets(place, home(options))
        ]
    return found


def _targets(place: str, home: str) -> list[str]:
    """Where a volume is mounted: settings in a home directory in the container's home, too.

    Containers have a home of their own, and ``/root`` of an image is closed to other users.
    """
    in_home = _HOME_SETTINGS.fullmatch(place)
    targets = [place.replace("~", home, 1) if place.startswith("~/") else place]
    if in_home:
        targets.append(f"{home}/{in_home[1]}")
    return list(dict.fromkeys(targets))


def home(options: DockerOptions) -> str:
    """Return the home directory of the processes in a container."""
    return options.environment.get("HOME", HOST_HOME)


def _environment(options: DockerOptions, given: Mapping[str, str], at: Endpoint) -> dict[str, str]:
    made = {
        "HOME": HOST_HOME,
        "TBHUB_CACHE_DIR": "/tmp/tbhub",
        **options.environment,
        **given,
        "TBHUB_HOST_BIND": at.bind,
        "TBHUB_HOST_CONNECT": at.connect,
        "TBHUB_HOST_PORT": str(at.port),
    }
    if options.memory_bytes:
        budget = int(options.memory_bytes * _BUDGET)
        asked = int(given.get("TBHUB_HOST_MEMORY") or budget)
        made["TBHUB_HOST_MEMORY"] = str(min(asked, budget))
    return made
