"""Runs that are followed because somebody asks for their points.

A request names the runs it wants with everything that is needed to read them; nothing else has to
be known of them, so a host that has just been started answers as well as the one that has died. A
run is followed from the first request on, as the runs of boards are and by the same follower: one
that is on a board as well is read once. It is let go some minutes after the last request, and not
while anybody listens for its news. How much of the points is in memory is the follower's matter.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tbhub.series.follower import Follower, Root
from tbhub.series.run_log import RunLog

KEPT_SECONDS = 300.0  # after the last request
MOST = 20_000  # runs; beyond that those go first that were not asked for longest


@dataclass(frozen=True)
class Wanted:
    """A run that is asked for.

    Args:
        id: What the hub calls it.
        path: Where it is; or a URI.
        alone: What lies below its directory are other runs.
        credentials: For the store of a URI.
    """

    id: int
    path: str
    alone: bool = False
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> Hashable:
        """The same for what is followed once."""
        return self.path, self.alone, frozenset(self.credentials.items())


class AskedRun:
    """A run that is followed."""

    def __init__(self) -> None:
        self.root: Root | None = None
        self.asked = 0.0
        self.listeners: set[Callable[[], None]] = set()

    def changed(self) -> None:
        """There is news; called by the follower's threads."""
        for each in list(self.listeners):
            each()

    @property
    def is_read(self) -> bool:
        """Whether all that was found of it has been read once."""
        root = self.root
        return (
            root is not None
            and root.is_listed
            and all(log.version > 0 for log in root.runs.values())
        )

    @property
    def logs(self) -> Mapping[str, RunLog]:
        """By what goes before their tags: directories below a run give theirs their names."""
        if self.root is None:
            return {}
        return {"" if name == "." else f"{name}/": log for name, log in self.root.runs.items()}

    @property
    def problem(self) -> str:
        """Why it cannot be read; empty if it can."""
        problems = {} if self.root is None else self.root.problems
        return "; ".join(problems.values())


class AskedRuns:
    """All of a host's. May be used from any thread."""

    def __init__(
        self,
        follower: Follower,
        *,
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST,
    ) -> None:
        self._follower = follower
        self._clock = clock
        self._most = most
        self._runs: dict[Hashable, AskedRun] = {}  # the one asked for last comes last
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, wanted: Sequence[Wanted]) -> list[AskedRun]:
        """These runs, which are followed from now on."""
        found = []
        with self._lock:
            now = self._clock()
            for each in wanted:
                run = self._runs.pop(each.key, None) or self._follow(each)
                run.asked = now
                self._runs[each.key] = run
                found.append(run)
            self._let_go(list(self._runs)[: max(0, len(self._runs) - self._most)])
        return found

    def _follow(self, wanted: Wanted) -> AskedRun:
        run = AskedRun()
        run.root = self._follower.follow(
            wanted.path, run.changed, alone=wanted.alone, credentials=wanted.credentials
        )
        return run

    def sweep(self) -> None:
        """Lets go of those that nobody has asked for in a while."""
        with self._lock:
            old = self._clock() - KEPT_SECONDS
            self._let_go([key for key, run in self._runs.items() if run.asked < old])

    def _let_go(self, keys: Iterable[Hashable]) -> None:
        for key in keys:
            run = self._runs[key]
            if not run.listeners and run.root is not None:
                self._follower.unfollow(run.root)
                del self._runs[key]
