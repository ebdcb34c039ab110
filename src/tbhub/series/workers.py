"""Threads that wait for a store.

They end with the process, whatever a store does: an answer that never comes must not keep a program
from ending, as it would with the standard library's pools.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

logger = logging.getLogger("tbhub")


class DaemonWorkers:
    """Does what is submitted, with at most so many threads, which come when there is work."""

    def __init__(self, threads: int, name: str) -> None:
        self._most = threads
        self._name = name
        self._waiting: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._closed = False

    def submit(self, work: Callable[..., object], /, *arguments: object) -> None:
        """Does it soon; nothing any more once it is closed."""
        with self._changed:
            if self._closed:
                return
            self._waiting.append((work, arguments))
            if self._idle >= len(self._waiting) or self._threads >= self._most:
                self._changed.notify()
                return
            self._threads += 1
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def close(self) -> None:
        """Nothing that has not begun is done."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._waiting or self._closed)
                self._idle -= 1
                if self._closed:
                    return
                work, arguments = self._waiting.popleft()
            try:
                work(*arguments)
            except Exception:
                logger.exception("%s failed", self._name)
