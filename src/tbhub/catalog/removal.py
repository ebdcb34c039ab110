"""Which files belong to a run, and removing them: exactly these and no others.

To a run belongs everything in its directory and below, but for the directories of other runs.
Where the logdir itself is a run, only its event files are the run's: what else lies there is not
known to be. What somebody created has all that is below it.

No link is followed, neither when files are looked up nor when they are removed: below the logdir
every directory is opened by its name in the one above it. A run that is reached through a link
keeps its files, and says so.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from sqlalchemy import Connection, delete, select

from tbhub.api.models import Deleted
from tbhub.catalog.adopted_dirs import forget_adopted, select_adopted_by, write_deleted
from tbhub.database.rows import chunks, insert_new
from tbhub.database.tables import forgotten, logdirs, runs
from tbhub.events.names import is_event_file
from tbhub.storage.uri import same_place_key

_LISTED = 10


@dataclass(frozen=True)
class RunFolder:
    """The directory of a run."""

    location: str
    root: str | None  # the logdir it was found below; none: its own place was named
    whole: bool = False  # directories with event files below it are its own, too


@dataclass(frozen=True)
class Folder:
    """Names in one directory that are to go."""

    root: str
    inside: str  # below the root; "" is the root itself
    names: tuple[str, ...]
    bytes: int

    @property
    def path(self) -> str:
        """Where it is."""
        return os.path.join(self.root, self.inside) if self.inside else self.root


@dataclass
class Plan:
    """What is to go, the innermost directories first; and what cannot."""

    folders: list[Folder] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def files(self) -> int:
        """How many files."""
        return sum(len(folder.names) for folder in self.folders)

    @property
    def bytes(self) -> int:
        """How large they are together."""
        return sum(folder.bytes for folder in self.folders)

    def others(self) -> Iterator[str]:
        """The files that are no event files; what is no Unicode in their names is escaped."""
        for folder in self.folders:
            for name in folder.names:
                if not is_event_file(name):
                    path = os.path.join(folder.path, name)
                    yield path.encode(errors="backslashreplace").decode()


def plan(folders: Iterable[RunFolder]) -> Plan:
    """Looks up the files of runs."""
    found = Plan()
    wanted = {os.path.normpath(folder.location): folder for folder in folders}
    for location, folder in wanted.items():
        if "://" in folder.location:
            found.problems.append(f"{folder.location} is not on this machine; its files are left")
            continue
        root = os.path.normpath(folder.root or os.path.dirname(location))
        inside = os.path.relpath(location, root)
        if inside.split(os.sep)[0] == os.pardir:
            found.problems.append(f"{location} is not in {root}; its files are left")
            continue
        inside = "" if inside == os.curdir else inside
        _plan_one(root, inside, wanted.keys(), found, folder.whole)
    found.folders.sort(key=lambda each: each.inside.count(os.sep) + bool(each.inside), reverse=True)
    return found


def remove(planned: Plan) -> Plan:
    """Removes what was planned; returns what was removed, and the problems of both."""
    removed = Plan(problems=list(planned.problems))
    for folder in planned.folders:
        gone = []
        size = 0
        try:
            with _opened(folder.root, folder.inside) as directory:
                for name in folder.names:
                    try:
                        size += os.lstat(name, dir_fd=directory).st_size
                        os.unlink(name, dir_fd=directory)
                        gone.append(name)
                    except FileNotFoundError:
                        pass
                    except OSError as error:
                        path = os.path.join(folder.path, name)
                        removed.problems.append(f"{path} is left: {error.strerror}")
        except FileNotFoundError:
            continue
        except OSError as error:
            removed.problems.append(_left(folder.path, error))
            continue
        removed.folders.append(Folder(folder.root, folder.inside, tuple(gone), size))
        if folder.inside:
            _remove_if_empty(folder, removed.problems)
    return removed


def delete_runs(
    connection: Connection, ids: Sequence[int], *, files: bool, dry_run: bool
) -> Deleted:
    """Deletes runs from the catalog, with their files if told to.

    Whose right it is has been decided. A run whose event files are left will not be found again,
    and neither are directories of which it has copies: no file of these is removed. Files in a
    bucket are always left.
    """
    columns = (runs.c.id, runs.c.workspace_id, runs.c.location, runs.c.attempt, logdirs.c.path)
    joined = select(*columns).select_from(runs.outerjoin(logdirs))
    rows = [
        row
        for chunk in chunks(ids)
        for row in connection.execute(joined.where(runs.c.id.in_(chunk)))
    ]
    folders = (RunFolder(row.location, row.path, row.attempt > 0 and not row.path) for row in rows)
    planned = plan(folders) if files else Plan()
    if not dry_run:
        touched = select_adopted_by(connection, [row.id for row in rows])
        adopted = [each for each in touched if not each.is_shared]
        write_deleted(connection, [each for each in touched if each.is_shared])
        for chunk in chunks([row.id for row in rows]):
            connection.execute(delete(runs).where(runs.c.id.in_(chunk)))
        planned = remove(planned)
        left = [(row.workspace_id, row.location) for row in rows if _is_left(row.location)]
        spelled = _as_logdirs_spell(connection, left)
        whole = [(each.workspace_id, each.location) for each in adopted]
        for some in chunks([*left, *spelled, *whole]):
            insert_new(
                connection,
                forgotten,
                [{"workspace_id": place, "location": location} for place, location in some],
            )
        for each in adopted:
            forget_adopted(connection, each.workspace_id, [each.location])
    return Deleted(
        experiments=0,
        runs=len(rows),
        files=planned.files,
        bytes=planned.bytes,
        dry_run=dry_run,
        problems=planned.problems,
        other_files=sum(1 for _ in planned.others()),
        others=list(islice(planned.others(), _LISTED)),
    )


def _plan_one(root: str, inside: str, wanted: Collection[str], found: Plan, whole: bool) -> None:
    waiting = [inside]
    while waiting:
        at = waiting.pop()
        path = os.path.join(root, at) if at else root
        names: list[str] = []
        below: list[str] = []
        size = 0
        try:
            with _opened(root, at) as directory, os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        below.append(os.path.join(at, entry.name))
                    elif inside or is_event_file(entry.name):
                        names.append(entry.name)
                        size += entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            continue
        except OSError as error:
            found.problems.append(_left(path, error))
            continue
        if at != inside and not whole and any(map(is_event_file, names)):
            continue  # another run
        found.folders.append(Folder(root, at, tuple(sorted(names)), size))
        if inside:
            waiting.extend(each for each in below if os.path.join(root, each) not in wanted)


@contextmanager
def _opened(root: str, inside: str) -> Iterator[int]:
    """A descriptor of a directory below a root, reached through no link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    directory = os.open(root, flags)
    try:
        for name in inside.split(os.sep) if inside else ():
            below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = below
        yield directory
    finally:
        os.close(directory)


