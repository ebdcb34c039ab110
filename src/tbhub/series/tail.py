"""One event file, followed as it grows, wherever it is.

Only new bytes are read. A file that has become shorter, is another file under the same name, or
whose bytes before the place we had come to are not the ones we read, is read from its beginning.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable

from tbhub._kernel import Decoder
from tbhub.series.cache import ColumnCache, StoredColumn
from tbhub.series.column import Column
from tbhub.series.file_content import Counts, FileContent
from tbhub.series.growing_file import GrowingFile, Look

_REMEMBERED = 64  # bytes before a place we have come to
_IDLE_SECONDS = 60


class Change(enum.Enum):
    """What a look at a file has shown."""

    NOTHING = "nothing"
    MORE = "more"
    ANEW = "anew"


class Tail:
    """Follows one file; used by one thread at a time."""

    def __init__(self, file: GrowingFile, cache: ColumnCache, trust_cache: bool = True) -> None:
        self.file = file
        self.content = FileContent(file)
        self.heap = 0  # bytes of columns that stand in no cache file
        self.stored = 0  # and of those that do
        self._cached = 0  # how far the cache knows the file
        self._cache = cache
        self._trust_cache = trust_cache
        self._decoder: Decoder | None = None
        self._before = Counts()  # what had been counted when the decoder began
        self._look: Look | None = None
        self._last_bytes = (b"", b"")  # of the whole records, and of what waits behind them

    def advance(self, report: Callable[[int], None] = lambda _: None) -> Change:
        """Looks at the file and reads what is new; `report` is told of bytes after each piece."""
        look = self.file.look()
        change = Change.NOTHING
        if self._look is None:
            stored = self._cache.find(self.file, look) if self._trust_cache else None
            if stored is not None:
                self._begin(stored)
                self._last_bytes = self._read_last_bytes()
                report(stored.size)
                change = Change.MORE
        elif self._is_other(look):
            self._begin(FileContent(self.file))
            change = Change.ANEW
        self._look = look
        while self.content.size < look.size:
            taken = self._read(look.size)
            if taken <= 0:
                break  # it has been cut short in this moment; the next look will tell
            report(taken)
            if change is Change.NOTHING:
                change = Change.MORE
        if self.is_idle:
            self._decoder = None  # it can be made again from the content
        return change

    @property
    def is_idle(self) -> bool:
        """Whether the file has not been written to for a while."""
        return self._look is not None and time.time() - self._look.modified > _IDLE_SECONDS

    @property
    def is_behind(self) -> bool:
        """Whether there is more than has been read."""
        return self._look is None or self.content.size < self._look.size

    def _is_other(self, look: Look) -> bool:
        """Whether what we have read is no longer what stands in the file."""
        known = self._look
        assert known is not None
        if look.identity != known.identity:
            return True
        size = self.content.size
        if look.size < size:
            return True
        if look.version == known.version and look.size == size:
            return False
        if look.size == size == known.size:
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
        found = self.file.ends_at([(end - pending - whole, whole), (end - waiting, waiting)])
        return found[0], found[1]

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
        self.file.feed(decoder, end)
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
        look = self._look
        if look is None or self.fresh == 0:
            return False
        try:
            proof = self.file.proof(self.content.size, self.content.pending, look)
            if proof is None or self._is_other(self.file.look()):
                return False  # it is not the proof of what we have read
        except OSError:
            return False  # the event file is gone
        stored = self._cache.store(self.content, proof)
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
