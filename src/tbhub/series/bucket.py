"""A bucket whose runs are followed: listed when it is time, and read where something is new.

All roots in a bucket that are reached with the same credentials share one store, what is known of
its objects, and the threads that wait for it. So a store that is slow or gone holds up nobody else.
A thread of its own decides what is listed when (`prefixes`, `pace`); nothing else is ever asked for
without need: where no object changes, the listings are all there is.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from tbhub.events.segments import group_segments, split_segment
from tbhub.series.blocks import Blocks
from tbhub.series.growing_file import GrowingFile
from tbhub.series.objects import Folder, Objects, is_below
from tbhub.series.pace import Pace
from tbhub.series.parted_file import Part, Span
from tbhub.series.prefixes import plan
from tbhub.series.run_files import Files, parted, why
from tbhub.series.traffic import Traffic
from tbhub.series.workers import DaemonWorkers
from tbhub.storage.errors import NoPermission, StoreError
from tbhub.storage.store import Entry, Patience, Range, Store
from tbhub.storage.uri import Uri

# Requests are repeated by the next listing, so what is wrong is told soon.
PATIENCE = Patience(timeout=30, connect_timeout=5, retries=2, longest_pause=2, total=30)

_BATCH_SECONDS = 0.05  # roots that come together are planned together
_READERS = 16
_LISTERS = 4
_PER_REQUEST = 1000
_LIVE_SECONDS = 180.0  # a run that has changed so lately is live
_WIDE = 8  # requests of a listing, from which on live runs are listed by themselves
_TIME_IN_NAME = re.compile(r"tfevents\.(\d{9,11})\b")


class BucketRoot(Protocol):
    """Part of a bucket that is followed."""

    prefix: str  # a directory
    only: str  # an event file in it, if it is that alone
    alone: bool  # one run: what lies below the directory are others
    is_listed: bool
    traffic: Traffic


class Listener(Protocol):
    """Who wants to know."""

    def on_listed(
        self, bucket: Bucket, roots: Collection[BucketRoot], changed: Collection[str], problem: str
    ) -> None:
        """Roots have been listed, or could not be; these directories have changed."""

    def on_read(self, key: Hashable, requests: int, size: int) -> None:
        """Bytes of a run were read."""


@dataclass(eq=False)
class _Watch:
    """A prefix that is listed again and again."""

    prefix: str
    limit: int | None = None  # of requests, beyond which it is not worth it
    pace: Pace | None = None  # None before the first listing
    due: float = 0.0
    is_under_way: bool = False
    looks: int = 0  # listings that were asked for and have been made
    roots: list[BucketRoot] = field(default_factory=list)
    is_hot: bool = field(default=False, kw_only=True)  # a live run below another watch


class Bucket:
    """Lists and reads one bucket until it is closed."""

    def __init__(self, place: Uri, store: Store, listener: Listener) -> None:
        self.place = Uri(place.scheme, place.bucket, "", place.account)
        self.store = store
        self.objects = Objects()
        self.blocks = Blocks()
        self.readers = DaemonWorkers(_READERS, "tbhub-fetch")
        self._listener = listener
        self._listers = DaemonWorkers(_LISTERS, "tbhub-list")
        self._roots: dict[BucketRoot, None] = {}
        self._watches: dict[str, _Watch] = {}
        self._too_wide: set[str] = set()
        self._live: dict[str, float] = {}  # by directory: when it changed
        self._unsettled: set[str] = set()  # directories that could not be read, or not wholly
        self._looks = 0
        self._planned = True
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._loop, name="tbhub-poll", daemon=True)
        self._thread.start()

    # --- what the follower calls

    def add(self, root: BucketRoot) -> None:
        """Follows a part from now on; it is told of when it has been listed."""
        with self._changed:
            self._roots[root] = None
            self._planned = False
            self._changed.notify_all()

    def remove(self, root: BucketRoot) -> bool:
        """Follows it no longer; True if that was the last."""
        with self._changed:
            self._roots.pop(root, None)
            self._planned = False
            self._changed.notify_all()
            return not self._roots

    def look(self, timeout: float | None) -> bool:
        """Lists everything now, and waits for it."""
        with self._changed:
            self._looks += 1
            wanted = self._looks
            self._changed.notify_all()
            return self._changed.wait_for(
                lambda: (
                    self._closed
                    or (self._planned and all(w.looks >= wanted for w in self._watches.values()))
                ),
                timeout,
            )

    def close(self) -> None:
        """Lists and reads no more; nobody is waited for."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._listers.close()
        self.readers.close()
        # Which waits for what is under way.
        threading.Thread(target=self.store.close, name="tbhub-close", daemon=True).start()

    def uri(self, path: str) -> str:
        """The URI of a path in it."""
        return f"{self.place}/{path}" if path else str(self.place)

    def key_of(self, directory: str, only: str) -> Hashable:
        """Alike for those that are the same run."""
        return id(self), directory, only

    def runs_of(self, root: BucketRoot) -> dict[str, str]:
        """The runs of a root by name, and their directories."""
        folders = self.objects.folders
        if root.only:
            there = any(_is_of(name, root.only) for name in folders.get(root.prefix, {}))
            return {".": root.prefix} if there else {}
        if root.alone:
            return {".": root.prefix} if root.prefix in folders else {}
        start = len(root.prefix) + 1 if root.prefix else 0
        with self._changed:
            below = list(self.objects.below(root.prefix, folders))
        return {directory[start:] or ".": directory for directory in below}

    # --- listing

    def _loop(self) -> None:
        while True:
            if not self._planned:
                time.sleep(_BATCH_SECONDS)
            with self._changed:
                if self._closed:
                    return
                if not self._planned:
                    self._plan()
                now = time.monotonic()
                soonest = math.inf
                for watch in self._watches.values():
                    if watch.is_under_way:
                        continue
                    due = self._due(watch)
                    if due <= now:
                        watch.is_under_way = True
                        self._listers.submit(self._list, watch)
                    else:
                        soonest = min(soonest, due)
                if self._planned:
                    pause = None if soonest == math.inf else max(0.0, soonest - time.monotonic())
                    self._changed.wait(pause)

    def _due(self, watch: _Watch) -> float:
        if watch.looks < self._looks:
            return 0.0
        allowed = min((root.traffic.free_at for root in watch.roots), default=0.0)
        return max(watch.due, allowed)

    def _plan(self) -> None:
        """Makes what is listed what is needed."""
        self._planned = True
        limits = plan({root.prefix for root in self._roots}, self._too_wide)
        before = self._watches
        self._watches = {}
        for prefix, limit in limits.items():
            known = before.get(prefix)
            watch = known if known is not None and not known.is_hot else _Watch(prefix)
            watch.limit = limit
            watch.roots = []
            self._watches[prefix] = watch
        for prefix in before:
            if not any(is_below(prefix, each) for each in limits):
                self.objects.forget(prefix)
        fresh = []
        for root in self._roots:
            watch = next(
                self._watches[each] for each in _above(root.prefix) if each in self._watches
            )
            watch.roots.append(root)
            if not root.is_listed and watch.pace is not None and not watch.pace.failures:
                fresh.append(root)
        if fresh:  # what they show is known already
            self._listers.submit(self._listener.on_listed, self, fresh, (), "")

    def _list(self, watch: _Watch) -> None:
        with self._changed:
            looks = self._looks
        began = time.monotonic()
        problem = ""
        entries: list[Entry] = []
        is_too_wide = False
        try:
            most = None if watch.limit is None else watch.limit * _PER_REQUEST
            entries = list(islice(self.store.list(watch.prefix), most and most + 1))
            is_too_wide = most is not None and len(entries) > most
        except NoPermission as error:
            is_too_wide = watch.limit is not None
            problem = why(error)
        except StoreError as error:
            problem = why(error)
        now = time.monotonic()
        requests = max(1, -(-len(entries) // _PER_REQUEST))
        with self._changed:
            roots = list(watch.roots)
            for root in roots:
                root.traffic.count(requests)
            watch.is_under_way = False
            changed: set[str] = set()
            # It could be listed until now: the next listing tells whether that is over.
            is_first_failure = bool(problem and watch.pace and not watch.pace.failures)
            if is_too_wide:
                self._too_wide.add(watch.prefix)
                self._planned = False
            elif problem:
                self._failed(watch, now)
            else:
                changed = self._take(watch, entries, requests, now - began)
            watch.looks = max(watch.looks, 0 if is_too_wide else looks)
        if not is_too_wide and not is_first_failure and roots:
            self._listener.on_listed(self, roots, changed, problem)
        with self._changed:
            self._changed.notify_all()

    def _failed(self, watch: _Watch, now: float) -> None:
        watch.pace = watch.pace or Pace.of_age(now, 0)
        watch.pace.failures += 1
        watch.due = now + watch.pace.pause(now)

    def _take(self, watch: _Watch, entries: list[Entry], requests: int, seconds: float) -> set[str]:
        now = time.monotonic()
        changed = self.objects.take(watch.prefix, entries, now)
        if watch.pace is None:
            newest = max((entry.modified for entry in entries), default=0.0)
            watch.pace = Pace.of_age(now, time.time() - newest)
            for directory in changed:
                self._live[directory] = now - (time.time() - self._newest(directory))
        elif changed or self.objects.in_doubt:
            watch.pace.changed = now
            self._live.update(dict.fromkeys(changed, now))
        watch.pace.requests, watch.pace.seconds = requests, seconds
        again = {each for each in self._unsettled if is_below(each, watch.prefix)}
        self._unsettled -= again
        watch.pace.failures = watch.pace.failures + 1 if again else 0
        watch.due = now + watch.pace.pause(now)
        if not watch.is_hot:
            self._watch_live(watch, now)
        return changed | again

    def _newest(self, directory: str) -> float:
        parts = self.objects.folders.get(directory, {}).values()
        return max((part.modified for part in parts), default=0.0)

    def _watch_live(self, wide: _Watch, now: float) -> None:
        """Below a prefix that takes many requests to list, live runs are listed by themselves."""
        self._live = {
            directory: changed
            for directory, changed in self._live.items()
            if now - changed < _LIVE_SECONDS
        }
        live = [each for each in self._live if is_below(each, wide.prefix) and each != wide.prefix]
        assert wide.pace is not None
        wanted = live if wide.pace.requests >= _WIDE and len(live) <= wide.pace.requests else []
        for prefix, watch in list(self._watches.items()):
            if watch.is_hot and is_below(prefix, wide.prefix) and prefix not in wanted:
                del self._watches[prefix]
        for prefix in wanted:
            if prefix not in self._watches:
                hot = _Watch(prefix, None, Pace(now), now, looks=self._looks, is_hot=True)
                hot.roots = [root for root in wide.roots if is_below(prefix, root.prefix)]
                self._watches[prefix] = hot

    # --- reading

    def unsettled(self, directory: str) -> None:
        """A run could not be read, or not as far as it was listed: with the next listing."""
        with self._changed:
            self._unsettled.add(directory)

    def list_once(self, key: Hashable, prefix: str) -> list[Entry]:
        """What lies below a prefix, for someone who wants to know it once."""
        entries = list(self.store.list(prefix))
        self._listener.on_read(key, max(1, -(-len(entries) // _PER_REQUEST)), 0)
        return entries

    def read(self, key: Hashable, spans: Sequence[Span]) -> Iterator[bytes]:
        """Bytes of objects, in their order."""
        if len(spans) == 1:
            found: Iterator[bytes] = iter([self.store.read(*spans[0])])
        else:
            found = self.store.read_many(Range(*span) for span in spans)
        for data in found:
            self._listener.on_read(key, 1, len(data))
            yield data


class RemoteFiles:
    """The event files of a directory of a bucket, or one of them."""

    is_remote = True

    def __init__(self, bucket: Bucket, directory: str, only: str = "") -> None:
        self.bucket = bucket
        self.directory = directory
        self.only = only
        self.path = bucket.uri(f"{directory}/{only}" if directory and only else directory or only)
        self.key = bucket.key_of(directory, only)

    @property
    def workers(self) -> DaemonWorkers:
        return self.bucket.readers

    def open(self, known: Mapping[str, GrowingFile], problems: dict[str, str]) -> Files:
        folder = self._folder()
        files: Files = {}
        for name, names in group_segments(folder).items():
            path = self.bucket.uri(f"{self.directory}/{name}" if self.directory else name)
            parts = [folder[each] for each in names]
            files[path] = parted(known.get(path), path, parts, self._read, self._read_again)
        return files

    def started(self) -> float:
        """By the name of the first file, which tells it to the second: reading costs a request."""
        folder = self._folder()
        if not folder:
            return math.inf
        found = _TIME_IN_NAME.search(min(folder))
        if found:
            return float(found[1])
        return min(part.modified for part in folder.values())

    def size(self) -> int:
        return sum(part.size for part in self._folder().values())

    def after_reading(self, good: bool) -> None:
        if not good:
            self.bucket.unsettled(self.directory)

    def _folder(self) -> Folder:
        folder: Folder = self.bucket.objects.folders.get(self.directory, {})
        if not self.only:
            return folder
        return {name: part for name, part in folder.items() if _is_of(name, self.only)}

    def _read(self, spans: Sequence[Span]) -> Iterator[bytes]:
        return self.bucket.read(self.key, spans)

    def _read_again(self, part: Part, offset: int, size: int) -> bytes:
        def read(name: str, offset: int, size: int) -> bytes:
            return next(self._read([Span(name, offset, size)]))

        return self.bucket.blocks.read(read, part, offset, size)


def _above(prefix: str) -> Iterator[str]:
    """A prefix and all it lies in, the store last."""
    yield prefix
    while prefix:
        prefix = prefix.rpartition("/")[0]
        yield prefix


def _is_of(name: str, only: str) -> bool:
    """Whether an object is a file, or a segment of it."""
    segment = split_segment(name)
    return name == only or (segment is not None and segment[0] == only)
