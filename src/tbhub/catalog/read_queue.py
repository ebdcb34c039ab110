"""Which runs are to be read next: pure bookkeeping.

Runs that have just changed go before those of which it is only not known whether they have. A run
is read by one thread at a time, and not more often than every so many seconds; what happens to it
meanwhile is not forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable


class ReadQueue:
    """Runs by number; times are seconds of any clock that does not go back."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._urgent: dict[int, None] = {}
        self._backlog: dict[int, None] = {}
        self._busy: set[int] = set()
        self._again: set[int] = set()
        self._rest: dict[int, float] = {}  # read a moment ago: not before
        self._resting: set[int] = set()  # of these, those to be read again

    def __len__(self) -> int:
        return len(self._urgent) + len(self._backlog) + len(self._busy) + len(self._resting)

    @property
    def waits(self) -> bool:
        """Whether some run could be read now."""
        return bool(self._urgent or self._backlog)

    @property
    def busy(self) -> int:
        """How many have been taken and are not done."""
        return len(self._busy)

    def want(self, runs: Iterable[int], *, urgent: bool = True) -> None:
        """These are to be read."""
        for run in runs:
            if run in self._busy:
                self._again.add(run)
            elif run in self._rest:
                self._resting.add(run)
            elif urgent:
                self._backlog.pop(run, None)
                self._urgent[run] = None
            elif run not in self._urgent:
                self._backlog[run] = None

    def take(self, count: int, now: float) -> list[int]:
        """Some of the runs to be read, which are busy until they are done."""
        self._wake(now)
        taken: list[int] = []
        for queue in (self._urgent, self._backlog):
            while queue and len(taken) < count:
                run = next(iter(queue))
                del queue[run]
                taken.append(run)
        self._busy.update(taken)
        return taken

    def put_back(self, runs: Iterable[int]) -> None:
        """These could not be read now."""
        for run in runs:
            self._busy.discard(run)
            self._again.discard(run)
            self._urgent[run] = None

    def done(self, run: int, now: float, *, live: bool) -> None:
        """A run has been read, and what was read is written; a live one gets a rest."""
        self._busy.discard(run)
        again = run in self._again
        self._again.discard(run)
        if live:
            self._rest[run] = now + self._seconds
            if again:
                self._resting.add(run)
        elif again:
            self._urgent[run] = None

    def drop(self, run: int) -> None:
        """A run is no more."""
        for queue in (self._urgent, self._backlog, self._rest):
            queue.pop(run, None)
        self._again.discard(run)
        self._resting.discard(run)

    def next_due(self, now: float) -> float | None:
        """In how many seconds a resting run has to be read; None if none has."""
        if not self._resting:
            return None
        return max(0.0, min(self._rest[run] for run in self._resting) - now)

    def _wake(self, now: float) -> None:
        rested = [run for run, until in self._rest.items() if until <= now]
        for run in rested:
            del self._rest[run]
            if run in self._resting:
                self._resting.discard(run)
                self._urgent[run] = None
