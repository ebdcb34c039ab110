"""Runs that lie in buckets: where each is, what listings have told of it, and who reads it.

All that is reached in a bucket with the same credentials shares one `Bucket`: a prefix is listed
once for all runs below it, every few seconds while something changes and seldom where nothing does.
Its threads only say what they have listed; everything here is changed by the indexer's thread
alone. Each bucket has a queue and threads of its own: one that does not answer holds up no other.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tbhub.catalog.read_queue import ReadQueue
from tbhub.catalog.run_reader import Signature
from tbhub.series.bucket import PATIENCE, Bucket, BucketRoot, RemoteFiles
from tbhub.series.objects import is_below
from tbhub.series.run_files import RunFiles
from tbhub.series.traffic import Traffic
from tbhub.storage.errors import StoreError
from tbhub.storage.open import open_store
from tbhub.storage.uri import Uri, parse

_MOST = 1000  # directories of a run

Key = tuple[str, int]  # what a root is for: a logdir or a run


@dataclass(eq=False)
class Lane:
    """A bucket, and which runs of it are to be read."""

    bucket: Bucket
    queue: ReadQueue
    at: dict[str, set[RemoteRun]] = field(default_factory=dict)  # by directory


@dataclass(eq=False)
class RemoteRoot:
    """A part of a bucket that is followed: a logdir, or a run that is in none."""

    uri: str
    prefix: str
    alone: bool  # one directory
    credentials: Mapping[str, str] | None = field(repr=False)
    lane: Lane | None = None  # none where the store cannot even be opened
    problem: str = ""
    only: str = ""
    is_listed: bool = False
    traffic: Traffic = field(default_factory=Traffic)
    runs: set[RemoteRun] = field(default_factory=set)


@dataclass(eq=False)
class RemoteRun:
    """A run of a bucket: one directory, or also those below it."""

    id: int
    uri: str
    root: RemoteRoot
    directory: str
    alone: bool
    directories: set[str] = field(default_factory=set)  # of it, with event files
    problem: str = ""

    def find(self) -> dict[str, RunFiles | str]:
        """The event files of its directories, by their names below it."""
        lane = self.root.lane
        if lane is None:
            return {}
        start = len(self.directory) + 1 if self.directory else 0
        return {
            directory[start:]: RemoteFiles(lane.bucket, directory)
            for directory in sorted(self.directories)[:_MOST]
        }

    def signature(self) -> Signature | None:
        """What its event files are, as they were listed; none if there are none."""
        lane = self.root.lane
        found = []
        touched = 0.0
        for directory in sorted(self.directories) if lane is not None else ():
            parts = lane.bucket.objects.folders.get(directory, {}) if lane is not None else {}
            for name, part in sorted(parts.items()):
                found.append((directory, name, part.size, part.version))
                touched = max(touched, part.modified)
        if not found:
            return None
        digest = hashlib.blake2b(repr(found).encode(errors="surrogateescape"), digest_size=12)
        return Signature(f"3:{digest.hexdigest()}", touched)


class Listed(NamedTuple):
    """What a listing has shown."""

    roots: list[tuple[Key, RemoteRoot]]  # that it was for, with their keys
    runs: list[int]  # to be looked at
    has_changed: bool  # directories came, went or changed, or this is the first


class RemoteRuns:
    """What is followed in all buckets."""

    def __init__(self, wake: Callable[[], None], rest: float) -> None:
        """`wake` is called by any thread when there is something to take; a live run is read every
        `rest` seconds at most."""
        self._wake = wake
        self._rest = rest
        self._roots: dict[Key, RemoteRoot] = {}
        self._runs: dict[int, RemoteRun] = {}
        self._lanes: dict[Hashable, Lane] = {}
        self._said: deque[tuple[Bucket, list[BucketRoot], list[str], str]] = deque()

    # --- what is followed

    def follow(
        self, key: Key, uri: str, credentials: Mapping[str, str] | None, *, alone: bool
    ) -> RemoteRoot:
        """Follows a place from now on; with other credentials it is another place."""
        root = self._roots.get(key)
        if root is not None:
            if (root.uri, root.alone, root.credentials) == (uri, alone, credentials):
                return root
            self._leave(key)
        root = self._roots[key] = RemoteRoot(uri, "", alone, credentials)
        try:
            place = parse(uri)
            lane = self._lane(place, credentials)
        except StoreError as error:
            root.problem = error.what
            root.is_listed = True
            return root
        root.prefix = place.path
        root.lane = lane
        lane.bucket.add(root)
        return root

    def _lane(self, place: Uri, credentials: Mapping[str, str] | None) -> Lane:
        given = None if credentials is None else frozenset(credentials.items())
        key = (place.scheme, place.bucket, place.account, given)
        lane = self._lanes.get(key)
        if lane is None:
            store, _ = open_store(place, credentials, patience=PATIENCE)
            lane = Lane(Bucket(place, store, self), ReadQueue(self._rest))
            self._lanes[key] = lane
        return lane

    def keep(self, keys: Collection[Key]) -> None:
        """Follows only these any more."""
        for key in self._roots.keys() - set(keys):
            self._leave(key)

    def add(self, run: int, uri: str, key: Key, *, alone: bool) -> bool:
        """A run at or below what is followed; False if that is known."""
        root = self._roots[key]
        known = self._runs.get(run)
        if known is not None:
            if known.root is root and (known.uri, known.alone) == (uri, alone):
                return False
            self.drop(run)
        directory = "" if root.lane is None else parse(uri).path
        made = RemoteRun(run, uri, root, directory, alone, problem=root.problem)
        self._runs[run] = made
        root.runs.add(made)
        if root.lane is not None:
            root.lane.at.setdefault(made.directory, set()).add(made)
            if root.is_listed:
                self._find(root.lane, made)
        return True

    def drop(self, run: int) -> None:
        """A run is no more."""
        known = self._runs.pop(run, None)
        if known is None:
            return
        known.root.runs.discard(known)
        lane = known.root.lane
        if lane is not None:
            lane.queue.drop(run)
            lane.at[known.directory].discard(known)
            if not lane.at[known.directory]:
                del lane.at[known.directory]

    def look(self) -> None:
        """Lists everything soon."""
        for lane in self._lanes.values():
            lane.bucket.look(0)

    def close(self) -> None:
        """Follows nothing any more; nobody is waited for."""
        for lane in self._lanes.values():
            lane.bucket.close()
        self._lanes = {}

    def _leave(self, key: Key) -> None:
        root = self._roots.pop(key)
        for run in list(root.runs):
            self.drop(run.id)
        lane = root.lane
        if lane is not None and lane.bucket.remove(root):
            self._lanes = {each: kept for each, kept in self._lanes.items() if kept is not lane}
            lane.bucket.close()

    # --- what is known

    def __contains__(self, run: int) -> bool:
        return run in self._runs

    def get(self, run: int) -> RemoteRun | None:
        """A run that lies in a bucket."""
        return self._runs.get(run)

    def is_known(self, run: int) -> bool:
        """Whether there is something to read of a run: before it is listed there is not. What lies
        in no bucket is not waited for."""
        known = self._runs.get(run)
        return known is None or known.root.is_listed

    def found(self, key: Key) -> list[str] | None:
        """The URIs of the directories with event files at and below a place; none before it has
        been listed, and while it cannot be."""
        root = self._roots[key]
        if root.lane is None or not root.is_listed or root.problem:
            return None
        return [root.lane.bucket.uri(each) for each in root.lane.bucket.runs_of(root).values()]

    @property
    def queues(self) -> list[ReadQueue]:
        """Of each bucket."""
        return [lane.queue for lane in self._lanes.values()]

    @property
    def is_listed(self) -> bool:
        """Whether all that is followed has been listed, or it is known why it cannot be."""
        return not self._said and all(root.is_listed for root in self._roots.values())

    # --- what buckets say, from their threads

    def on_listed(
        self,
        bucket: Bucket,
        roots: Collection[BucketRoot],
        changed: Collection[str],
        problem: str,
    ) -> None:
        """A bucket has been listed, or could not be."""
        self._said.append((bucket, list(roots), list(changed), problem))
        self._wake()

    def on_read(self, key: Hashable, requests: int, size: int) -> None:
        """Nobody pays for these."""

    def take(self) -> Iterator[Listed]:
        """What has been listed since."""
        keys = {root: key for key, root in self._roots.items()} if self._said else {}
        lanes = {lane.bucket: lane for lane in self._lanes.values()} if self._said else {}
        while self._said:
            bucket, roots, changed, problem = self._said.popleft()
            lane = lanes.get(bucket)
            mine = [each for each in roots if isinstance(each, RemoteRoot) and each in keys]
            if lane is None or not mine:
                continue
            first = [root for root in mine if not root.is_listed]
            troubled = [root for root in mine if root.problem != problem]
            touched: set[RemoteRun] = set()
            if not problem:
                for directory in changed:
                    touched |= self._note(lane, directory)
                for directory in list(bucket.objects.folders) if first else ():
                    self._note(lane, directory)
                touched.update(run for root in first for run in root.runs)
            for root in troubled:
                root.problem = problem
                for run in root.runs:
                    run.problem = problem
                touched |= root.runs
            for root in mine:
                root.is_listed = True
            yield Listed(
                [(keys[root], root) for root in mine],
                [run.id for run in touched],
                bool(changed or first or troubled),
            )

    def _note(self, lane: Lane, directory: str) -> set[RemoteRun]:
        """A directory has come, gone or changed: whose it is."""
        found = set()
        at = directory
        while True:
            for run in lane.at.get(at, ()):
                if run.alone and at != directory:
                    continue
                found.add(run)
                if directory in lane.bucket.objects.folders:
                    run.directories.add(directory)
                else:
                    run.directories.discard(directory)
            if not at:
                return found
            at = at.rpartition("/")[0]

    def _find(self, lane: Lane, run: RemoteRun) -> None:
        folders = lane.bucket.objects.folders
        if run.alone:
            run.directories = {run.directory} & folders.keys()
        else:
            run.directories = {each for each in list(folders) if is_below(each, run.directory)}
