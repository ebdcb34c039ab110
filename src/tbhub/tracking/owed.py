"""What a hub has yet to be told of runs whose files wait in the spool.

A run that no hub could be told of is kept as it would have been told, under a key of its own, so
that telling it twice is telling it once; and so is an end that no hub has heard of. `tbhub sync`
makes up for both: the run first, then its files, then its end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from tbhub.api.models import Finish, NewRun
from tbhub.api.problems import Conflict, Fenced, NotFound
from tbhub.client import calls
from tbhub.client.hub import Hub
from tbhub.publisher.spool import Spool, redirect
from tbhub.storage.errors import StoreError
from tbhub.storage.uri import HUB, parse

# Where files go of which no hub knows yet; no store can be opened by it.
UNTOLD = "hub://runs/new"


@dataclass(frozen=True)
class Known:
    """A run as the hub knows it, and for which attempt these files are."""

    run: int
    attempt: int
    url: str


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


def tell_run(hub: Hub, spool: Spool) -> Spool:
    """Tells a hub of the run, if it has to be told; where its files go.

    Raises:
        HubUnreachable: No hub answers.
        Problem: The hub does not want it.
    """
    owed = read_owed(spool)
    if owed.new is None:
        return spool
    try:
        started = hub.create_run(calls.build(NewRun, **owed.new))
    except Conflict:
        if owed.new.get("resume") or not owed.new.get("name"):
            raise
        # Its name is taken, and whoever chose it is gone. Told again it is the same: by its key.
        mark = sha256(owed.new["key"].encode()).hexdigest()[:6]
        name = f"{owed.new['name']}-{mark}"
        started = hub.create_run(calls.build(NewRun, **{**owed.new, "name": name}))
    spool = redirect(spool, started.target)
    write_known(spool, Known(started.run.id, started.attempt, hub.connection.url))
    write_owed(spool, Owed(None, owed.ended))
    return spool


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
    unfinished = path.with_name(f"{path.name}.tmp")
    unfinished.write_text(json.dumps(content))
    unfinished.replace(path)
