"""What following costs, and how much it may.

Each board has a meter of its own: what several boards share is counted for each of them, as it
would cost that board alone. An allowance never makes anything fail. What has been spent beyond it
puts off the next listing, and with it whatever that would have shown.
"""

from __future__ import annotations

import threading
import time


class Traffic:
    """Requests and bytes, and when the next listing may begin."""

    def __init__(self, requests_per_minute: float | None = None) -> None:
        self.requests_per_minute = requests_per_minute
        self.requests = 0
        self.bytes_read = 0
        self._lock = threading.Lock()
        self._paid_until = 0.0

    def count(self, requests: int, bytes_read: int = 0) -> None:
        """Adds requests, and what was read by them."""
        with self._lock:
            self.requests += requests
            self.bytes_read += bytes_read
            if self.requests_per_minute:
                begins = max(time.monotonic(), self._paid_until)
                self._paid_until = begins + requests * 60 / self.requests_per_minute

    @property
    def free_at(self) -> float:
        """From when on it may list again, on the monotonic clock."""
        return self._paid_until
