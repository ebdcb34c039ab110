"""What is published next of a file; pure.

A file that only grows, an event file or a log, is kept in a bucket as segments
(`tbhub.events.segments`). The last of them is sent again as it grows until it is long enough; then
it is sealed, and the next begins. Three things pull: bytes that are sent again, segments, and the
time until something new is there. That time is what people see: it grows from one second to four
and no further. The first 4,000 segments may be short, 4 to 10 KiB; those after them have 64 KiB.
What has 64 KiB is sent at once. So

  - a file that gets 4 KiB a second or more is sent once, for the first three hours at least;
  - a slower or longer one costs 16 KiB a second at most;
  - of segments shorter than 64 KiB there are 4,000 and no more.

A file that is far ahead of what is published goes in segments of up to 8 MiB; one record that is
longer is a segment by itself. Where objects can grow such files are appended to, in pieces.

Any other file is sent whole when it has changed, and its program has closed it or left it alone for
a second. One that keeps changing is sent every second at first, and every ten seconds after some
minutes; none so often that it takes more than 1 MiB a second while its program runs. A file that is
kept open is sent every ten seconds if it only grows; if its program writes new versions over old
ones, or if it is large, it is left alone for ten seconds before. The newest file of a checkpoint
directory is sent when the directory seems complete: its program has left it alone for a second, or
has begun the next one.

An event file that has been truncated, or is another one under its old name, is published beside the
old one, as ``F.again1``, ``F.again2``, …: what has been published is never taken back, and both are
event files to every reader, the newer one behind the older in the order of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from tbhub.events.names import is_event_file, is_log

FULL = 64 << 10
RATE = 4 << 10  # bytes a second
SEGMENT = 8 << 20
CHUNK = 4 << 20
PACE = 10.0  # seconds between two uploads of a file that keeps changing, in the end
WHOLE_RATE = 1 << 20  # bytes a second

_UPLOADS_AT_PACE = 60  # of a file that keeps changing, before two are PACE apart
_BY_THE_SECOND = 250  # segments
_SHORT = 4000  # segments
_PAUSE, _LONG_PAUSE = 2.5, 4.0  # seconds, while segments are short and then
_MOST_AGAIN = 9  # a log that is replaced more often is no log

_STAMPED = re.compile(r"((?:.*/)?[^/]*tfevents\.)(\d{9,11})(\.[^/]*)", re.DOTALL)


class Look(NamedTuple):
    """What a file was when it was looked at.

    Attributes:
        ctime_ns: When it was last changed in any way: a program may write to a file and set its
            modification time back, as `cp -p` and `tar` do.
    """

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int = 0

    def has_same_content(self, other: Look) -> bool:
        """Return whether nothing but the last change in any way is another."""
        return self[:3] == other[:3]


class Piece(NamedTuple):
    """Bytes of a file that grows to be sent next: the n-th segment, or an append."""

    number: int  # of the segment, from 1
    start: int
    end: int
    is_new: bool  # there is no such segment yet


def is_growing(path: str, again: int = 0) -> bool:
    """Whether a file is taken for one that only grows; `again` is how often it was replaced."""
    return is_event_file(path) or (is_log(path) and again <= _MOST_AGAIN)


def pause(segments: int) -> float:
    """Seconds between two times that a file is sent which has so many segments."""
    if segments >= _SHORT:
        return _LONG_PAUSE
    return min(max(1.0, segments / _BY_THE_SECOND), _PAUSE)


def seal(number: int) -> int:
    """How long the n-th segment has to be so that it is not sent again."""
    return FULL if number >= _SHORT else int(RATE * pause(number))


def is_worth_sending(ends: Sequence[int], size: int, since_sent: float) -> bool:
    """Whether what is new of a file is to be sent now, or with more of it later."""
    published = ends[-1] if ends else 0
    return size - published >= FULL or since_sent >= pause(len(ends))


def open_start(ends: Sequence[int]) -> int:
    """Where the segment begins that may still grow; `ends` are those of what is published."""
    if not ends:
        return 0
    before = ends[-2] if len(ends) > 1 else 0
    return before if ends[-1] - before < seal(len(ends)) else ends[-1]


def segment_limit(ends: Sequence[int]) -> int:
    """How far the next segment may reach."""
    return open_start(ends) + SEGMENT


def next_segment(ends: Sequence[int], whole: int) -> Piece | None:
    """The next segment of a file that has whole records up to `whole`."""
    published = ends[-1] if ends else 0
    if whole <= published:
        return None
    start = open_start(ends)
    is_new = start == published
    return Piece(len(ends) + is_new, start, whole, is_new)


def next_append(published: int, whole: int) -> Piece | None:
    """The next bytes to be appended."""
    if whole <= published:
        return None
    return Piece(1, published, min(whole, published + CHUNK), published == 0)


class Openness(Enum):
    """Whether a process can write to a file."""

    CLOSED = "closed"
    OPEN = "open"
    UNKNOWN = "unknown"


class Due(Enum):
    """Whether to send a file, of those sent whole, that has changed since it was sent."""

    NO = "no"
    FINISHED = "finished"
    """It seems complete as it is. What it has become since then may not be."""
    UNFINISHED = "unfinished"
    """It is kept open and only grows, like a table of results: whatever it has is sent."""


def due(
    size: int,
    seen_for: float,
    changed_for: float,
    since_sent: float,
    quiet: float,
    *,
    uploads: int = 0,
    openness: Openness = Openness.UNKNOWN,
    is_rewritten: bool = False,
    is_bulk: bool = False,
) -> Due:
    """Return whether to send a file now.

    Args:
        size: How large it is.
        seen_for: Seconds that it has been as it is.
        changed_for: Seconds that it has been other than what was sent.
        since_sent: Seconds since it was sent.
        quiet: Seconds without a change after which a file that is not closed is sent.
        uploads: How often it was sent.
        openness: Whether a process can write to it, or to what it is a part of.
        is_rewritten: Its program writes new versions over old ones: while it is open it may have a
            part of a version only.
        is_bulk: It takes long to send: by the time it is, one that keeps changing has changed.
    """
    if since_sent < size / WHOLE_RATE:
        return Due.NO
    if openness is Openness.CLOSED and since_sent >= quiet * _closed_pace(uploads):
        return Due.FINISHED
    if openness is Openness.OPEN and (is_bulk or is_rewritten):
        return Due.FINISHED if seen_for >= PACE else Due.NO
    if seen_for >= quiet:
        return Due.FINISHED
    if not is_bulk and min(changed_for, since_sent) >= PACE:
        return Due.UNFINISHED
    return Due.NO


def _closed_pace(uploads: int) -> float:
    """Seconds between two uploads of a file that keeps changing and is closed each time."""
    return min(PACE, max(1.0, PACE * uploads / _UPLOADS_AT_PACE))


def again_name(name: str, number: int) -> str:
    """What the n-th file under an old name is published as."""
    return f"{name}.again{number}" if number else name


def names_behind(path: str, others: Iterable[str]) -> tuple[list[str], str]:
    """What an event file may have been published as, and what it is to be, beside those of others.

    Readers take files in the order of their names, which tell when each was begun, by the clock of
    its machine. Where that is behind the clock of an earlier attempt, the later file would come
    first, and the earlier one seem to replace it: it is published as one that was begun later.
    """
    mine = _STAMPED.fullmatch(path)
    if mine is None:
        return [], path
    found = [each for each in map(_STAMPED.fullmatch, others) if each and each[1] == mine[1]]
    latest = latest_stamp(each[0] for each in found)
    perhaps = [each[0] for each in found if each[3] == mine[3] and each[0] != path]
    if latest <= int(mine[2]):
        return perhaps, path
    return perhaps, f"{mine[1]}{latest + 1}{mine[3]}"


def latest_stamp(paths: Iterable[str]) -> int:
    """When the last of some event files was begun, by their names; 0 if there is none."""
    found = map(_STAMPED.fullmatch, paths)
    return max((int(each[2]) for each in found if each), default=0)


def is_unfinished(path: str) -> bool:
    """Whether a file may be one that its program renames or deletes soon, by its name.

    That is, its name or that of a directory above it begins with a dot, or ends in ``.tmp`` or
    ``~``. Such a file is published when its program has ended. ``.metadata`` is a part of torch's
    distributed checkpoints, and finished.
    """
    parts = path.removesuffix("/.metadata").split("/")
    return any(part.startswith(".") or part.endswith((".tmp", "~")) for part in parts)
