"""Which run directories lie below a logdir, found again and again at little cost.

Every directory with event files is a run, as for TensorBoard; links to directories are followed. A
directory that can be reached by several paths goes by one of them: the one through the fewest
links, of these the shortest, of these the first by name. So a circle of links ends where it began,
and what is found depends on what is there and not on what was there before.

A directory is listed only if its own time has changed since it was listed: a look at 100,000
unchanged directories is as many calls of stat(). A time that was young when the directory was
listed proves nothing, because more may have happened within the same tick of the clock.

What cannot be listed is a problem and not an absence: runs below it are neither found nor gone.
"""

from __future__ import annotations

import errno
import heapq
import os
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tbhub.catalog.run_records import FoundRun
from tbhub.events.names import is_event_file

# Nanoseconds; file systems of other machines may count in seconds, and by another clock.
_YOUNG = 3_000_000_000
# PostgreSQL cannot tell longer texts apart.
_MAX_BYTES = 2000


class Folder:
    """One directory as it was when listed. There are many: no more than needed is kept."""

    __slots__ = ("below", "has_events", "identity", "is_settled", "links", "mtime")

    def __init__(self, identity: tuple[int, int], mtime: int, is_settled: bool) -> None:
        self.identity = identity
        self.mtime = mtime  # nanoseconds
        self.is_settled = is_settled  # its time was not young
        self.below: tuple[str, ...] = ()  # names of directories
        self.links: tuple[str, ...] = ()  # names of links to directories, or to nowhere yet
        self.has_events = False


@dataclass
class Scan:
    """What a look has shown. Paths are absolute."""

    new: list[str] = field(default_factory=list)  # run directories that were not known
    gone: list[str] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)  # known ones in which files came or went
    entered: list[str] = field(default_factory=list)  # directories that were not known
    left: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)  # by path


@dataclass
class _Before:
    """What was so before a look at a part, of all that it has changed."""

    folders: dict[str, Folder | None] = field(default_factory=dict)
    runs: dict[str, bool] = field(default_factory=dict)

    def restore(self, folders: dict[str, Folder], runs: set[str]) -> None:
        """Makes it so again."""
        for path, folder in self.folders.items():
            if folder is None:
                folders.pop(path, None)
            else:
                folders[path] = folder
        for path, was in self.runs.items():
            (runs.add if was else runs.discard)(path)

    def tell(self, folders: dict[str, Folder], runs: set[str], scan: Scan) -> None:
        """The difference."""
        scan.new = [path for path, was in self.runs.items() if not was and path in runs]
        scan.gone = [path for path, was in self.runs.items() if was and path not in runs]
        back = [path for path, was in self.runs.items() if was and path in runs]
        touched = dict.fromkeys([*scan.touched, *back])
        scan.touched = [path for path in touched if path in runs and path not in scan.new]
        for path, was in self.folders.items():
            now = folders.get(path)
            if now is None:
                scan.left += [path] if was is not None else []
            elif was is None or was.identity != now.identity:
                scan.entered.append(path)


