"""A file that grows, wherever it is: what `Tail` needs to know of it, and how it is read.

`Tail` decides what has become of a file; where its bytes come from is decided here. A plain file of
this machine is read by the kernel; one that is kept in parts, or in a bucket, by `PartedFile`.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, Protocol

from tbhub._kernel import Decoder, crc32c

PIECE = 64 << 20  # bytes read at most before what they hold is shown
_CHECKED = 4096  # bytes at either end of a file


class Look(NamedTuple):
    """A file at one moment."""

    size: int
    version: Hashable  # another one: it has been written to
    identity: Hashable  # another one: it is another file
    modified: float  # seconds since the epoch


class Readable(Protocol):
    """Where bytes are read from at any time."""

    @property
    def path(self) -> str: ...
    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the file: fewer than asked for at its end."""


class GrowingFile(Readable, Protocol):
    """What `Tail` follows; used by one thread at a time, but for `read`."""

    def look(self) -> Look:
        """How it stands; OSError where it cannot be told."""

    def ends_at(self, places: list[tuple[int, int]]) -> list[bytes]:
        """The bytes at some (offset, size), in the order of the file, as they are now."""

    def feed(self, decoder: Decoder, end: int) -> None:
        """Has a decoder read on up to an offset, or at most a piece."""

    def proof(self, size: int, pending: int, look: Look) -> Mapping[str, Any] | None:
        """What will tell later whether the file still begins with these bytes; JSON.

        None where that cannot be said of what was read at that look. `pending` bytes at the end are
        no whole record.
        """

    def proves(self, about: Mapping[str, Any], look: Look) -> bool:
        """Whether the file still begins with the bytes of which there is this proof."""


class LocalFile:
    """A plain file of this machine. No descriptor stays open between two calls."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def look(self) -> Look:
        status = os.stat(self.path)
        return Look(
            status.st_size, status.st_mtime_ns, (status.st_dev, status.st_ino), status.st_mtime
        )

    def ends_at(self, places: list[tuple[int, int]]) -> list[bytes]:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return [os.pread(descriptor, size, at) if size else b"" for at, size in places]
        finally:
            os.close(descriptor)

    def feed(self, decoder: Decoder, end: int) -> None:
        # The decoder may go back to where the last whole record ended.
        limit = max(0, end - decoder.offset + decoder.pending)
        decoder.read_file(self.path, min(PIECE, limit))

    def read(self, offset: int, size: int) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(offset)
            return file.read(size)

    def proof(self, size: int, pending: int, look: Look) -> Mapping[str, Any] | None:
        return {"mtime_ns": look.version, "ends": self._checksums(size)}

    def proves(self, about: Mapping[str, Any], look: Look) -> bool:
        size: int = about["size"]
        if look.size < size or (look.size == size and look.version != about["mtime_ns"]):
            return False
        return self._checksums(size) == list(about["ends"])

    def _checksums(self, size: int) -> list[int]:
        """Of the first and of the last bytes up to a size."""
        checked = min(size, _CHECKED)
        return [
            crc32c(data) for data in self.ends_at([(0, checked), (max(0, size - checked), checked)])
        ]
