"""This machine's files as a store.

Plain calls to the operating system. An object is written under another name in its directory and
then renamed; a version is the moment of writing together with inode and size. The directories that
are left when their last file goes count for nothing: they are not listed, and make way for an
object of their name. Symbolic links to directories are not followed, so that a listing ends and a
deletion stays below its prefix.

Replacing by version holds against others that replace by version: they take turns by a lock on the
directory. A plain `put` does not ask. Those who append take turns by a lock on the file, and write
only what is not there yet: an append that was cut short is completed by the next.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from tbhub.storage.errors import (
    BadName,
    Conflict,
    NoPermission,
    NotFound,
    StoreError,
    WrongOffset,
)
from tbhub.storage.source import FileSource, SourceError
from tbhub.storage.store import DELETE, LIST, READ, WRITE, Entry, Meter, Range
from tbhub.storage.uri import file_name

_Data = bytes | FileSource | Path  # a path: a file that is moved
_UNFINISHED = ".tbhub-put-"  # begins the name of a file that is being written
_LARGE = 8 << 20  # bytes; before such a file is written, what killed processes left is deleted
_ABANDONED_AFTER = 60.0  # seconds without a write
_ATTEMPTS = 100  # when others delete the directory we are about to write to


class LocalStore:
    """Files below a directory, by their paths from there."""

    def __init__(self, root: str | os.PathLike[str] = "/", *, durable: bool = False) -> None:
        """With `durable` a put or an append returns when the disk has it."""
        self._root = os.path.abspath(root)
        self._durable = durable
        self.meter = Meter()

    def list(self, prefix: str) -> Iterator[Entry]:
        """All files below a directory; none if there is no such directory."""
        top = self._place(prefix, LIST) if prefix else self._root
        waiting = [(top, f"{prefix}/" if prefix else "")]
        while waiting:
            directory, before = waiting.pop()
            self.meter.count(LIST)
            try:
                with os.scandir(directory) as found:
                    children = list(found)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise self._error(LIST, prefix, error) from None
            for child in children:
                if child.is_dir(follow_symlinks=False):
                    waiting.append((child.path, f"{before}{child.name}/"))
                    continue
                if child.name.startswith(_UNFINISHED):
                    continue
                with suppress(OSError):  # gone meanwhile, or a link to nowhere
                    status = child.stat()
                    if stat.S_ISREG(status.st_mode):
                        yield _entry(f"{before}{child.name}", status)

    def stat(self, path: str) -> Entry:
        """What is known about a file."""
        place = self._place(path, READ)
        self.meter.count(READ)
        try:
            status = os.stat(place)
        except OSError as error:
            raise self._error(READ, path, error) from None
        if not stat.S_ISREG(status.st_mode):
            raise NotFound(READ, place, "it is not a file")
        return _entry(path, status)

    def open_file(self, path: str) -> tuple[Entry, BinaryIO]:
        """A file and what is known about it, whatever takes its place meanwhile."""
        place = self._place(path, READ)
        self.meter.count(READ)
        try:
            # A pipe is opened at once, too, and then found to be no file.
            file = os.fdopen(os.open(place, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
        except OSError as error:
            raise self._error(READ, path, error) from None
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            file.close()
            raise NotFound(READ, place, "it is not a file")
        return _entry(path, status), file

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Bytes of a file."""
        if offset < 0 or (size is not None and size < 0):
            raise ValueError("a range cannot begin or end before the object")
        place = self._place(path, READ)
        self.meter.count(READ)
        try:
            with open(place, "rb", buffering=0) as file:
                file.seek(offset)
                data = file.readall() if size is None else _read_exactly(file.fileno(), size)
        except OSError as error:
            raise self._error(READ, path, error) from None
        self.meter.count(READ, 0, read=len(data))
        return data

    def read_many(self, ranges: Iterable[Range]) -> Iterator[bytes]:
        """One read after the other: the disk is near."""
        return (self.read(*wanted) for wanted in ranges)

    def put(self, path: str, data: bytes | FileSource) -> str:
        """Writes a file."""
        if isinstance(data, FileSource) and data.size >= _LARGE:
            _remove_abandoned(os.path.dirname(self._place(path, WRITE)))
        return self._put(path, data, os.replace)

    def adopt(self, path: str, file: Path) -> str:
        """Move a file of the same file system to its place, whatever is there; its version."""
        return self._put(path, file, os.replace)

    def put_if_absent(self, path: str, data: bytes) -> str:
        """Writes a file unless there is one."""
        return self._put(path, data, self._link)

    def put_if_unchanged(self, path: str, data: bytes, version: str) -> str:
        """Replaces a file if it still has this version."""

        def replace(unfinished: str, place: str) -> None:
            with _turn(os.path.dirname(place)):
                try:
                    current = _version(os.stat(place))
                except FileNotFoundError:
                    current = None
                if current != version:
                    raise FileExistsError(errno.EEXIST, "changed")
                os.replace(unfinished, place)

        return self._put(path, data, replace)

    def append(self, path: str, offset: int, data: bytes) -> int:
        """Writes bytes at the end of a file; its new size."""
        if offset < 0:
            raise ValueError("bytes cannot be appended before the object")
        place = self._place(path, WRITE)
        self.meter.count(WRITE)
        with self._writing(path, place):
            return self._append(place, offset, data)

    def delete(self, path: str) -> None:
        """Deletes a file."""
        place = self._place(path, DELETE)
        self.meter.count(DELETE)
        try:
            os.unlink(place)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            if not _is_directory(place):  # which is no object
                raise self._error(DELETE, path, error) from None

    def delete_below(self, prefix: str) -> int:
        """Deletes all files below a directory, and the directory."""
        place = self._place(prefix, DELETE)
        if os.path.islink(place):
            raise StoreError(DELETE, place, "it is a link; delete what it leads to by its own name")
        deleted = 0
        try:
            for directory, inner, files in os.walk(place, topdown=False, onerror=_unless_gone):
                links = [name for name in inner if os.path.islink(os.path.join(directory, name))]
                for name in [*files, *links]:
                    self.meter.count(DELETE)
                    with suppress(FileNotFoundError):
                        os.unlink(os.path.join(directory, name))
                        deleted += not name.startswith(_UNFINISHED)
                with suppress(OSError):  # others may have written meanwhile
                    os.rmdir(directory)
        except OSError as error:
            raise self._error(DELETE, prefix, error) from None
        return deleted

    def close(self) -> None:
        """There is nothing to give back."""

    def _place(self, path: str, verb: str) -> str:
        if any(part.startswith(_UNFINISHED) for part in path.split("/")):
            raise BadName(verb, repr(path), f"names that begin with {_UNFINISHED} are ours")
        return os.path.join(self._root, file_name(path))

    def _put(self, path: str, data: _Data, finish: Callable[[str, str], None]) -> str:
        place = self._place(path, WRITE)
        self.meter.count(WRITE)
        with self._writing(path, place):
            return self._write(place, data, finish)

    @contextmanager
    def _writing(self, path: str, place: str) -> Iterator[None]:
        """Says in our words why a file could not be written."""
        try:
            yield
        except (StoreError, SourceError):
            raise
        except FileExistsError:
            raise Conflict(WRITE, place, "it has been written to by someone else") from None
        except NotADirectoryError:
            raise BadName(WRITE, place, "a file is where a directory would have to be") from None
        except IsADirectoryError:
            raise BadName(WRITE, place, "there is a directory of that name") from None
        except OSError as error:
            raise self._error(WRITE, path, error) from None

    def _append(self, place: str, offset: int, data: bytes) -> int:
        directory = os.path.dirname(place)
        for attempt in range(_ATTEMPTS):
            touched = _touched(directory) if self._durable else []
            try:
                _make_directories(directory)
                if _is_directory(place):
                    _remove_empty(place)
                with _growing(place) as file:
                    if not _is_at(file, place):
                        continue  # replaced or deleted while we waited for our turn
                    return self._grow(file, place, offset, data)
            except FileNotFoundError:  # the directory was deleted under our hands
                if attempt + 1 == _ATTEMPTS:
                    raise
            finally:
                for parent in touched:
                    with suppress(FileNotFoundError):
                        _sync(parent)
        raise FileNotFoundError(errno.ENOENT, "replaced again and again")

    def _grow(self, file: FileIO, place: str, offset: int, data: bytes) -> int:
        size = os.fstat(file.fileno()).st_size
        if offset > size:
            raise WrongOffset(
                WRITE, place, f"it ends at {size}, before the offset {offset}", size=size
            )
        there = os.pread(file.fileno(), min(len(data), size - offset), offset)
        if there != data[: len(there)]:
            raise WrongOffset(WRITE, place, f"it has other bytes at {offset}", size=size)
        rest = memoryview(data)[len(there) :]
        self.meter.count(WRITE, 0, written=len(rest))
        file.seek(0, os.SEEK_END)
        _write_all(file, rest)
        if self._durable:
            os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size

    def _write(self, place: str, data: _Data, finish: Callable[[str, str], None]) -> str:
        directory = os.path.dirname(place)
        unfinished = os.path.join(directory, f"{_UNFINISHED}{token_hex(8)}")
        for attempt in range(_ATTEMPTS):
            touched = _touched(directory) if self._durable else []
            try:
                _make_directories(directory)
                version = self._fill(unfinished, data)
                if _is_directory(place):
                    _remove_empty(place)
                finish(unfinished, place)
            except FileNotFoundError:  # the directory was deleted under our hands
                if attempt + 1 == _ATTEMPTS:
                    raise
                continue
            finally:
                with suppress(OSError):
                    os.unlink(unfinished)
            break
        for parent in touched:
            _sync(parent)
        return version

    def _fill(self, unfinished: str, data: _Data) -> str:
        if isinstance(data, Path):
            os.rename(data, unfinished)
        with _unfinished(unfinished, is_new=not isinstance(data, Path)) as file:
            if isinstance(data, FileSource):
                for part in data.parts():
                    _write_all(file, part)
            elif isinstance(data, bytes):
                _write_all(file, data)
            # The clock of the file system is too coarse to tell two writes apart.
            now = time.time_ns()
            os.utime(file.fileno(), ns=(now, now))
            if self._durable:
                os.fsync(file.fileno())
            status = os.fstat(file.fileno())
        self.meter.count(WRITE, 0, written=status.st_size)
        return _version(status)

    def _link(self, unfinished: str, place: str) -> None:
        """Gives a file its name unless that is taken."""
        try:
            os.link(unfinished, place)
            return
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
                raise
        with _turn(os.path.dirname(place)):  # a file system without links
            if os.path.lexists(place):
                raise FileExistsError(errno.EEXIST, "taken")
            os.replace(unfinished, place)

    def _error(self, verb: str, path: str, error: OSError) -> StoreError:
        place = os.path.join(self._root, path)
        if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
            return NotFound(verb, place, "there is no such file")
        if isinstance(error, PermissionError):
            return NoPermission(verb, place, f"no permission to {verb} there")
        if error.errno == errno.ENAMETOOLONG:
            return BadName(verb, place, "the name is too long for this file system")
        return StoreError(verb, place, error.strerror or "the system failed")


