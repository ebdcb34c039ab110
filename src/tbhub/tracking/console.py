"""What a command prints: shown as it comes, and kept in a file.

Bytes are passed on as they are, each stream to its own. Whoever looks may go away; what is printed
is kept all the same, up to a limit: a command that prints without end must not fill the disk. A
process that the command has left behind is not waited for.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from tbhub.publisher.throttle import parse_bytes

VARIABLE = "TBHUB_CONSOLE_LIMIT"
_LIMIT = 10**9  # bytes
_PIECE = 65536
_GRACE = 2.0  # seconds after the command's end in which what it has printed is read


def limit_of_environment() -> int | None:
    """Return how many bytes of what is printed are kept; None for all.

    Raises:
        ValueError: ``TBHUB_CONSOLE_LIMIT`` is not a size.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return _LIMIT
    if text.lower() in ("none", "unlimited"):
        return None
    found = parse_bytes(text)
    if found is None:
        raise ValueError(f"{VARIABLE}: {text!r} is not a size: write 500MB, 2GB or none")
    return int(found)


class Console:
    """Two pipes to give to a command, and the threads that empty them.

    Args:
        log: The file, which may be there already.
        limit: How many bytes it may have; None for any number.

    Attributes:
        error: Why a part of what was printed is not in the file: the disk is full.
    """

    def __init__(self, log: Path, limit: int | None) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._lock = threading.Lock()
        self._limit = limit
        self._size = os.fstat(self._log).st_size
        self._is_full = False
        self._is_closed = False
        self.error: OSError | None = None
        self._threads = []
        ends = []
        for shown in (1, 2):
            read, write = os.pipe()
            ends.append(write)
            thread = threading.Thread(target=self._copy, args=(read, shown), daemon=True)
            self._threads.append(thread)
        self.stdout, self.stderr = ends

    def start(self) -> None:
        """The command has begun, and has its ends of the pipes."""
        os.close(self.stdout)
        os.close(self.stderr)
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Wait until all that the command has printed is kept, and close the file."""
        deadline = time.monotonic() + _GRACE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            self._is_closed = True
            os.close(self._log)

    def _copy(self, read: int, shown: int) -> None:
        is_seen = True
        while data := os.read(read, _PIECE):
            self._keep(data)
            is_seen = is_seen and _write(shown, data) is None
        os.close(read)

    def _keep(self, data: bytes) -> None:
        with self._lock:
            if self._is_full or self._is_closed:
                return
            room = len(data) if self._limit is None else max(0, self._limit - self._size)
            error = _write(self._log, data[:room])
            self.error = self.error or error
            self._size += len(data)
            if len(data) <= room:
                return
            self._is_full = True
        limit = f"more than {self._limit:,} bytes were printed"
        said = f"tbhub: {limit}; the rest is not kept ({VARIABLE})"
        _write(self._log, f"\n{said}\n".encode())
        _write(2, f"{said}\n".encode())


def _write(to: int, data: bytes) -> OSError | None:
    """Return why it could not be written: the reader has gone, or the disk is full."""
    try:
        while data:
            data = data[os.write(to, data) :]
    except OSError as error:
        return error
    return None
