"""Processes of this machine, from /proc: of a group, by start time, by an inherited descriptor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_ENDED = "ZXx"  # the states of a process whose exit status is not collected yet
_GROUP, _STARTED = 2, 19  # fields of `stat` after the name


def all_stats() -> Iterator[tuple[int, list[str]]]:
    """Return each process with the fields after the name in ``/proc/<pid>/stat``."""
    for path in _PROC.glob("[0-9]*/stat"):
        if stat := _stat(path):
            yield int(path.parent.name), stat


def start_time(process: int) -> int | None:
    """Return when a process was started, in ticks since boot; None if it has ended."""
    stat = _stat(_PROC / str(process) / "stat")
    return int(stat[_STARTED]) if stat and stat[0] not in _ENDED else None


def group_members(group: int) -> dict[int, int]:
    """Return the processes of a group that have not ended, with their start times."""
    return {
        process: int(stat[_STARTED])
        for process, stat in all_stats()
        if int(stat[_GROUP]) == group and stat[0] not in _ENDED
    }


def inheritors(descriptor: int, file: os.stat_result) -> list[int]:
    """Return the other processes that have inherited a descriptor of a file.

    Args:
        descriptor: Its number, which is the same in a process that was forked.
        file: The file, which may have been closed here.
    """
    found = []
    for process in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has ended, has no such descriptor, or is another user's
            if os.path.samestat(os.stat(process / "fd" / str(descriptor)), file):
                found.append(int(process.name))
    return sorted(each for each in found if each != os.getpid())


def _stat(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []  # it has just ended
