"""Which files of a user's directory are not a run's: those that were there before it.

    foreign = in the directory when the run was started
              and, if the run was resumed, begun before its first start
              and, unless it is an event file, unchanged since

An event file that grows again is still an earlier run's: a writer begins a file of its own. Another
file that has changed (a log, a checkpoint under the same name) is the run's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tbhub.events.begun import FIRST_BYTES, begun
from tbhub.events.names import is_event_file
from tbhub.publisher.files import files_below
from tbhub.publisher.plan import Look


@dataclass(frozen=True)
class Older:
    """Files that were there before a run, as they were then, by their paths with slashes."""

    files: Mapping[str, Look] = field(default_factory=dict)

    def covers(self, path: str, look: Look) -> bool:
        """Return whether a file, as it is now, is not the run's."""
        before = self.files.get(path)
        return before is not None and (is_event_file(path) or before == look)


def find_older(directory: Path, first_start: float | None = None) -> Older:
    """Return what is in a directory before a run is started.

    Args:
        directory: Need not exist.
        first_start: When the run was first started, if it is resumed: later files are its own.
    """
    found = dict(files_below(directory))
    if first_start is not None:
        found = {
            path: look
            for path, look in found.items()
            if _begun(directory / path, look) < first_start
        }
    return Older(found)


def write_older(path: Path, older: Older) -> None:
    """Store it; nothing, if there is none."""
    if older.files:
        unfinished = path.with_name(f"{path.name}.tmp")
        unfinished.write_text(json.dumps(older.files))
        unfinished.replace(path)


def read_older(path: Path) -> Older:
    """Return what was stored."""
    try:
        return Older({name: Look(*look) for name, look in json.loads(path.read_bytes()).items()})
    except (OSError, ValueError, TypeError):
        return Older()


def _begun(file: Path, look: Look) -> float:
    written = look.mtime_ns / 1e9
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
