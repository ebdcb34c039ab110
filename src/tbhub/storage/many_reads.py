"""Many reads of a store at the same time, given back in their order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from tbhub.storage.store import Range


class ManyReads:
    """Threads that read, made when they are first needed.

    Args:
        read: Reads one range.
        limit: How many at the same time.
    """

    def __init__(self, read: Callable[[str, int, int | None], bytes], limit: int) -> None:
        self._read = read
        self._limit = limit
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def __call__(self, ranges: Iterable[Range]) -> Iterator[bytes]:
        """The bytes of each range."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._limit, "tbhub-storage")
            threads = self._threads
        running: deque[Future[bytes]] = deque()
        try:
            for wanted in ranges:
                running.append(threads.submit(self._read, *wanted))
                if len(running) > 2 * self._limit:  # what is read and not taken stays bounded
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()

    def close(self) -> None:
        """Ends the threads."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(cancel_futures=True)
