"""A local file as the content of an upload: read in parts, and checked for changes meanwhile.

A program may rewrite a file while it is uploaded. Stores make an object visible only after its last
part, so an upload that notices the change is given up and the object stays as it was: what is
stored is never half of one version and half of another. A file that is replaced by another one, or
deleted, is uploaded to its end: the open descriptor still has all of it, and where checkpoints are
replaced more quickly than they are uploaded, none would ever be complete otherwise.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

PART = 1 << 20  # bytes read at a time
_CLOCK_TICK = 0.02  # seconds; two writes within one may leave the same modification time
_MAX_TICKS = 3  # to wait for a file that keeps changing


class SourceError(OSError):
    """An upload that was given up because of its source, not because of the store."""


class SourceChangedError(SourceError):
    """The file was written to while it was read."""


class SourceStoppedError(SourceError):
    """The uploading process does not want to continue."""


class FileSource:
    """A file that is uploaded.

    Args:
        path: The file; a link is followed.
        on_read: Is called with the number of bytes before each read; it may wait, to limit the
            rate, or raise `SourceStoppedError`.
        part: How many bytes to read at a time.
        descriptor: The opened file, if it is open already; it is closed with the source.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.

    Attributes:
        path: The file.
        status: What the file was when it was opened.
        size: Its size.
    """

    def __init__(
        self,
        path: Path,
        *,
        on_read: Callable[[int], None] = lambda size: None,
        part: int = PART,
        descriptor: int | None = None,
    ) -> None:
        self.path = path
        self.part = part
        self._on_read = on_read
        if descriptor is None:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._descriptor = descriptor
        self.status = os.fstat(self._descriptor)
        if not stat.S_ISREG(self.status.st_mode):
            self.close()
            raise OSError("not a regular file")
        for _ in range(_MAX_TICKS):
            if not 0 <= time.time() - self.status.st_mtime < _CLOCK_TICK:
                break
            time.sleep(_CLOCK_TICK)
            self.status = os.fstat(self._descriptor)
        self.size = self.status.st_size

    @property
    def fingerprint(self) -> str:
        """The same text for the same version of the file, whatever it is called; 32 hex digits."""
        known = (
            socket.gethostname(),
            *(self.status.st_dev, self.status.st_ino, self.status.st_mtime_ns, self.size),
        )
        return sha256(repr(known).encode()).hexdigest()[:32]

    def read(self, start: int, size: int) -> bytes:
        """Return bytes of the file.

        Raises:
            SourceError: The file is not what it was when it was opened, or the upload is to stop.
        """
        self._on_read(size)
        pieces = []
        while size:
            data = os.pread(self._descriptor, size, start)
            if not data:
                raise SourceChangedError(f"{self.path} became shorter while it was read")
            pieces.append(data)
            start += len(data)
            size -= len(data)
        self.verify()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_all(self) -> bytes:
        """Return the content of a file that is small enough to be held in memory."""
        return b"".join(self.parts())

    def parts(self) -> Iterator[bytes]:
        """Yield the content; the last part comes only if the file is still what it was."""
        for start in range(0, self.size, self.part):
            yield self.read(start, min(self.part, self.size - start))

    def verify(self) -> None:
        """Raise `SourceChangedError` if the file is not what it was when it was opened."""
        if _identity(os.fstat(self._descriptor)) != _identity(self.status):
            raise SourceChangedError(f"{self.path} was changed while it was read")

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
