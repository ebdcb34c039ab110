"""A line on the terminal for work that takes long, and silence for work that does not."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

_SHOW_AFTER = 1.0
_EVERY = 0.1


class Progress:
    """Counts bytes; shows itself after a second, and only where someone is watching."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._next = time.monotonic() + _SHOW_AFTER
        self._shown = False
        self._lock = threading.Lock()
        self._watched = sys.stderr is not None and sys.stderr.isatty()

    def advance(self, size: int) -> None:
        """So many bytes more are done; any thread may say so."""
        with self._lock:
            self._done += size
            now = time.monotonic()
            if not self._watched or now < self._next:
                return
            self._next = now + _EVERY
            self._shown = True
            share = min(1, self._done / max(self._total, 1))
            bar = ("━" * int(share * 30)).ljust(30, "╌")
            text = f"{self._what} {bar} {self._done / 1e6:,.0f} of {self._total / 1e6:,.0f} MB"
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