def _entry(path: str, status: os.stat_result) -> Entry:
    return Entry(path, status.st_size, _version(status), status.st_mtime)


def _version(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_ino:x}-{status.st_size:x}"


def _read_exactly(descriptor: int, size: int) -> bytes:
    data = os.read(descriptor, size)
    if len(data) == size or not data:
        return data
    pieces = [data]  # network file systems, and reads of more than 2 GB, give less at a time
    missing = size - len(data)
    while missing and (data := os.read(descriptor, missing)):
        pieces.append(data)
        missing -= len(data)
    return b"".join(pieces)


@contextmanager
def _unfinished(name: str, *, is_new: bool) -> Iterator[FileIO]:
    """Open a file that is being written; the lock tells others that its process is alive."""
    with FileIO(name, "xb" if is_new else "r+b") as file:
        with suppress(OSError):  # a file system without locks: see the age below
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        yield file


def _remove_abandoned(directory: str) -> None:
    """Delete files that processes were writing when they were killed."""
    with suppress(OSError), os.scandir(directory) as found:
        for child in found:
            if not child.name.startswith(_UNFINISHED):
                continue
            with suppress(OSError):
                if time.time() - child.stat(follow_symlinks=False).st_mtime < _ABANDONED_AFTER:
                    continue
                descriptor = os.open(child.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(child.path)
                finally:
                    os.close(descriptor)


def _write_all(file: FileIO, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _is_directory(place: str) -> bool:
    return os.path.isdir(place) and not os.path.islink(place)


def _make_directories(directory: str) -> None:
    try:
        os.makedirs(directory, exist_ok=True)
    except FileExistsError:
        if os.path.lexists(directory):
            raise NotADirectoryError(errno.ENOTDIR, "a file") from None
        raise FileNotFoundError(errno.ENOENT, "gone again") from None


def _remove_empty(top: str) -> None:
    """Removes directories that hold no file; stops at the first that does."""
    for directory, _, _ in os.walk(top, topdown=False):
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            continue
        except OSError:
            raise IsADirectoryError(errno.EISDIR, "not empty") from None


def _touched(directory: str) -> list[str]:
    """The directories that the disk must have when a file in the first of them is to last."""
    touched = [directory]
    while not os.path.isdir(touched[-1]):
        touched.append(os.path.dirname(touched[-1]))
    return touched


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


@contextmanager
def _growing(place: str) -> Iterator[FileIO]:
    """A file, made if there is none, that nobody else appends to meanwhile."""
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    with FileIO(descriptor, "r+b") as file:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield file


def _is_at(file: FileIO, place: str) -> bool:
    try:
        return os.path.samestat(os.stat(place), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


@contextmanager
def _turn(directory: str) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