class Discovery:
    """The run directories below one logdir."""

    def __init__(
        self,
        root: str,
        known: Iterable[str] = (),
        experiment: str | None = None,
        *,
        patience: float | None = None,
    ) -> None:
        """`known`: run directories of an earlier time, of which news is wanted.
        `experiment`: of all its runs; else that is the directory each lies in.
        `patience`: looking everywhere that takes more seconds is a TimeoutError."""
        self._patience = patience
        self.root = root
        self.experiment = experiment
        self._name = os.path.basename(root) or root
        self.know(known)
        self.problems: dict[str, str] = {}
        self._folders: dict[str, Folder] = {}
        self._has_links = False

    def know(self, runs: Iterable[str]) -> None:
        """Others say which runs are known; the next scan tells in what they are wrong."""
        self.runs = set(runs)
        self._is_compared = False

    @property
    def folders(self) -> Mapping[str, Folder]:
        """Every directory there is, by path."""
        return self._folders

    @property
    def is_there(self) -> bool:
        """Whether the logdir itself could be listed."""
        return self.root in self._folders and self.root not in self.problems

    def scan(self) -> Scan:
        """Looks everywhere."""
        if self._is_compared and not self.problems and not self._has_links:
            scan = self.look(self._changed())
            if scan is not None:
                return scan
        return self._walk()

    def _changed(self) -> list[str]:
        """The directories that are not as they were when listed."""
        changed: list[str] = []
        stat = os.stat
        for path, folder in self._folders.items():
            try:
                status = stat(path)
            except OSError:
                changed.append(path)
                continue
            if (
                status.st_mtime_ns != folder.mtime
                or not folder.is_settled
                or (status.st_dev, status.st_ino) != folder.identity
            ):
                changed.append(path)
        return changed

    def _walk(self) -> Scan:
        """From the root down, by rank where there are links."""
        known, self._folders = self._folders, {}
        scan = Scan()
        found: set[str] = set()
        seen: set[tuple[int, int]] = set()
        # Ordered by rank; without links the order does not matter, and a list is quicker.
        linked: list[tuple[int, int, list[str], str]] = []
        waiting = [self.root]
        links = 0
        deadline = None if self._patience is None else time.monotonic() + self._patience
        while waiting or linked:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"{len(self._folders):,} directories")
            if waiting:
                path = waiting.pop()
            else:
                links, _, _, path = heapq.heappop(linked)
            before = known.get(path)
            folder = self._look(path, before, scan)
            if folder is None or folder.identity in seen:
                continue
            seen.add(folder.identity)
            self._folders[path] = folder
            if folder is not before and (before is None or before.identity != folder.identity):
                scan.entered.append(path)
            if folder.has_events:
                found.add(path)
            if links:
                for name in folder.below:
                    self._queue(linked, links, path, name)
            elif folder.below:
                waiting.extend([f"{path}/{name}" for name in folder.below])
            for name in folder.links:
                self._queue(linked, links + 1, path, name)
        scan.left = list(known.keys() - self._folders.keys())
        self._is_compared = True
        self._has_links = any(folder.links for folder in self._folders.values())
        self._compare(found, scan)
        return scan

    def look(self, paths: Iterable[str]) -> Scan | None:
        """Looks at some directories and at what is new below them.

        None where that is not enough, because links are about or the logdir is gone: then `scan`
        has to.
        """
        scan = Scan(problems=dict(self.problems))
        if self._look(self.root, self._folders.get(self.root), Scan()) is None:
            return None
        before = _Before()
        waiting = [path for path in paths if path in self._folders]
        while waiting:
            path = waiting.pop()
            above = path.rpartition("/")[0]
            if path != self.root and above not in self._folders:
                continue  # it is gone with what it was in
            known = self._folders.get(path)
            scan.problems.pop(path, None)
            folder = self._look(path, known, scan)
            if folder is None:
                if path not in scan.problems:
                    self._forget(path, scan, before)
                continue
            if folder.links or (known and known.links) or self._is_link(path):
                before.restore(self._folders, self.runs)
                return None
            if known is not None and known.identity != folder.identity:
                self._forget(path, scan, before)
                known = None
            self._take(path, folder, before)
            below = set(folder.below)
            for name in set(known.below if known else ()) - below:
                self._forget(f"{path}/{name}", scan, before)
            waiting += [p for name in below if (p := f"{path}/{name}") not in self._folders]
        before.tell(self._folders, self.runs, scan)
        self.problems = scan.problems
        return scan

    def found(self, path: str) -> FoundRun:
        """How a run is called: by its path below the logdir, in the experiment it lies in."""
        inside = path[len(self.root.rstrip("/")) + 1 :]
        above = inside.rpartition("/")[0] or self._name
        return FoundRun(inside or self._name, path, self.experiment or above)

    def _is_link(self, path: str) -> bool:
        return path != self.root and os.path.islink(path)

    def _queue(
        self, linked: list[tuple[int, int, list[str], str]], links: int, above: str, name: str
    ) -> None:
        path = f"{above}/{name}"
        names = path[len(self.root) :].split("/")
        heapq.heappush(linked, (links, len(names), names, path))

    def _look(self, path: str, known: Folder | None, scan: Scan) -> Folder | None:
        """A directory as it is now; None if there is none, or it cannot be listed."""
        try:
            status = os.stat(path)
            identity = (status.st_dev, status.st_ino)
            if (
                known is not None
                and known.mtime == status.st_mtime_ns
                and known.identity == identity
                and known.is_settled
            ):
                return known
            is_settled = time.time_ns() - status.st_mtime_ns > _YOUNG
            folder = Folder(identity, status.st_mtime_ns, is_settled)
            self._list(path, folder, scan)
            if path == self.root and known is not None:
                self._insist_on_disk(known, folder)
        except (FileNotFoundError, NotADirectoryError) as error:
            if path == self.root:
                what = "not there" if isinstance(error, FileNotFoundError) else "not a directory"
                scan.problems[path] = f"The logdir is {what}"
            return None
        except OSError as error:
            if error.errno != errno.ELOOP or path == self.root:  # a circle of links is nothing
                scan.problems[path] = error.strerror or str(error)
            return None
        if known is not None and folder.has_events and path in self.runs:
            scan.touched.append(path)
        return folder

    def _insist_on_disk(self, known: Folder, now: Folder) -> None:
        """Where a disk was mounted, an empty directory is left: its runs are not gone."""
        is_empty = not (now.below or now.links or now.has_events)
        if is_empty and known.identity[0] != now.identity[0]:
            raise OSError("The disk of the logdir is not mounted")

    def _list(self, path: str, folder: Folder, scan: Scan) -> None:
        below: list[str] = []
        links: list[str] = []
        has_events = False
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if _is_storable(entry.path):
                        below.append(entry.name)
                    else:
                        shown = os.fsencode(entry.path)[:200].decode(errors="replace")
                        scan.problems[shown] = "Its name is too long, or is not UTF-8"
                elif entry.is_symlink() and not _leads_to_file(entry):
                    links.append(entry.name)
                elif not has_events:
                    has_events = is_event_file(entry.name)
        folder.below, folder.links, folder.has_events = tuple(below), tuple(links), has_events

    def _take(self, path: str, folder: Folder, before: _Before) -> None:
        before.folders.setdefault(path, self._folders.get(path))
        self._folders[path] = folder
        if folder.has_events is not (path in self.runs):
            before.runs.setdefault(path, path in self.runs)
            (self.runs.add if folder.has_events else self.runs.discard)(path)

    def _forget(self, path: str, scan: Scan, before: _Before) -> None:
        gone = [path]
        while gone:
            path = gone.pop()
            scan.problems.pop(path, None)
            folder = self._folders.pop(path, None)
            if path in self.runs:
                before.runs.setdefault(path, True)
                self.runs.discard(path)
            if folder is not None:
                before.folders.setdefault(path, folder)
                gone.extend(f"{path}/{name}" for name in folder.below)

    def _compare(self, found: set[str], scan: Scan) -> None:
        scan.new = sorted(found - self.runs)
        gone = self.runs - found
        if gone and scan.problems:
            hidden = tuple(f"{path.rstrip('/')}/" for path in scan.problems)
            gone = {path for path in gone if not f"{path}/".startswith(hidden)}
        scan.gone = sorted(gone)
        self.runs = (self.runs | found) - gone
        self.problems = scan.problems


