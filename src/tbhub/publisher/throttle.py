"""The rate at which this process uploads: a token bucket that all its uploads share.

Metrics and logs are urgent: while one of them waits, large files wait behind it. Each upload is let
through as soon as earlier ones are paid for, and is then paid for itself: so a request may be
larger than the rate, and the next one waits for longer.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable

from tbhub.storage.source import PART

VARIABLE = "TBHUB_UPLOAD_LIMIT"
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b?", re.IGNORECASE | re.ASCII)
_PER_SECOND = re.compile(r"(?:/s|ps)$", re.IGNORECASE)
_BURST_SECONDS = 0.5
_MIN_RATE = 1000.0  # bytes a second
_MIN_PART = 64 << 10
_CHECK_INTERVAL = 0.5  # seconds between two looks at whether to stop


def parse_rate(text: str) -> float | None:
    """Return the bytes a second of ``20MB/s``, ``500k``, ``1.5GiB/s``; None for no limit.

    Raises:
        ValueError: The text is not a rate, or one below 1 kB/s.
    """
    compact = text.strip()
    if compact in ("", "0") or compact.lower() in ("none", "unlimited"):
        return None
    rate = parse_bytes(_PER_SECOND.sub("", compact)) or 0.0
    if rate < _MIN_RATE:
        raise ValueError(f"{text!r} is not an upload rate: write 20MB/s, 500kB/s or 1GiB/s")
    return rate


def parse_bytes(text: str) -> float | None:
    """Return the bytes of ``20MB``, ``500k``, ``1.5GiB``; None if the text is no such size."""
    found = _SIZE.fullmatch(text.strip())
    return float(found[1]) * _UNITS[(found[2] or "").lower()] if found else None


def rate_of_environment() -> float | None:
    """Return the rate of ``TBHUB_UPLOAD_LIMIT``; None for no limit.

    Raises:
        ValueError: It is not a rate.
    """
    try:
        return parse_rate(os.environ.get(VARIABLE, ""))
    except ValueError as error:
        raise ValueError(f"{VARIABLE}: {error}") from None


class Throttle:
    """A token bucket. Any thread may take from it.

    Args:
        rate: Bytes a second; None for no limit.
    """

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._changed = threading.Condition()
        self._free = rate * _BURST_SECONDS if rate else 0.0  # below zero: yet to be paid for
        self._at = time.monotonic()
        self._urgent = 0

    @property
    def part(self) -> int:
        """Bytes of a large file to read at a time, so that others get their turn."""
        if self._rate is None:
            return PART
        return max(_MIN_PART, min(PART, int(self._rate * _BURST_SECONDS)))

    def take(
        self, size: int, *, is_urgent: bool, is_stopped: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait until so many bytes may be sent, or `is_stopped`."""
        if self._rate is None:
            return
        with self._changed:
            self._urgent += is_urgent
            try:
                while not is_stopped():
                    self._refill(self._rate)
                    if self._free > 0 and (is_urgent or not self._urgent):
                        self._free -= size
                        return
                    missing = max(0.0, -self._free) / self._rate
                    self._changed.wait(min(max(missing, 0.01), _CHECK_INTERVAL))
            finally:
                self._urgent -= is_urgent
                self._changed.notify_all()

    def _refill(self, rate: float) -> None:
        now = time.monotonic()
        self._free = min(rate * _BURST_SECONDS, self._free + (now - self._at) * rate)
        self._at = now


_of_process: Throttle | None = None
_making = threading.Lock()


def process_throttle() -> Throttle:
    """Return the bucket that all uploads of this process share."""
    global _of_process
    with _making:
        if _of_process is None:
            try:
                _of_process = Throttle(rate_of_environment())
            except ValueError:  # reported by the process that has started this one
                _of_process = Throttle(None)
        return _of_process
