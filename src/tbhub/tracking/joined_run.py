"""The run of `tbhub run` that a `tbhub.Run` inside of it joins.

Hyperparameters that the program logs are left in the spool, for `tbhub run` to tell the hub of: it
does so until the hub has heard, also later by `tbhub sync`.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from tbhub.client.hub import Hub
from tbhub.errors import TbhubError
from tbhub.publisher.spool import Spool, find_spool
from tbhub.tracking import environment
from tbhub.tracking.hparams import HParam
from tbhub.tracking.owed import read_known, read_owed
from tbhub.tracking.waiting import within

_HPARAMS = "hparams.jsonl"  # in the place of the spool
_PATIENCE = 5.0  # seconds


def read_hparams(spool: Spool) -> dict[str, HParam]:
    """Return the hyperparameters that a program inside of `tbhub run` has left."""
    found: dict[str, HParam] = {}
    with suppress(OSError):
        for line in (spool.path / _HPARAMS).read_bytes().splitlines():
            with suppress(ValueError):  # it is being written
                found |= json.loads(line)
    return found


class JoinedRun:
    """The run of `tbhub run` that a `Run` joins.

    Args:
        joined: The run as the environment describes it.
        hub: The hub to request the run from; found as `Hub` does without one.

    Attributes:
        id: Its number; None while no hub knows it.
        attempt: How often the run has been started; None while no hub knows it.
    """

    def __init__(self, joined: environment.Joined, hub: Hub | None) -> None:
        self.id = joined.id
        self.attempt = joined.attempt
        self._logdir = joined.logdir
        self._hub = hub
        spool = find_spool(joined.logdir.parent)
        self._spool = spool if spool is not None and spool.directory == joined.logdir else None

    @property
    def name(self) -> str:
        """What the run is called; the name of its directory if that is not known."""
        return str(self._facts.get("name") or self._logdir.name)

    @property
    def experiment(self) -> str | None:
        """The experiment of the run; None if that is not known."""
        return self._facts.get("experiment")

    def logdir_of(self, rank: int) -> Path:
        """Return the directory that a process writes to.

        Where `tbhub run` was started once for each rank, that is its directory. Where it covers
        several ranks, as in ``tbhub run -- torchrun …``, each but the first has its own.
        """
        return self._logdir / f"rank{rank}" if rank not in (0, self._rank) else self._logdir

    def path_of(self, directory: Path) -> str:
        """Return the path of a directory in the run."""
        top = Path(f"rank{self._rank}" if self._rank else "")
        return str(top / directory.relative_to(self._logdir))

    def leave_hparams(self, hparams: dict[str, HParam]) -> bool:
        """Leave hyperparameters for `tbhub run`; return whether they could be left."""
        if self._spool is None:
            return False
        try:
            with (self._spool.path / _HPARAMS).open("ab") as file:
                file.write(json.dumps(hparams).encode() + b"\n")
        except OSError:
            return False
        return True

    def unused(self, **given: object) -> list[str]:
        """Return which arguments were given and are not what the run has."""
        return [name for name, value in given.items() if value and not self._has(name, value)]

    @cached_property
    def _rank(self) -> int:
        """The rank of `tbhub run`: the directory is published below ``rank<N>/``, unless 0."""
        if self._spool is not None:
            return self._spool.rank
        found = re.fullmatch(r"rank([1-9][0-9]*)", self._logdir.name)  # written in place
        return int(found[1]) if found else 0

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """The run as its hub knows it; without an answer, as its spool does."""
        number = self.id
        if number is not None:
            with suppress(TbhubError, OSError, ValueError):
                hub = self._hub or Hub(timeout=_PATIENCE, keep_alive=False)
                return within(_PATIENCE, lambda: hub.run(number)).model_dump()
        if self._spool is None:
            return {}
        if (known := read_known(self._spool)) is not None:
            workspace, _, name = known.name.partition("/")
            return {"workspace": workspace, "name": name}
        return read_owed(self._spool).new or {}

    def _has(self, argument: str, value: Any) -> bool:
        """Return whether the run is known to have what an argument asks for."""
        facts = self._facts
        match argument:
            case "tags":
                return set(value) <= set(facts.get("tags", ()))
            case "job":
                job = facts.get("job")
                names = {str(job), f"job{job}", facts.get("job_name")}
                return bool(names & {str(value), f"job{value}"})
            case "storage":
                place = facts.get("location") or facts.get("storage") or ""
                return f"{place}/".startswith(f"{value.rstrip('/')}/")
            case "logdir":
                return Path(value).absolute() == self._logdir
            case "resume":
                return str(value) in (str(self.id), facts.get("name"))
            case "resume_or_start":
                return (self.attempt or 1) > 1
            case "exclude":
                return self._spool is not None and set(value) <= set(self._spool.exclude)
            case "offline":
                return self.id is None
        return bool(facts.get(argument) == value)
