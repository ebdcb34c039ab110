"""Which runs lie below a path: every directory with event files is one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from tbhub.events.names import is_event_file


@dataclass
class Tree:
    """The event files of each run, by run name, and the directories that could not be listed."""

    runs: dict[str, list[str]] = field(default_factory=dict)
    unreadable: dict[str, OSError] = field(default_factory=dict)


def find_runs(root: str) -> Tree:
    """Walks a directory as TensorBoard does: links are followed, a run is named by its path.

    Runs come sorted by name and files by theirs, which is the order they were opened in. The
    root itself is the run ``.``. A directory reached twice through links is read once.
    """
    tree = Tree()
    folders = Folders(root)
    folders.scan_all()
    tree.unreadable = folders.unreadable
    tree.runs = {
        folder.name: sorted(folder.files) for folder in folders.known.values() if folder.files
    }
    tree.runs = dict(sorted(tree.runs.items()))
    return tree


@dataclass
class Folder:
    """One directory below a root."""

    path: str
    name: str  # of the run it is, if it is one
    inode: tuple[int, int]
    below: set[str] = field(default_factory=set)
    files: list[str] = field(default_factory=list)


class Folders:
    """The directories below a root, kept up to date by looking again at those that changed.

    A directory reached by several paths goes by one of them: the one through the fewest links, of
    these the shortest, of these the first in the order of names. Which one that is depends on what
    is there and not on what was there before.
    """

    def __init__(
        self,
        root: str,
        entered: Callable[[str], None] = lambda _: None,
        left: Callable[[str], None] = lambda _: None,
        *,
        alone: bool = False,
    ) -> None:
        """`alone`: the root itself and nothing below it."""
        self.root = root
        self._alone = alone
        self._entered = entered  # is told of each directory before it is listed
        self._left = left  # and when it is gone
        self.known: dict[str, Folder] = {}
        self.unreadable: dict[str, OSError] = {}
        self._prefix = os.path.join(root, "")
        self._paths: dict[tuple[int, int], str] = {}  # by inode
        self._aliases: dict[tuple[int, int], set[str]] = {}  # other paths to it

    def scan_all(self) -> None:
        """Looks at everything."""
        known = list(self.known)
        self.scan(self.root)
        for path in known:
            if path in self.known:
                self.scan(path)

    def scan(self, path: str) -> None:
        """Looks at one directory, and at what is new below it."""
        waiting = [path]
        while waiting:
            path = waiting.pop()
            try:
                folder = self._enter(path, waiting)
                if folder is None:
                    continue
                below, files = list_folder(path)
                if self._alone:
                    below = set()
            except (FileNotFoundError, NotADirectoryError):
                self._forget(path, waiting)
                continue
            except OSError as error:
                self.unreadable[path] = error
                continue
            self.unreadable.pop(path, None)
            for gone in folder.below - below:
                self._forget(gone, waiting)
            # Also what was there before and could not be entered then.
            waiting.extend(path for path in below if path not in self.known)
            folder.below, folder.files = below, files

    def _enter(self, path: str, waiting: list[str]) -> Folder | None:
        """The folder at a path; None for one that goes by another path."""
        name = path[len(self._prefix) :]
        above = name.rpartition("/")[0]
        if name and (self._prefix + above if above else self.root) not in self.known:
            return None  # what it was below has meanwhile gone
        status = os.stat(path)
        inode = (status.st_dev, status.st_ino)
        folder = self.known.get(path)
        if folder is not None and folder.inode == inode:
            return folder
        if folder is not None:  # another directory under the same name
            self._forget(path, waiting)
        other = self._paths.get(inode)
        if other is not None:
            if self._rank(other) < self._rank(path):
                self._aliases.setdefault(inode, set()).add(path)
                return None
            self._forget(other, waiting)
            self._aliases.setdefault(inode, set()).add(other)
        folder = Folder(path, name or ".", inode)
        self.known[path] = folder
        self._paths[inode] = path
        self._entered(path)
        return folder

    def _rank(self, path: str) -> tuple[int, int, list[str]]:
        """The least wins: links, depth, names. What is below a directory is ranked as it is."""
        names = path[len(self._prefix) :].split("/") if path != self.root else []
        places = itertools.accumulate(names, os.path.join, initial=self.root)
        return sum(map(os.path.islink, places)), len(names), names

    def _forget(self, path: str, waiting: list[str]) -> None:
        """A directory is gone, with all below it; what had other paths goes by one of these."""
        gone = [path]
        while gone:
            path = gone.pop()
            self.unreadable.pop(path, None)
            folder = self.known.pop(path, None)
            if folder is not None:
                del self._paths[folder.inode]
                self._left(path)
                gone.extend(folder.below)
                waiting.extend(self._aliases.pop(folder.inode, ()))


def list_folder(path: str) -> tuple[set[str], list[str]]:
    """The directories in a directory, and the event files."""
    below: set[str] = set()
    files: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if is_folder(entry):
                below.add(entry.path)
            elif is_event_file(entry.name):
                files.append(entry.path)
    return below, files


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a directory or leads to one; a link in a circle or to a place we may not
    see does not."""
    try:
        return entry.is_dir()
    except OSError:
        return False
