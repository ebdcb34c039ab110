"""Large files are uploaded beside the passes, so that metrics do not wait for a checkpoint.

A few threads take the newest file first; for all publishers of a process together only so many
uploads are under way, which bounds memory whatever the sizes of files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

BULK = 1 << 20  # bytes; larger files are uploaded here
_UPLOADS = 3  # at a time
_slots = threading.BoundedSemaphore(_UPLOADS)


class BulkUploads:
    """The large files of one publisher.

    Args:
        upload: Uploads one file, by its path; raises nothing.
        done: Is called after each upload.
    """

    def __init__(self, upload: Callable[[str], None], done: Callable[[], None]) -> None:
        self._upload = upload
        self._done = done
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._waiting: list[str] = []
        self._active: set[str] = set()
        self._threads = 0

    def set_due(self, paths: Iterable[str]) -> None:
        """Replace what is to be uploaded, the first path first; what is under way continues."""
        with self._lock:
            self._waiting = [path for path in paths if path not in self._active]
            self._waiting.reverse()
            wanted = min(_UPLOADS, self._threads + len(self._waiting))
            missing, self._threads = wanted - self._threads, max(wanted, self._threads)
        for _ in range(missing):
            threading.Thread(target=self._work, name="tbhub-bulk", daemon=True).start()

    def has(self, path: str) -> bool:
        """Return whether a file is being uploaded."""
        with self._lock:
            return path in self._active

    def wait(self, timeout: float) -> None:
        """Wait until no file is being uploaded, so many seconds at most."""
        with self._idle:
            self._idle.wait_for(lambda: not self._active, timeout)

    def _work(self) -> None:
        while True:
            with _slots:
                with self._lock:
                    if not self._waiting:
                        self._threads -= 1
                        return
                    path = self._waiting.pop()
                    self._active.add(path)
                try:
                    self._upload(path)
                finally:
                    with self._lock:
                        self._active.discard(path)
                        self._idle.notify_all()
            self._done()
