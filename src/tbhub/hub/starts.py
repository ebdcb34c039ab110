"""Runs that workers start through the hub: where each may log, and who may go on with which.

A run's place is what the hub will read with its own rights, so it is not anybody's to choose:
admins name any place, others one that their workspace has, a logdir or what a storage connection is
for.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from sqlalchemy import Connection, or_, select
from sqlalchemy.exc import IntegrityError

from tbhub.api.models import NewRun, StartedRun
from tbhub.api.problems import BadRequest, Conflict, Forbidden
from tbhub.catalog.attempts import (
    Placing,
    begin_run,
    known_by_key,
    note_rank,
    resume_run,
    run_to_continue,
    run_to_resume,
)
from tbhub.catalog.runs import get_run
from tbhub.catalog.selection import is_uri
from tbhub.catalog.workspaces import workspace_id_of
from tbhub.database.tables import logdirs, runs
from tbhub.hub.access import Caller
from tbhub.hub.board_access import resolved
from tbhub.storage.errors import StoreError
from tbhub.storage.uri import FILE, HUB, parse

if TYPE_CHECKING:
    from tbhub.hub.hub import Hub

_MOST_DETAILS = 1 << 20  # characters
# What every store, shell and file system takes as it is.
_UNSAFE = re.compile(r"[^\w.=+@-]+")
_LONGEST_PART = 100


def start(hub: Hub, caller: Caller, new: NewRun) -> StartedRun:
    """Starts a run, or goes on with one.

    Raises:
        NotFound: There is no such workspace, job or run.
        Conflict: The name or the place is taken, or the older worker seems to be alive.
        Forbidden: The place is not theirs to log to.
    """
    if len(str(new.details)) > _MOST_DETAILS:
        raise BadRequest("details: too many; what is long belongs in a file of the run")
    try:
        found, workspace_id = _start(hub, caller, new)
    except IntegrityError:  # another has done the same in this moment
        try:
            found, workspace_id = _start(hub, caller, new)
        except IntegrityError:
            raise Conflict("Another run of this name or place has just been made.") from None
    if found.attempt > 1:
        hub.files.fence(found.run.id, found.attempt)
    hub.run_started()
    hub.runs_changed([found.run.id], {workspace_id})
    return found


def _start(hub: Hub, caller: Caller, new: NewRun) -> tuple[StartedRun, int]:
    with hub.database.begin() as connection:
        run_id = _existing(connection, caller, new)
        if run_id is not None:
            workspace_id = connection.execute(
                select(runs.c.workspace_id).where(runs.c.id == run_id)
            ).scalar_one()
            caller.require_write(workspace_id, "run")
            since = hub.heartbeats.fresh_since
            attempt = resume_run(connection, run_id, caller.user_id, new, since)
        else:
            workspace_id = workspace_id_of(connection, new.workspace, caller.visible)
            caller.require_write(workspace_id)
            is_known = new.key is not None and not new.resume_or_start
            known = known_by_key(connection, workspace_id, new.key or "") if is_known else None
            if known is not None:
                run_id, attempt = known
                note_rank(connection, run_id, new)
            else:
                place = _place(hub, connection, caller, workspace_id, new)
                kept = new.storage is None and new.location is None
                run_id = begin_run(connection, workspace_id, caller.user_id, new, place, kept=kept)
                attempt = 1
                if kept:
                    hub.files.begin(run_id)
        run = get_run(connection, run_id, None)
        is_kept = connection.scalar(select(runs.c.kept).where(runs.c.id == run_id))
    target = f"hub://runs/{run_id}" if is_kept else run.location
    return StartedRun(run=run, target=target, attempt=attempt), workspace_id


def _existing(connection: Connection, caller: Caller, new: NewRun) -> int | None:
    """Return the run that is to be resumed; None if one is to be started."""
    if new.resume is not None:
        if new.resume_or_start:
            raise BadRequest("a run is resumed, or resumed or started, not both")
        return run_to_resume(connection, new.resume, caller.visible)
    if not new.resume_or_start:
        return None
    workspace_id = workspace_id_of(connection, new.workspace, caller.visible)
    return run_to_continue(connection, workspace_id, caller.user_id, new)


def _place(
    hub: Hub, connection: Connection, caller: Caller, workspace_id: int, new: NewRun
) -> str | Placing:
    if new.location is not None:
        if new.storage is not None:
            raise BadRequest("a run has a storage or a location, not both")
        location = whole(new.location)
        require_place(hub, connection, caller, workspace_id, location)
        return location
    if new.storage is None:
        return lambda number, _: hub.files.location(number)
    storage = whole(new.storage)
    require_place(hub, connection, caller, workspace_id, storage)
    above = [safe_part(new.workspace), *map(safe_part, new.experiment.split("/"))]
    top = "/".join([storage.rstrip("/"), *above])

    def placed(number: int, name: str) -> str:
        plain = f"{top}/{safe_part(name)}"
        is_free = _is_free(connection, plain) and not _has_files(plain)
        return plain if is_free else f"{plain}-{number}"

    return placed


def whole(place: str) -> str:
    """A place that means the same in every process.

    Raises:
        BadRequest: It is none, or one of another hub's.
    """
    try:
        found = parse(place)
    except StoreError as error:
        raise BadRequest(str(error)) from None
    if found.scheme == HUB:
        raise BadRequest(f"{place}: what a hub keeps is no place for others")
    if found.scheme != FILE:
        return str(found)
    if not os.path.isabs(found.path):
        raise BadRequest(f"{place}: the hub needs the whole path, beginning with /")
    return os.path.normpath(found.path)


def require_place(
    hub: Hub, connection: Connection, caller: Caller, workspace_id: int, place: str
) -> None:
    """Raises `Forbidden` unless the hub may read a place for those of a workspace."""
    if caller.is_admin:
        return
    if is_uri(place):
        bucket = hub.settings.bucket
        # What the hub keeps for one workspace is not for another.
        is_hubs = bool(bucket) and (
            f"{place}/".startswith(f"{bucket}/") or f"{bucket}/".startswith(f"{place}/")
        )
        allowed = not is_hubs and hub.connections.find(place, {workspace_id}) is not None
        advice = "have an admin add a storage connection for it (`tbhub storage add`)"
    else:
        here = select(logdirs.c.path).where(logdirs.c.workspace_id == workspace_id)
        real = resolved(place)
        roots = (resolved(path) for path in connection.scalars(here) if not is_uri(path))
        allowed = bool(real) and any(
            f"{real}/".startswith(f"{root.rstrip('/')}/") for root in roots if root
        )
        advice = "choose one below a logdir of the workspace, or let the hub keep the files"
    if not allowed:
        raise Forbidden(f"{place} is not a place of this workspace; {advice}")


def safe_part(name: str) -> str:
    """A name as one part of a path that nothing misunderstands."""
    return _UNSAFE.sub("_", name)[:_LONGEST_PART].strip(".") or "_"


def _has_files(place: str) -> bool:
    """Return whether a directory of this machine holds anything: it would seem to be the run's."""
    if is_uri(place):
        return False
    try:
        with os.scandir(place) as found:
            return any(found)
    except OSError:
        return False


def _is_free(connection: Connection, place: str) -> bool:
    """Whether no run is at, below or above a place: what lies below a run is its own."""
    parts = place.split("/")
    above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    taken = or_(
        runs.c.location.in_(above),
        runs.c.location.startswith(f"{place}/", autoescape=True),
    )
    return connection.scalar(select(runs.c.id).where(taken).limit(1)) is None
