"""Which files of a user's directory are not a run's: from before it, or of a run after it.

    foreign = in the directory when the run was started
              and, if the run was resumed, begun before its first start or while the directory was
              another run's
              and, unless it is an event file, unchanged since
              or not in the directory when another run was started there, after this one had ended

An event file that grows again is still an earlier run's: a writer begins a file of its own. Another
file that has changed (a log, a checkpoint under the same name) is the run's. Which run a directory
was used by, and since when, is recorded in the directory itself.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tbhub.events.begun import FIRST_BYTES, begun
from tbhub.events.names import is_event_file
from tbhub.publisher.files import files_below
from tbhub.publisher.plan import Look

SESSIONS = ".tbhub-runs"
"""The file of a user's directory that records which runs used it; never published."""
_MAX_SESSIONS = 1 << 20  # bytes that are read
_CLOCK_SECONDS = 0.02  # by which file systems' times may be behind the clock


class Session(NamedTuple):
    """The use of a directory by a run, until the next one.

    Attributes:
        since: When it began.
        names: What the run is known by; several.
        attempt: Which start of the run it was; None if no hub knew the run then.
    """

    since: float
    names: frozenset[str]
    attempt: int | None = None


def read_sessions(directory: Path) -> list[Session]:
    """Return which runs have used a directory, in order."""
    try:
        with (directory / SESSIONS).open("rb") as file:
            lines = file.read(_MAX_SESSIONS).splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        with suppress(ValueError, TypeError, KeyError):
            each = json.loads(line)
            names = frozenset(map(str, each["names"]))
            found.append(Session(float(each["since"]), names, each.get("attempt")))
    return sorted(found, key=lambda session: session.since)


def last_attempt(directory: Path, names: Collection[str]) -> int | None:
    """Return which attempt of a run used a directory last; None if that is not known."""
    of_run = [each for each in read_sessions(directory) if not each.names.isdisjoint(names)]
    return of_run[-1].attempt if of_run else None


def begin_session(directory: Path, names: Collection[str], attempt: int | None = None) -> None:
    """Record that a run uses a directory from now on."""
    session = {"since": time.time(), "names": sorted(names), "attempt": attempt}
    line = json.dumps(session).encode() + b"\n"
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        record = os.open(directory / SESSIONS, flags, 0o644)
        try:
            os.write(record, line)
        finally:
            os.close(record)


class FinalFiles:
    """The paths that were in a directory when another run was started there.

    They are known once that has happened, also while what the ended run had left is published.

    Args:
        record: The file with the paths, which need not exist.
    """

    def __init__(self, record: Path) -> None:
        self._record = record
        self._paths: frozenset[str] | None = None

    def excludes(self, path: str) -> bool:
        """Return whether a file was not there then."""
        if self._paths is None:
            try:
                self._paths = frozenset(json.loads(self._record.read_bytes()))
            except (OSError, ValueError):  # no other run has come
                return False
        return path not in self._paths


@dataclass(frozen=True)
class Older:
    """Files of a user's directory that are not a run's.

    Attributes:
        files: Those that were there before the run, as they were then, by their paths with slashes.
        final: Which files the run can have.
    """

    files: Mapping[str, Look] = field(default_factory=dict)
    final: FinalFiles | None = None

    def covers(self, path: str, look: Look) -> bool:
        """Return whether a file, as it is now, is not the run's."""
        if self.final is not None and self.final.excludes(path):
            return True
        before = self.files.get(path)
        return before is not None and (is_event_file(path) or before.has_same_content(look))


def find_older(directory: Path) -> Older:
    """Return what is in a directory before a run is started. The directory need not exist."""
    return Older(dict(files_below(directory)))


def find_foreign(
    directory: Path,
    names: Collection[str],
    first_start: float,
    is_own: Callable[[str, Look], bool] = lambda _path, _look: False,
) -> Older:
    """Return what is in a directory before a run is resumed, and is not the run's.

    Args:
        directory: Need not exist.
        names: What the run is known by.
        first_start: When the run was first started.
        is_own: Whether a file is known to be the run's.
    """
    sessions = read_sessions(directory)
    foreign = {}
    for path, look in files_below(directory):
        at = _begun(directory / path, look)
        is_foreign = at < first_start or _is_others(sessions, at, names)
        if is_foreign and not is_own(path, look):
            foreign[path] = look
    return Older(foreign)


def _is_others(sessions: Sequence[Session], at: float, names: Collection[str]) -> bool:
    """Return whether a directory was used by another run at a time."""
    before = [session for session in sessions if session.since <= at]
    return bool(before) and before[-1].names.isdisjoint(names)


def write_older(path: Path, older: Older) -> None:
    """Store it; nothing, if there is none."""
    if older.files:
        unfinished = path.with_name(f"{path.name}.tmp")
        unfinished.write_text(json.dumps(older.files))
        unfinished.replace(path)


def read_older(path: Path, final: FinalFiles | None = None) -> Older:
    """Return what was stored, and what is excluded since."""
    try:
        files = {name: Look(*look) for name, look in json.loads(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError):
        files = {}
    return Older(files, final)


def _begun(file: Path, look: Look) -> float:
    written = look.mtime_ns / 1e9 + _CLOCK_SECONDS
    if not is_event_file(file.name):
        return written
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return written
    try:
        return begun(os.pread(descriptor, FIRST_BYTES, 0)) or written
    finally:
        os.close(descriptor)
