"""Follows directories of runs: finds runs, reads what is new, tells who wants to know.

One thread waits for the kernel to tell of changes, and looks by itself where the kernel would not
tell. Reading is done by a few threads, mostly in the native kernel without Python's lock. A run is
read once however many roots and boards show it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tbhub.series.cache import ColumnCache, default_cache_dir
from tbhub.series.memory import Memory, give_back
from tbhub.series.run_log import RunLog
from tbhub.series.tree import Folder, Folders
from tbhub.series.watch import Watcher

_MAX_THREADS = 8
_BATCH_SECONDS = 0.05  # changes are taken together for this long
_POLL_SECONDS = 2.0  # where the kernel tells nothing, at least
_SAFETY_SECONDS = 60.0  # where it does
_POLL_SHARE = 0.005  # of the time spent looking, at most
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
    """A path that is followed, and the runs below it by name.

    `runs` and `problems` are replaced and never changed. `on_change` is called from the follower's
    threads, after they have been.
    """

    def __init__(self, path: str, on_change: Callable[[], None]) -> None:
        self.path = path
        self.on_change = on_change
        self.runs: Mapping[str, RunLog] = {}
        self.problems: Mapping[str, str] = {}
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
        self._roots: list[Root] = []
        self._logs: dict[str, RunLog] = {}
        self._users: dict[RunLog, set[Root]] = {}
        self._queued: set[RunLog] = set()  # to be read, or being read
        self._again: set[RunLog] = set()  # and then once more
        self._unread: set[RunLog] = set()
        self._sizes: dict[RunLog, int] = {}
        self._bytes_done = 0
        self._runs_done = 0
        self._storing = False
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

    def follow(self, path: str, on_change: Callable[[], None] = lambda: None) -> Root:
        """Follows an event file or a tree of runs from now on; reading goes on behind.

        What does not exist yet is waited for: training may be about to begin.
        """
        path = os.path.abspath(os.path.expanduser(path))
        root = Root(path, on_change)
        root.folders = Folders(
            path, lambda folder: self._enter(root, folder), lambda left: self._unwatch(root, left)
        )
        with self._lock:
            self._roots.append(root)
            news = self._scan(root, [path])
        self._watcher.wake()
        if news:
            on_change()
        return root

    def unfollow(self, root: Root) -> None:
        """Follows a root no longer; runs that nobody else follows are let go."""
        with self._lock:
            if root not in self._roots:
                return
            self._roots.remove(root)
            for log in root.runs.values():
                self._release(log, root)
            root.runs = {}
            for folder in list(root.watched):
                self._unwatch(root, folder)

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
            return self._all_read.wait_for(lambda: not self._unread, timeout)

    def look(self, timeout: float | None = None) -> bool:
        """Looks everywhere now, and waits until what is new has been read."""
        self._poll()
        with self._all_read:
            return self._all_read.wait_for(lambda: not self._queued, timeout)

    def close(self) -> None:
        """Ends the threads. What has been read stays readable."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        self._watcher.wake()
        self._thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._watcher.close()

    # --- finding runs

    def _scan(self, root: Root, paths: list[str]) -> bool:
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
        news = self._update_runs(root, runs)
        problems = {
            path: error.strerror or str(error) for path, error in root.folders.unreadable.items()
        }
        if problems != root.problems:
            root.problems = problems
            news = True
        return news

    def _enter(self, root: Root, path: str) -> None:
        """A directory that is new, or another one under a name that is not."""
        self._watch(root, path)
        log = self._logs.get(path)
        if log is not None:
            self._schedule(log)

    def _watch(self, root: Root, path: str) -> None:
        if self._watcher.add(path):
            root.watched.add(path)
            root.unwatched.discard(path)
            return
        root.watched.discard(path)
        if path not in root.unwatched:
            root.unwatched.add(path)
            self._next_poll = min(self._next_poll, time.monotonic() + _POLL_SECONDS)

    def _unwatch(self, root: Root, path: str) -> None:
        root.watched.discard(path)
        root.unwatched.discard(path)
        if not any(path in other.watched for other in self._roots):
            self._watcher.remove(path)

    def _update_runs(self, root: Root, folders: Mapping[str, Folder]) -> bool:
        """Makes the runs of a root these; False if they are."""
        if folders.keys() == root.runs.keys():
            return False
        runs: dict[str, RunLog] = {}
        fresh: list[RunLog] = []
        for name, folder in sorted(folders.items()):
            log = root.runs.get(name)
            if log is None:
                log = self._log_of(folder, root)
                fresh.append(log)
            runs[name] = log
        for name, log in root.runs.items():
            if name not in runs:
                self._release(log, root)
        root.runs = runs
        for log in fresh:
            self._schedule(log)
        return True

    def _log_of(self, folder: Folder, root: Root) -> RunLog:
        log = self._logs.get(folder.path)
        if log is None:
            log = self._logs[folder.path] = RunLog(folder.path, self.cache)
            self._unread.add(log)
            self._sizes[log] = sum(map(_size_of, folder.files))
        self._users.setdefault(log, set()).add(root)
        return log

    def _release(self, log: RunLog, root: Root) -> None:
        users = self._users.get(log, set())
        users.discard(root)
        if not users:
            self._users.pop(log, None)
            self._logs.pop(log.path, None)
            self._sizes.pop(log, None)
            self._unread.discard(log)
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
            self._pool.submit(self._refresh, log)

    def _refresh(self, log: RunLog) -> None:
        with self._lock:
            self._again.discard(log)  # what comes from now on is seen by another look
            first = log in self._unread
        changed = False
        try:
            changed = log.refresh(self._count if first else lambda _: None)
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
            self._watcher.wake()  # it is time to store

    def _count(self, size: int) -> None:
        with self._lock:
            self._bytes_done += size

    # --- waiting for changes

    def _loop(self) -> None:
        while not self._closed.is_set():
            timeout = max(0.0, self._next_poll - time.monotonic())
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
            for root in self._roots:
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
        than the one that waits for changes."""
        with self._lock:
            if self._unread or self._storing or self._closed.is_set():
                return
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
    """Whether enough has come since: a cache file is written whole."""
    if log.heap >= max(_STORE_FROM, log.stored // 2):
        return True
    return log.fresh >= max(_STORE_FROM_READ, log.view.size // 2)


def _size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
