"""Which processes belong to a run's command, and which event files they write: from /proc.

A process belongs to the run whose directory ``TBHUB_LOGDIR`` names in its environment, and to the
attempt whose socket ``TBHUB_CAPTURE_SOCKET`` names: attempts may share a directory. So do
daemonised processes, while those of a `tbhub run` inside this one do not. A process whose
environment cannot be read, or was emptied, belongs to the run of its parent.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

from tbhub.events.names import is_event_file
from tbhub.tracking.capture.origins import Holder
from tbhub.tracking.environment import LOGDIR
from tbhub.tracking.process_table import start_time

SOCKET = "TBHUB_CAPTURE_SOCKET"
"""The address of the socket to which `hook/sitecustomize.py` reports event files, or empty."""

_PROC = "/proc"
_TICKS = os.sysconf("SC_CLK_TCK")
_LOGDIR, _SOCKET = LOGDIR.encode(), SOCKET.encode()
_HELPERS = frozenset({"tbhub.publisher", "tbhub.tracking.capture"})
_LOOKS = 3  # at a process of others: before it executes its program it seems to be its parent
_MAX_DESCRIPTORS = 10_000  # of a process; of one with more no more are looked at


class Processes:
    """The processes of one attempt's command, as far as they were seen.

    Args:
        logdir: The run's directory.
        socket: The value of ``TBHUB_CAPTURE_SOCKET`` in this attempt. A process that has only the
            directory in its environment belongs to the attempt as well.
    """

    def __init__(self, logdir: str, socket: str) -> None:
        self._logdir = os.fsencode(logdir)
        self._socket = os.fsencode(socket)
        self._boot = _boot_time()
        self._own: dict[int, bool] = {}  # alive, and whether it belongs to the run
        self._looks: dict[int, int] = {}
        self._ever: dict[int, int] = {}  # of the run, with their start times; 0: not known
        self._alive: set[int] = set()
        self._rivals: dict[str, None] = {}

    def add(self, process: int) -> None:
        """Remember a process of the command, also if it has ended by now."""
        self._ever[process] = _start_ticks(process) or 0
        self._looks.pop(process, None)

    @property
    def own(self) -> list[int]:
        """The run's processes that are alive."""
        return [process for process, is_own in self._own.items() if is_own]

    @property
    def rival_directories(self) -> list[str]:
        """The working directories of processes that were seen of other runs."""
        return list(self._rivals)

    def running(self) -> dict[int, int]:
        """Return the run's processes that have not ended, with their start times.

        Zombies and the processes of tbhub that publish and adopt, which inherit the environment,
        are left out. Processes that `refresh` has not seen yet are missing.
        """
        return dict(self._running())

    def is_any_running(self) -> bool:
        """Return whether `running` would return a process."""
        return next(self._running(), None) is not None

    def _running(self) -> Iterator[tuple[int, int]]:
        for process in self.own:
            started = start_time(process)
            if started is None or started != self._ever.get(process) or is_helper(process):
                continue
            yield process, started

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
                self._own[process] = self._belongs(process)
        self._alive = found
        self._ever.update((process, _start_ticks(process) or 0) for process in self.own)

    def _belongs(self, process: int) -> bool:
        variables = _variables_of(process)
        logdir = variables.get(_LOGDIR)
        if logdir is None:
            parent = _parent(process)
            return self._is_known(process) or self._own.get(parent, False) or self._is_known(parent)
        if (logdir, variables.get(_SOCKET, self._socket)) != (self._logdir, self._socket):
            self._ever.pop(process, None)  # it may have become a command of another run
            with suppress(OSError):
                self._rivals[os.readlink(f"{_PROC}/{process}/cwd")] = None
            return False
        return True

    def _is_known(self, process: int) -> bool:
        """Return whether a process was seen to be the run's, and is no other with its number."""
        started = self._ever.get(process)
        return bool(started) and started == _start_ticks(process)

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
        known = self._ever.get(pid)
        started = _start_ticks(pid) if pid in self._alive else None
        if known is not None and started in (None, known):
            return Holder.OWN
        if started is not None and self._boot + started / _TICKS <= begun + 1:
            return Holder.OTHER
        return Holder.UNKNOWN if known is None else Holder.OWN

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


def is_helper(process: int) -> bool:
    """Return whether a process is one of tbhub that publishes or adopts."""
    try:
        words = _words(process)
    except OSError:
        return False
    return any(option == "-m" and name in _HELPERS for option, name in pairwise(words))


def _variables_of(process: int) -> dict[bytes, bytes]:
    """Return the variables by which a process belongs to a run; none if they cannot be read."""
    try:
        with open(f"{_PROC}/{process}/environ", "rb") as file:
            variables = file.read(1 << 20).split(b"\0")
    except OSError:
        return {}
    found = (each.partition(b"=") for each in variables)
    return {name: value for name, _, value in found if name in (_LOGDIR, _SOCKET)}


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


def _start_ticks(process: int) -> int | None:
    """Return when a process was started, in ticks since boot, also if it is a zombie."""
    try:
        return int(_fields(process)[19])
    except (OSError, IndexError):
        return None


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
