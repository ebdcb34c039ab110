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
from tbhub.series.tree import Folders
from tbhub.series.watch import Watcher

_MAX_THREADS = 8
_BATCH_SECONDS = 0.05  # changes are taken together for this long
_POLL_SECONDS = 2.0  # where the kernel tells nothing, at least
_SAFETY_SECONDS = 60.0  # where it does
_POLL_SHARE = 0.005  # of the time spent looking, at most
_STORE_FROM = 64 << 10  # bytes of columns that are worth a cache file
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
        self._queued: set[RunLog] = set()
        self._unread: set[RunLog] = set()
        self._sizes: dict[RunLog, int] = {}
        self._bytes_done = 0
        self._runs_done = 0
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._idle = threading.Event()
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
        if os.path.isfile(path):
            folder = os.path.dirname(path)
            with self._lock:
                self._roots.append(root)
                log = self._log_of(path, root, only=True)
                root.runs = {".": log}
            (root.watched if self._watcher.add(folder) else root.unwatched).add(folder)
            self._schedule(log)
            return root
        with self._lock:
            self._roots.append(root)
            self._scan(root, [path])
        self._watcher.wake()
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
            still = set().union(*(other.watched for other in self._roots))
            for folder in root.watched - still:
                self._watcher.remove(folder)

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
        return self._idle.wait(timeout)

    def close(self) -> None:
        """Ends the threads. What has been read stays readable."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._watcher.wake()
        self._thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._watcher.close()

    # --- finding runs

    def _scan(self, root: Root, paths: list[str]) -> None:
        """Looks at directories of a root again, and makes its runs what is there."""
        if os.path.isfile(root.path):
            return
        before = root.folders.known.copy()
        for path in paths:
            if path == root.path or path in before:
                # Watch first, then look: nothing can come between.
                self._watch(root, path)
                root.folders.scan(path)
        known = root.folders.known
        while unseen := known.keys() - root.watched - root.unwatched:
            for path in unseen:
                self._watch(root, path)
                root.folders.scan(path)  # again, now that it is watched
        for path in [path for path in before if path not in known]:
            root.watched.discard(path)
            root.unwatched.discard(path)
            self._watcher.remove(path)
        runs = {folder.name: folder.path for folder in known.values() if folder.files}
        self._update_runs(root, runs)
        problems = {
            path: error.strerror or str(error) for path, error in root.folders.unreadable.items()
        }
        if problems != root.problems:
            root.problems = problems
            root.on_change()

    def _watch(self, root: Root, path: str) -> None:
        if path in root.watched or path in root.unwatched:
            return
        (root.watched if self._watcher.add(path) else root.unwatched).add(path)

    def _update_runs(self, root: Root, paths: Mapping[str, str]) -> None:
        if {name: log.path for name, log in root.runs.items()} == paths:
            return
        runs: dict[str, RunLog] = {}
        fresh: list[RunLog] = []
        for name, path in sorted(paths.items()):
            log = root.runs.get(name)
            if log is None or log.path != path:
                log = self._log_of(path, root)
                fresh.append(log)
            runs[name] = log
        for name, log in root.runs.items():
            if runs.get(name) is not log:
                self._release(log, root)
        root.runs = runs
        for log in fresh:
            self._schedule(log)
        root.on_change()

    def _log_of(self, path: str, root: Root, only: bool = False) -> RunLog:
        log = self._logs.get(path)
        if log is None:
            log = self._logs[path] = RunLog(path, self.cache, only)
            self._unread.add(log)
            self._sizes[log] = _size_of(path)
            self._idle.clear()
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
            log.close()

    # --- reading

    def _schedule(self, log: RunLog) -> None:
        with self._lock:
            if log in self._queued or self._closed.is_set():
                return
            self._queued.add(log)
        self._pool.submit(self._refresh, log)

    def _refresh(self, log: RunLog) -> None:
        with self._lock:
            self._queued.discard(log)  # what comes from now on is seen by another look
            first = log in self._unread
        changed = log.refresh(self._count if first else lambda _: None)
        self.memory.relieve()
        with self._lock:
            if first and log in self._unread:
                self._unread.discard(log)
                self._runs_done += 1
                changed = True
            if not self._unread:
                self._idle.set()
            users = list(self._users.get(log, ())) if changed else []
        for root in users:
            root.on_change()

    def _count(self, size: int) -> None:
        with self._lock:
            self._bytes_done += size

    # --- waiting for changes

    def _loop(self) -> None:
        pruned = False
        while not self._closed.is_set():
            timeout = max(0.0, self._next_poll - time.monotonic())
            changes = self._watcher.wait(timeout)
            if self._closed.is_set():
                return
            if changes.lost or time.monotonic() >= self._next_poll:
                self._poll()
                if self._idle.is_set():
                    self._store_quietly()
                    if not pruned:
                        pruned = True
                        self.cache.prune(_CACHE_LIMIT)
            else:
                self._take(changes.grown, changes.listed)
            if self._closed.wait(_BATCH_SECONDS):
                return

    def _take(self, grown: set[str], listed: set[str]) -> None:
        with self._lock:
            for root in list(self._roots):
                mine = [path for path in listed if path in root.folders.known]
                if mine:
                    self._scan(root, mine)
                if os.path.dirname(root.path) in grown | listed:
                    log = root.runs.get(".")
                    if log is not None:
                        self._schedule(log)
            for path in grown | listed:
                log = self._logs.get(path)
                if log is not None:
                    self._schedule(log)

    def _poll(self) -> None:
        """Looks everywhere; how often depends on whether the kernel tells, and on the cost."""
        start = time.thread_time()
        unwatched = False
        for root in list(self._roots):
            with self._lock:
                self._scan(root, list(root.folders.known) or [root.path])
                unwatched |= bool(root.unwatched)
                logs = list(root.runs.values())
            for log in logs:
                self._schedule(log)
        cost = (time.thread_time() - start) * 2  # reading looks as long again
        least = _POLL_SECONDS if unwatched else _SAFETY_SECONDS
        self._next_poll = time.monotonic() + max(least, cost / _POLL_SHARE)

    def _store_quietly(self) -> None:
        """Writes what has been read to the cache, so that the next opening needs no parsing."""
        with self._lock:
            logs = list(self._logs.values())
        for log in logs:
            if self._closed.is_set():
                return
            if log.heap >= max(_STORE_FROM, log.stored // 2):
                log.store()
        give_back()


def _size_of(path: str) -> int:
    """Bytes of the event files of a run."""
    try:
        if os.path.isfile(path):
            return os.path.getsize(path)
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries if "tfevents" in entry.name)
    except OSError:
        return 0
