"""One event file, followed as it grows.

Only new bytes are read. A file that has become shorter, is another file under the same name, or
whose bytes before the place we had come to are not the ones we read, is read from its beginning.
No descriptor stays open between two looks.
"""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Callable

from tbhub._kernel import Decoder
from tbhub.series.cache import ColumnCache, StoredColumn, checksums
from tbhub.series.column import Column
from tbhub.series.file_content import PIECE, Counts, FileContent

_REMEMBERED = 64  # bytes before a place we have come to
_IDLE_SECONDS = 60


class Change(enum.Enum):
    """What a look at a file has shown."""

    NOTHING = "nothing"
    MORE = "more"
    ANEW = "anew"


class Tail:
    """Follows one file; used by one thread at a time."""

    def __init__(self, path: str, cache: ColumnCache, trust_cache: bool = True) -> None:
        self.path = path
        self.content = FileContent(path)
        self.heap = 0  # bytes of columns that stand in no cache file
        self.stored = 0  # and of those that do
        self._cached = 0  # how far the cache knows the file
        self._cache = cache
        self._trust_cache = trust_cache
        self._decoder: Decoder | None = None
        self._before = Counts()  # what had been counted when the decoder began
        self._status: os.stat_result | None = None
        self._last_bytes = (b"", b"")  # of the whole records, and of what waits behind them

    def advance(self, report: Callable[[int], None] = lambda _: None) -> Change:
        """Looks at the file and reads what is new; `report` is told of bytes after each piece."""
        status = os.stat(self.path)
        change = Change.NOTHING
        if self._status is None:
            stored = self._cache.find(self.path, status) if self._trust_cache else None
            if stored is not None:
                self._begin(stored)
                self._last_bytes = self._read_last_bytes()
                report(stored.size)
                change = Change.MORE
        elif self._is_other(status):
            self._begin(FileContent(self.path))
            change = Change.ANEW
        self._status = status
        while self.content.size < status.st_size:
            taken = self._read(status.st_size)
            if taken <= 0:
                break  # it has been cut short in this moment; the next look will tell
            report(taken)
            if change is Change.NOTHING:
                change = Change.MORE
        if time.time() - status.st_mtime > _IDLE_SECONDS:
            self._decoder = None  # it can be made again from the content
        return change

    def _is_other(self, status: os.stat_result) -> bool:
        """Whether what we have read is no longer what stands in the file."""
        known = self._status
        assert known is not None
        if (status.st_dev, status.st_ino) != (known.st_dev, known.st_ino):
            return True
        size = self.content.size
        if status.st_size < size:
            return True
        if status.st_mtime_ns == known.st_mtime_ns and status.st_size == size:
            return False
        if status.st_size == size == known.st_size:
            return True  # written to, but not grown
        whole, waiting = self._read_last_bytes()
        if waiting != self._last_bytes[1]:
            # Zeros have become what a network file system had on its way, or a torn record has been
            # cut off: from the last whole record on we read again.
            self._decoder = None
        return whole != self._last_bytes[0]

    def _read_last_bytes(self) -> tuple[bytes, bytes]:
        end, pending = self.content.size, self.content.pending
        whole = min(end - pending, _REMEMBERED)
        waiting = min(pending, _REMEMBERED)
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return (
                os.pread(descriptor, whole, end - pending - whole),
                os.pread(descriptor, waiting, end - waiting) if waiting else b"",
            )
        finally:
            os.close(descriptor)

    def _begin(self, content: FileContent) -> None:
        self.content = content
        self._decoder = None
        self._last_bytes = (b"", b"")
        self.heap = 0
        self.stored = _stored_bytes(content)
        self._cached = content.size

    def _read(self, end: int) -> int:
        """Reads up to an offset, at most a piece; returns by how much we have come further."""
        if self._decoder is None:
            self._before = self.content.counts
            self._decoder = _decoder_after(self.content)
        decoder = self._decoder
        start = self.content.size
        # The decoder may go back to where the last whole record ended.
        decoder.read_file(self.path, min(PIECE, max(0, end - decoder.offset + decoder.pending)))
        grown = self.content.with_more(decoder, self._before)
        self.heap += _fresh_bytes(self.content, grown)
        self.content = grown
        self._last_bytes = self._read_last_bytes()
        return self.content.size - start

    @property
    def fresh(self) -> int:
        """Bytes of the file of which the cache does not know."""
        return self.content.size - self._cached

    def store(self) -> bool:
        """Moves the columns to the cache; False where nothing is new, or it cannot be done."""
        if self._status is None or self.fresh == 0:
            return False
        try:
            ends = checksums(self.path, self.content.size)
            if self._is_other(os.stat(self.path)):
                return False  # these are not the ends of what we have read
        except OSError:
            return False  # the event file is gone
        stored = self._cache.store(self.content, self._status.st_mtime_ns, ends)
        if stored is None:
            return False
        self.content = stored
        self.heap = 0
        self.stored = _stored_bytes(stored)
        self._cached = stored.size
        return True


def _decoder_after(content: FileContent) -> Decoder:
    decoder = Decoder(content.size - content.pending, content.file_version, content.last_step)
    for tag, (plugin, metadata) in content.plugins.items():
        decoder.know_tag(tag, plugin, metadata)
    return decoder


def _fresh_bytes(before: FileContent, after: FileContent) -> int:
    """How much more heap the columns take; a tag that has not changed is the same tuple."""
    return sum(
        _heap_bytes(after.columns.get(tag, ())) - _heap_bytes(before.columns.get(tag, ()))
        for tag in before.columns.keys() | after.columns.keys()
        if before.columns.get(tag) is not after.columns.get(tag)
    )


def _heap_bytes(columns: tuple[Column, ...]) -> int:
    return sum(column.nbytes for column in columns if not isinstance(column, StoredColumn))


def _stored_bytes(content: FileContent) -> int:
    return sum(
        column.nbytes
        for columns in content.columns.values()
        for column in columns
        if isinstance(column, StoredColumn)
    )
