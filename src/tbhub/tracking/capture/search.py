"""Finds event files below directories, also while they are being made.

All directories are listed once, level by level, and again when the kernel reports a change in one
(inotify) or its modification time has changed, which is looked at in rounds. Both the number of
directories and the share of time are bounded: a working directory may hold a million files.

Not searched: hidden directories, virtual environments, installed packages, the home and the storage
of a hub, spools.
Links to directories are followed behind all others, and no directory is listed twice.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from tbhub.events.names import is_event_file
from tbhub.series.watch import Watcher
from tbhub.tracking.capture.naming import is_below

MAX_DIRECTORIES = 20_000
_MAX_WATCHES = 2_000
_MAX_ENTRIES = 100_000  # of a directory
_SHARE = 50  # looking takes at most one part in so many of the time
_ROUND_SECONDS = 1.0
_SKIPPED = frozenset(
    {"node_modules", "site-packages", "dist-packages", "__pycache__", "lost+found"}
)
_MARKS = (  # names that are in a directory which is not searched
    {"pyvenv.cfg"},  # of a virtual environment
    {"hub.db"},  # of a hub's home
    {".tbhub-storage"},  # of the directory that a hub keeps the files of runs in
    {"target.json", "files", "writers"},  # of a run's directory in a spool
)


@dataclass
class _Directory:
    inode: tuple[int, int]
    modified: int = -1  # nanoseconds; below 0 if it has to be listed
    is_confirmed: bool = False  # listed again with the same time: nothing was made in between


class Search:
    """Searches directories and all below them. Used by one thread.

    Args:
        excluded: Directories that are not searched.

    Attributes:
        is_limited: Whether there were more directories than are searched.
    """

    def __init__(self, excluded: Iterable[str]) -> None:
        self._excluded = {os.path.realpath(each) for each in excluded}
        self._watcher = Watcher()
        self._watched = 0
        self._roots: dict[str, bool] = {}
        self._new_only: dict[str, float] = {}
        self._found: dict[str, _Directory] = {}
        self._inodes: set[tuple[int, int]] = set()
        self._waiting: deque[str] = deque()
        self._links: deque[str] = deque()
        self._files: dict[str, None] = {}
        self._next_round = 0.0
        self.is_limited = False

    def add(self, directory: str) -> None:
        """Search a directory from now on; it need not exist yet."""
        if directory != os.sep and directory not in self._roots:
            self._roots[directory] = False

    def add_new_below(self, directory: str, since: float) -> None:
        """Search those directories right below one that are made from `since` on."""
        self._new_only[directory] = since
        self._roots.setdefault(directory, False)

    def is_searched(self, directory: str) -> bool:
        """Return whether a directory is searched, or will be."""
        return any(is_below(directory, root) for root in self._roots if root not in self._new_only)

    def wait(self, seconds: float) -> None:
        """Wait until something was made in a directory, or for some seconds."""
        changes = self._watcher.wait(seconds)
        for path in changes.listed:
            if (directory := self._found.get(path)) is not None:
                directory.modified = -1
                self._list(path, directory)
        if changes.lost:
            self._next_round = 0.0

    def wake(self) -> None:
        """End a wait; from any thread."""
        self._watcher.wake()

    def look(self, *, seconds: float = 0.2, is_last: bool = False) -> list[str]:
        """Search on for some seconds. Return the event files of directories that were listed.

        Args:
            is_last: Look at every directory again, whenever that was done.
        """
        deadline = time.monotonic() + seconds
        self._begin()
        self._go_on(deadline)
        if is_last or time.monotonic() >= self._next_round:
            begun = time.monotonic()
            for path, directory in list(self._found.items()):
                self._list(path, directory)
                if time.monotonic() > deadline:
                    break
            took = time.monotonic() - begun
            self._next_round = time.monotonic() + max(_ROUND_SECONDS, _SHARE * took)
            self._go_on(deadline)
        found, self._files = list(self._files), {}
        return found

    def close(self) -> None:
        """Free what the kernel keeps for it."""
        self._watcher.close()

    def _begin(self) -> None:
        """Take roots that exist by now."""
        for root, is_begun in self._roots.items():
            if not is_begun and os.path.isdir(root):
                self._roots[root] = True
                self._waiting.append(root)

    def _go_on(self, deadline: float) -> None:
        while (self._waiting or self._links) and time.monotonic() < deadline:
            path = self._waiting.popleft() if self._waiting else self._links.popleft()
            self._enter(path)

    def _enter(self, path: str) -> None:
        if path in self._found or os.path.realpath(path) in self._excluded:
            return
        if len(self._found) >= MAX_DIRECTORIES:
            self.is_limited = True
            return
        try:
            status = os.stat(path)
        except OSError:
            return
        inode = status.st_dev, status.st_ino
        if inode in self._inodes or not stat.S_ISDIR(status.st_mode):
            return
        self._inodes.add(inode)
        directory = self._found[path] = _Directory(inode)
        if self._watched < _MAX_WATCHES:
            self._watched += self._watcher.add(path)
        self._list(path, directory)

    def _list(self, path: str, directory: _Directory) -> None:
        """List a directory unless it is as it was."""
        try:
            modified = os.stat(path).st_mtime_ns
            if modified == directory.modified and directory.is_confirmed:
                return
            directory.is_confirmed = modified == directory.modified
            directory.modified = modified
            with os.scandir(path) as entries:
                found = [each for each, _ in zip(entries, range(_MAX_ENTRIES), strict=False)]
        except FileNotFoundError:
            self._found.pop(path, None)
            self._inodes.discard(directory.inode)  # another directory may get it
            return
        except OSError:
            directory.modified = -1
            return
        names = {entry.name for entry in found}
        if any(mark <= names for mark in _MARKS):
            return
        since = self._new_only.get(path)
        for entry in found:
            try:
                self._take(entry, since)
            except OSError:
                continue  # gone by now

    def _take(self, entry: os.DirEntry[str], since: float | None) -> None:
        name = entry.name
        if entry.is_dir(follow_symlinks=False):
            is_new = since is None or entry.stat(follow_symlinks=False).st_ctime >= since
            is_wanted = name not in _SKIPPED and not name.startswith(".")
            if is_new and is_wanted and entry.path not in self._found:
                self._waiting.append(entry.path)
        elif entry.is_symlink():
            is_wanted = since is None and not name.startswith(".")
            if is_wanted and entry.path not in self._found and entry.is_dir():
                self._links.append(entry.path)
        elif is_event_file(name) and entry.is_file(follow_symlinks=False) and since is None:
            self._files[entry.path] = None