def _remove_if_empty(folder: Folder, problems: list[str]) -> None:
    above, _, name = folder.inside.rpartition(os.sep)
    try:
        with _opened(folder.root, above) as directory:
            os.rmdir(name, dir_fd=directory)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            problems.append(f"{folder.path} is left, empty: {error.strerror}")


def _is_left(location: str) -> bool:
    """Return whether a watched directory or bucket would find the run again."""
    if "://" in location:
        return True
    try:
        return any(map(is_event_file, os.listdir(location)))
    except OSError:
        return False


def _as_logdirs_spell(
    connection: Connection, left: Sequence[tuple[int, str]]
) -> list[tuple[int, str]]:
    """Return locations in OSS as the watched logdirs above them would find them."""
    chosen = select(logdirs.c.workspace_id, logdirs.c.path)
    watched = connection.execute(chosen.where(logdirs.c.path.startswith("oss://"))).all()
    found: list[tuple[int, str]] = []
    for workspace_id, location in left:
        key = same_place_key(location)
        for row in watched if location.startswith("oss://") else ():
            above = same_place_key(row.path).rstrip("/")
            if row.workspace_id == workspace_id and f"{key}/".startswith(f"{above}/"):
                found.append((workspace_id, row.path.rstrip("/") + key[len(above) :]))
    return found


def _left(path: str, error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return f"{path} is reached through a link; its files are left"
    return f"{path} is left: {error.strerror}"
