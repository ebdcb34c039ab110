"""Logs that are there already, registered as runs where they lie: once, or looked for ever after.

Below a directory of this machine it is the catalog's discovery that looks; a prefix of a bucket is
listed, and its directories with event files are runs. What is watched is a logdir, whose path may
be a URI. It is the indexer that goes on: that looks again, and reads what the runs have logged.
"""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import select, update

from tbhub.api.models import ExistingLogs, FoundRuns, NewLogdir
from tbhub.api.problems import BadRequest, Conflict, NotFound, Unavailable
from tbhub.catalog.adopted_dirs import find_adopters, write_adopted
from tbhub.catalog.discovery import Discovery, RemoteDiscovery
from tbhub.catalog.run_records import FoundRun, add_found, find_known
from tbhub.catalog.selection import is_uri
from tbhub.catalog.workspaces import add_logdir, remember, workspace_id_of
from tbhub.database.tables import logdirs
from tbhub.events.names import is_event_file
from tbhub.hub.access import Caller
from tbhub.hub.starts import require_place, whole
from tbhub.storage.errors import StoreError
from tbhub.storage.uri import parse

if TYPE_CHECKING:
    from tbhub.hub.hub import Hub

_AT_ONCE = 5000  # runs written together
_PATIENCE = 15.0  # seconds for all directories, while somebody waits


def register(hub: Hub, caller: Caller, logs: ExistingLogs) -> FoundRuns:
    """Makes runs of what is there.

    Raises:
        NotFound: There is no such workspace, or nothing at the place.
        Forbidden: The place is not theirs to read.
        Unavailable: The place cannot be read; says why.
    """
    place = whole(logs.uri)
    with hub.database.begin() as connection:
        workspace_id = workspace_id_of(connection, logs.workspace, caller.visible)
        caller.require_write(workspace_id)
        require_place(hub, connection, caller, workspace_id, place)
    if logs.watch:
        caller.require("admin", "admin")
    if is_uri(place):
        found = _list_prefix(hub, place, workspace_id, logs.experiment)
    else:
        if not os.path.isdir(place):
            raise NotFound(f"There is no directory {place} on the hub's machine.")
        try:
            found = _list_directory(place, logs.experiment)
        except BadRequest:
            if not logs.watch:
                raise
            found = []  # the indexer looks through it, with nobody waiting
    if logs.experiment is None and not logs.watch:
        found = _filed(place, found)
    with hub.database.begin() as connection:
        remember(connection, workspace_id, place)
    logdir_id = None
    if logs.watch:
        with hub.database.begin() as connection:
            new = NewLogdir(path=place, workspace=logs.workspace, experiment=logs.experiment)
            same = logdirs.c.workspace_id == workspace_id, logdirs.c.path == place
            try:
                add_logdir(connection, new, None)
            except Conflict:  # it is being watched already
                if logs.experiment is not None:
                    values = {"experiment": logs.experiment}
                    connection.execute(update(logdirs).where(*same).values(values))
            logdir_id = connection.scalar(select(logdirs.c.id).where(*same))
        hub.rights_changed()
    new_runs, known = _write(hub, workspace_id, logdir_id, found)
    hub.rescan()
    if new_runs:
        hub.runs_changed(new_runs, {workspace_id})
    return FoundRuns(uri=place, runs=len(known), new=len(new_runs), logdir=logdir_id)


def _list_prefix(hub: Hub, place: str, workspace_id: int, experiment: str | None) -> list[FoundRun]:
    try:
        store, top = hub.connections.open(place, {workspace_id})
        try:
            paths = [entry.path for entry in store.list(top)]
        finally:
            store.close()
    except StoreError as error:
        raise Unavailable(str(error)) from None
    bucket = replace(parse(place), path="")
    discovery = RemoteDiscovery(place, experiment)
    return [discovery.found(f"{bucket}/{path}") for path in _directories(paths)]


def _list_directory(place: str, experiment: str | None) -> list[FoundRun]:
    discovery = Discovery(place, experiment=experiment, patience=_PATIENCE)
    try:
        return [discovery.found(path) for path in discovery.scan().new]
    except TimeoutError as error:
        raise BadRequest(
            f"{place} is large: {error} and more; name a directory of runs, or watch it"
        ) from None


def _filed(place: str, found: list[FoundRun]) -> list[FoundRun]:
    """File a run that was named itself under the directory above it, as beside its siblings."""
    above = posixpath.basename(posixpath.dirname(place))
    if above and [run.location for run in found] == [place]:
        return [found[0]._replace(experiment=above)]
    return found


def _directories(paths: Iterable[str]) -> list[str]:
    return sorted({path.rpartition("/")[0] for path in paths if is_event_file(path)})


def _write(
    hub: Hub, workspace_id: int, logdir_id: int | None, found: list[FoundRun]
) -> tuple[list[int], set[int]]:
    """Return the runs that are new, and all runs that have what was found.

    A directory whose event files all belong to started runs is not added beside these.
    """
    here = [run.location for run in found if not is_uri(run.location)]
    with hub.database.read() as connection:
        adopters = find_adopters(connection, workspace_id, here)
    known: set[int] = set()
    new: list[int] = []
    for begin in range(0, len(found), _AT_ONCE):
        some = found[begin : begin + _AT_ONCE]
        with hub.database.begin() as connection:
            there = find_known(connection, workspace_id, [run.location for run in some])
            before = {location: row.id for location, row in there.items()}
            adopted = {run.location for run in some} & adopters.keys() - before.keys()
            if logdir_id is not None:
                write_adopted(connection, workspace_id, adopted)
            added = [run for run in some if run.location not in adopted]
            numbers = add_found(connection, workspace_id, logdir_id, added, time.time())
        known.update(before.values(), numbers.values(), *(adopters[each] for each in adopted))
        new += [number for location, number in numbers.items() if location not in before]
    return new, known
