"""Decoded columns kept in files, so that a log is parsed once.

One cache file stands for one event file as far as it had been read. It begins with everything that
is known about the columns (their number of points, their ends), so that a run can be listed and
joined without touching a single point; the points behind it are loaded or mapped when looked
at. A cache file is written whole under another name and then renamed: readers see one or the
other, and several processes may share a cache.

A cache file is believed when the event file still begins and ends (where the cache ends) with the
same bytes, and has not been touched unless to grow; in a bucket, versions tell that without a read.
Checksums of the front and of each column tell damage, and a file that was replaced after its front
was read. Everything in here can be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from tbhub._kernel import crc32c, map_file
from tbhub.series.column import Column, Ends, EvenSteps, Part, concatenate
from tbhub.series.file_content import Blob, FileContent
from tbhub.series.growing_file import GrowingFile, Look
from tbhub.series.memory import Memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAGIC = b"tbhub\x00\x00\x01"  # the last byte: the version of this format and of the decoder
# Magic, bytes of the description and of the tables, and the crc of both.
_FRONT = struct.Struct("<8sQQI4x")
_MAPPED_FROM = 256 << 10  # what is smaller is read: a process may have some 65,000 maps
_CRC_PIECE = 1 << 20
_RETRY_SECONDS = 60.0  # after a write that failed

# at, size, is_double, is_even, crc, first step, stride, last and greatest step, first, last and
# greatest wall time
_COLUMN = struct.Struct("<QQ??Iqqqqddd")
_BLOB = struct.Struct("<IBqdQQ")  # number of its tag, kind, step, wall time, offset, size


_Row = tuple[Any, ...]  # of the table of columns


class CacheLostError(OSError):
    """A cache file is gone, damaged or replaced: the event file has to be read again."""


class StoredColumn:
    """A column in a cache file."""

    __slots__ = (
        "__weakref__",
        "_at",
        "_crc",
        "_dtype",
        "_memory",
        "_path",
        "_size",
        "ends",
        "even_steps",
        "max_step",
        "max_wall_time",
    )

    def __init__(self, path: str, memory: Memory, row: _Row) -> None:
        self._path = path
        self._memory = memory
        at, size, is_double, is_even, crc, first, stride, last, top, *wall_times = row
        first_wall, last_wall, late = wall_times
        self._at: int = at
        self._crc: int = crc
        self._size: int = size
        self._dtype = "<f8" if is_double else "<f4"
        self.even_steps: EvenSteps | None = (first, stride) if is_even else None
        self.ends: Ends = (first, first_wall, last, last_wall)
        self.max_step: int = top
        self.max_wall_time: float = late

    def __del__(self) -> None:
        self._memory.forget(id(self))

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays in the file."""
        return self._size * (8 + int(self._dtype[-1]) + (0 if self.even_steps else 8))

    @property
    def steps(self) -> NDArray[np.int64]:
        """The global steps."""
        if self.even_steps:
            import numpy as np

            first, stride = self.even_steps
            return first + stride * np.arange(self._size, dtype=np.int64)
        return self._memory.load(self).steps

    @property
    def wall_times(self) -> NDArray[np.float64]:
        """When each point was logged, in seconds since the epoch."""
        return self._memory.load(self).wall_times

    @property
    def values(self) -> NDArray[Any]:
        """The numbers."""
        return self._memory.load(self).values

    def load(self) -> Part:
        """Reads or maps the arrays."""
        data = self._read()
        times_end = 8 * self._size
        wall_times = data[:times_end].view("<f8")
        steps: NDArray[np.int64] | EvenSteps
        if self.even_steps:
            steps, values_at = self.even_steps, times_end
        else:
            values_at = 2 * times_end
            steps = data[times_end:values_at].view("<i8")
        values = data[values_at:].view(self._dtype)
        return Part(steps, wall_times, values, self.max_step, self.max_wall_time)

    def _read(self) -> NDArray[np.uint8]:
        import numpy as np

        size = self.nbytes
        try:
            if size >= _MAPPED_FROM:
                data = map_file(self._path, self._at, size)
            else:
                with open(self._path, "rb") as file:
                    data = np.frombuffer(os.pread(file.fileno(), size, self._at), np.uint8)
        except OSError as error:
            raise CacheLostError(str(error)) from error
        if _crc_of(data) != self._crc:
            raise CacheLostError(f"{self._path} is not what it was")
        return data


