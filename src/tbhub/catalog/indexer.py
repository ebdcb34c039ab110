"""Keeps the catalog true to the logdirs: which runs there are, and what they have logged.

One thread finds runs, waits for changes and writes to the database; a few others read runs. A run
whose files are as they were when last read is not read again, also by the next indexer. Of runs
that log nothing new little more than a number is kept: memory grows with what is live. What lies
in buckets is listed and read by threads of its own (`remote_runs`): this machine's files never wait
for a store.

A change is durable or it is done again: what could not be written, because the database is locked
or away, is tried again until it can be, and reading waits for it. Whatever is written is written
in whole transactions: the indexer may be stopped at any time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.exc import DBAPIError

from tbhub.api.problems import Unavailable
from tbhub.catalog.adopted_dirs import Suspect, find_adopters, find_suspects, forget_adopted
from tbhub.catalog.discovery import RemoteDiscovery
from tbhub.catalog.open_runs import OpenRuns, RunPlace
from tbhub.catalog.read_queue import ReadQueue
from tbhub.catalog.readings import (
    RUNNING,
    end_quiet,
    last_sign,
    status_of,
    withdraw,
    write_readings,
)
from tbhub.catalog.remote_runs import Key, RemoteRoot, RemoteRuns
from tbhub.catalog.run_reader import Reading, RunReader, failed
from tbhub.catalog.run_records import add_found, drop_gone
from tbhub.catalog.tree_reader import TreeReader
from tbhub.catalog.watched_logdirs import SAFETY_SECONDS, Logdir, RemoteLogdir, WatchedLogdirs
from tbhub.database.engine import Database
from tbhub.database.tables import adopted_dirs, event_files, logdirs, runs
from tbhub.series.cache import ColumnCache, default_cache_dir
from tbhub.series.memory import Memory
from tbhub.series.run_files import Workers
from tbhub.series.watch import Watcher
from tbhub.storage.credentials import Known, choose

_THREADS = 2
_BUDGET = 256 << 20  # bytes of decoded columns
_READ_SECONDS = 1.0  # a live run is read so often
_CREATED_SECONDS = 2.0  # runs that somebody has started are looked at so often while they run
_WRITE_SECONDS = 0.2  # what has been read is written so often
_BATCH = 256  # runs written together
_AHEAD = 2 * _BATCH  # runs being read, or read and not written
_OPEN = 1000  # live runs that are kept open
_FOUND_AT_ONCE = 5000  # runs that came or went, written together
_RETRY_SECONDS = (0.2, 5.0)  # at first, and at most
_PROGRESS_SECONDS = 1.0
_PROBLEMS_TOLD = 100
_MAX_DOUBTFUL = 1000  # found runs that are compared with files of started runs again
_LOGDIR = "logdir"


@dataclass
class News:
    """What has changed in the database."""

    runs: list[int]
    new: int = 0
    gone: int = 0


@dataclass
class Progress:
    """How far the indexer has come."""

    runs: int = 0  # known
    to_read: int = 0
    problems: dict[str, str] = field(default_factory=dict)  # by path


@dataclass
class _Running:
    """A run that has logged something a moment ago."""

    last: float
    updated: float
    ending: str


class Indexer:
    """Runs until it is stopped; `run` is the loop, in the caller's thread."""

    def __init__(
        self,
        database: Database,
        *,
        tell: Callable[[News], None] = lambda _: None,
        progress: Callable[[Progress], None] = lambda _: None,
        cache_dir: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._tell = tell
        self._progress = progress
        self._clock = clock
        self._began = clock()
        self._memory = Memory(_BUDGET)
        self._cache = ColumnCache(cache_dir or default_cache_dir(), self._memory)
        self._watcher = Watcher()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="tbhub-index")
        self._queue = ReadQueue(_READ_SECONDS)
        self._logdirs = WatchedLogdirs(self._watcher, self._queue)
        self._remote_logdirs: dict[int, RemoteLogdir] = {}
        self._connections: Sequence[Known] | None = None  # none: not told yet
        self._remote = RemoteRuns(self._watcher.wake, _READ_SECONDS)
        self._paths: dict[int, str] = {}  # of runs
        self._force: set[int] = set()  # to be read whatever was seen of them
        self._open = OpenRuns(self._cache)
        self._started: set[int] = set()  # runs that somebody has started, and that run
        self._next_started = 0.0
        self._late: deque[int] = deque()  # runs to be looked at, as others have said
        self._done: deque[tuple[int, Reading | None]] = deque()
        self._running: dict[int, _Running] = {}
        self._has_event_files = False  # of started runs
        self._doubtful: dict[int, Suspect] = {}  # found runs with some files of started runs
        self._unchecked: dict[int, Reading] = {}  # written, and not compared with other runs yet
        self._stop = threading.Event()
        self._rescan = threading.Event()
        self._rescan.set()
        self._written_at = 0.0
        self._next_live = 0.0
        self._patience = 0.0
        self._try_at = 0.0  # the database, again
        self._told = Progress()
        self._told_at = 0.0

    # --- what others call, from any thread

    def rescan(self) -> None:
        """Others have changed logdirs or deleted runs: looks at the database, and everywhere."""
        self._rescan.set()
        self._watcher.wake()

    def look_at_started(self) -> None:
        """Somebody has started a run."""
        self._next_started = 0.0
        self._watcher.wake()

    def look_at(self, run: int) -> None:
        """A run was written to that nobody expects anything of any more."""
        self._late.append(run)
        self._watcher.wake()

    def connect(self, connections: Sequence[Known]) -> None:
        """These are the connections to buckets from now on; before, nothing is asked of any."""
        self._connections = connections
        self.rescan()

    def stop(self) -> None:
        """Ends `run` soon."""
        self._stop.set()
        self._watcher.wake()

    # --- the loop

    def run(self) -> None:
        """Keeps the catalog up to date until `stop`."""
        try:
            while not self._stop.is_set():
                self._step(self._timeout())
        finally:
            self.close()

    def run_until_idle(self) -> None:
        """Looks everywhere once, reads what is new, and returns when all of it is written."""
        self._rescan.set()
        while (
            self._rescan.is_set()
            or self._unwritten
            or any(map(len, self._queues))
            or not self._remote.is_listed
        ):
            self._step(min(0.05, self._timeout()))

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._open.close_all()
        self._remote.close()
        self._watcher.close()

    def _step(self, timeout: float) -> None:
        changes = self._watcher.wait(timeout)
        if self._stop.is_set():
            return
        now = time.monotonic()
        self._logdirs.take(changes.grown, changes.listed)
        self._take_listed()
        self._logdirs.look(now, everywhere=changes.lost)
        if now >= self._next_live:
            self._check_live(now)
        if now >= self._try_at:
            try:
                self._use_database()
                self._patience = 0.0
            except Unavailable:
                least, most = _RETRY_SECONDS
                self._patience = min(most, max(least, self._patience * 2))
                self._try_at = time.monotonic() + self._patience
        if self._logdirs.watch(self._stop.is_set):
            self._next_live = 0.0
        self._show_progress()

    def _use_database(self) -> None:
        if self._rescan.is_set():
            self._load()
        for logdir in self._all_logdirs:
            self._write_found(logdir)
        if time.monotonic() >= self._next_started:
            self._look_at_started()
        while self._late:
            run = self._late.popleft()
            self._want([run] if run in self._paths else [])
        self._submit()
        self._write_read()
        self._end_quiet()

    @property
    def _all_logdirs(self) -> list[Logdir | RemoteLogdir]:
        return [*self._logdirs, *self._remote_logdirs.values()]

    @property
    def _queues(self) -> list[ReadQueue]:
        return [self._queue, *self._remote.queues]

    def _queue_of(self, run: int) -> ReadQueue:
        remote = self._remote.get(run)
        if remote is None or remote.root.lane is None:
            return self._queue
        return remote.root.lane.queue

    def _want(self, chosen: Iterable[int], *, urgent: bool = True) -> None:
        for run in chosen:
            self._queue_of(run).want([run], urgent=urgent)

    @property
    def _unwritten(self) -> bool:
        return bool(self._done) or any(each.to_add or each.to_drop for each in self._all_logdirs)

    def _timeout(self) -> float:
        """How long nothing has to be done unless something happens."""
        now = time.monotonic()
        if now < self._try_at:
            return self._try_at - now
        if self._rescan.is_set() or len(self._done) >= _BATCH:
            return 0.0
        due = [each - now for each in (self._logdirs.next_due, self._next_live, self._next_started)]
        for queue in self._queues:
            if queue.busy or queue.waits or self._unwritten:
                due.append(0.1)  # who reads wakes us when there is enough to write
            resting = queue.next_due(now)
            if resting is not None:
                due.append(resting)
        if self._running:
            last = min(run.last for run in self._running.values())
            due.append(last + RUNNING - self._clock())
        return max(0.01, min(due))

    # --- which logdirs and runs there are

    def _load(self) -> None:
        """Takes logdirs and runs from the database, and looks everywhere."""
        self._rescan.clear()
        try:
            with self._database.read() as connection:
                watched = connection.execute(select(logdirs)).all()
                columns = (runs.c.id, runs.c.location, runs.c.logdir_id, runs.c.status)
                found = select(*columns).where(runs.c.logdir_id.is_not(None))
                rows = connection.execute(found.where(runs.c.status != "lost")).all()
                loose = connection.execute(_LOOSE).all()
                distant = connection.execute(_LOOSE_REMOTE).all()
                adopted = connection.execute(select(adopted_dirs)).all()
                some = connection.execute(select(event_files.c.run_id).limit(1)).first()
        except Unavailable:
            self._rescan.set()
            raise
        self._has_event_files = some is not None
        self._logdirs.know([row for row in watched if "://" not in row.path])
        for logdir in self._logdirs:
            logdir.adopted = {
                row.location for row in adopted if row.workspace_id == logdir.workspace_id
            }
        before, self._paths = self._paths, {}
        for run, location, number, status in rows:
            if number not in self._logdirs:
                continue
            self._logdirs[number].ids[location] = run
            self._paths[run] = location
            if status == "running" and run not in self._running:
                # Whether it still is can only be told from what it has logged.
                self._force.add(run)
                self._queue.want([run])
        if self._connections is not None:
            self._load_remote([row for row in watched if "://" in row.path], rows, distant)
        for row in loose:
            self._paths[row.id] = row.location
            if row.attempt:
                self._open.created.add(row.id)
        for run in before.keys() - self._paths.keys():
            self._drop(run)
        # The latest runs are the most likely to be live.
        fresh = sorted(self._paths.keys() - before.keys(), reverse=True)
        self._want([run for run in fresh if self._remote.is_known(run)], urgent=False)
        for logdir in self._logdirs:
            logdir.discovery.know(logdir.ids)
            self._logdirs.poll(logdir)

    def _load_remote(
        self, watched: Sequence[Any], found: Sequence[Any], loose: Sequence[Any]
    ) -> None:
        """Takes what lies in buckets from the database; what is listed there is known already, or
        will be told."""
        self._remote_logdirs = {
            row.id: self._remote_logdirs.get(row.id)
            or RemoteLogdir(row.id, row.workspace_id, RemoteDiscovery(row.path))
            for row in watched
        }
        keys: set[Key] = set()
        for row in watched:
            logdir = self._remote_logdirs[row.id]
            logdir.discovery.experiment = row.experiment
            logdir.ids, logdir.to_add, logdir.to_drop = {}, [], []
            keys.add(_logdir_key(row.id))
            self._follow(_logdir_key(row.id), row.path, row.workspace_id, alone=False)
        keys.update(_run_key(row.id) for row in loose)
        self._remote.keep(keys)
        for run, location, number, status in found:
            if number in self._remote_logdirs:
                self._remote_logdirs[number].ids[location] = run
                self._add_remote(run, location, _logdir_key(number), alone=True)
                if status == "running" and run not in self._running:
                    self._force.add(run)
        for row in loose:
            self._follow(_run_key(row.id), row.location, row.workspace_id, alone=not row.attempt)
            self._add_remote(row.id, row.location, _run_key(row.id), alone=not row.attempt)
            if row.status == "running" and row.id not in self._running:
                self._force.add(row.id)
            if row.problem:
                self._open.troubled.add(row.id)
        self._open.close_others(lambda run: self._remote.get(run.id) is run)
        for logdir in self._remote_logdirs.values():
            logdir.discovery.know(logdir.ids)
            self._compare(logdir)

    def _follow(self, key: Key, uri: str, workspace_id: int, *, alone: bool) -> RemoteRoot:
        chosen = choose(self._connections or (), uri, {workspace_id})
        settings = None if chosen is None else chosen.settings
        return self._remote.follow(key, uri, settings, alone=alone)

    def _add_remote(self, run: int, location: str, key: Key, *, alone: bool) -> None:
        self._paths[run] = location
        before = self._remote.get(run)
        if not self._remote.add(run, location, key, alone=alone):
            return
        if before is not None:
            self._open.close(before)
        made = self._remote.get(run)
        if made is not None and made.problem:
            self._want([run])

    def _take_listed(self) -> None:
        """What buckets have told."""
        for listed in self._remote.take():
            for key, root in listed.roots if listed.has_changed else ():
                kind, number = key
                logdir = self._remote_logdirs.get(number) if kind == _LOGDIR else None
                if logdir is not None:
                    logdir.discovery.problems = {root.uri: root.problem} if root.problem else {}
                    self._compare(logdir)
            self._want(listed.runs, urgent=len(listed.runs) < _BATCH)

    def _compare(self, logdir: RemoteLogdir) -> None:
        """Which runs of a bucket have come and gone since they were last compared."""
        found = self._remote.found(_logdir_key(logdir.id))
        if found is not None:
            scan = logdir.discovery.compare(found)
            logdir.to_add += scan.new
            logdir.to_drop += scan.gone

    def _look_at_started(self) -> None:
        """Looks at the runs that somebody has started, as long as they run and once thereafter."""
        running = (runs.c.status == "running", runs.c.heartbeat.is_not(None))
        with self._database.read() as connection:
            rows = {row.id: row.location for row in connection.execute(_LOOSE.where(*running))}
            distant = connection.execute(_LOOSE_REMOTE.where(*running)).all()
        if self._connections is not None:
            self._follow_started(distant)
        self._paths.update(rows)
        self._open.created.update(rows)
        self._queue.want([*rows, *(self._started - rows.keys())])
        self._started = set(rows)
        some = rows or distant
        self._next_started = time.monotonic() + (_CREATED_SECONDS if some else SAFETY_SECONDS)

    def _follow_started(self, started: Sequence[Any]) -> None:
        """Those in buckets are told of by listings, the first of which is made now."""
        fresh = [row for row in started if row.id not in self._remote]
        for row in fresh:
            self._follow(_run_key(row.id), row.location, row.workspace_id, alone=False)
            self._add_remote(row.id, row.location, _run_key(row.id), alone=False)
        if fresh:
            self._remote.look()

    def _check_live(self, now: float) -> None:
        """Looks at the live runs of which nobody tells."""
        silent = self._logdirs.silent
        self._next_live = now + (_READ_SECONDS if silent else SAFETY_SECONDS)
        for run in self._running if silent else ():
            if any(self._paths[run] in each for each in silent):
                self._queue.want([run])

    def _write_found(self, logdir: Logdir | RemoteLogdir) -> None:
        """Writes runs that came and went, some thousand at a time."""
        while (logdir.to_add or logdir.to_drop) and not self._stop.is_set():
            gone = logdir.to_drop[:_FOUND_AT_ONCE]
            some = logdir.to_add[:_FOUND_AT_ONCE] if len(gone) == len(logdir.to_drop) else []
            dropped = [logdir.ids[path] for path in gone if path in logdir.ids]
            known = logdir.adopted.intersection((*some, *gone))
            with self._database.begin() as connection:
                deleted, lost = drop_gone(connection, dropped)
                adopted = find_adopters(connection, logdir.workspace_id, known).keys()
                forget_adopted(connection, logdir.workspace_id, known - adopted)
                added = add_found(
                    connection,
                    logdir.workspace_id,
                    logdir.id,
                    [logdir.discovery.found(path) for path in some if path not in adopted],
                    self._clock(),
                )
            logdir.adopted -= known - adopted
            del logdir.to_add[: len(some)], logdir.to_drop[: len(gone)]
            for path in gone:
                logdir.ids.pop(path, None)
            for run in dropped:
                self._drop(run)
            logdir.ids.update(added)
            self._paths.update((run, path) for path, run in added.items())
            if isinstance(logdir, RemoteLogdir):
                for path, run in added.items():
                    self._add_remote(run, path, _logdir_key(logdir.id), alone=True)
            self._want(added.values(), urgent=len(added) < _BATCH)
            if added or dropped:
                self._tell(News([*added.values(), *deleted, *lost], len(added), len(dropped)))

    def _drop(self, run: int) -> None:
        self._queue_of(run).drop(run)
        self._paths.pop(run, None)
        self._running.pop(run, None)
        self._force.discard(run)
        self._open.forget(run)
        self._close(run)
        self._remote.drop(run)

    def _close(self, run: int) -> None:
        self._open.close(self._remote.get(run) or run)

    # --- reading

    def _submit(self) -> None:
        for queue in self._queues:
            self._submit_from(queue)

    def _submit_from(self, queue: ReadQueue) -> None:
        chosen = queue.take(_AHEAD - queue.busy, time.monotonic())
        places = {run: self._remote.get(run) or self._paths.get(run) for run in chosen}
        try:
            seen = self._seen([run for run in chosen if self._reader_of(run) is None])
        except Unavailable:
            queue.put_back(chosen)
            raise
        for run, place in places.items():
            known = "" if run in self._force else seen.get(run, "")
            if place is None:
                queue.done(run, 0.0, live=False)
            elif isinstance(place, str):
                self._pool.submit(self._read, run, place, known)
            else:
                lane = place.root.lane
                workers: Workers = self._pool if lane is None else lane.bucket.readers
                workers.submit(self._read, run, place, known)

    def _reader_of(self, run: int) -> RunReader | TreeReader | None:
        return self._open.get(self._remote.get(run) or run)

    def _seen(self, wanted: list[int]) -> dict[int, str]:
        if not wanted:
            return {}
        with self._database.read() as connection:
            rows = connection.execute(select(runs.c.id, runs.c.seen).where(runs.c.id.in_(wanted)))
            return {row.id: row.seen for row in rows}

    def _read(self, run: int, place: RunPlace, known: str) -> None:
        """In a thread of the pool, or of the bucket."""
        reading: Reading | None = None
        path = place if isinstance(place, str) else place.uri
        try:
            reading = self._open.read(run, place, known)
            self._memory.relieve()
        except FileNotFoundError:
            pass  # the next look will show it
        except OSError as error:
            reading = failed(path, f"It cannot be read: {error.strerror or error}")
        except Exception as error:
            reading = failed(path, f"It cannot be read: {error!r:.500}")
        self._done.append((run, reading))
        if len(self._done) >= _BATCH:
            self._watcher.wake()

    def _write_read(self) -> None:
        """Writes what has been read: many together, but nothing waits for long."""
        while len(self._done) >= _BATCH or (
            self._done and time.monotonic() >= self._written_at + _WRITE_SECONDS
        ):
            batch = [self._done.popleft() for _ in range(min(_BATCH, len(self._done)))]
            readings = {run: reading for run, reading in batch if reading is not None}
            now = self._clock()
            try:
                there = self._write_each(readings, now)
            except Unavailable:
                self._done.extendleft(reversed(batch))
                raise
            self._written_at = time.monotonic()
            for run, reading in batch:
                self._written(run, reading, now, gone=run in readings and run not in there)
            if there:
                self._tell(News(sorted(there)))
            self._unchecked |= {run: each for run, each in readings.items() if run in there}
        if self._unchecked:
            self._withdraw_adopted(self._unchecked)
            self._unchecked = {}

    def _write_each(self, readings: dict[int, Reading], now: float) -> set[int]:
        """All together; one by one if a database refuses something of them."""
        if not readings:
            return set()
        try:
            with self._database.begin() as connection:
                return write_readings(connection, readings, now, self._began)
        except DBAPIError as error:
            if len(readings) == 1:
                ((run, reading),) = readings.items()
                with self._database.begin() as connection:
                    trouble = failed(reading.path, f"It cannot be stored: {error.orig}"[:500])
                    return write_readings(connection, {run: trouble}, now)
        there: set[int] = set()
        for run, reading in readings.items():
            there |= self._write_each({run: reading}, now)
        return there

    def _written(self, run: int, reading: Reading | None, now: float, *, gone: bool) -> None:
        self._force.discard(run)
        queue = self._queue_of(run)
        if gone:
            queue.done(run, 0.0, live=False)
            self._drop(run)
            return
        reader = self._reader_of(run)
        if reading is None or reading.failed or reader is None:
            live = run in self._running
        else:
            reader.saved()
            live = status_of(reading, now) == "running"
            self._running.pop(run, None)
            if live:
                last, updated = last_sign(reading, now), reading.updated
                assert last is not None
                assert updated is not None
                self._running[run] = _Running(last, updated, reading.ending)
        queue.done(run, time.monotonic(), live=live)
        if not live or len(self._open) > _OPEN:
            self._close(run)

    def _withdraw_adopted(self, readings: dict[int, Reading]) -> None:
        """Delete found runs whose event files all belong to runs that were started."""
        started = {each for reading in readings.values() for each in reading.files or ()}
        self._has_event_files = self._has_event_files or bool(started)
        if not self._has_event_files:
            return
        found = {run: each.started for run, each in readings.items() if run not in self._remote}
        with self._database.read() as connection:
            suspects = {each.id: each for each in find_suspects(connection, started, found)}
        if started:  # which may have the other files of a directory
            suspects |= self._doubtful
        suspects = {run: each for run, each in suspects.items() if each.logdir_id in self._logdirs}
        if not suspects:
            return
        with self._database.begin() as connection:
            withdrawn = withdraw(connection, list(suspects.values()))
        gone = {each.id for each in withdrawn}
        doubtful = {**self._doubtful, **suspects}
        kept = [each for run, each in doubtful.items() if run not in gone]
        self._doubtful = {each.id: each for each in kept[-_MAX_DOUBTFUL:]}
        for each in withdrawn:
            logdir = self._logdirs[each.logdir_id]
            logdir.ids.pop(each.location, None)
            logdir.adopted.add(each.location)
            self._drop(each.id)
        if withdrawn:
            self._tell(News([each.id for each in withdrawn], gone=len(withdrawn)))

    def _end_quiet(self) -> None:
        """Runs that have logged nothing for a while have ended."""
        now = self._clock()
        quiet = {run: each for run, each in self._running.items() if now - each.last >= RUNNING}
        if not quiet:
            return
        with self._database.begin() as connection:
            end_quiet(connection, {run: (each.ending, each.updated) for run, each in quiet.items()})
        for run in quiet:
            del self._running[run]
            self._close(run)
        self._tell(News(sorted(quiet)))

    def _show_progress(self) -> None:
        now = time.monotonic()
        to_read = sum(map(len, self._queues))
        if now - self._told_at < _PROGRESS_SECONDS and to_read:
            return
        problems = [item for each in self._all_logdirs for item in each.discovery.problems.items()]
        current = Progress(len(self._paths), to_read, dict(problems[:_PROBLEMS_TOLD]))
        if current != self._told:
            self._told, self._told_at = current, now
            self._progress(current)


# Runs that no logdir has found: started by somebody, or registered once.
_ALL_LOOSE = select(
    runs.c.id,
    runs.c.location,
    runs.c.attempt,
    runs.c.workspace_id,
    runs.c.status,
    runs.c.problem,
).where(
    runs.c.logdir_id.is_(None),
    or_(runs.c.status != "lost", runs.c.heartbeat.is_not(None)),
)
_LOOSE = _ALL_LOOSE.where(~runs.c.location.contains("://"))
_LOOSE_REMOTE = _ALL_LOOSE.where(runs.c.location.contains("://"))


def _logdir_key(number: int) -> Key:
    return _LOGDIR, number


def _run_key(number: int) -> Key:
    return "run", number
