"""What a command prints: shown as it comes, and kept in a file.

Bytes are passed on as they are, each stream to its own. Whoever looks may go away; what is printed
is kept all the same. A process that the command has left behind is not waited for.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

_PIECE = 65536
_GRACE = 2.0  # seconds after the command's end in which what it has printed is read


class Console:
    """Two pipes to give to a command, and the threads that empty them."""

    def __init__(self, log: Path) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
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
        """Waits until all that the command has printed is kept."""
        deadline = time.monotonic() + _GRACE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _copy(self, read: int, shown: int) -> None:
        is_seen = True
        while data := os.read(read, _PIECE):
            _write(self._log, data)
            is_seen = is_seen and _write(shown, data)
        os.close(read)


def _write(to: int, data: bytes) -> bool:
    """Whether it could be written: nobody may be there any more, or the disk be full."""
    try:
        while data:
            data = data[os.write(to, data) :]
    except OSError:
        return False
    return True
