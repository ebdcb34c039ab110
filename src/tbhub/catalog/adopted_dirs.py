"""Directories below a log directory whose event files all belong to runs that were started.

A script that `tbhub run` tracks may log to a directory that the hub watches. Its event files are
copied into the run, so the directory is not listed as a run of its own: it would show the same data
a second time. An event file and its copy have the same name and the same first record; no two other
event files have.

A directory with a single other event file is listed, and so is one whose run has been deleted.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, delete, exists, or_, select

from tbhub.catalog.run_records import delete_found, is_kept_by_user
from tbhub.database.rows import chunks, insert_new
from tbhub.database.tables import adopted_dirs, board_runs, boards, event_files, runs
from tbhub.events.begun import FIRST_BYTES, begun
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


def select_adopted(
    connection: Connection, workspace_id: int, directories: Iterable[str]
) -> set[str]:
    """Return the directories whose event files all belong to started runs of a workspace."""
    adopted = set()
    for directory in directories:
        files = _files_in(directory)
        if files and set(files) <= _known(connection, workspace_id, files):
            adopted.add(directory)
    return adopted


def withdraw(connection: Connection, suspects: Sequence[Suspect]) -> list[Suspect]:
    """Delete found runs whose directories are adopted, and remember the directories.

    A run with a note, a tag, a name of its own, or on a board that does not follow its selector
    stays. Return the runs that were deleted.
    """
    rows = {
        row.id: row
        for ids in chunks([each.id for each in suspects])
        for row in connection.execute(
            select(runs.c.id, runs.c.workspace_id, _is_missed().label("missed")).where(
                runs.c.id.in_(ids)
            )
        )
    }
    withdrawn = [
        each
        for each in suspects
        if (row := rows.get(each.id)) is not None
        and not row.missed
        and select_adopted(connection, row.workspace_id, [each.location])
    ]
    for each in withdrawn:
        key = {"workspace_id": rows[each.id].workspace_id, "location": each.location}
        insert_new(connection, adopted_dirs, [key])
    delete_found(connection, [each.id for each in withdrawn])
    return withdrawn


def forget_adopted(connection: Connection, workspace_id: int, directories: Collection[str]) -> None:
    """Let directories be listed as runs again."""
    for some in chunks(sorted(directories)):
        mine = adopted_dirs.c.workspace_id == workspace_id, adopted_dirs.c.location.in_(some)
        connection.execute(delete(adopted_dirs).where(*mine))


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


def _known(connection: Connection, workspace_id: int, files: Sequence[EventFile]) -> set[EventFile]:
    """Return those event files that started runs of a workspace have."""
    known: set[EventFile] = set()
    joined = event_files.join(runs, runs.c.id == event_files.c.run_id)
    for some in chunks(files):
        chosen = (
            select(event_files.c.name, event_files.c.begun)
            .select_from(joined)
            .where(
                runs.c.workspace_id == workspace_id,
                event_files.c.begun.in_([each.begun for each in some]),
            )
        )
        known.update(EventFile(*row) for row in connection.execute(chosen))
    return known


def _is_missed() -> Any:
    """Whether a user would miss a found run of which another run has the data."""
    shown = (
        exists()
        .where(board_runs.c.run_id == runs.c.id)
        .where(boards.c.id == board_runs.c.board_id)
        .where(~boards.c.follow)
    )
    return or_(is_kept_by_user(), shown)