def _leads_to_file(entry: os.DirEntry[str]) -> bool:
    """A link in a circle, or to a place we may not see, does not."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _is_storable(path: str) -> bool:
    try:
        return len(path.encode()) <= _MAX_BYTES
    except UnicodeEncodeError:
        return False


class RemoteDiscovery:
    """The run directories below a prefix of a bucket, and how they are called."""

    def __init__(self, root: str, experiment: str | None = None) -> None:
        """`experiment`: of all its runs; else that is the directory each lies in."""
        self.root = root
        self.experiment = experiment
        self.runs: set[str] = set()
        self.problems: dict[str, str] = {}
        _, _, path = root.partition("://")[2].partition("/")
        self._name = path.rpartition("/")[2]

    def know(self, runs: Iterable[str]) -> None:
        """Others say which runs are known."""
        self.runs = set(runs)

    def compare(self, found: Collection[str]) -> Scan:
        """What has come and gone, now that these are there."""
        there = set(found)
        scan = Scan(new=sorted(there - self.runs), gone=sorted(self.runs - there))
        self.runs = there
        return scan

    def found(self, path: str) -> FoundRun:
        """How a run is called: by its path below the prefix, in the experiment it lies in."""
        inside = path[len(self.root) :].strip("/")
        above = inside.rpartition("/")[0] or self._name or "default"
        return FoundRun(inside or self._name or "default", path, self.experiment or above)
