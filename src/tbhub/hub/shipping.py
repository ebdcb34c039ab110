"""From the hub's disk to its bucket: what the hub keeps for runs, where its storage is a bucket.

A bucket cannot be appended to, and may be away. So what workers send is written to the hub's disk
and synced, as it always is, and acknowledged then; the hub's own publisher sends it on, in the form
that every run in a bucket has. Boards, the indexer and everybody else read the bucket. Who asks the
hub for a file gets what is on its disk, and what is in the bucket alone from there.

When a run has ended, and a listing shows that the bucket has all of it, its files are removed from
the disk. If someone goes on with one of them it is fetched first.

Invariants, also for a hub that is killed between any two steps:
  - What was acknowledged is on the disk or, whole, in the bucket.
  - Files are removed only while nobody changes any of their run, and not before it is written down
    that the bucket is to be asked for them (``<run>.away``).
  - A run without a directory here is one whose files are in the bucket: a new run has one before
    it is answered for.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from tbhub.api.problems import Problem
from tbhub.events.names import is_event_file, is_log
from tbhub.publisher.publisher import Publisher
from tbhub.storage.errors import NotFound, StoreError
from tbhub.storage.joined import JoinedStore
from tbhub.storage.local import LocalStore
from tbhub.storage.store import Entry, Store

_THREADS = 4
_INTERVAL = 1.0  # seconds between two looks at a run that is written to
_LONGEST_PAUSE = 60.0  # while the store fails
_PIECE = 8 << 20
_STOP_TIMEOUT = 30.0  # seconds for a large upload to be given up
_STATE, _GONE = ".tbhub-state", ".tbhub-gone-"

logger = logging.getLogger("tbhub.hub")


class Bucket(NamedTuple):
    """Where the files of runs go: each below its number."""

    uri: str
    open: Callable[[], tuple[Store, str]]  # the store, and the place of all runs in it


@dataclass
class _Run:
    """A run that is being sent on."""

    publisher: Publisher | None = None
    failures: int = 0
    turn: threading.Lock = field(default_factory=threading.Lock)


class Shipping:
    """Sends what is on the disk on to the bucket. Any thread may ask.

    Args:
        root: The directory of all runs.
        status: The status and the location of a run; None if there is none.
        alone: Keeps others from changing files of a run meanwhile; gives False where they do.
    """

    def __init__(
        self,
        root: Path,
        bucket: Bucket,
        status: Callable[[int], tuple[str, str] | None],
        alone: Callable[[int], AbstractContextManager[bool]],
    ) -> None:
        self._root = root
        self._bucket = bucket
        self._status = status
        self._alone = alone
        self._opened: tuple[Store, str] | None = None
        self._problem = ""
        self._runs: dict[int, _Run] = {}
        self._due: dict[int, float] = {}
        self._working: set[int] = set()
        self._news = threading.Condition()
        self._opening = threading.Lock()
        self._is_stopped = False

    def location(self, run: int) -> str:
        """Where everybody finds the files of a run."""
        return f"{self._bucket.uri}/{run}"

    def begin(self, run: int) -> None:
        """A run is new: nothing of it is in the bucket."""
        directory = self._root / str(run)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sync(self._root)

    # --- sending on

    def start(self) -> None:
        """Begins, with what an earlier hub has left."""
        (self._root / _STATE).mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self._root.glob(f"{_GONE}*"):
            shutil.rmtree(left, ignore_errors=True)
        self.wake(int(each.name) for each in self._root.iterdir() if each.name.isdecimal())
        for number in range(_THREADS):
            name = f"tbhub-shipping-{number}"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def stop(self) -> None:
        """Begins nothing new. What is not in the bucket is sent by the next hub."""
        with self._news:
            self._is_stopped = True
            self._news.notify_all()
        for run in list(self._runs.values()):
            if run.publisher is not None:
                run.publisher.stop()

    def wake(self, runs: Iterable[int]) -> None:
        """Runs have been written to, or have ended."""
        with self._news:
            fresh = [run for run in runs if run not in self._due]
            for run in fresh:
                self._due[run] = time.monotonic() + _INTERVAL
            if fresh:
                self._news.notify_all()

    def reopen(self) -> None:
        """Credentials have changed."""
        with self._opening:
            self._opened = None
            for each in self._runs.values():
                if each.publisher is not None:
                    each.publisher.stop()
            self._runs = {run: _Run(turn=each.turn) for run, each in self._runs.items()}

    def _work(self) -> None:
        while (run := self._next()) is not None:
            try:
                again = self._ship(run)
            except (StoreError, Problem, OSError) as error:
                again = self._failed(run, str(error))
            with self._news:
                self._working.discard(run)
                if again is not None:
                    self._due[run] = time.monotonic() + again
                self._news.notify_all()

    def _next(self) -> int | None:
        """The run whose turn it is; none at the end."""
        with self._news:
            while not self._is_stopped:
                due, run = min(
                    ((due, run) for run, due in self._due.items() if run not in self._working),
                    default=(math.inf, 0),
                )
                wait = due - time.monotonic()
                if wait <= 0:
                    del self._due[run]
                    self._working.add(run)
                    return run
                self._news.wait(None if wait == math.inf else wait)
            return None

    def _ship(self, run: int) -> float | None:
        """Sends what is new of a run; in how many seconds to look again, if at all."""
        directory = self._root / str(run)
        found = self._status(run)
        if found is None:
            is_ours, has_ended = self._state(run).exists(), True
        else:
            is_ours, has_ended = found[1] == self.location(run), found[0] != "running"
        if not is_ours or not directory.is_dir():
            self._runs.pop(run, None)
            return None
        sent = self._run(run)
        with sent.turn:
            publisher = sent.publisher or self._publisher(run)
            sent.publisher = publisher
            left = publisher.publish() if has_ended else publisher.advance()
            if left.problem:
                return self._failed(run, left.problem)
            self._worked(run)
            if left.files:
                return _INTERVAL
            if not has_ended or left.refused:
                return None
            if not publisher.compare():
                return _INTERVAL
            return None if self._put_away(run, publisher) else _INTERVAL

    def _put_away(self, run: int, publisher: Publisher) -> bool:
        """Removes what the bucket has; whether nobody was about to change it."""
        directory = self._root / str(run)
        gone = self._root / f"{_GONE}{run}-{token_hex(4)}"
        with self._alone(run) as is_alone:
            if not is_alone or not publisher.is_settled:
                return False
            self._away(run).touch()
            _sync(self._root / _STATE)
            directory.rename(gone)
            _sync(self._root)
        self._runs.pop(run, None)
        shutil.rmtree(gone, ignore_errors=True)
        return True

    def _run(self, run: int) -> _Run:
        with self._opening:
            return self._runs.setdefault(run, _Run())

    def _publisher(self, run: int) -> Publisher:
        store, prefix = self._open()
        return Publisher(
            self._root / str(run),
            store,
            f"{prefix}/{run}" if prefix else str(run),
            state=self._state(run),
            include_unfinished=True,
        )

    def _failed(self, run: int, problem: str) -> float:
        if problem != self._problem:
            logger.warning("files of runs wait on this machine's disk: %s", problem)
        self._problem = problem
        known = self._run(run)
        known.failures += 1
        return float(min(_LONGEST_PAUSE, _INTERVAL * 2.0 ** min(known.failures - 1, 20)))

    def _worked(self, run: int) -> None:
        if self._problem:
            logger.info("files of runs go on to %s again", self._bucket.uri)
        self._problem = ""
        self._run(run).failures = 0

    def _open(self) -> tuple[Store, str]:
        with self._opening:
            if self._opened is None:
                self._opened = self._bucket.open()
            return self._opened

    def _state(self, run: int) -> Path:
        return self._root / _STATE / f"{run}.json"

    def _away(self, run: int) -> Path:
        return self._root / _STATE / f"{run}.away"

    # --- what is in the bucket

    def view(self) -> Shipped:
        """The files of all runs, each below its number, to be read."""
        return Shipped(self, LocalStore(self._root))

    def is_away(self, run: int) -> bool:
        """Whether files of a run may be in the bucket alone."""
        return self._away(run).exists() or not (self._root / str(run)).is_dir()

    def remote(self, path: str) -> tuple[JoinedStore, str]:
        """The bucket, and where a path is in it."""
        store, prefix = self._open()
        return JoinedStore(store), f"{prefix}/{path}" if prefix else path

    def bring_back(self, run: int, path: str) -> None:
        """Fetches a file that is in the bucket alone, because someone goes on with it.

        Raises:
            StoreError: The bucket cannot be asked.
        """
        place = self._root / str(run) / path
        if place.exists() or not self.is_away(run):
            return
        store, name = self.remote(f"{run}/{path}")
        try:
            size = store.stat(name).size
        except NotFound:
            return
        fetched = self._root / _STATE / f"fetched-{token_hex(8)}"
        try:
            with fetched.open("xb") as file:
                for begin in range(0, size, _PIECE):
                    file.write(store.read(name, begin, min(_PIECE, size - begin)))
            LocalStore(self._root, durable=True).adopt(f"{run}/{path}", fetched)
        finally:
            fetched.unlink(missing_ok=True)

    def remove(self, run: int) -> None:
        """Removes all files of a run, and what is known of them.

        Raises:
            StoreError: The bucket does not do it.
        """
        self.drop(run, "")
        LocalStore(self._root).delete_below(str(run))
        for known in (self._state(run), self._away(run)):
            known.unlink(missing_ok=True)
        self._runs.pop(run, None)

    def drop(self, run: int, path: str) -> list[str]:
        """Deletes a file, or all below a directory, from the bucket; what there was of the run."""
        if not self._state(run).exists() and not self.is_away(run):
            return []
        known = self._run(run)
        with known.turn:  # nothing is sent meanwhile
            if known.publisher is not None:
                known.publisher.stop(_STOP_TIMEOUT)
                known.publisher = None
            store, prefix = self._open()
            top = f"{prefix}/{run}" if prefix else str(run)
            name = f"{top}/{path}" if path else top
            joined = JoinedStore(store)
            found = [entry.path for entry in joined.list(name)] if not _is_file(path) else []
            if found:
                store.delete_below(name)
            if path:
                with suppress(NotFound):
                    for part in joined.parts(name):
                        store.delete(part.path)
                    found.append(name)
            return [each[len(top) + 1 :] for each in found]


class Shipped:
    """What is on the disk, and what is in the bucket alone."""

    def __init__(self, shipping: Shipping, local: LocalStore) -> None:
        self._shipping = shipping
        self.local = local
        self._remote: dict[str, tuple[JoinedStore, str]] = {}  # by path, as it was looked at

    def list(self, prefix: str) -> Iterator[Entry]:
        """All files of a run, or below a directory of it."""
        seen = set()
        for entry in self.local.list(prefix):
            seen.add(entry.path)
            yield entry
        if self._shipping.is_away(_run_of(prefix)):
            store, name = self._shipping.remote(prefix)
            before = len(name) - len(prefix)
            for entry in store.list(name):
                if entry.path[before:] not in seen:
                    yield entry._replace(path=entry.path[before:])

    def stat(self, path: str) -> Entry:
        """What is known about a file."""
        try:
            return self.local.stat(path)
        except NotFound:
            if not self._shipping.is_away(_run_of(path)):
                raise
        store, name = self._remote[path] = self._shipping.remote(path)
        return store.stat(name)._replace(path=path)

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Bytes of a file, from where it was found."""
        if path not in self._remote:
            return self.local.read(path, offset, size)
        store, name = self._remote[path]
        return store.read(name, offset, size)

    def is_same(self, path: str, version: str) -> bool:
        """Whether what was read of a file since it was looked at is of one file."""
        if path not in self._remote:
            return self.local.stat(path).version == version
        store, name = self._remote[path]
        return store.is_same(name, version)

    def close(self) -> None:
        """The bucket stays open, for others."""


def _run_of(path: str) -> int:
    return int(path.partition("/")[0])


def _is_file(path: str) -> bool:
    return is_event_file(path) or is_log(path)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
