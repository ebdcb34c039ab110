"""What can be set of hosts on Ray, and what Ray is told to make of it. Pure; nothing here asks Ray.

A host is a detached actor: it belongs to nobody, so that it outlives the hub, and it is found by
its name in a namespace that is tbhub's alone. Ray does not start it anew: a host registers by a
token that is good once, and where boards are to go on the hub starts another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from tbhub.boards.host_process import AUTO
from tbhub.launchers.base import Options
from tbhub.launchers.sizes import as_bytes, as_size

MODULE = "tbhub.boards.host_process"
NAMESPACE = "tbhub"
AUTO_ADDRESS = "auto"
CLIENT = "ray://"
_LEAST_MEMORY = 128 << 20  # a host without a board takes so much
_BUDGET = 0.5  # the share of its memory that points may take; TensorBoard and charts need the rest
_THREADS = 8  # that answer for a host: one may be ending it while others ask
# What has an option of its own, or is not for hosts.
_NOT_RESOURCES = {
    "CPU": "num_cpus says how many",
    "GPU": "hosts use none",
    "memory": "memory says how much",
    "object_store_memory": "hosts put nothing into Ray's object store",
}


class Ray(Options):
    """Hosts as actors of a Ray cluster, without GPUs.

    Attributes:
        address: ``"auto"`` for the cluster that the hub's machine is a node of (or ``RAY_ADDRESS``
            says), ``"10.0.0.1:6379"`` for one of several, ``"ray://head:10001"`` from outside.
        num_cpus: Of each host, as Ray counts them.
        memory: That Ray sets aside for it: bytes, or ``"4g"``. Half of it may be points.
        resources: What its node has to have besides: ``{"data": 0.01}``.
        label_selector: Labels its node has to have: ``{"zone": "eu", "disk": "in(nvme,ssd)"}``.
        runtime_env: As Ray knows it: ``{"pip": ["tbhub"]}``; nodes have tbhub installed unless it
            says otherwise.
        environment: More variables of the hosts.
        bind, connect: The address a host listens on, and the one the hub reaches it by.
    """

    launcher = "ray"

    address: str = AUTO_ADDRESS
    num_cpus: float = Field(default=1.0, ge=0)
    memory: int | str = 0
    resources: Mapping[str, float] = Field(default_factory=dict)
    label_selector: Mapping[str, str] = Field(default_factory=dict)
    runtime_env: Mapping[str, Any] = Field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = Field(default_factory=dict, repr=False)
    bind: str = AUTO
    connect: str = ""

    @field_validator("address")
    @classmethod
    def _somewhere(cls, value: str) -> str:
        if value != AUTO_ADDRESS and place(value) is None:
            raise ValueError('"auto", "host:6379" or "ray://host:10001"')
        return value

    @field_validator("memory")
    @classmethod
    def _enough(cls, value: int | str) -> int | str:
        if 0 < as_bytes(value) < _LEAST_MEMORY:
            raise ValueError(f"a host needs {as_size(_LEAST_MEMORY)} or more")
        return value

    @field_validator("resources")
    @classmethod
    def _others(cls, value: Mapping[str, float]) -> Mapping[str, float]:
        for name, amount in value.items():
            if name in _NOT_RESOURCES:
                raise ValueError(f"{name}: {_NOT_RESOURCES[name]}")
            if amount <= 0 or (amount > 1 and amount != int(amount)):
                raise ValueError(f"{name}: a whole number, or a part of one")
        return value

    @field_validator("runtime_env")
    @classmethod
    def _plain(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            json.dumps(value)
        except TypeError as error:
            raise ValueError(f"it has to be JSON: {error}") from None
        return value

    @field_validator("environment")
    @classmethod
    def _variables(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name in value:
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                raise ValueError(f"{name!r} is not the name of a variable")
        return value

    @property
    def needs(self) -> dict[str, float]:
        """What a node has to have free for a host, by Ray's names."""
        own = {"CPU": self.num_cpus, "memory": float(as_bytes(self.memory))}
        return {name: amount for name, amount in own.items() if amount} | dict(self.resources)


def place(address: str) -> tuple[str, int] | None:
    """The name and port of an address; none if it is not one."""
    parts = urlsplit(address if address.startswith(CLIENT) else f"//{address}")
    try:
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not name or not port or parts.path.strip("/") or parts.query or parts.username:
        return None
    return name, port


def prefix(hub: str) -> str:
    """What the names of a hub's actors begin with."""
    return f"tbhub-{hub}-"


def actor_name(hub: str, host: str) -> str:
    """What a host's actor is called, by which it is told from all others."""
    return f"{prefix(hub)}{host}"


def actor_options(options: Ray, hub: str, host: str) -> dict[str, Any]:
    """The arguments of Ray's ``options`` for a host of a hub; JSON."""
    made: dict[str, Any] = {
        "name": actor_name(hub, host),
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "max_restarts": 0,
        "max_task_retries": 0,
        "max_concurrency": _THREADS,
        "num_cpus": options.num_cpus,
        "num_gpus": 0,
    }
    if size := as_bytes(options.memory):
        made["memory"] = size
    if options.resources:
        made["resources"] = dict(options.resources)
    if options.label_selector:
        made["label_selector"] = dict(options.label_selector)
    if options.runtime_env:
        made["runtime_env"] = dict(options.runtime_env)
    return made


def variables(options: Ray, given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a host, beside that of its node."""
    made = {**options.environment, **given, "TBHUB_HOST_BIND": options.bind}
    if options.connect:
        made["TBHUB_HOST_CONNECT"] = options.connect
    if size := as_bytes(options.memory):
        budget = int(size * _BUDGET)
        asked = int(given.get("TBHUB_HOST_MEMORY") or budget)
        made["TBHUB_HOST_MEMORY"] = str(min(asked, budget))
    return made
