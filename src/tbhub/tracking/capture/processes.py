"""Which processes belong to a run's command, and which event files they write: from /proc.

A process belongs to the run whose directory ``TBHUB_LOGDIR`` names in its environment. So do
daemonised processes, while those of a `tbhub run` inside this one do not. A process whose
environment cannot be read, or was emptied, belongs to the run of its parent.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from tbhub.events.names import is_event_file
from tbhub.tracking.capture.origins import Holder
from tbhub.tracking.environment import LOGDIR

_PROC = "/proc"
_TICKS = os.sysconf("SC_CLK_TCK")
_VARIABLE = f"{LOGDIR}=".encode()
_LOOKS = 3  # at a process of others: before it executes its program it seems to be its parent
_MAX_DESCRIPTORS = 10_000  # of a process; of one with more no more are looked at


class Processes:
    """The processes of one run's command, as far as they were seen.

    Args:
        logdir: The run's directory.
    """

    def __init__(self, logdir: str) -> None:
        self._mine = os.fsencode(logdir)
        self._boot = _boot_time()
        self._own: dict[int, bool] = {}  # alive, and whether it belongs to the run
        self._looks: dict[int, int] = {}
        self._ever: set[int] = set()
        self._alive: set[int] = set()
        self._rivals: dict[str, None] = {}

    def add(self, process: int) -> None:
        """Remember a process of the command, also if it has ended by now."""
        self._ever.add(process)
        self._looks.pop(process, None)

    @property
    def own(self) -> list[int]:
        """The run's processes that are alive."""
        return [process for process, is_own in self._own.items() if is_own]

    @property
    def rival_directories(self) -> list[str]:
        """The working directories of processes that were seen of other runs."""
        return list(self._rivals)

    def refresh(self) -> None:
        """Look at processes that were not there before, and again at those of the run."""
        found = set(_numbers(_PROC))
        for gone in self._own.keys() - found:
            del self._own[gone]
            self._looks.pop(gone, None)
        for process in sorted(found):
            looks = self._looks.get(process, 0)
            if looks < _LOOKS or self._own[process]:
                self._looks[process] = looks + 1
                was_own = self._own.get(process, False)
                self._own[process] = self._belongs(process)
                if was_own and not self._own[process]:
                    self._ever.discard(process)  # it has become a command of another run
        self._alive = found
        self._ever.update(self.own)

    def _belongs(self, process: int) -> bool:
        logdir = _logdir_of(process)
        if logdir is None:
            parent = _parent(process)
            return process in self._ever or self._own.get(parent, False) or parent in self._ever
        if logdir != self._mine:
            with suppress(OSError):
                self._rivals[os.readlink(f"{_PROC}/{process}/cwd")] = None
            return False
        return True

    def writes(self, *, others: bool = False) -> Iterator[tuple[str, int]]:
        """Return the event files that processes have open for writing, with the process.

        Args:
            others: Return those of processes that are not of this run.
        """
        for process, is_own in list(self._own.items()):
            if is_own is not others:
                for path in _writes(process):
                    if others and self._belongs(process):
                        break  # it has executed its program since it was looked at
                    yield path, process

    def holder(self, pid: int, begun: float) -> Holder:
        """Return whose process has begun a file, by its number on this machine."""
        if pid in self._ever:
            return Holder.OWN
        if pid in self._alive and _started(pid, self._boot) <= begun + 1:
            return Holder.OTHER
        return Holder.UNKNOWN

    def directories(self) -> Iterator[str]:
        """Return the working directories of the run's processes, and those on command lines."""
        for process in self.own:
            with suppress(OSError):
                place = os.readlink(f"{_PROC}/{process}/cwd")
                yield place
                for word in _words(process):
                    path = os.path.normpath(os.path.join(place, word.rpartition("=")[2] or "."))
                    if os.path.isdir(path):
                        yield path


def _numbers(directory: str) -> Iterator[int]:
    with suppress(OSError):
        for name in os.listdir(directory):
            if name.isdecimal():
                yield int(name)


def _logdir_of(process: int) -> bytes | None:
    try:
        with open(f"{_PROC}/{process}/environ", "rb") as file:
            variables = file.read(1 << 20).split(b"\0")
    except OSError:
        return None
    found = [each for each in variables if each.startswith(_VARIABLE)]
    return found[-1][len(_VARIABLE) :] if found else None


def _words(process: int) -> list[str]:
    with open(f"{_PROC}/{process}/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read(1 << 16).split(b"\0")[1:] if word]


def _fields(process: int) -> list[str]:
    """Return what is behind the name in ``/proc/<pid>/stat``."""
    with open(f"{_PROC}/{process}/stat", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def _parent(process: int) -> int:
    try:
        return int(_fields(process)[1])
    except (OSError, IndexError):
        return 0


def _started(process: int, boot: float) -> float:
    try:
        return boot + int(_fields(process)[19]) / _TICKS
    except (OSError, IndexError):
        return float("inf")


def _boot_time() -> float:
    try:
        with open(f"{_PROC}/stat") as file:
            return next(float(line.split()[1]) for line in file if line.startswith("btime "))
    except (OSError, StopIteration):
        return 0.0


def _writes(process: int) -> Iterator[str]:
    directory = f"{_PROC}/{process}/fd"
    for _, number in zip(range(_MAX_DESCRIPTORS), _numbers(directory), strict=False):
        try:
            path = os.readlink(f"{directory}/{number}")
            if not is_event_file(path) or not os.path.isabs(path):
                continue
            there = os.stat(f"{directory}/{number}")
            here = os.stat(path)  # in a container it may be another file, or none
        except OSError:
            continue
        is_same = (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
        if is_same and stat.S_ISREG(here.st_mode) and _is_writing(process, number):
            yield path


def _is_writing(process: int, descriptor: int) -> bool:
    try:
        with open(f"{_PROC}/{process}/fdinfo/{descriptor}") as file:
            flags = next(int(line.split()[1], 8) for line in file if line.startswith("flags:"))
    except (OSError, StopIteration):
        return False
    return flags & os.O_ACCMODE != os.O_RDONLY
