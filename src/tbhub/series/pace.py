"""How often a prefix is listed.

Often where something has changed lately, ever more seldom where nothing does; the more seldom the
more a listing costs; with growing pauses where it fails. Pure: whoever uses it has the clock.
"""

from __future__ import annotations

from dataclasses import dataclass

QUICK_SECONDS = 1.75
SLOW_SECONDS = 60.0
_SHARE_OF_AGE = 1 / 60  # what has been quiet for an hour is listed once a minute
_SECONDS_PER_REQUEST = 0.5
_SHARE_OF_TIME = 0.25  # that a listing may take
_MOST_AGE = 300.0  # that is believed at first: clocks differ


@dataclass
class Pace:
    """Of one prefix; times are those of a monotonic clock."""

    changed: float  # when it last was known to
    requests: int = 1  # of one listing
    seconds: float = 0.0  # that it took
    failures: int = 0  # in a row

    @classmethod
    def of_age(cls, now: float, age: float) -> Pace:
        """Of a prefix whose newest object is so many seconds old."""
        return cls(now - min(max(0.0, age), _MOST_AGE))

    def pause(self, now: float) -> float:
        """Seconds until the next listing."""
        if self.failures:
            return float(min(SLOW_SECONDS, QUICK_SECONDS * 2.0 ** (self.failures - 1)))
        by_age = min(SLOW_SECONDS, (now - self.changed) * _SHARE_OF_AGE)
        by_cost = max(self.requests * _SECONDS_PER_REQUEST, self.seconds / _SHARE_OF_TIME)
        return max(QUICK_SECONDS, by_age, by_cost)
