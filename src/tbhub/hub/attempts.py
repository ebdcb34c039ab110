"""How often somebody may try to log in.

Attempts are counted before they are made, so that many at once do not get past. Few are allowed for
one name from one address, some more from one address, and more yet for one name: nobody can keep
another person out for good from one place, and nobody can go on guessing from many.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from tbhub.api.problems import TooManyRequests
from tbhub.texts import text

_PER_ADDRESS, _PER_NAME = 5, 10
_MOST_KEYS = 100_000


class Attempts:
    """Attempts of late, in memory."""

    def __init__(
        self, most: int, window: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._window = window
        self._clock = clock
        self._lock = threading.Lock()
        self._made: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def count(self, name: str, address: str) -> None:
        """Counts an attempt.

        Raises:
            TooManyRequests: There were too many; this one is not to be made.
        """
        now = self._clock()
        limits = {
            (name, address): self._most,
            ("", address): self._most * _PER_ADDRESS,
            (name, ""): self._most * _PER_NAME,
        }
        with self._lock:
            wait = max(self._wait(key, most, now) for key, most in limits.items())
            if wait > 0:
                raise TooManyRequests(
                    text("login.too_many", seconds=round(wait)),
                    retry_after=round(wait, 1),
                )
            for key in limits:
                self._made.setdefault(key, deque()).append(now)
                self._made.move_to_end(key)
            while len(self._made) > _MOST_KEYS:
                self._made.popitem(last=False)

    def _wait(self, key: tuple[str, str], most: int, now: float) -> float:
        made = self._made.get(key)
        if made is None:
            return 0.0
        while made and made[0] <= now - self._window:
            made.popleft()
        if not made:
            del self._made[key]
            return 0.0
        return made[-most] + self._window - now if len(made) >= most else 0.0

    def forget(self, name: str, address: str) -> None:
        """It was them: what they had mistyped before does not count."""
        with self._lock:
            self._made.pop((name, address), None)
            for key in (("", address), (name, "")):
                if self._made.get(key):
                    self._made[key].pop()

    def forget_name(self, name: str) -> None:
        """Forget every attempt for a name: its password has been changed."""
        with self._lock:
            for key in [key for key in self._made if key[0] == name]:
                del self._made[key]
