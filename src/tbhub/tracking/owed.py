"""What a hub has yet to be told of runs whose files wait in the spool.

A run that no hub could be told of is kept as it would have been told, under a key of its own, so
that telling it twice is telling it once; and so is an end that no hub has heard of. `tbhub sync`
makes up for both: the run first, then its files, then its end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from tbhub.api.models import Finish, NewRun, Run, StartedRun
from tbhub.api.problems import Conflict, Fenced, NotFound
from tbhub.client import calls
from tbhub.client.hub import Hub
from tbhub.errors import TbhubError
from tbhub.publisher.room import require_room, write_record
from tbhub.publisher.spool import Spool, redirect
from tbhub.storage.errors import StoreError
from tbhub.storage.uri import HUB, parse

# Where files go of which no hub knows yet; no store can be opened by it.
UNTOLD = "hub://runs/new"


class OtherHubError(TbhubError):
    """Files belong to a run of another hub."""


@dataclass(frozen=True)
class Known:
    """A run as the hub knows it, and for which attempt these files are.

    Attributes:
        url: The address of the hub when the run was started.
        created: When the run was created, by which it is told from a run of the same number of
            another hub; None in records of older versions.
        name: The workspace and the name of the run: ``default/mine``.
    """

    run: int
    attempt: int
    url: str
    created: float | None = None
    name: str = ""

    @classmethod
    def of(cls, started: StartedRun, url: str) -> Known:
        """Return the record of a run that a hub has just started or resumed."""
        run = started.run
        name = f"{run.workspace}/{run.name}"
        return cls(run.id, started.attempt, url, run.created.timestamp(), name)

    def is_of(self, run: Run, url: str) -> bool:
        """Return whether this is the record of a run of the hub at `url`."""
        if self.run != run.id:
            return False
        if self.created is None:
            return self.url == url
        return self.created == run.created.timestamp()


@dataclass(frozen=True)
class Owed:
    """What a hub has yet to be told.

    Attributes:
        new: The run itself, unless it is known.
        ended: How it has ended, if it has: `status` and `exit_code`.
    """

    new: dict[str, Any] | None = None
    ended: dict[str, Any] | None = None


def write_known(spool: Spool, known: Known) -> None:
    """Keeps which run the files are of."""
    _write(spool.run, asdict(known))


def read_known(spool: Spool) -> Known | None:
    """Which run the files are of, if a hub knows it."""
    try:
        return Known(**json.loads(spool.run.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def write_owed(spool: Spool, owed: Owed) -> None:
    """Keeps what is to be told; nothing, if that is nothing."""
    if owed == Owed():
        spool.owed.unlink(missing_ok=True)
    else:
        _write(spool.owed, asdict(owed))


def read_owed(spool: Spool) -> Owed:
    """What is to be told."""
    try:
        return Owed(**json.loads(spool.owed.read_bytes()))
    except (OSError, ValueError, TypeError):
        return Owed()


def concerns_hub(spool: Spool) -> bool:
    """Whether a hub is needed before, while or after the files are published."""
    return spool.owed.exists() or spool.run.exists()


def tell_run(hub: Hub, spool: Spool, report: Callable[[str], None] = lambda _: None) -> Spool:
    """Register the run of a spool with a hub, if it has to be. Return where its files go.

    Args:
        report: Called with what the run is called instead, if its name is taken.

    Raises:
        HubUnreachable: No hub answers.
        Problem: The hub does not want it.
        OSError: What the hub returns could not be recorded: the disk is full.
    """
    owed = read_owed(spool)
    if owed.new is None:
        return spool
    require_room(spool.path)
    started = _register(hub, owed.new, report)
    spool = redirect(spool, started.target)
    write_known(spool, Known.of(started, hub.connection.url))
    write_owed(spool, Owed(None, owed.ended))
    return spool


def _register(hub: Hub, owed: Mapping[str, Any], report: Callable[[str], None]) -> StartedRun:
    from tbhub.tracking.takeover import proven_end

    new = calls.build(NewRun, **{**owed, "late": True})
    try:
        return hub.create_run(new)
    except Conflict as error:
        if ended := proven_end(hub, error):
            new.ended_attempt = ended.attempt
            return hub.create_run(new)
        if new.resume or new.resume_or_start or not new.name:
            raise
    # Its name is taken, and whoever chose it is gone. Told again it is the same: by its key.
    name = f"{new.name}-{sha256(owed['key'].encode()).hexdigest()[:6]}"
    report(f"the name {new.name} is taken: the run is called {name}")
    return hub.create_run(calls.build(NewRun, **{**owed, "name": name}))


def is_same_run(spool: Spool, new: NewRun) -> bool:
    """Return whether a spool has files of the run that is to be resumed, by what is known here."""
    owed, known = read_owed(spool).new or {}, read_known(spool)
    names = (
        {f"{owed.get('workspace', new.workspace)}/{owed['name']}"} if owed.get("name") else set()
    )
    numbers: set[str] = set()
    if known is not None:
        names.add(known.name)
        numbers = {str(known.run), f"#{known.run}", f"trial:{known.run}"}
    if new.resume is not None:
        return new.resume in numbers or bool(names & {new.resume, f"{new.workspace}/{new.resume}"})
    if new.name is not None:
        return f"{new.workspace}/{new.name}" in names
    return new.identity is not None and owed.get("identity") == new.identity


def require_own_hub(hub: Hub, spool: Spool) -> None:
    """Check that the run of a spool, if a hub knows it, is a run of this hub.

    A run that the hub knows no longer is not an error: `why_unwanted` reports it.

    Raises:
        OtherHubError: It is a run of another hub.
        HubUnreachable: No hub answers.
        Problem: The hub does not say.
    """
    known = read_known(spool)
    if known is None:
        return
    here = hub.connection.url
    try:
        if known.is_of(hub.run(known.run), here):
            return
    except NotFound:
        if known.url == here:
            return
    if known.url == here:
        raise OtherHubError(
            f"these are files of a run {known.run} of the hub that was at {here} before; the hub "
            "there now is another one"
        )
    raise OtherHubError(
        f"these are files of run {known.run} of another hub, {known.url}; this hub is {here}. "
        f"hint: TBHUB_URL={known.url} tbhub sync"
    )


def tell_end(hub: Hub, spool: Spool) -> None:
    """Tells a hub how the run has ended, if it has to be told.

    Raises:
        HubUnreachable: No hub answers.
        Problem: The hub does not take it.
    """
    owed, known = read_owed(spool), read_known(spool)
    if owed.ended is None or known is None:
        return
    with suppress(Fenced):  # another goes on with it: how this one has ended is of no interest
        hub.finish_run(known.run, calls.build(Finish, attempt=known.attempt, **owed.ended))
    write_owed(spool, Owed(owed.new, None))


def why_unwanted(hub: Hub, spool: Spool) -> str:
    """Why nobody wants the files any more, in a sentence; empty if that is not so.

    Raises:
        HubUnreachable: No hub answers.
        Problem: The hub does not say.
    """
    known = read_known(spool)
    if known is None:
        return ""
    try:
        run = hub.run(known.run)
    except NotFound:
        return f"the hub knows no run {known.run} any more"
    if run.attempt > known.attempt and spool.is_fenced:
        return (
            f"another process has gone on with run {known.run}: attempt {run.attempt}; this is "
            f"what attempt {known.attempt} has left, which was still writing then"
        )
    return ""


class Rights(NamedTuple):
    """What files are published with.

    Attributes:
        credentials: Of the store; None: what the environment has.
        late_attempt: The attempt that wrote the files, if a newer one has begun since; else 0.
    """

    credentials: Mapping[str, str] | None = None
    late_attempt: int = 0


def rights_to_publish(hub: Hub, spool: Spool) -> Rights:
    """Return what the files of a spool are published with: the rights of the newest attempt.

    An attempt that is over wrote files of its own: to publish the rest of them later disturbs no
    newer attempt, and `late_attempt` keeps the publisher from replacing what that one writes.

    Raises:
        HubUnreachable: No hub answers.
        Problem: The hub does not say which attempt is the newest.
    """
    known = read_known(spool)
    if known is None:
        return Rights()
    newest = hub.run(known.run).attempt
    credentials = hub_credentials(hub, newest) if goes_to_hub(spool.uri) else None
    return Rights(credentials, known.attempt if newest > known.attempt else 0)


def hub_credentials(hub: Hub, attempt: int) -> dict[str, str]:
    """What shows a hub who sends files."""
    found = {"url": hub.connection.url, "attempt": str(attempt)}
    if hub.connection.token:
        found["token"] = hub.connection.token
    return found


def goes_to_hub(uri: str) -> bool:
    """Whether a hub keeps what is published there."""
    try:
        return parse(uri).scheme == HUB
    except StoreError:
        return False


def _write(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all."""
    write_record(path, json.dumps(content))
