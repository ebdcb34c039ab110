"""Adopts the event files that a command writes: finds them, judges them, names and copies them.

A file is adopted when a process of the command writes to it or has begun it. A new file of which no
process can be found (a program that is not Python wrote it and ended at once, or the program of
another terminal did) is adopted only from a directory that the user has named, and reported
otherwise. What was there before the start is of an earlier run and never adopted.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tbhub.events.begun import FIRST_BYTES, begun
from tbhub.events.names import is_event_file
from tbhub.publisher.adopted import Adopted, Copies, open_source
from tbhub.tracking.capture.companions import companions_of
from tbhub.tracking.capture.naming import Names, is_below
from tbhub.tracking.capture.origins import (
    Evidence,
    Holder,
    NamedAfter,
    Verdict,
    is_surely_older,
    judge,
    name_without_stamp,
    parse_name,
)
from tbhub.tracking.capture.processes import Processes
from tbhub.tracking.capture.reports import Reports
from tbhub.tracking.capture.search import Search

MAX_FILES = 10_000
_SETTLE_SECONDS = 1.0  # in which evidence is waited for, and files that belong together
_SHARE = 50  # looking at processes takes at most one part in so many of the time
_LAST_SECONDS = 10.0  # of the search at the end
_COMPANION_SECONDS = 5.0
_GONE = "it was deleted before it could be copied"
_SHARED = "process {process} of another run writes to it as well. hint: {hint}"
OWN_DIRECTORY = "give each run a directory of its own"
_UNSEEN = "no process of the command was seen to write it. hint: --logdir DIR adopts all of DIR"
_EARLIER = "it was begun before the start, by an earlier run"


@dataclass(frozen=True)
class Assignment:
    """What is to be adopted, and from where.

    Attributes:
        logdir: The run's directory.
        record: The file that records what is adopted; None: nothing is recorded.
        address: The path of the socket to which Python programs report event files.
        listener: The descriptor of that socket.
        since: When the run was started.
        work: The command's working directory.
        named: Directories to adopt from; if there are any, from no others.
        places: Other directories that scripts are known to write to.
        temporary: The directory of temporary files.
        excluded: Directories that nothing is adopted from.
    """

    logdir: str
    record: str | None
    address: str
    listener: int
    since: float
    work: str
    named: list[str]
    places: list[str]
    temporary: str
    excluded: list[str]


@dataclass
class Report:
    """What has become of the event files that were found.

    Attributes:
        adopted: How many event files were adopted, by directory.
        missed: Why a file was not adopted, or not completely, by its path.
        shared: Adopted files that a process of another run writes to as well, with that process.
        unused: Named directories in which nothing was found.
        is_limited: Whether not all directories could be searched.
        running: Processes of the command that have not ended, with their start times.
        error: Why adopting has ended too early; empty if it has not.
    """

    adopted: dict[str, int] = field(default_factory=dict)
    missed: dict[str, str] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    is_limited: bool = False
    running: dict[int, int] = field(default_factory=dict)
    error: str = ""


@dataclass
class _Candidate:
    path: str
    name: NamedAfter
    seen: float  # monotonic
    head: bytes = b""
    holder: Holder = Holder.UNKNOWN
    looked: float = 0.0  # when processes were last looked at, monotonic
    descriptors: list[int] = field(default_factory=list)  # of the file, and of its replacements

    @property
    def mark(self) -> tuple[str, bytes]:
        """What a file and its copies have in common, and no other: its name and first record."""
        return name_without_stamp(self.path), self.head


class Capturer:
    """Adopts what one command writes. Used by one thread.

    Args:
        assignment: What is to be adopted.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._to = assignment
        self._host = socket.gethostname()
        self._search = Search([assignment.logdir, *assignment.excluded])
        self._excluded = [
            os.path.realpath(each) for each in (assignment.logdir, *assignment.excluded)
        ]
        places = [*assignment.named] or [assignment.work, *assignment.places]
        self._names = Names(assignment.named, places)
        for place in places:
            self._search.add(place)
        if not assignment.named:
            self._search.add_new_below(assignment.temporary, assignment.since - 1)
        self._processes = Processes(assignment.logdir, assignment.address)
        record = Path(assignment.record) if assignment.record else None
        self._copies = Copies(Path(assignment.logdir), record)
        self._marks: set[tuple[str, bytes]] = set()  # of adopted files and of the run's own
        self._marked: set[str] = set()  # files of the run's directory
        self._marked_at = 0.0  # when they were listed last, monotonic
        self._candidates: dict[str, _Candidate] = {}
        self._judged: dict[str, int] = {}  # inodes of files that are not looked at again
        self._aged: dict[str, NamedAfter] = {}  # files that were begun before the start
        self._missed: dict[str, str] = {}
        self._reports = Reports(assignment.listener)
        self._reporters: set[int] = set()
        self._unseen: dict[str, None] = {}  # files that were reported and not found yet
        self._shared: dict[str, int] = {}  # files that others write to, with their process
        self._next_look = 0.0
        self._next_companions = 0.0

    def add_process(self, process: int) -> None:
        """Remember a process of the command."""
        self._processes.add(process)

    def has_processes(self) -> bool:
        """Return whether a process of the command runs; look for new ones if all known have ended.

        A process that was started a moment ago, by one that has ended since, may be missed.
        """
        if not self._processes.is_any_running():
            self._processes.refresh()
        return self._processes.is_any_running()

    def wait(self, seconds: float) -> None:
        """Wait until something is made in a searched directory, or for some seconds."""
        self._search.wait(seconds)

    def wake(self) -> None:
        """End a wait; from any thread."""
        self._search.wake()

    def step(self, *, is_last: bool = False) -> None:
        """Look for event files, judge them, and copy what is new of adopted ones."""
        found = self._search.look(is_last=is_last, seconds=_LAST_SECONDS if is_last else 0.2)
        self._consider(found)
        self._receive_reports()
        now = time.monotonic()
        if is_last or now >= self._next_look or self._has_to_look(now):
            self._look_at_processes()
            took = time.monotonic() - now
            self._next_look = now + max(_SETTLE_SECONDS, _SHARE * took)
        self._decide(is_last)
        self._adopt_companions(is_last)
        self._copies.update()

    def report(self) -> Report:
        """Look at everything again. Return what has become of what was found until now."""
        self.step(is_last=True)
        self._miss_grown()
        report = Report(
            self._adopted(),
            missed=dict(self._missed),
            is_limited=self._search.is_limited,
            running=self._processes.running(),
        )
        for path in self._unseen:
            if not os.path.lexists(path):
                report.missed.setdefault(path, _GONE)
        report.missed.update(self._copies.failures)
        report.shared = {path: each for path, each in self._shared.items() if path in self._copies}
        report.unused = [
            named
            for named in self._to.named
            if not any(is_below(directory, named) for directory in report.adopted)
        ]
        return report

    def report_error(self, error: Exception) -> Report:
        """Return what was adopted until an error that ends adopting, and what may be missing."""
        text = f"{error!r:.300}"
        missed = dict.fromkeys(self._candidates, "not adopted when that happened")
        return Report(
            self._adopted(), {**self._missed, **missed, **self._copies.failures}, error=text
        )

    def _adopted(self) -> dict[str, int]:
        """Return how many event files were adopted, by directory."""
        files = (file.source for file in self._copies.files)
        return dict(Counter(os.path.dirname(file) for file in files if is_event_file(file)))

    def close(self) -> None:
        """Adopt nothing more."""
        self._copies.close()
        self._search.close()
        self._reports.close()

    # ------------------------------------------------------------------ what there is

    def _consider(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path in self._candidates or path in self._copies or self._is_excluded(path):
                continue
            try:
                status = os.stat(path, follow_symlinks=False)
            except OSError:
                continue
            if not stat.S_ISREG(status.st_mode) or self._judged.get(path) == status.st_ino:
                continue
            self._add(path)

    def _add(self, path: str) -> _Candidate:
        candidate = _Candidate(path, parse_name(path, self._host), time.monotonic())
        self._candidates[path] = candidate
        return candidate

    def _is_excluded(self, path: str) -> bool:
        real = os.path.realpath(path)
        return any(is_below(real, each) for each in self._excluded)

    def _has_to_look(self, now: float) -> bool:
        """Return whether processes have to be looked at now, for files that were just found."""
        for each in self._candidates.values():
            settled = each.seen + _SETTLE_SECONDS
            if each.holder is Holder.UNKNOWN and is_surely_older(each.name, self._to.since):
                continue
            if each.holder is Holder.UNKNOWN and now <= settled:
                return True
            if each.looked < each.seen or each.looked < settled <= now:
                return True
        return False

    def _look_at_processes(self) -> None:
        self._processes.refresh()
        if not self._to.named:
            for directory in self._processes.directories():
                if not self._search.is_searched(directory) and not self._is_excluded(directory):
                    self._search.add(directory)
        own = [path for path, _ in self._processes.writes()]
        self._take(own)
        if self._candidates or self._copies.files:
            self._look_at_others()

    def _look_at_others(self) -> None:
        for each in self._candidates.values():
            each.looked = time.monotonic()
        for path, process in self._processes.writes(others=True):
            candidate = self._candidates.get(path)
            if process in self._reporters or not (candidate or path in self._copies):
                continue
            self._shared[path] = process
            if candidate and candidate.holder is Holder.UNKNOWN:
                candidate.holder = Holder.OTHER

    def _take(self, paths: Iterable[str]) -> None:
        """Consider files that the command's processes write to."""
        for path in paths:
            self._judged.pop(path, None)  # an older file may not have been written to before
            if self._is_adoptable(path):
                self._consider([path])
            elif not self._is_excluded(path):
                self._missed[path] = "it is outside of the directories named by --logdir"
            if (candidate := self._candidates.get(path)) is not None:
                candidate.holder = Holder.OWN
                if not candidate.descriptors:
                    with suppress(OSError):
                        candidate.descriptors.append(open_source(path))

    def _receive_reports(self) -> None:
        """Take what Python programs have reported."""
        for each in self._reports.read():
            if each.process:
                self._processes.add(each.process)
                self._reporters.add(each.process)
            if each.is_written:
                self._judged.pop(each.path, None)
                self._unseen[each.path] = None
            if each.descriptor is not None:
                self._keep(each.path, each.descriptor)
        for path in list(self._unseen):
            self._take([path])
            is_seen = path in self._candidates or path in self._copies
            if is_seen or self._is_excluded(path) or not self._is_adoptable(path):
                del self._unseen[path]

    def _keep(self, path: str, descriptor: int) -> None:
        """Keep a reported file, which may be deleted at any time."""
        if path in self._copies:
            self._copies.replace(path, descriptor)
            return
        is_wanted = self._is_adoptable(path) and not self._is_excluded(path)
        if not is_wanted or self._judged.get(path) == os.fstat(descriptor).st_ino:
            os.close(descriptor)
            return
        candidate = self._candidates.get(path) or self._add(path)
        if any(os.path.sameopenfile(descriptor, each) for each in candidate.descriptors):
            os.close(descriptor)
        else:
            candidate.descriptors.append(descriptor)

    def _is_adoptable(self, path: str) -> bool:
        return not self._to.named or any(is_below(path, named) for named in self._to.named)

    # ------------------------------------------------------------------ what is the run's

    def _decide(self, is_last: bool) -> None:
        now = time.monotonic()
        ready: list[_Candidate] = []
        for candidate in list(self._candidates.values()):
            if candidate.descriptors and not os.path.lexists(candidate.path):
                self._follow(candidate)
            is_settled = is_last or now - candidate.seen >= _SETTLE_SECONDS
            verdict = self._judge(candidate, is_settled)
            if verdict is Verdict.ADOPT:
                ready.append(candidate)
            elif verdict is Verdict.UNSURE:
                if is_last:
                    self._miss(candidate.path, _UNSEEN)
            elif verdict is Verdict.SHARED:
                process = self._shared[candidate.path]
                self._miss(candidate.path, _SHARED.format(process=process, hint=OWN_DIRECTORY))
            elif verdict is Verdict.OLDER:
                self._miss(candidate.path, _EARLIER)
            elif verdict is Verdict.OTHERS:
                if candidate.holder is Holder.UNKNOWN and len(self._aged) < MAX_FILES:
                    self._aged[candidate.path] = candidate.name
                self._drop(candidate)
        # What belongs together is named together.
        if ready and (is_last or any(now - each.seen >= _SETTLE_SECONDS for each in ready)):
            self._adopt(ready)

    def _judge(self, candidate: _Candidate, is_settled: bool) -> Verdict:
        path, name = candidate.path, candidate.name
        try:
            status = os.stat(candidate.descriptors[0] if candidate.descriptors else path)
            if len(candidate.head) < FIRST_BYTES and (
                candidate.holder is Holder.OWN or not is_surely_older(name, self._to.since)
            ):
                candidate.head = _head(candidate)
        except OSError as error:
            if candidate.holder is Holder.OWN:
                is_gone = isinstance(error, FileNotFoundError)
                self._missed[path] = _GONE if is_gone else error.strerror or str(error)
            return Verdict.OTHERS
        at = begun(candidate.head)
        if at is None and is_surely_older(name, self._to.since):
            at = float(name.seconds or 0)
        elif at is None and len(candidate.head) >= FIRST_BYTES:
            at = float(name.seconds or status.st_ctime)  # no writer's usual first record
        if at is not None and self._is_copy(candidate):
            candidate.holder = Holder.OTHER
        if candidate.holder is Holder.UNKNOWN and name.pid is not None and at is not None:
            candidate.holder = self._processes.holder(name.pid, at)
        evidence = Evidence(
            begun=at,
            modified=status.st_mtime,
            holder=candidate.holder,
            is_shared=path in self._shared,
            is_named=bool(self._to.named),
            is_vague_place=not self._search.is_searched(os.path.dirname(path)),
            is_settled=is_settled,
        )
        return judge(evidence, self._to.since)

    def _is_copy(self, candidate: _Candidate) -> bool:
        """Return whether a file is a copy of one of the run's, as a hub or a publisher makes it."""
        if self._marked_at < candidate.seen:
            self._marked_at = time.monotonic()
            self._mark_own_files()
        return candidate.mark in self._marks

    def _mark_own_files(self) -> None:
        """Remember the event files of the run's directory, as far as they have a first record."""
        for directory, _, names in os.walk(self._to.logdir):
            for path in (os.path.join(directory, name) for name in names if is_event_file(name)):
                if path in self._marked:
                    continue
                with suppress(OSError):
                    head = _read_head(path)
                    if len(head) == FIRST_BYTES:
                        self._marked.add(path)
                        self._marks.add((name_without_stamp(path), head))

    def _follow(self, candidate: _Candidate) -> None:
        """Find a file again that was renamed since it was opened."""
        descriptor = candidate.descriptors[0]
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        try:
            is_it = is_event_file(path) and os.path.samestat(os.stat(descriptor), os.lstat(path))
        except OSError:
            return  # it was deleted
        if not is_it or path in self._copies:
            return
        del self._candidates[candidate.path]
        if (found := self._candidates.pop(path, None)) is not None:
            candidate.descriptors += found.descriptors
        candidate.path, candidate.name = path, parse_name(path, self._host)
        self._candidates[path] = candidate

    def _is_contested(self, directory: str) -> bool:
        return any(
            is_below(directory, rival) or is_below(rival, directory)
            for rival in self._processes.rival_directories
            if rival != os.sep
        )

    def _miss_grown(self) -> None:
        """Report older files that were written to since the start, unless by another run."""
        others = {path for path, _ in self._processes.writes(others=True)}
        for path, name in self._aged.items():
            try:
                modified = os.stat(path).st_mtime
            except OSError:
                continue
            if modified < self._to.since or path in self._copies or path in others:
                continue
            is_others = name.pid is not None and (
                self._processes.holder(name.pid, modified) is Holder.OTHER
            )
            directory = os.path.dirname(path)
            is_ours_to_see = self._search.is_searched(directory)
            if is_ours_to_see and not is_others and not self._is_contested(directory):
                self._missed[path] = _EARLIER

    def _miss(self, path: str, why: str) -> None:
        self._missed[path] = why
        self._drop(self._candidates[path])

    def _drop(self, candidate: _Candidate) -> None:
        del self._candidates[candidate.path]
        for descriptor in candidate.descriptors:
            os.close(descriptor)
        try:
            self._judged[candidate.path] = os.stat(candidate.path).st_ino
        except OSError:
            self._judged.pop(candidate.path, None)

    def _adopt(self, ready: list[_Candidate]) -> None:
        # Of copies that were found together the one that is open is adopted.
        ready.sort(key=lambda each: (begun(each.head) or 0.0, not each.descriptors, each.path))
        originals = {each.mark: each for each in reversed(ready)}
        for candidate in ready:
            if originals[candidate.mark] is not candidate:
                self._drop(candidate)
        ready = [each for each in ready if originals[each.mark] is each]
        room = max(0, MAX_FILES - len(self._copies.files))
        for candidate in ready[room:]:
            self._miss(candidate.path, f"more than {MAX_FILES:,} files are not adopted")
        ready = ready[:room]
        self._names.add(os.path.dirname(each.path) for each in ready)
        files, opened = [], {}
        for candidate in ready:
            del self._candidates[candidate.path]
            if candidate.descriptors:
                opened[candidate.path] = candidate.descriptors.pop(0)
            self._marks.add(candidate.mark)
            self._missed.pop(candidate.path, None)
            files.append(self._named(candidate.path))
        self._copies.add(*files, opened=opened)
        for candidate in ready:
            for descriptor in candidate.descriptors:
                self._copies.replace(candidate.path, descriptor)

    def _named(self, path: str) -> Adopted:
        directory, name = os.path.split(path)
        called = self._names.name_of(directory)
        return Adopted(path, f"{called}/{name}" if called else name)

    # ------------------------------------------------------------------ files of plugins

    def _adopt_companions(self, is_last: bool) -> None:
        """Adopt what plugins show beside event files, and what is new of it."""
        if not is_last and time.monotonic() < self._next_companions:
            return
        begun_at = time.monotonic()
        files: list[Adopted] = []
        for directory in {os.path.dirname(file.source) for file in self._copies.files}:
            if not self._names.has(directory):
                continue  # of a companion
            called = self._names.name_of(directory)
            for path in companions_of(directory, self._to.since):
                below = os.path.relpath(path, directory).replace(os.sep, "/")
                files.append(Adopted(path, f"{called}/{below}" if called else below))
        if files := [file for file in files if file.source not in self._copies]:
            self._copies.add(*files[: max(0, MAX_FILES - len(self._copies.files))])
        took = time.monotonic() - begun_at
        self._next_companions = begun_at + max(_COMPANION_SECONDS, _SHARE * took)


def _head(candidate: _Candidate) -> bytes:
    if candidate.descriptors:
        return os.pread(candidate.descriptors[0], FIRST_BYTES, 0)
    return _read_head(candidate.path)


def _read_head(path: str) -> bytes:
    descriptor = open_source(path)
    try:
        return os.pread(descriptor, FIRST_BYTES, 0)
    finally:
        os.close(descriptor)
