"""Logdirs, and which runs have come to them and gone: what is yet to be written of each.

Directories of this machine are watched, where the kernel tells of changes, and looked at now and
then in any case; where it cannot tell, more often, but never for more than a small share of the
time. What lies in buckets is told by listings (`remote_runs`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tbhub.catalog.discovery import Discovery, RemoteDiscovery, Scan
from tbhub.catalog.read_queue import ReadQueue
from tbhub.series.watch import Watcher

SAFETY_SECONDS = 60.0  # where the kernel tells of changes we look as seldom as that
_POLL_SECONDS, _POLL_SHARE = 2.0, 0.002  # elsewhere; nowhere more than this share of the time
_FILES_SECONDS = 150e-6  # what it takes to look at the files of a run


@dataclass(eq=False)
class RemoteLogdir:
    """A prefix of a bucket below which runs are looked for."""

    id: int
    workspace_id: int
    discovery: RemoteDiscovery
    ids: dict[str, int] = field(default_factory=dict)  # of runs, by location
    to_add: list[str] = field(default_factory=list)
    to_drop: list[str] = field(default_factory=list)
    adopted: set[str] = field(default_factory=set)  # always empty: only local files are compared


@dataclass(eq=False)
class Logdir:
    """A directory of this machine below which runs are looked for."""

    id: int
    workspace_id: int
    discovery: Discovery
    ids: dict[str, int] = field(default_factory=dict)  # of runs, by location
    to_add: list[str] = field(default_factory=list)
    to_drop: list[str] = field(default_factory=list)
    adopted: set[str] = field(default_factory=set)  # directories that are no runs of their own
    to_watch: list[str] = field(default_factory=list)
    unwatched: set[str] = field(default_factory=set)  # directories of which nobody tells
    next_poll: float = 0.0  # when all directories are looked at
    next_check: float = 0.0  # and the files in them


class WatchedLogdirs:
    """The logdirs of this machine, whose runs are put in a queue. Used by one thread."""

    def __init__(self, watcher: Watcher, queue: ReadQueue) -> None:
        self._watcher = watcher
        self._queue = queue
        self._logdirs: dict[int, Logdir] = {}

    def __iter__(self) -> Iterator[Logdir]:
        return iter(self._logdirs.values())

    def __contains__(self, number: int) -> bool:
        return number in self._logdirs

    def __getitem__(self, number: int) -> Logdir:
        return self._logdirs[number]

    def know(self, rows: Sequence[Any]) -> None:
        """These are the logdirs now; which runs they have is told anew, and all are looked at."""
        wanted = {row.id: row for row in rows}
        for number in self._logdirs.keys() - wanted.keys():
            self._leave(self._logdirs.pop(number))
        for number, row in wanted.items():
            if number not in self._logdirs:
                discovery = Discovery(row.path)
                self._logdirs[number] = Logdir(number, row.workspace_id, discovery)
            logdir = self._logdirs[number]
            logdir.discovery.experiment = row.experiment
            logdir.ids, logdir.to_add, logdir.to_drop = {}, [], []
            logdir.next_poll = 0.0

    @property
    def silent(self) -> list[set[str]]:
        """Directories of which nobody tells, of each logdir that has such."""
        return [each.unwatched for each in self if each.unwatched]

    @property
    def next_due(self) -> float:
        """When something is to be looked at."""
        return min((min(each.next_poll, each.next_check) for each in self), default=float("inf"))

    def look(self, now: float, *, everywhere: bool) -> None:
        """Looks where it is time to, or everywhere."""
        for logdir in self:
            if everywhere or now >= logdir.next_poll:
                self.poll(logdir)
            if everywhere or now >= logdir.next_check:
                self._check(logdir)

    def poll(self, logdir: Logdir) -> None:
        """Looks at all directories of a logdir."""
        start = time.thread_time()
        self._note(logdir, logdir.discovery.scan())
        cost = time.thread_time() - start
        seldom = not logdir.unwatched and logdir.discovery.is_there
        logdir.next_poll = _next(cost, seldom=seldom)

    def take(self, grown: set[str], listed: set[str]) -> None:
        """What the kernel has told."""
        for logdir in self if grown or listed else ():
            self._queue.want(logdir.ids[path] for path in grown | listed if path in logdir.ids)
            mine = [path for path in listed if path in logdir.discovery.folders]
            if mine:
                scan = logdir.discovery.look(mine)
                if scan is None:
                    logdir.next_poll = 0.0
                else:
                    self._note(logdir, scan)

    def watch(self, is_stopped: Callable[[], bool]) -> bool:
        """Has new directories watched, and looks at them once more: something may have come
        between the look and the watch. Whether there are some of which nobody will tell."""
        is_silent = False
        for logdir in self:
            if not logdir.to_watch:
                continue
            while logdir.to_watch and not is_stopped():
                self._watch(logdir)
            if logdir.unwatched:
                is_silent = True
                soon = time.monotonic() + _POLL_SECONDS
                logdir.next_poll = min(logdir.next_poll, soon)
                logdir.next_check = min(logdir.next_check, soon)
        return is_silent

    def _watch(self, logdir: Logdir) -> None:
        watched = []
        for path in logdir.to_watch:
            if self._watcher.add(path):
                watched.append(path)
                logdir.unwatched.discard(path)
            else:
                logdir.unwatched.add(path)
        logdir.to_watch = []
        scan = logdir.discovery.look(watched) if watched else Scan()
        self._note(logdir, scan or logdir.discovery.scan())

    def _check(self, logdir: Logdir) -> None:
        """Looks at the files of runs: of all, or of those of which nobody tells."""
        ids = logdir.ids
        mine = [ids[path] for path in logdir.unwatched if path in ids] or list(ids.values())
        self._queue.want(mine, urgent=False)
        logdir.next_check = _next(_FILES_SECONDS * len(mine), seldom=not logdir.unwatched)

    def _note(self, logdir: Logdir, scan: Scan) -> None:
        """What a look has shown."""
        logdir.to_add += scan.new
        for path in logdir.adopted.intersection(scan.touched).difference(logdir.to_add):
            logdir.to_add.append(path)  # it is listed if a file is there that no run has
        logdir.to_drop += scan.gone
        logdir.to_watch += scan.entered
        self._queue.want(logdir.ids[path] for path in scan.touched if path in logdir.ids)
        for path in scan.left:
            self._watcher.remove(path)
            logdir.unwatched.discard(path)
        if not logdir.discovery.is_there:
            logdir.next_poll = min(logdir.next_poll, time.monotonic() + _POLL_SECONDS)

    def _leave(self, logdir: Logdir) -> None:
        others = [each.discovery for each in self]
        for path in logdir.discovery.folders:
            if not any(path in other.folders for other in others):
                self._watcher.remove(path)


def _next(cost: float, *, seldom: bool) -> float:
    """When to look again at what took so many seconds to look at."""
    least = SAFETY_SECONDS if seldom else _POLL_SECONDS
    return time.monotonic() + max(least, cost / _POLL_SHARE)
