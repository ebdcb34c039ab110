"""Copies of files that a run's command writes elsewhere, kept up with what they are copied from.

An event file is copied as it grows: only its new bytes are read, and the copy is never rewritten. A
source stays open, so that a script that deletes its directory at its end loses nothing. Any other
file is copied whole when it has changed.

What is copied from where is recorded before the first byte is copied, or once the disk has room.
The record is locked by the process that copies; where that process was killed, `catch_up` copies
the rest.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tbhub.events.names import is_event_file
from tbhub.publisher.files import look_of
from tbhub.publisher.plan import Look, again_name

_CHUNK = 1 << 20
_COMPARED = 64  # bytes before the end of a copy that its source must have as well
_MAX_OPEN = 256  # sources that are kept open
_UNFINISHED = ".tbhub-copy-"  # begins the name of a file that is being written


@dataclass(frozen=True, slots=True)
class Adopted:
    """One adopted file.

    Attributes:
        source: Where the command writes it.
        name: What it is called below the run's directory, with slashes.
    """

    source: str
    name: str


class Copies:
    """Copies adopted files into a run's directory. Used by one thread.

    Args:
        directory: The run's directory.
        record: The file that records what is adopted; None: nothing is recorded.

    Attributes:
        failures: Why a source could not be copied, by its path.
    """

    def __init__(self, directory: Path, record: Path | None) -> None:
        self._directory = directory
        self._record = record
        self._is_recorded = record is None
        self._copies: dict[str, _GrowingCopy | _WholeCopy] = {}
        self._open = 0
        self.failures: dict[str, str] = {}

    def add(self, *files: Adopted, opened: Mapping[str, int] | None = None) -> None:
        """Adopt files. The record is on disk when this returns, unless it cannot be written now.

        Args:
            opened: Descriptors of sources, which may be deleted by now, by path. They are closed
                by `close`.
        """
        for file in files:
            if file.source in self._copies:
                continue
            if is_event_file(file.source):
                stays_open = self._open < _MAX_OPEN
                self._open += stays_open
                copy: _GrowingCopy | _WholeCopy = _GrowingCopy(
                    self._directory, file, stays_open, (opened or {}).get(file.source)
                )
            else:
                copy = _WholeCopy(self._directory, file)
            self._copies[file.source] = copy
        self._is_recorded = self._record is None
        self._write_record()

    def _write_record(self) -> None:
        """Record what is adopted, if that has changed; on a full disk `update` tries it again."""
        if self._record is None or self._is_recorded:
            return
        found = [asdict(copy.file) for copy in self._copies.values()]
        unfinished = self._record.with_name(f"{self._record.name}.tmp")
        try:
            unfinished.write_text(json.dumps(found))
            unfinished.replace(self._record)
        except OSError:
            with suppress(OSError):
                unfinished.unlink()
        else:
            self._is_recorded = True

    def replace(self, source: str, descriptor: int) -> None:
        """Copy from a descriptor from now on, under another name if it is of another file."""
        copy = self._copies[source]
        if not isinstance(copy, _GrowingCopy):
            os.close(descriptor)
            return
        try:
            copy.replace(descriptor)
        except OSError as error:
            self.failures[source] = error.strerror or str(error)
            os.close(descriptor)

    def __contains__(self, source: str) -> bool:
        return source in self._copies

    @property
    def files(self) -> list[Adopted]:
        """What is adopted, in the order of adoption."""
        return [copy.file for copy in self._copies.values()]

    def update(self) -> None:
        """Copy what is new of every source."""
        self._write_record()
        for source, copy in self._copies.items():
            try:
                copy.update()
            except FileNotFoundError:
                if not copy.is_begun:
                    self.failures[source] = "it was deleted before it could be copied"
            except OSError as error:
                self.failures[source] = error.strerror or str(error)
            else:
                self.failures.pop(source, None)

    def close(self) -> None:
        """Close all sources."""
        for copy in self._copies.values():
            copy.close()


class _GrowingCopy:
    """A copy of a file that only grows; one that is replaced is copied under another name."""

    def __init__(
        self, directory: Path, file: Adopted, stays_open: bool, source: int | None
    ) -> None:
        self.file = file
        self._directory = directory
        self._stays_open = stays_open
        self._source = source
        self._again = 0
        self._copied = -1  # bytes of the copy; below 0 while they are not known

    @property
    def is_begun(self) -> bool:
        return self._copied >= 0

    def update(self) -> None:
        if self._source is not None and self._is_replaced():
            self._copy(self._source)
            self.close()
            self._next_name()
        if self._source is None:
            self._source = open_source(self.file.source)
        self._copy(self._source)
        if not self._stays_open and os.fstat(self._source).st_nlink:
            self.close()

    def replace(self, source: int) -> None:
        if self._source is not None:
            if os.path.sameopenfile(self._source, source):
                os.close(source)
                return
            self._copy(self._source)
            self.close()
            self._next_name()
        self._source, self._copied = source, -1

    def _is_replaced(self) -> bool:
        assert self._source is not None
        mine = os.fstat(self._source)
        try:
            there = os.stat(self.file.source, follow_symlinks=False)
        except OSError:
            return False  # deleted: the open file still has everything
        return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)

    def _next_name(self) -> None:
        self._again += 1
        self._copied = -1

    def _copy(self, source: int) -> None:
        if os.fstat(source).st_size == self._copied:
            return
        while not self._append(source):
            self._next_name()

    def _append(self, source: int) -> bool:
        """Append what the source has more. Return whether the copy is of this source."""
        target = self._directory / again_name(self.file.name, self._again)
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = os.open(target, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            end = os.fstat(copy).st_size
            if not _begins_with(source, copy, end):
                return False
            size = os.fstat(source).st_size  # what is added meanwhile is for the next time
            while end < size and (data := os.pread(source, min(_CHUNK, size - end), end)):
                end += os.pwrite(copy, data, end)
            self._copied = end
            return True
        finally:
            os.close(copy)

    def close(self) -> None:
        if self._source is not None:
            os.close(self._source)
            self._source = None


class _WholeCopy:
    """A copy of a file that is written at once, and perhaps again."""

    def __init__(self, directory: Path, file: Adopted) -> None:
        self.file = file
        self._target = directory / file.name
        self._copied: Look | None = None

    @property
    def is_begun(self) -> bool:
        return self._copied is not None

    def update(self) -> None:
        source = open_source(self.file.source)
        try:
            look = look_of(os.fstat(source))
            if look == self._copied:
                return
            self._target.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self._target.with_name(f"{_UNFINISHED}{self._target.name}")
            with unfinished.open("wb") as copy:
                end = 0
                while data := os.pread(source, _CHUNK, end):
                    end += copy.write(data)
            unfinished.replace(self._target)
            self._copied = look
        finally:
            os.close(source)

    def close(self) -> None:
        pass


def open_source(path: str) -> int:
    """Open a regular file, and nothing that a link leads to."""
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(source).st_mode):
        os.close(source)
        raise OSError(f"{path} is not a regular file")
    return source


def _begins_with(source: int, copy: int, end: int) -> bool:
    """Return whether the first `end` bytes of the source are the copy, by its last bytes."""
    start = max(0, end - _COMPARED)
    return os.fstat(source).st_size >= end and os.pread(source, end - start, start) == os.pread(
        copy, end - start, start
    )


@contextmanager
def locked(record: Path) -> Iterator[bool]:
    """Lock a record while the process lives. Yield False if another process has it."""
    lock = os.open(record.with_name(f"{record.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = True
        except BlockingIOError:
            is_ours = False
        yield is_ours
    finally:
        os.close(lock)


def read_record(record: Path) -> list[Adopted]:
    """Return what is recorded as adopted.

    Raises:
        OSError: There is no record, or it cannot be read.
        ValueError: It is damaged.
    """
    return [Adopted(**each) for each in json.loads(record.read_bytes())]


def catch_up(directory: Path, record: Path) -> None:
    """Copy what a killed process has left to copy; nothing while a process still copies."""
    if not record.exists():
        return
    with locked(record) as is_free, suppress(OSError, ValueError, TypeError):
        if not is_free:
            return
        copies = Copies(directory, None)
        copies.add(*read_record(record))
        copies.update()
        copies.close()
