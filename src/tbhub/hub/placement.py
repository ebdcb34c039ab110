"""Which host a board goes to, and how many hosts there should be. No input, no output.

A host is *busy* while it has a board. Others are kept ready, are on their way to boards that wait,
or are not needed and end.

Boards go to where their data is: a host that shows some of it already has it in memory, and a
second board of it costs neither time nor memory. But not at any price: a host with many more boards
than another is passed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

Host = TypeVar("Host")

Data = frozenset[str]
"""What a board shows: names of its experiments and places."""

_MANY_MORE = 2  # times the boards of the emptiest host,
_AND = 8  # and this many: a host with more is passed over


class Load:
    """The boards that a host has, and the data they show."""

    def __init__(self) -> None:
        self._boards: dict[str, Data] = {}
        self._shown: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._boards)

    def __contains__(self, board: str) -> bool:
        return board in self._boards

    def add(self, board: str, data: Data = frozenset()) -> None:
        """A board is given to the host."""
        self.discard(board)
        self._boards[board] = data
        self._shown.update(data)

    def discard(self, board: str) -> None:
        """A board is not on the host any more."""
        for each in self._boards.pop(board, ()):
            self._shown[each] -= 1
            if not self._shown[each]:
                del self._shown[each]

    def has_of(self, data: Data) -> int:
        """How much of some data is shown by its boards."""
        return len(data & self._shown.keys())


@dataclass(frozen=True)
class Policy:
    """How hosts are used; 0 means no limit."""

    boards_per_host: int = 0
    min_hosts: int = 1
    max_hosts: int = 0

    def choose(self, hosts: Iterable[tuple[Host, Load]], data: Data = frozenset()) -> Host | None:
        """The host for the next board, of those that answer: the one that has most of its data,
        of several the one with the fewest boards, of these the first; none if all are full."""
        free = [
            (host, load)
            for host, load in hosts
            if not self.boards_per_host or len(load) < self.boards_per_host
        ]
        if not free:
            return None
        most = _MANY_MORE * min(len(load) for _, load in free) + _AND
        near = [(host, load) for host, load in free if len(load) <= most]
        return min(near, key=lambda each: (-each[1].has_of(data), len(each[1])))[0]

    def wanted(self, *, busy: int, waiting: int, alone: int = 0, reserved: int = 0) -> int:
        """Return how many hosts without a board there should be, ready or on their way.

        Args:
            busy: Hosts with boards, without those that are reserved for one board.
            waiting: Boards that wait for a host they may share.
            alone: Boards that wait for a host of their own.
            reserved: Hosts that are reserved for one board.
        """
        if not waiting:
            needed = 0
        elif self.boards_per_host:
            needed = -(-waiting // self.boards_per_host)
        else:
            needed = 0 if busy else 1  # a busy host takes any number, when it answers again
        wanted = max(self.min_hosts - busy, needed) + alone
        left = max(0, self.max_hosts - busy - reserved)
        return min(wanted, left) if self.max_hosts else wanted
