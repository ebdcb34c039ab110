"""A checkpoint that is kept open until it is published, because its program may delete it.

Trainers keep the last few checkpoints. Where they save more quickly than a directory is published,
each one would be deleted before its last file is sent, and a run that is resumed on another machine
would find no checkpoint that is complete.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Set
from pathlib import Path

from tbhub.publisher.files import look_of
from tbhub.publisher.plan import Look

_MAX_FILES = 200
_MAX_SHARE = 10  # deleted files take at most one part in so many of the free disk


class Holding:
    """The open files of one checkpoint directory. Used by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, tuple[int, Look]] = {}

    @property
    def files(self) -> dict[str, Look]:
        """What the held files were when they were opened."""
        with self._lock:
            return {path: look for path, (_, look) in self._files.items()}

    def take(self, directory: Path, files: Mapping[str, Look]) -> None:
        """Open files; none if one of them is not what it was, or if they are too many or too large.

        Args:
            directory: That the paths of the files begin at.
            files: What each file was when it was looked at.
        """
        if len(files) > _MAX_FILES:
            return
        opened: dict[str, tuple[int, Look]] = {}
        try:
            disk = os.statvfs(directory)
            size = sum(look.size for look in files.values())
            is_good = size <= disk.f_bavail * disk.f_frsize / _MAX_SHARE
            for path in files if is_good else ():
                flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
                opened[path] = os.open(directory / path, flags), files[path]
                is_good = is_good and look_of(os.fstat(opened[path][0])) == files[path]
        except OSError:
            is_good = False
        with self._lock:
            unused, self._files = (self._files, opened) if is_good else (opened, self._files)
        _close(unused)

    def has(self, path: str) -> bool:
        """Return whether a file is held."""
        with self._lock:
            return path in self._files

    def open(self, path: str) -> int | None:
        """Return a new descriptor of a held file; None if it is not held."""
        with self._lock:
            return os.dup(self._files[path][0]) if path in self._files else None

    def look_at(self, path: str, status: os.stat_result) -> Look:
        """Return what an opened file is; a held one that was only deleted is what it was before."""
        look = look_of(status)
        with self._lock:
            held = self._files.get(path)
        return held[1] if held is not None and held[1].has_same_content(look) else look

    def release(self) -> None:
        """Close the files."""
        with self._lock:
            unused, self._files = self._files, {}
        _close(unused)

    def release_with(self, path: str) -> None:
        """Close the files if this is one of them."""
        if self.has(path):
            self.release()

    def release_published(self, published: Set[str]) -> None:
        """Close the files if all of them are published."""
        if self.files.keys() <= published:
            self.release()


def _close(files: Mapping[str, tuple[int, Look]]) -> None:
    for descriptor, _ in files.values():
        os.close(descriptor)