def _crc_of(data: NDArray[np.uint8]) -> int:
    crc = 0
    for start in range(0, len(data), _CRC_PIECE):
        crc = crc32c(data[start : start + _CRC_PIECE].tobytes(), crc)
    return crc


def default_cache_dir() -> Path:
    """``TBHUB_CACHE_DIR``, or a directory of ours below the user's cache directory."""
    named = os.environ.get("TBHUB_CACHE_DIR")
    if named:
        return Path(named).expanduser() / "columns"
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "tbhub" / "columns"


class ColumnCache:
    """The cache files below one directory.

    What cannot be written (no space, no permission) stays in memory; `problem` says why.
    """

    def __init__(self, directory: Path | None, memory: Memory) -> None:
        self.directory = directory
        self.memory = memory
        self.problem: OSError | None = None
        self._retry_at = 0.0

    def find(self, event_file: GrowingFile, look: Look) -> FileContent | None:
        """What the cache knows of an event file, if that is still true."""
        if self.directory is None:
            return None
        place = self._place(event_file.path)
        try:
            with open(place, "rb") as file:
                end = os.fstat(file.fileno()).st_size
                magic, about_size, tables_size, crc = _FRONT.unpack(file.read(_FRONT.size))
                if magic != _MAGIC or about_size + tables_size > end:
                    return None
                front = file.read(about_size + tables_size)
            if crc32c(front) != crc:
                return None
            about = orjson.loads(front[:about_size])
            if end < about["end"] or not event_file.proves(about, look):
                return None
            return self._content(event_file, place, about, front[about_size:])
        except (OSError, ValueError, LookupError, TypeError, struct.error):
            return None  # whatever is wrong with it, the event file can be read

    def _content(
        self, event_file: GrowingFile, place: str, about: dict[str, Any], tables: bytes
    ) -> FileContent:
        tags = about["tags"]
        columns_size = len(tags) * _COLUMN.size
        rows = _COLUMN.iter_unpack(tables[:columns_size])
        columns: dict[str, tuple[Column, ...]] = {
            tag: (StoredColumn(place, self.memory, row),)
            for tag, row in zip(tags, rows, strict=True)
        }
        blobs: dict[str, list[Blob]] = {}
        blob_tags = about["blob_tags"]
        for row in _BLOB.iter_unpack(tables[columns_size:]):
            number, kind, step, wall_time, offset, size = row
            tag = blob_tags[number]
            blob = Blob(event_file, kind, tag, step, wall_time, offset, size)
            blobs.setdefault(tag, []).append(blob)
        with suppress(OSError):
            os.utime(place)  # used: not among the first to be deleted
        return FileContent(
            file=event_file,
            columns=columns,
            stored=1,
            blobs={tag: tuple(group) for tag, group in blobs.items()},
            purges=tuple((step, tag) for step, tag in about["purges"]),
            plugins={tag: (name, b64decode(data)) for tag, name, data in about["plugins"]},
            size=about["size"],
            events=about["events"],
            pending=about["pending"],
            skipped=about["skipped"],
            damage_counts=about["damages"],
            file_version=about["file_version"],
            last_step=about["last_step"],
        )

    def store(self, content: FileContent, proof: Mapping[str, Any]) -> FileContent | None:
        """Writes a file's columns; returns the content with stored columns, None if that failed.

        Args:
            content: What has been read.
            proof: What will tell that the event file still begins with it.
        """
        if self.directory is None or time.monotonic() < self._retry_at:
            return None
        place = self._place(content.path)
        about = {
            **proof,
            "purges": content.purges,
            "plugins": [
                (tag, name, b64encode(data).decode())
                for tag, (name, data) in content.plugins.items()
            ],
            "size": content.size,
            "events": content.events,
            "pending": content.pending,
            "skipped": content.skipped,
            "damages": dict(content.damage_counts),
            "file_version": content.file_version,
            "last_step": content.last_step,
            "tags": list(content.columns),
            "blob_tags": list(content.blobs),
        }
        try:
            rows = self._write(place, content, about)
        except CacheLostError:
            return None  # of what had been stored before; whoever looks at it reads again
        except OSError as error:
            self.problem = error
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            return None
        self.problem = None
        columns: dict[str, tuple[Column, ...]] = {
            tag: (StoredColumn(place, self.memory, row),)
            for tag, row in zip(content.columns, rows, strict=True)
        }
        return replace(content, columns=columns, stored=1)

    def _write(self, place: str, content: FileContent, about: dict[str, Any]) -> list[_Row]:
        blob_table = b"".join(
            _BLOB.pack(number, blob.kind, blob.step, blob.wall_time, blob.offset, blob.size)
            for number, group in enumerate(content.blobs.values())
            for blob in group
        )
        rows: list[_Row] = []
        about["end"] = 0
        # The front's length depends on the numbers in it; all of them are there but this one.
        room = len(orjson.dumps(about)) + 32
        tables_size = len(content.columns) * _COLUMN.size + len(blob_table)
        at = (_FRONT.size + room + tables_size + 4095) // 4096 * 4096

        assert self.directory is not None
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        beside = f"{place}.{os.getpid()}.{threading.get_ident()}"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                # One column at a time: each is put together only while it is written.
                for columns in content.columns.values():
                    column = concatenate(columns)
                    file.seek(at)
                    rows.append(_row(column, at, _write_column(file, column)))
                    at = file.tell() + 7 & ~7
                about["end"] = at
                table = b"".join(_COLUMN.pack(*row) for row in rows)
                front = orjson.dumps(about).ljust(room) + table + blob_table
                crc = crc32c(front)
                file.truncate(at)
                file.seek(0)
                file.write(_FRONT.pack(_MAGIC, room, tables_size, crc))
                file.write(front)
            os.replace(beside, place)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside)
            raise
        return rows

    def _place(self, path: str) -> str:
        whole = path if "://" in path else os.path.abspath(path)
        name = hashlib.sha256(os.fsencode(whole)).hexdigest()[:40]
        return os.path.join(str(self.directory), name[:2], name[2:])

    def prune(self, limit: int) -> None:
        """Deletes the least recently used files until all together are within a limit of bytes."""
        if self.directory is None:
            return
        found = []
        for folder, _, names in os.walk(self.directory):
            for name in names:
                path = os.path.join(folder, name)
                with suppress(OSError):
                    status = os.stat(path)
                    found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= limit:
                return
            with suppress(OSError):
                os.unlink(path)
            total -= size


def _row(column: Column, at: int, crc: int) -> _Row:
    first, first_wall, last, last_wall = column.ends
    even = column.even_steps
    return (
        at,
        len(column),
        column.values.dtype.itemsize == 8,
        even is not None,
        crc,
        first,
        even[1] if even else 0,
        last,
        column.max_step,
        first_wall,
        last_wall,
        column.max_wall_time,
    )


def _write_column(file: BinaryIO, column: Column) -> int:
    """Writes the arrays; returns their checksum."""
    arrays = [column.wall_times, column.values]
    if column.even_steps is None:
        arrays.insert(1, column.steps)
    crc = 0
    for array in arrays:
        import numpy as np

        data = np.ascontiguousarray(array).view(np.uint8)
        for start in range(0, len(data), _CRC_PIECE):
            piece = data[start : start + _CRC_PIECE].tobytes()
            crc = crc32c(piece, crc)
            file.write(piece)
    return crc
