"""Which board takes its process down. No input, no output.

Boards share processes, and a crash does not say which board caused it. One crash proves nothing:
all boards of the process restart together. A board whose processes crashed twice within
`WINDOW_SECONDS` is a suspect. Suspects are isolated, each in a process of its own: the busiest
first and a few at a time, so that one bad board among many does not cause many processes. A board
that crashes a process in which it is alone, `MAX_CRASHES_ALONE` times within the window, is given
up.

Everything here is kept in memory only: a hub that restarts begins to count again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tbhub.boards.life import Verdict

WINDOW_SECONDS = 600.0
ISOLATE_AFTER = 2
MAX_CRASHES_ALONE = 3
MAX_ISOLATED_AT_ONCE = 4
MAX_CRASHES_WITHOUT_ROOM = 3
_FIRST_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Record:
    """What is known against a board: when processes that served it crashed.

    Attributes:
        crashes: All of them within the window, oldest first.
        alone: Those of processes that served no other board.
        isolated: It is to have a process of its own.
    """

    crashes: tuple[float, ...] = ()
    alone: tuple[float, ...] = ()
    isolated: bool = False

    def at(self, now: float) -> Record:
        """Return the record without what is older than the window."""
        since = now - WINDOW_SECONDS
        crashes = tuple(each for each in self.crashes if each > since)
        alone = tuple(each for each in self.alone if each > since)
        return Record(crashes, alone, self.isolated and bool(crashes))

    @property
    def pause(self) -> float:
        """Seconds to wait before the board is restarted: more after each crash that it caused."""
        count = len(self.alone)
        return _FIRST_PAUSE_SECONDS * 2.0 ** (count - 2) if count > 1 else 0.0


@dataclass(frozen=True)
class Judged:
    """What follows a crash for one board."""

    verdict: Verdict
    record: Record


def judge(
    records: Mapping[str, Record],
    activity: Mapping[str, float],
    busy: Collection[str],
    now: float,
    room: int | None = None,
) -> dict[str, Judged]:
    """Decide what follows the crash of a process for each of its boards.

    Args:
        records: What was known of each board that the process served.
        activity: When each board was last used.
        busy: The boards that were being loaded or answered a request.
        now: On the clock of the records.
        room: How many more processes there may be; None: any number.
    """
    is_alone = len(records) == 1
    after = {
        board: Record(
            (*record.at(now).crashes, now),
            (*record.at(now).alone, *([now] if is_alone else [])),
            record.at(now).isolated,
        )
        for board, record in records.items()
    }
    found = {board: Judged("restart", record) for board, record in after.items()}
    if is_alone:
        return {board: _judge_alone(record, room) for board, record in after.items()}
    suspects = [board for board, record in after.items() if len(record.crashes) >= ISOLATE_AFTER]
    suspects = [board for board in suspects if board in busy] or suspects
    suspects.sort(key=lambda board: (-len(after[board].crashes), -activity.get(board, 0.0), board))
    if room == 0:
        for board in suspects[:1]:
            if len(after[board].crashes) >= MAX_CRASHES_WITHOUT_ROOM:
                found[board] = Judged("give up", after[board])
        return found
    most = MAX_ISOLATED_AT_ONCE if room is None else min(room, MAX_ISOLATED_AT_ONCE)
    for board in suspects[:most]:
        record = after[board]
        found[board] = Judged("isolate", Record(record.crashes, record.alone, isolated=True))
    return found


def _judge_alone(record: Record, room: int | None) -> Judged:
    if len(record.alone) >= MAX_CRASHES_ALONE:
        return Judged("give up", record)
    if len(record.crashes) < ISOLATE_AFTER or room == 0:
        return Judged("restart", record)
    return Judged("isolate", Record(record.crashes, record.alone, isolated=True))
