"""The files that the hub itself keeps for runs: each run has a directory below one root.

What is acknowledged is on the disk. Whoever changes a file takes turns with others who change it;
appends that wait for the same file are written together and share one fsync, and those to other
files are synced at the same time. An append goes on where the file ends, or repeats what is there:
so it may be sent again when an answer was lost. What could not be synced is cut off again, because
a second fsync would not tell.

Where the hub's storage is a bucket this is where files are until they are there: see `shipping`.

Only so many bytes are on their way at a time. Who comes beyond that waits a little, and is then
told to come again later.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from tbhub.api.models import Deleted
from tbhub.api.problems import (
    BadRequest,
    Changed,
    Conflict,
    NoRoom,
    NotFound,
    Problem,
    Unavailable,
    WrongOffset,
)
from tbhub.catalog.attempts import fenced
from tbhub.database.engine import Database
from tbhub.database.rows import chunks
from tbhub.database.tables import runs
from tbhub.hub.shipping import Bucket, Shipping
from tbhub.hub.uploads import Uploads
from tbhub.storage import errors
from tbhub.storage.joined import Readable
from tbhub.storage.local import LocalStore
from tbhub.storage.uri import object_name

CHUNK = 16 << 20  # bytes of an append at most
_IN_FLIGHT = 256 << 20  # bytes that have been taken and are not yet on the disk
_WAIT = 5.0  # seconds for room
_MOST_WAITING = 1000
_THREADS = 16  # files that are synced at the same time
_REMEMBERED = 5.0  # seconds
_MOST_REMEMBERED = 10_000
_FENCE_SECONDS = 30.0
_ATTEMPTS = 100  # when others delete the directory we are about to write to
_FULL = (errno.ENOSPC, errno.EDQUOT)
_OURS = ".tbhub-"  # begins names of files that are being written
_MARK = ".tbhub-storage"  # by which `tbhub run` knows that nothing is adopted from there


class Facts(NamedTuple):
    """What is to be known of a run whose files are asked for."""

    workspace_id: int
    attempt: int
    kept: bool
    location: str
    status: str


@dataclass(frozen=True)
class _Append:
    attempt: int | None
    offset: int
    data: bytes
    done: Future[int] = field(default_factory=Future)


@dataclass(frozen=True)
class _Change:
    attempt: int | None
    act: Callable[[LocalStore], Any]
    done: Future[Any] = field(default_factory=Future)


_Job = _Append | _Change
_Key = tuple[int, str]


class RunFiles:
    """The files of all runs; methods that wait are for one event loop, others for any thread."""

    def __init__(
        self,
        root: Path,
        database: Database,
        bucket: Bucket | None = None,
        *,
        in_flight: int = _IN_FLIGHT,
        tell_late: Callable[[int], None] = lambda run: None,
    ) -> None:
        """With a `bucket` files go on there; without one they stay. `tell_late` is told of runs
        that are written to though nobody expects it: whose worker is lost, or has ended."""
        self.root = root
        self.shipping = (
            Shipping(root, bucket, self._status, self._alone) if bucket is not None else None
        )
        self.uploads = Uploads(root / f"{_OURS}incoming")
        self._database = database
        self._tell_late = tell_late
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="tbhub-files")
        self._room = _Room(in_flight)
        self._changed = threading.Condition()
        self._waiting: dict[_Key, deque[_Job]] = {}
        self._busy: Counter[int] = Counter()  # files being written, by run
        self._resting: set[int] = set()  # runs whose files nobody may change for now
        self._newest: dict[int, int] = {}  # attempts that fence older ones
        self._durable: set[_Key] = set()  # whose names are on the disk
        self._facts: dict[int, tuple[float, Facts]] = {}

    # --- what is known of runs

    def directory(self, run: int) -> Path:
        """Where the files of a run are."""
        return self.root / str(run)

    def location(self, run: int) -> str:
        """Where a run is for everybody: its directory, or its place in the bucket."""
        return str(self.directory(run)) if self.shipping is None else self.shipping.location(run)

    def begin(self, run: int) -> None:
        """A run is new, and its files will be kept here."""
        if self.shipping is not None:
            self.shipping.begin(run)

    def keeps(self, run: int, facts: Facts) -> bool:
        """Whether the files of a run are here, and not where the hub kept files before."""
        here = (self.location(run), str(self.directory(run)))
        return facts.kept and facts.location in here

    def view(self, run: int, facts: Facts) -> tuple[Readable, str] | None:
        """The files of a run and where they are in there, if its location has not all of them."""
        if self.shipping is None or not facts.kept or facts.location != self.location(run):
            return None
        return self.shipping.view(), str(run)

    def store(self, run: int) -> LocalStore:
        """The files of a run."""
        return LocalStore(self.directory(run), durable=True)

    def known(self, run: int) -> Facts | None:
        """What is known of a run without asking the database."""
        found = self._facts.get(run)
        return found[1] if found is not None and found[0] > time.monotonic() else None

    def facts(self, run: int) -> Facts:
        """What is known of a run; remembered for some seconds."""
        known = self.known(run)
        if known is not None:
            return known
        columns = (*(runs.c[name] for name in Facts._fields),)
        remembered = self._facts
        with self._database.read() as connection:
            row = connection.execute(select(*columns).where(runs.c.id == run)).first()
        if row is None:
            raise NotFound(f"There is no run {run}.")
        found = Facts(*row)
        if len(remembered) >= _MOST_REMEMBERED:
            remembered.clear()
        remembered[run] = (time.monotonic() + _REMEMBERED, found)
        return found

    def forget(self) -> None:
        """Look up again what is known of runs: some have changed, or were deleted."""
        self._facts = {}

    def fence(self, run: int, attempt: int) -> None:
        """From now on nothing of older attempts is written; waits for what is being written."""
        with self._changed:
            self._newest[run] = max(attempt, self._newest.get(run, 0))
            self._facts = {}
            self._changed.wait_for(lambda: not self._busy[run], _FENCE_SECONDS)

    # --- changing files

    @asynccontextmanager
    async def room(self, size: int) -> AsyncIterator[None]:
        """Room for so many bytes on their way.

        Raises:
            Unavailable: There is none for now.
        """
        await self._room.take(size)
        try:
            yield
        finally:
            self._room.give(size)

    async def append(
        self, run: int, path: str, attempt: int | None, offset: int, data: bytes
    ) -> int:
        """Writes bytes at the end of a file, or finds them there; the file's size.

        Raises:
            WrongOffset: The file ends elsewhere, or has other bytes there.
            Fenced: A newer attempt goes on with the run.
            NoRoom: The disk is full.
        """
        job = _Append(attempt, offset, data)
        self._submit((run, checked(path)), job)
        size = await asyncio.wrap_future(job.done)
        self._note(run)
        return size

    async def put(
        self,
        run: int,
        path: str,
        attempt: int | None,
        data: bytes | Path,
        *,
        absent: bool = False,
        version: str | None = None,
    ) -> str:
        """Replaces a file as a whole; its version.

        Args:
            data: The content, or a file of `incoming` that is moved.
            absent: Only if there is none.
            version: Only if it has this version.

        Raises:
            Changed: The condition does not hold.
            Fenced: A newer attempt goes on with the run.
            NoRoom: The disk is full.
        """

        def act(store: LocalStore) -> str:
            self._durable.discard((run, path))
            if isinstance(data, Path):
                return store.adopt(path, data)
            if not absent and version is None:
                return store.put(path, data)
            self._bring_back(run, path)
            if absent:
                return store.put_if_absent(path, data)
            return store.put_if_unchanged(path, data, version or "")

        made: str = await self._change(run, path, attempt, act)
        return made

    async def put_parts(
        self, run: int, path: str, attempt: int | None, upload: str, size: int
    ) -> str:
        """Replace a file by what `uploads` has got in parts; return its version.

        Raises:
            WrongOffset: The parts do not have that size together.
            Fenced: A newer attempt goes on with the run.
        """

        def act(store: LocalStore) -> str:
            self._durable.discard((run, path))
            return self.uploads.complete(run, upload, size, store, path)

        made: str = await self._change(run, path, attempt, act)
        return made

    async def delete(self, run: int, path: str, attempt: int | None) -> int:
        """Deletes a file; there need not be one."""

        def act(store: LocalStore) -> int:
            self._durable.discard((run, path))
            there = set(self._drop(run, path))
            with suppress(errors.NotFound):
                store.stat(path)
                there.add(path)
            store.delete(path)
            return len(there & {path})

        deleted: int = await self._change(run, path, attempt, act)
        return deleted

    async def delete_below(self, run: int, path: str, attempt: int | None) -> int:
        """Deletes all files below a directory of a run, or of the run."""

        def act(_: LocalStore) -> int:
            with self._changed:
                self._durable = {each for each in self._durable if each[0] != run}
            below = LocalStore(self.root, durable=True)
            top = f"{run}/{path}" if path else str(run)
            there = {entry.path for entry in below.list(top)}
            there |= {f"{run}/{each}" for each in self._drop(run, path)}
            below.delete_below(top)
            return len(there)

        deleted: int = await self._change(run, path, attempt, act, of_directory=not path)
        return deleted

    async def _change(
        self,
        run: int,
        path: str,
        attempt: int | None,
        act: Callable[[LocalStore], Any],
        *,
        of_directory: bool = False,
    ) -> Any:
        job = _Change(attempt, act)
        self._submit((run, path if of_directory else checked(path)), job)
        done = await asyncio.wrap_future(job.done)
        self._note(run)
        return done

    def _note(self, run: int) -> None:
        known = self.known(run)
        if known is None or known.status != "running":
            self._tell_late(run)

    def in_bucket(self, connection: Connection, ids: Collection[int]) -> list[int]:
        """Which of some runs the hub keeps in its bucket."""
        if self.shipping is None:
            return []
        return [
            row.id
            for chunk in chunks(list(ids))
            for row in connection.execute(
                select(runs.c.id, runs.c.location).where(runs.c.id.in_(chunk), runs.c.kept)
            )
            if row.location == self.location(row.id)
        ]

    def remove(self, ids: Collection[int], deleted: Deleted) -> Deleted:
        """Removes the files of runs that are in the bucket, after the runs; all that was deleted.

        Says so where the bucket does not do it, or if `deleted` is only what would be.
        """
        files, size = deleted.files, deleted.bytes
        places = {run: self.location(run) for run in ids}
        problems = [
            each
            for each in deleted.problems
            if not any(each.startswith(f"{place} ") for place in places.values())
        ]
        for run, place in places.items():
            assert self.shipping is not None
            try:
                found = list(self.shipping.view().list(str(run)))
                if not deleted.dry_run:
                    self.shipping.remove(run)
            except errors.StoreError as error:
                problems.append(f"{place} is left: {error.what}")
                continue
            files += len(found)
            size += sum(entry.size for entry in found)
        return deleted.model_copy(update={"files": files, "bytes": size, "problems": problems})

    @contextmanager
    def incoming(self) -> Iterator[Path]:
        """A file for what is too large to be held in memory; gone afterwards."""
        path = self.uploads.new_file()
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def start(self) -> None:
        """Mark the directory as a hub's, and send on what is to go to the bucket, from now on."""
        with suppress(OSError):
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.root / _MARK).touch()
        self.uploads.expire()
        if self.shipping is not None:
            self.shipping.start()

    def runs_changed(self, runs: Collection[int]) -> None:
        """Runs have ended, perhaps: what is written to them from now on is late."""
        self.forget()
        if self.shipping is not None:
            self.shipping.wake(run for run in runs if self.directory(run).is_dir())

    def close(self) -> None:
        """Ends the threads, after what has been taken is written."""
        if self.shipping is not None:
            self.shipping.stop()
        self._pool.shutdown(wait=True)

    # --- in threads

    def _submit(self, key: _Key, job: _Job) -> None:
        with self._changed:
            waiting = self._waiting.get(key)
            if waiting is not None:  # somebody is at the file already
                waiting.append(job)
                return
            self._waiting[key] = deque([job])
        self._pool.submit(self._work, key)

    def _work(self, key: _Key) -> None:
        """Does what waits for a file, until nothing does."""
        run, path = key
        while jobs := self._take(key):
            try:
                first = jobs[0]
                if isinstance(first, _Append):
                    appends = [job for job in jobs if isinstance(job, _Append)]
                    self._append_all(run, path, appends)
                else:
                    first.done.set_result(first.act(self.store(run)))
                if self.shipping is not None:
                    self.shipping.wake([run])
            except Exception as error:
                found = as_problem(error, path)
                for job in jobs:
                    if not job.done.done():
                        job.done.set_exception(found)
            finally:
                with self._changed:
                    self._busy[run] -= 1
                    if not self._busy[run]:
                        del self._busy[run]
                        self._changed.notify_all()

    def _take(self, key: _Key) -> list[_Job]:
        """The next change of a file, or all appends that come before it."""
        run, _ = key
        with self._changed:
            self._changed.wait_for(lambda: run not in self._resting)
            waiting = self._waiting[key]
            newest = self._newest.get(run, 0)
            jobs: list[_Job] = []
            while waiting:
                job = waiting[0]
                if job.attempt is not None and job.attempt < newest:
                    waiting.popleft()
                    if job.done.set_running_or_notify_cancel():
                        job.done.set_exception(fenced(run, job.attempt, newest))
                    continue
                if jobs and (isinstance(job, _Change) or isinstance(jobs[0], _Change)):
                    break
                waiting.popleft()
                if job.done.set_running_or_notify_cancel():
                    jobs.append(job)
            if jobs:
                self._busy[run] += 1
            else:
                del self._waiting[key]
            return jobs

    @contextmanager
    def _alone(self, run: int) -> Iterator[bool]:
        """Nobody changes files of a run meanwhile; False if somebody is at it."""
        with self._changed:
            is_free = not self._busy[run] and all(key[0] != run for key in self._waiting)
            if is_free:
                self._resting.add(run)
        try:
            yield is_free
        finally:
            with self._changed:
                if is_free:
                    self._resting.discard(run)
                    self._durable = {each for each in self._durable if each[0] != run}
                self._changed.notify_all()

    def _status(self, run: int) -> tuple[str, str] | None:
        with self._database.read() as connection:
            chosen = select(runs.c.status, runs.c.location).where(runs.c.id == run)
            row = connection.execute(chosen).first()
        return None if row is None else (row.status, row.location)

    def _bring_back(self, run: int, path: str) -> None:
        if self.shipping is not None:
            self.shipping.bring_back(run, path)

    def _drop(self, run: int, path: str) -> list[str]:
        return [] if self.shipping is None else self.shipping.drop(run, path)

    def _append_all(self, run: int, path: str, jobs: list[_Append]) -> None:
        self._bring_back(run, path)
        place = self.directory(run) / path
        descriptor = _open(place)
        try:
            before = size = os.fstat(descriptor).st_size
            sizes: list[tuple[_Append, int]] = []
            try:
                for job in jobs:
                    try:
                        size = _append(descriptor, size, job, path)
                    except Problem as problem:
                        job.done.set_exception(problem)
                    else:
                        sizes.append((job, size))
                os.fdatasync(descriptor)
                if (run, path) not in self._durable:
                    self._sync_names(place.parent)
                    self._durable.add((run, path))
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, before)
                raise
        finally:
            os.close(descriptor)
        for job, reached in sizes:
            job.done.set_result(reached)

    def _sync_names(self, directory: Path) -> None:
        for each in (directory, *directory.parents):
            descriptor = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if each == self.root:
                break


