"""What a launcher does: it starts hosts, knows whether they live, stops them, and has their logs.

A launcher holds no state that matters: what it needs to find a host again is in `Details`, which
the hub keeps in its database. Any of its methods may be called by another hub process than the one
that started the host.

What a launcher has started bears the id of its hub (`Site.hub`) and the name of the host, so that
`find` tells it from everything else: what no hub knows any more is ended.

Where hosts run on other machines, a launcher sets two variables of theirs: `TBHUB_HOST_BIND`, the
address to listen on (`auto`: the one by which this machine reaches the hub), and where that is not
what the hub connects to, `TBHUB_HOST_CONNECT`. A host registers by itself, with a token that is
good once: `environment` holds it, and belongs into nobody else's sight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

from tbhub.boards.life import Cause
from tbhub.errors import TbhubError

Details = Mapping[str, Any]
"""What finds a host again; JSON. Its ``host`` is the host's name."""


class LaunchError(TbhubError):
    """The engine does not do what was asked, or does not answer; says why and what to do."""


@dataclass(frozen=True)
class Site:
    """The hub that a launcher works for.

    Attributes:
        hub: Its id, 12 hexadecimal digits that stay the same as long as its home does.
        directory: For files of hosts; nobody but the hub's owner may look into it.
    """

    hub: str
    directory: Path


class Options(BaseModel):
    """What can be set of a launcher; each launcher has a class of its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    launcher: ClassVar[str]
    """The name of the launcher."""


@dataclass(frozen=True)
class Starting:
    """On its way; `text` says how far it is, to whoever waits for a board.

    Attributes:
        queued: The engine has not begun with it; the time it has to register has not either.
    """

    text: str = ""
    queued: bool = False


@dataclass(frozen=True)
class Running:
    """Its process lives."""


@dataclass(frozen=True)
class Exited:
    """It is gone: with which code, if that is known, and how a person would say it.

    Attributes:
        reason: What goes on where "host slurm-1 ended" stops: "with exit code 1".
        cause: A crash, a preemption, an eviction, …: what people and the hub tell apart.
    """

    code: int | None
    reason: str
    cause: Cause = Cause.CRASH

    @property
    def taken(self) -> bool:
        """Whether it was taken away by no fault of its own."""
        return self.cause.taken


Status = Starting | Running | Exited


class Launcher(Protocol):
    """Where hosts run. Whatever the engine refuses or leaves unanswered is a `LaunchError`."""

    name: str
    """What its hosts' names begin with."""

    shares: bool
    """Whether boards share hosts, unless the hub is told otherwise."""

    async def start(self, host_id: str, environment: Mapping[str, str]) -> Details:
        """Starts a host; it registers with the hub by itself.

        Raises:
            LaunchError: It cannot be started; nothing is left of it.
        """

    async def find(self) -> Mapping[str, Details]:
        """What this hub has had started and the engine still has, by the hosts' names."""

    async def poll(self, details: Details) -> Status:
        """How a host is. Asked often while hosts start: the engine is asked once for all."""

    async def stop(self, details: Details) -> None:
        """Ends a host and waits until it is gone; one that is gone is no matter."""

    async def logs(self, details: Details, tail: int) -> list[str]:
        """The last lines a host has printed; also of one that has ended, where they are kept."""

    async def close(self) -> None:
        """Lets go of the engine; hosts live on."""


class LauncherClass(Protocol):
    """What an entry point of the group ``tbhub.launchers`` names."""

    Options: type[Options]

    def make(self, site: Site, options: Any) -> Launcher:
        """A launcher for a hub, with options that are valid."""
