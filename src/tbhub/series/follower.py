"""Follows directories of runs: finds runs, reads what is new, tells who wants to know.

One thread waits for the kernel to tell of changes, and looks by itself where the kernel would not
tell. Reading is done by a few threads, mostly in the native kernel without Python's lock. A run is
read once however many roots and boards show it. Runs in buckets are found and read by threads of
their own (`bucket`), which are not imported before there is one.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tbhub.series.cache import ColumnCache, default_cache_dir
from tbhub.series.memory import Memory, give_back
from tbhub.series.run_files import LocalFiles, RunFiles
from tbhub.series.run_log import RunLog
from tbhub.series.traffic import Traffic
from tbhub.series.tree import Folder, Folders
from tbhub.series.watch import Watcher

if TYPE_CHECKING:
    from tbhub.series.bucket import Bucket, BucketRoot

_MAX_THREADS = 8
_BATCH_SECONDS = 0.05  # changes are taken together for this long
_POLL_SECONDS = 2.0  # where the kernel tells nothing, at least
_SAFETY_SECONDS = 60.0  # where it does
_POLL_SHARE = 0.005  # of the time spent looking, at most
_STORE_AFTER = 4.0  # seconds in which what was read is likely to be drawn
_STORE_FROM = 64 << 10  # bytes of columns that are worth a cache file
_STORE_FROM_READ = 16 << 20  # and of event files, which may hold little but blobs
_CACHE_LIMIT = 20 << 30


@dataclass(frozen=True)
class Loading:
    """How far the first reading has come."""

    runs_done: int
    runs_total: int
    bytes_done: int
    bytes_total: int

    @property
    def finished(self) -> bool:
        """Whether everything has been read once."""
        return self.runs_done >= self.runs_total


class Root:
    """A place that is followed, and the runs below it by name.

    `runs` and `problems` are replaced and never changed. `on_change` is called from the follower's
    threads, after they have been.
    """

    def __init__(self, path: str, on_change: Callable[[], None]) -> None:
        self.path = path
        self.on_change = on_change
        self.runs: Mapping[str, RunLog] = {}
        self.problems: Mapping[str, str] = {}
        self.is_listed = False  # once, or it is known why that cannot be

    @property
    def is_missing(self) -> bool:
        """Whether it did not exist at the last look; buckets do not tell."""
        return False


class LocalRoot(Root):
    """A path of this machine."""

    def __init__(self, path: str, on_change: Callable[[], None]) -> None:
        super().__init__(path, on_change)
        self.is_listed = True
        self.folders = Folders(path)
        self.unwatched: set[str] = set()
        self.watched: set[str] = set()

    @property
    def above(self) -> str:
        """The directory it is in."""
        return os.path.dirname(self.path)

    @property
    def is_folder(self) -> bool:
        """Whether it was one at the last look, and neither a file nor missing."""
        return self.path in self.folders.known

    @property
    def is_missing(self) -> bool:
        """Whether it did not exist at the last look."""
        return not self.is_folder and not self.runs and self.path not in self.problems


class RemoteRoot(Root):
    """A part of a bucket. It has no bucket where the store cannot even be opened."""

    def __init__(self, path: str, on_change: Callable[[], None], traffic: Traffic) -> None:
        super().__init__(path, on_change)
        self.traffic = traffic
        self.bucket: Bucket | None = None
        self.prefix = ""
        self.only = ""
        self.alone = False


class Follower:
    """Follows roots until it is closed."""

    def __init__(
        self,
        *,
        budget: int | None = None,
        cache_dir: Path | None = None,
        use_cache: bool = True,
    ) -> None:
        self.memory = Memory(budget)
        directory = (cache_dir or default_cache_dir()) if use_cache else None
        self.cache = ColumnCache(directory, self.memory)
        self._watcher = Watcher()
        self._roots: dict[LocalRoot, None] = {}  # in the order they came
        self._remote_roots: dict[RemoteRoot, None] = {}
        self._buckets: dict[Hashable, Bucket] = {}
        self._watching: dict[str, set[LocalRoot]] = {}  # by directory: who wants to know
        self._logs: dict[Hashable, RunLog] = {}
        self._users: dict[RunLog, set[Root]] = {}
        self._queued: set[RunLog] = set()  # to be read, or being read
        self._again: set[RunLog] = set()  # and then once more
        self._unread: set[RunLog] = set()
        self._sizes: dict[RunLog, int] = {}
        self._bytes_done = 0
        self._runs_done = 0
        self._storing = False
        self._store_at = math.inf  # when what was read last is stored, by time.monotonic()
        self._pruned = False
        self._lock = threading.RLock()
        self._all_read = threading.Condition(self._lock)
        self._closed = threading.Event()
        threads = max(2, min(_MAX_THREADS, os.cpu_count() or 1))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="tbhub-read")
        self._next_poll = time.monotonic() + _POLL_SECONDS
        self._thread = threading.Thread(target=self._loop, name="tbhub-follow", daemon=True)
        self._thread.start()

    # --- what users call

    def follow(
        self,
        path: str,
        on_change: Callable[[], None] = lambda: None,
        *,
        alone: bool = False,
        credentials: Mapping[str, str] | None = None,
        traffic: Traffic | None = None,
    ) -> Root:
        """Follows an event file or a tree of runs from now on; reading goes on behind.

        What does not exist yet is waited for: training may be about to begin.

        Args:
            path: A path of this machine, or a URI.
            on_change: Is called when there is news.
            alone: The directory is one run, and what lies below it are others.
            credentials: For the store of the URI; without any those of the environment.
            traffic: Counts what is asked of a store for this root, and says how much may be.

        Raises:
            BadName: The URI is none.
        """
        if "://" in path:
            from tbhub.storage.uri import FILE, parse

            place = parse(path)
            if place.scheme != FILE:
                return self._follow_remote(
                    str(place), on_change, alone, credentials or {}, traffic or Traffic()
                )
            path = place.path
        path = os.path.abspath(os.path.expanduser(path))
        root = LocalRoot(path, on_change)
        root.folders = Folders(
            path,
            lambda folder: self._enter(root, folder),
            lambda left: self._unwatch(root, left),
            alone=alone,
        )
        with self._lock:
            self._roots[root] = None
            news = self._scan(root, [path])
        self._watcher.wake()
        if news:
            on_change()
        return root

    def _follow_remote(
        self,
        uri: str,
        on_change: Callable[[], None],
        alone: bool,
        credentials: Mapping[str, str],
        traffic: Traffic,
    ) -> Root:
        from tbhub.events.names import is_event_file
        from tbhub.series.bucket import PATIENCE, Bucket
        from tbhub.storage.errors import StoreError
        from tbhub.storage.open import open_store
        from tbhub.storage.uri import parse

        place = parse(uri)
        root = RemoteRoot(uri, on_change, traffic)
        above, _, name = place.path.rpartition("/")
        root.prefix, root.only = (above, name) if is_event_file(name) else (place.path, "")
        root.alone = alone
        key = (place.scheme, place.bucket, place.account, frozenset(credentials.items()))
        with self._lock:
            self._remote_roots[root] = None
            bucket = self._buckets.get(key)
            if bucket is None:
                try:
                    store, _ = open_store(place, credentials, patience=PATIENCE)
                except StoreError as error:
                    root.problems = {uri: error.what}
                    root.is_listed = True
                    return root
                bucket = self._buckets[key] = Bucket(place, store, self)
            root.bucket = bucket
            bucket.add(root)
        return root

    def unfollow(self, root: Root) -> None:
        """Follows a root no longer; runs that nobody else follows are let go."""
        with self._lock:
            if isinstance(root, RemoteRoot):
                if root not in self._remote_roots:
                    return
                del self._remote_roots[root]
                self._leave_bucket(root)
            elif isinstance(root, LocalRoot):
                if root not in self._roots:
                    return
                del self._roots[root]
                for folder in list(root.watched):
                    self._unwatch(root, folder)
            for log in root.runs.values():
                self._release(log, root)
            root.runs = {}
            self._all_read.notify_all()

    def _leave_bucket(self, root: RemoteRoot) -> None:
        bucket = root.bucket
        if bucket is not None and bucket.remove(root):
            self._buckets = {key: each for key, each in self._buckets.items() if each is not bucket}
            bucket.close()

    @property
    def loading(self) -> Loading:
        """How far the first reading has come."""
        with self._lock:
            total = sum(self._sizes.values())
            return Loading(
                self._runs_done,
                self._runs_done + len(self._unread),
                min(self._bytes_done, total),
                total,
            )

    def wait_until_loaded(self, timeout: float | None = None) -> bool:
        """Waits until everything there is has been read once."""
        with self._all_read:
            return self._all_read.wait_for(self._is_loaded, timeout)

    def _is_loaded(self) -> bool:
        return not self._unread and all(root.is_listed for root in self._remote_roots)

    def look(self, timeout: float | None = None) -> bool:
        """Looks everywhere now, and waits until what is new has been read."""
        self._poll()
        for bucket in list(self._buckets.values()):
            if not bucket.look(timeout):
                return False
        with self._all_read:
            return self._all_read.wait_for(lambda: not self._queued, timeout)

    def close(self) -> None:
        """Ends the threads. What has been read stays readable."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            buckets = list(self._buckets.values())
        for bucket in buckets:
            bucket.close()
        self._watcher.wake()
        self._thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._watcher.close()

    # --- finding runs

    def _scan(self, root: LocalRoot, paths: list[str]) -> bool:
        """Looks at directories of a root again, and makes its runs what is there."""
        runs: dict[str, Folder]
        if os.path.isfile(root.path):
            runs = {".": Folder(root.path, ".", (0, 0), files=[root.path])}
        else:
            for path in paths:
                if path == root.path or path in root.folders.known:
                    # Watch first, then look: nothing can come between. A directory may have been
                    # made anew, and then is no longer watched.
                    if path in root.folders.known:
                        self._watch(root, path)
                    root.folders.scan(path)
            runs = {folder.name: folder for folder in root.folders.known.values() if folder.files}
        if not root.is_folder:
            self._watch(root, root.above)
        news = self._update_runs(
            root, runs, lambda name: LocalFiles(runs[name].path, runs[name].files)
        )
        problems = {
            path: error.strerror or str(error) for path, error in root.folders.unreadable.items()
        }
        if problems != root.problems:
            root.problems = problems
            news = True
        return news

    def _enter(self, root: LocalRoot, path: str) -> None:
        """A directory that is new, or another one under a name that is not."""
        self._watch(root, path)
        log = self._logs.get(path)
        if log is not None:
            self._schedule(log)

    def _watch(self, root: LocalRoot, path: str) -> None:
        if self._watcher.add(path):
            root.watched.add(path)
            self._watching.setdefault(path, set()).add(root)
            root.unwatched.discard(path)
            return
        self._forget_watch(root, path)
        if path not in root.unwatched:
            root.unwatched.add(path)
            self._next_poll = min(self._next_poll, time.monotonic() + _POLL_SECONDS)

    def _unwatch(self, root: LocalRoot, path: str) -> None:
        root.unwatched.discard(path)
        if self._forget_watch(root, path):
            self._watcher.remove(path)

    def _forget_watch(self, root: LocalRoot, path: str) -> bool:
        """A root does not watch a directory any more; True if nobody does."""
        root.watched.discard(path)
        watching = self._watching.get(path, set())
        watching.discard(root)
        if not watching:
            self._watching.pop(path, None)
        return not watching

    def on_listed(
        self,
        bucket: Bucket,
        roots: Collection[BucketRoot],
        changed: Collection[str],
        problem: str,
    ) -> None:
        """A bucket has been listed, or could not be: what is known of it stays."""
        from tbhub.series.bucket import RemoteFiles

        told = []
        with self._lock:
            for root in roots:
                if not isinstance(root, RemoteRoot) or root not in self._remote_roots:
                    continue
                news = not root.is_listed
                if not problem and (changed or news):
                    runs = bucket.runs_of(root)

                    def files_of(
                        name: str, runs: dict[str, str] = runs, only: str = root.only
                    ) -> RunFiles:
                        return RemoteFiles(bucket, runs[name], only)

                    news |= self._update_runs(root, runs, files_of)
                problems = {root.path: problem} if problem else {}
                if problems != root.problems:
                    root.problems = problems
                    news = True
                root.is_listed = True
                if news:
                    told.append(root)
            for directory in changed:
                for only in {root.only for root in roots}:
                    log = self._logs.get(bucket.key_of(directory, only))
                    if log is not None:
                        self._schedule(log)
            self._all_read.notify_all()
        for each in told:
            each.on_change()

    def on_read(self, key: Hashable, requests: int, size: int) -> None:
        """A run's bytes were read from its bucket."""
        with self._lock:
            log = self._logs.get(key)
            users = list(self._users.get(log, ())) if log is not None else []
        for traffic in {root.traffic for root in users if isinstance(root, RemoteRoot)}:
            traffic.count(requests, size)

    def _update_runs(
        self, root: Root, names: Collection[str], files_of: Callable[[str], RunFiles]
    ) -> bool:
        """Makes the runs of a root these; False if they are."""
        if set(names) == root.runs.keys():
            return False
        runs: dict[str, RunLog] = {}
        fresh: list[RunLog] = []
        for name in sorted(names):
            log = root.runs.get(name)
            if log is None:
                log = self._log_of(files_of(name), root)
                fresh.append(log)
            runs[name] = log
        for name, log in root.runs.items():
            if name not in runs:
                self._release(log, root)
        root.runs = runs
        for log in fresh:
            self._schedule(log)
        return True

    def _log_of(self, files: RunFiles, root: Root) -> RunLog:
        log = self._logs.get(files.key)
        if log is None:
            log = self._logs[files.key] = RunLog(files, self.cache)
            self._unread.add(log)
            self._sizes[log] = files.size()
        self._users.setdefault(log, set()).add(root)
        return log

    def _release(self, log: RunLog, root: Root) -> None:
        users = self._users.get(log, set())
        users.discard(root)
        if not users:
            self._users.pop(log, None)
            self._logs.pop(log.files.key, None)
            self._sizes.pop(log, None)
            self._unread.discard(log)
            self._queued.discard(log)  # those who would have read it may be gone
            self._all_read.notify_all()
            log.close()

    # --- reading

    def _schedule(self, log: RunLog) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            if log in self._queued:
                self._again.add(log)
                return
            self._queued.add(log)
            (log.files.workers or self._pool).submit(self._refresh, log)

    def _refresh(self, log: RunLog) -> None:
        with self._lock:
            self._again.discard(log)  # what comes from now on is seen by another look
            first = log in self._unread
        changed = False
        try:
            changed = log.refresh(self._count if first else lambda _: None)
            log.files.after_reading(log.is_settled)
            self.memory.relieve()
        finally:
            with self._lock:
                self._queued.discard(log)
                if log in self._again:
                    self._schedule(log)
                if log in self._unread:
                    self._unread.discard(log)
                    self._runs_done += 1
                    changed = True
                self._all_read.notify_all()
                users = list(self._users.get(log, ())) if changed else []
                loaded = first and not self._unread
        for root in users:
            root.on_change()
        if loaded:
            self._store_at = time.monotonic() + _STORE_AFTER
            self._watcher.wake()  # to wait no longer than until then

    def _count(self, size: int) -> None:
        with self._lock:
            self._bytes_done += size

    # --- waiting for changes

    def _loop(self) -> None:
        while not self._closed.is_set():
            timeout = max(0.0, min(self._next_poll, self._store_at) - time.monotonic())
            changes = self._watcher.wait(timeout)
            if self._closed.is_set():
                return
            if changes.lost or time.monotonic() >= self._next_poll:
                self._poll()
                self._store_behind()
            elif changes.grown or changes.listed:
                self._take(changes.grown, changes.listed)
            else:
                self._store_behind()
            if self._closed.wait(_BATCH_SECONDS):
                return

    def _take(self, grown: set[str], listed: set[str]) -> None:
        news = []
        with self._lock:
            told = (root for path in grown | listed for root in self._watching.get(path, ()))
            for root in dict.fromkeys(told):
                paths = [path for path in listed if path in root.folders.known]
                if not root.is_folder and root.above in grown | listed:
                    paths.append(root.path)
                    if "." in root.runs:
                        self._schedule(root.runs["."])
                if paths and self._scan(root, paths):
                    news.append(root)
            for path in grown | listed:
                log = self._logs.get(path)
                if log is not None:
                    self._schedule(log)
        for root in news:
            root.on_change()

    def _poll(self) -> None:
        """Looks everywhere; how often depends on whether the kernel tells, and on the cost."""
        start = time.thread_time()
        unwatched = False
        for root in list(self._roots):
            with self._lock:
                if root not in self._roots:
                    continue
                news = self._scan(root, list(root.folders.known) or [root.path])
                unwatched |= bool(root.unwatched)
                for log in root.runs.values():
                    self._schedule(log)
            if news:
                root.on_change()
        cost = (time.thread_time() - start) * 2  # reading looks as long again
        least = _POLL_SECONDS if unwatched else _SAFETY_SECONDS
        self._next_poll = time.monotonic() + max(least, cost / _POLL_SHARE)

    # --- storing

    def _store_behind(self) -> None:
        """Stores where nothing waits for it: once everything has been read, and by another thread
        than the one that waits for changes. Writing takes as much as reading did, so whoever has
        just opened a board is served first."""
        with self._lock:
            if self._unread or self._storing or self._closed.is_set():
                return
            if math.isfinite(self._store_at) and time.monotonic() < self._store_at:
                return
            self._store_at = math.inf
            self._storing = True
            self._pool.submit(self._store_all)

    def _store_all(self) -> None:
        """Writes what has been read to the cache, so that the next opening needs no parsing."""
        try:
            with self._lock:
                logs = list(self._logs.values())
            stored = False
            for log in logs:
                if self._closed.is_set():
                    return
                if _is_worth_storing(log):
                    log.store()
                    stored = True
            if stored:
                give_back()
            if not self._pruned:
                self._pruned = True
                self.cache.prune(_CACHE_LIMIT)
        finally:
            self._storing = False


def _is_worth_storing(log: RunLog) -> bool:
    """Whether enough has come since: a cache file is written whole.

    What costs requests to read again is kept from the first byte on, and to the last.
    """
    if log.files.is_remote and log.fresh and (log.is_idle or log.fresh >= log.view.size // 2):
        return True
    if log.heap >= max(_STORE_FROM, log.stored // 2):
        return True
    return log.fresh >= max(_STORE_FROM_READ, log.view.size // 2)
