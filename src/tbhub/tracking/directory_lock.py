"""Keeps processes of other runs out of a directory that a run writes to.

The lock is one of the kernel's, so it ends with the process, and no file has to be deleted. All
processes of a run share it. The file that is locked has what the run is known by: its key, its name
and its number. It tells ranks and further attempts of the run from other runs.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from tbhub.api.models import NewRun, Run
from tbhub.errors import TbhubError

LOCK = ".tbhub-lock"
"""The file of a user's directory that is locked; never published."""
_TRIES = 5  # a process holds the lock alone for a moment when it takes or releases it
_INTERVAL = 0.05
_MAX_BYTES = 1 << 16


class DirectoryInUseError(TbhubError, RuntimeError):
    """Another run writes to a directory."""


class DirectoryLock:
    """The use of a directory by a run, until it is released or the process has ended.

    On file systems without locks nothing is locked.

    Args:
        directory: The directory; made if there is none.
        new: The run.
        hint: What else to suggest if another run uses the directory.

    Raises:
        DirectoryInUseError: Another run uses it.
        OSError: The directory cannot be made.
    """

    def __init__(self, directory: Path, new: NewRun, hint: str = "") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file: int | None = None
        with suppress(OSError):  # what is logged cannot be written there, either
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(directory / LOCK, flags, 0o644)
        try:
            with suppress(OSError):
                self._take(directory, new, hint)
        except DirectoryInUseError:
            self.release()
            raise

    def _take(self, directory: Path, new: NewRun, hint: str) -> None:
        if self._file is None:
            return
        mine = _ids(new)
        for _ in range(_TRIES):
            if self._is_free(self._file):
                os.ftruncate(self._file, 0)
                self._write(_ids(new, with_name=True))
            if not self._known().isdisjoint(mine):
                fcntl.flock(self._file, fcntl.LOCK_SH)
                if not self._known().isdisjoint(mine):
                    self._write(_ids(new, with_name=True))
                    return
                fcntl.flock(self._file, fcntl.LOCK_UN)  # another run was faster
            time.sleep(_INTERVAL)
        names = sorted(each for each in self._known() if "/" in each)
        other = f"run {names[-1]}" if names else "another run"
        raise DirectoryInUseError(
            f"{directory} is in use by {other}, which has not ended. hint: finish that run, or "
            f"give this one another directory.{f' {hint}' if hint else ''}"
        )

    @staticmethod
    def _is_free(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _known(self) -> set[str]:
        assert self._file is not None
        return set(os.pread(self._file, _MAX_BYTES, 0).decode(errors="replace").splitlines())

    def _write(self, ids: Collection[str]) -> None:
        if self._file is not None and (new := [each for each in ids if each not in self._known()]):
            os.write(self._file, "".join(f"{each}\n" for each in new).encode())

    def add(self, run: Run) -> None:
        """Add what a hub knows the run by, for attempts that resume it."""
        with suppress(OSError):
            self._write([f"#{run.id}", f"{run.workspace}/{run.name}"])

    def release(self) -> None:
        """Let other runs use the directory, also if forked processes are still there."""
        if self._file is not None:
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = None


def _ids(new: NewRun, *, with_name: bool = False) -> set[str]:
    """Return what tells that a run is the one which has locked a directory.

    Args:
        with_name: Include the name of a run that is not resumed: two runs may be given the same.
    """
    found = {f"key {each}" for each in (new.key, new.identity) if each}
    if new.resume is not None:
        number = new.resume.removeprefix("trial:").removeprefix("#")
        is_whole = "/" in new.resume
        found.add(new.resume if is_whole else f"{new.workspace}/{new.resume}")
        found |= {f"#{number}"} if number.isdecimal() else set()
    elif new.name is not None and (with_name or new.resume_or_start):
        found.add(f"{new.workspace}/{new.name}")
    return found
