"""Which boards there are: what the hub must know of them at every request, in memory.

The database has the truth; an entry is changed after its row has been. Looking a board up takes
microseconds and no query.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from tbhub.api.models import Board, State
from tbhub.api.problems import Ambiguous, NotFound
from tbhub.boards.life import LIVE, READY, Life
from tbhub.boards.suspicion import Record
from tbhub.hub.access import Caller

_MOST_MATCHES = 20
_MAX_DELETED = 1000


@dataclass(eq=False, slots=True)
class Entry:
    """A board.

    Attributes:
        workspaces: Those that its runs are in, or were when it was last looked up.
        active: When somebody last looked, in seconds since the epoch.
        touched, expires, up_since: When that was, when its time is over and since when it can be
            looked at, on the clock of the event loop, which nobody sets back.
        held: The host that may have it; none when it has certainly been let go.
        stale: What its host has is not what it should have.
        seen_runs: How many runs its host was told of.
        seen_names: How many characters the names of these runs have in all.
        has_places: It is over paths or URIs, which are followed.
        given: A digest of what its host was told last; none: that is not known.
        connections: The names of the storage connections its host was given, by path.
        reported_runs: How many runs its host has found; none before it has reported.
        problem: Why what it was asked to show cannot be read.
        logged_problem: The problem as its log has it; empty: none, or that it has gone.
        waits_for: What it waits for, once its host has looked for data in vain.
        record: What is known against it: crashes of the hosts that served it.
        resume_at: When it may be placed again after a crash, on the monotonic clock.
        is_loading: Its host has not read everything there is of its runs.
        shown: As people are shown it, until something of it changes.
        deleted_by: The name of the user who has deleted it.
    """

    id: str
    short: str
    name: str
    key: str | None
    owner_id: int
    workspace_id: int | None
    workspaces: frozenset[int]
    sources_key: str
    follow: bool
    created: float
    idle_timeout: float | None
    no_data_timeout: float | None
    life: Life
    active: float
    touched: float
    expires: float | None = None
    up_since: float = 0.0
    requests: int = 0
    bytes: int = 0
    streams: int = 0
    held: str | None = None
    stale: bool = False
    seen_runs: int = -1
    seen_names: int = -1
    deleted: bool = False
    deleted_by: str = ""
    has_places: bool = False
    given: str | None = None
    connections: Mapping[str, str] = field(default_factory=dict)
    reported_runs: int | None = None
    problem: str = ""
    logged_problem: str = ""
    waits_for: str = ""
    record: Record = field(default_factory=Record)
    resume_at: float = 0.0
    is_loading: bool = False
    shown: Board | None = None
    version: int = 0
    told: set[str] = field(default_factory=set)  # ids of notices
    worker: asyncio.Task[None] | None = None
    again: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def is_live(self) -> bool:
        return self.life.state in LIVE

    @property
    def has_nothing_left(self) -> bool:
        """Whether every run it was made with was deleted or taken out, and none can follow."""
        return self.seen_runs == 0 and not self.has_places and not self.follow

    def set_clock(self, clock: float) -> None:
        """Takes the times of its life over to the event loop's clock, which shows `clock` now."""
        deadline, ready, now = self.life.deadline, self.life.ready, time.time()
        self.expires = None if deadline is None else clock + deadline - now
        self.up_since = clock if ready is None else clock + min(0.0, ready - now)

    def changed(self) -> None:
        """Wakes whoever waits for a change; what was kept of it is no longer so."""
        self.version += 1
        self.shown = None
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def next_change(self) -> asyncio.Future[None]:
        """Done when the board is in another state, or gone."""
        future = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        return future

    def may_be_seen_by(self, caller: Caller) -> bool:
        """Return whether a caller may see it; the right to its data is looked up elsewhere."""
        return caller.may_see_board(self.id, self.owner_id)

    def may_be_closed_to(self, caller: Caller) -> bool:
        """Return whether the right of a caller to its data needs to be looked up."""
        visible = caller.visible
        return visible is not None and (self.has_places or not self.workspaces <= visible)


@dataclass(frozen=True, slots=True)
class Route:
    """Where a board is served; no address while it is not."""

    board_id: str
    short: str
    name: str
    owner_id: int
    state: State
    address: str | None
    secret: str | None
    handover: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it can be looked at."""
        return self.state in READY and self.address is not None


class Registry:
    """All boards, by id."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._shorts: dict[str, Entry] = {}
        self._names: dict[str, int] = {}
        self._deleted: dict[str, Entry] = {}  # the last ones, by short id

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        """A board that has just been made, or was found."""
        self._entries[entry.id] = entry
        self._shorts[entry.short] = entry
        self._names[entry.name] = self._names.get(entry.name, 0) + 1

    def remove(self, entry: Entry) -> None:
        """A board that is no more."""
        if self._entries.pop(entry.id, None) is not None:
            self._shorts.pop(entry.short, None)
            self._drop_name(entry.name)
            self._deleted[entry.short] = entry
            if len(self._deleted) > _MAX_DELETED:
                del self._deleted[next(iter(self._deleted))]

    def rename(self, entry: Entry, name: str) -> None:
        """A board has another name."""
        self._drop_name(entry.name)
        entry.name = name
        self._names[name] = self._names.get(name, 0) + 1

    def _drop_name(self, name: str) -> None:
        self._names[name] -= 1
        if not self._names[name]:
            del self._names[name]

    def has_name(self, name: str) -> bool:
        """Whether any board is called so."""
        return name in self._names

    def get(self, id_or_short: str) -> Entry | None:
        """A board by its whole id or the short one."""
        return self._entries.get(id_or_short) or self._shorts.get(id_or_short)

    def deleted(self, short: str) -> Entry | None:
        """Return a board that was deleted lately, by its short id; pages of it may be open."""
        return self._deleted.get(short)

    def find(self, caller: Caller, text: str, *, to_change: bool = True) -> Entry:
        """Return the board with an id, with the only id that begins so, or with a name.

        Of several boards of a name the caller's own go before others', live ones before ended
        ones. Of several ended ones the newest is returned unless the board is to be changed.

        Raises:
            NotFound: There is none, or none that may be seen.
            Ambiguous: There are several; says which.
        """
        text = text.strip()
        entry = self.get(text.lower())
        if entry is not None and entry.may_be_seen_by(caller):
            return entry
        seen = [each for each in self if text and each.may_be_seen_by(caller)]
        named = [each for each in seen if each.name == text]
        named = [each for each in named if each.owner_id == caller.user_id] or named
        named = [each for each in named if each.is_live] or named
        if not to_change and not any(each.is_live for each in named):
            named = sorted(named, key=attrgetter("created", "id"))[-1:]
        found = named or [each for each in seen if each.id.startswith(text.lower())]
        if not found:
            raise NotFound(f"There is no board {text!r}.", board=text)
        if len(found) > 1:
            raise _ambiguous(text, found)
        return found[0]


def _ambiguous(text: str, found: list[Entry]) -> Ambiguous:
    found.sort(key=lambda each: each.id)
    matches = [
        {"id": each.id, "name": each.name, "state": each.life.state}
        for each in found[:_MOST_MATCHES]
    ]
    listed = ", ".join(f"{match['id'][:13]}… ({match['name']})" for match in matches)
    more = f" and {len(found) - len(matches)} more" if len(found) > len(matches) else ""
    return Ambiguous(f"{text!r} can mean {len(found)} boards: {listed}{more}.", matches=matches)


def live(entries: Iterable[Entry]) -> list[Entry]:
    """Those that hold a place."""
    return [each for each in entries if each.is_live]
