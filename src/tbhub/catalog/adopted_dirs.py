"""Directories below a log directory whose event files all belong to runs that were started.

A script that `tbhub run` tracks may log to a directory that the hub watches. Its event files are
copied into the run, so the directory is not listed as a run of its own: it would show the same data
a second time. An event file and its copy have the same name and the same first record; no two other
event files have.

A directory with a single other event file is listed. One whose event files all belong to runs that
a user deletes is forgotten with them: it is listed again once a user adds it. Of one that other
runs share, the files of the deleted runs are recorded, so that they do not appear as a new run.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, and_, delete, select

from tbhub.database.rows import chunks, insert_new
from tbhub.database.tables import adopted_dirs, deleted_files, event_files, runs
from tbhub.events.begun import FIRST_BYTES, begun
from tbhub.events.names import is_event_file
from tbhub.series.growing_file import Readable
from tbhub.series.run_files import LocalFiles

_MAX_NAME = 255  # characters, as file systems have it


class EventFile(NamedTuple):
    """What identifies an event file and its copies.

    Attributes:
        name: The name of the file, without its directory.
        begun: The time of its first record.
    """

    name: str
    begun: float


class AdoptedDir(NamedTuple):
    """A directory that is not listed as a run of a workspace.

    Attributes:
        files: The event files there that belong to the runs in question.
        is_shared: Whether other runs have event files there, too.
    """

    workspace_id: int
    location: str
    files: frozenset[EventFile] = frozenset()
    is_shared: bool = False


class Suspect(NamedTuple):
    """A found run that has an event file of a started run."""

    id: int
    location: str
    logdir_id: int


def identify(file: Readable) -> EventFile | None:
    """Return what identifies an event file; None while its first record is not written.

    Raises:
        OSError: The file cannot be read.
    """
    at = begun(file.read(0, FIRST_BYTES))
    name = os.path.basename(file.path)
    return EventFile(name, at) if at is not None and len(name) <= _MAX_NAME else None


def write_event_files(connection: Connection, run: int, files: Iterable[EventFile]) -> None:
    """Replace the event files that a started run is known to have."""
    connection.execute(delete(event_files).where(event_files.c.run_id == run))
    rows = [{"run_id": run, "name": each.name, "begun": each.begun} for each in files]
    insert_new(connection, event_files, rows)


def find_suspects(
    connection: Connection,
    started: Collection[EventFile],
    found: Mapping[int, float | None],
) -> list[Suspect]:
    """Return found runs whose first event file may be one of a started run.

    Args:
        started: Event files of started runs that have just been read.
        found: Found runs that have just been read, and when the first file of each was begun.
    """
    suspects: dict[int, Suspect] = {}
    columns = (runs.c.id, runs.c.location, runs.c.logdir_id)
    is_found = and_(runs.c.logdir_id.is_not(None), runs.c.heartbeat.is_(None))
    for some in chunks(sorted({each.begun for each in started})):
        chosen = select(*columns).where(is_found, runs.c.created.in_(some))
        suspects |= {row.id: Suspect(*row) for row in connection.execute(chosen)}
    times = sorted({each for each in found.values() if each is not None})
    known: set[float] = set()
    for chunk in chunks(times):
        chosen_times = select(event_files.c.begun).where(event_files.c.begun.in_(chunk))
        known.update(connection.scalars(chosen_times))
    for ids in chunks([run for run, at in found.items() if at in known]):
        chosen = select(*columns).where(is_found, runs.c.id.in_(ids))
        suspects |= {row.id: Suspect(*row) for row in connection.execute(chosen)}
    return list(suspects.values())


def find_adopters(
    connection: Connection, workspace_id: int, directories: Collection[str]
) -> dict[str, set[int]]:
    """Return the started runs of a workspace that have the event files of directories.

    Return a set of runs by directory; directories with an event file that no started run has, or
    had when it was deleted, are left out.
    """
    if not directories or not _has_event_files(connection, workspace_id):
        return {}
    files = {directory: _files_in(directory) for directory in directories}
    wanted = {each for some in files.values() for each in some}
    owners = _owners(connection, workspace_id, wanted)
    deleted = _deleted_files(connection, workspace_id, directories)
    adopters: dict[str, set[int]] = {}
    for directory, some in files.items():
        if all(each in owners or each in deleted.get(directory, ()) for each in some):
            adopters[directory] = {run for each in some for run in owners.get(each, ())}
    return {directory: found for directory, found in adopters.items() if found}


def select_adopted_by(connection: Connection, ids: Sequence[int]) -> list[AdoptedDir]:
    """Return the adopted directories that have event files of the given runs."""
    files: dict[int, set[EventFile]] = {}  # by workspace
    columns = (runs.c.workspace_id, event_files.c.name, event_files.c.begun)
    joined = select(*columns).join_from(event_files, runs, runs.c.id == event_files.c.run_id)
    for chunk in chunks(ids):
        for row in connection.execute(joined.where(event_files.c.run_id.in_(chunk))):
            files.setdefault(row.workspace_id, set()).add(EventFile(row.name, row.begun))
    adopted = []
    for workspace_id, owned in files.items():
        names = {each.name for each in owned}
        mine = select(adopted_dirs.c.location).where(adopted_dirs.c.workspace_id == workspace_id)
        for location in connection.scalars(mine).all():
            # Names are compared first: there may be many directories, and few of these runs.
            if names.isdisjoint(_names_in(location)):
                continue
            there = frozenset(_files_in(location))
            gone = _deleted_files(connection, workspace_id, [location]).get(location, set())
            if files_here := there & owned:
                is_shared = not there <= owned | gone
                adopted.append(AdoptedDir(workspace_id, location, files_here, is_shared))
    return adopted


def write_deleted(connection: Connection, directories: Iterable[AdoptedDir]) -> None:
    """Record the event files of deleted runs in directories that other runs share."""
    rows = [
        {
            "workspace_id": directory.workspace_id,
            "location": directory.location,
            "name": each.name,
            "begun": each.begun,
        }
        for directory in directories
        for each in directory.files
    ]
    insert_new(connection, deleted_files, rows)


def write_adopted(connection: Connection, workspace_id: int, directories: Iterable[str]) -> None:
    """Remember directories that are not to be listed as runs."""
    rows = [{"workspace_id": workspace_id, "location": each} for each in directories]
    insert_new(connection, adopted_dirs, rows)


def forget_adopted(connection: Connection, workspace_id: int, directories: Collection[str]) -> None:
    """Let directories be listed as runs again."""
    for some in chunks(sorted(directories)):
        mine = adopted_dirs.c.workspace_id == workspace_id, adopted_dirs.c.location.in_(some)
        connection.execute(delete(adopted_dirs).where(*mine))


def _deleted_files(
    connection: Connection, workspace_id: int, directories: Collection[str]
) -> dict[str, set[EventFile]]:
    """Return the event files of deleted runs that were left in directories, by directory."""
    files: dict[str, set[EventFile]] = {}
    for some in chunks(sorted(directories)):
        mine = deleted_files.c.workspace_id == workspace_id, deleted_files.c.location.in_(some)
        for row in connection.execute(select(deleted_files).where(*mine)):
            files.setdefault(row.location, set()).add(EventFile(row.name, row.begun))
    return files


def _files_in(directory: str) -> list[EventFile]:
    """Return what identifies the event files of a directory; nothing if one is not identified."""
    problems: dict[str, str] = {}
    files = []
    try:
        for file in LocalFiles(directory).open({}, problems).values():
            each = identify(file)
            if each is None:
                return []
            files.append(each)
    except OSError:
        return []
    return [] if problems else files


def _names_in(directory: str) -> set[str]:
    """Return the names of the event files of a directory."""
    try:
        return {name for name in os.listdir(directory) if is_event_file(name)}
    except OSError:
        return set()


def _has_event_files(connection: Connection, workspace_id: int) -> bool:
    """Return whether a started run of a workspace has an event file."""
    joined = event_files.join(runs, runs.c.id == event_files.c.run_id)
    mine = select(event_files.c.run_id).select_from(joined)
    here = mine.where(runs.c.workspace_id == workspace_id)
    return connection.execute(here.limit(1)).first() is not None


def _owners(
    connection: Connection, workspace_id: int, files: Collection[EventFile]
) -> dict[EventFile, set[int]]:
    """Return the started runs of a workspace that have event files, by event file."""
    owners: dict[EventFile, set[int]] = {}
    joined = event_files.join(runs, runs.c.id == event_files.c.run_id)
    columns = (event_files.c.name, event_files.c.begun, event_files.c.run_id)
    for some in chunks(sorted({each.begun for each in files})):
        chosen = (
            select(*columns)
            .select_from(joined)
            .where(runs.c.workspace_id == workspace_id, event_files.c.begun.in_(some))
        )
        for row in connection.execute(chosen):
            owners.setdefault(EventFile(row.name, row.begun), set()).add(row.run_id)
    return owners