class _Room:
    """Bytes on their way, up to a number; those who wait go in their order."""

    def __init__(self, most: int) -> None:
        self._free = self._most = most
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        size = min(size, self._most)
        if not self._waiting and size <= self._free:
            self._free -= size
            return
        if len(self._waiting) >= _MOST_WAITING:
            raise _busy()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(_WAIT):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.give(size)
            else:
                self._waiting.remove((size, turn))
                self._let_in()
            if isinstance(error, TimeoutError):
                raise _busy() from None
            raise

    def give(self, size: int) -> None:
        self._free += min(size, self._most)
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._free:
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._free -= size
                turn.set_result(None)


def _busy() -> Unavailable:
    text = "the hub has as much to write as it takes at a time; come again in a moment"
    return Unavailable(text, retry_after=1)


def checked(path: str) -> str:
    """A path below a run's directory, from which it does not lead out.

    Raises:
        BadRequest: It does, or no store could keep it.
    """
    try:
        object_name(path)
    except errors.BadName as error:
        raise BadRequest(f"{path[:200]!r}: {error.what}") from None
    if any(part.startswith(_OURS) for part in path.split("/")):
        raise BadRequest(f"{path[:200]!r}: names that begin with {_OURS} are the hub's own")
    return path


def as_problem(error: Exception, path: str) -> Problem:
    """What went wrong with a file, without telling where the hub keeps it."""
    if isinstance(error, Problem):
        return error
    cause = error.__context__ if isinstance(error, errors.StoreError) else error
    if isinstance(cause, OSError) and cause.errno in _FULL:
        return NoRoom("the disk that the hub keeps files on is full; make room on it")
    match error:
        case errors.BadName():
            return BadRequest(f"{path[:200]!r}: {error.what}")
        case errors.NotFound():
            return NotFound(f"there is no file {path}")
        case errors.Conflict():
            return Changed(f"{path} has been written to by someone else")
        case errors.StoreError():
            return Unavailable(f"{path}: {error.what}")
        case OSError(errno=errno.ENAMETOOLONG):
            return BadRequest(f"{path[:200]!r}…: the name is too long for the hub's file system")
        case OSError(errno=errno.EISDIR | errno.ENOTDIR | errno.EEXIST):
            return Conflict(f"{path}: a file is where a directory would have to be, or the reverse")
        case OSError():
            return Unavailable(f"{path}: {error.strerror or 'the system failed'}")
    return Unavailable(f"{path}: {type(error).__name__}")


def _open(place: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):
            return os.open(place, flags, 0o600)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    raise FileNotFoundError(errno.ENOENT, "others delete its directory")


def _append(descriptor: int, size: int, job: _Append, path: str) -> int:
    """Writes what is new of an append; the size that the file has then."""
    if job.offset > size:
        raise WrongOffset(f"{path} ends at {size}, not at {job.offset}", size=size)
    end = job.offset + len(job.data)
    there = os.pread(descriptor, min(end, size) - job.offset, job.offset)
    if not job.data.startswith(there):
        raise WrongOffset(f"{path} has other bytes behind {job.offset}", size=size)
    rest = memoryview(job.data)[len(there) :]
    at = job.offset + len(there)
    try:
        while rest:
            written = os.pwrite(descriptor, rest, at)
            rest, at = rest[written:], at + written
    except OSError as error:
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise as_problem(error, path) from None
    return max(size, end)
