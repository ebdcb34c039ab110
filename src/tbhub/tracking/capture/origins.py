"""Which run an event file belongs to, by when it was begun and by which process; pure.

Writers name event files ``events.out.tfevents.<seconds>.<host>.<pid>.<number>`` (torch,
TensorFlow 2, tbhub) or ``events.out.tfevents.<seconds>.<host>`` (tensorboardX, TensorFlow 1). The
first record of a file has the time at which it was begun, to the microsecond.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import Enum

_NAME = re.compile(r"tfevents\.(?P<seconds>\d{9,11})\.(?P<rest>.*)", re.DOTALL)
_PUBLISHED = re.compile(r"(?<=tfevents\.)\d{9,11}(?=\.)|(\.again\d+)+$")
_CLOCK_SECONDS = 0.05  # by which a time in a file may be behind the clock


class Holder(Enum):
    """Whose processes have a file open for writing, or have begun it."""

    OWN = "own"
    OTHER = "other"
    UNKNOWN = "unknown"


class Verdict(Enum):
    """What becomes of an event file that was found."""

    ADOPT = "adopt"
    WAIT = "wait"  # nothing is known yet
    OLDER = "older"  # of an earlier run, and the command's processes write to it
    OTHERS = "others"  # of another run, or not written to since the start
    SHARED = "shared"  # the command's processes write to it, and those of another run
    UNSURE = "unsure"  # no process of the command was seen to write to it


@dataclass(frozen=True, slots=True)
class NamedAfter:
    """What the name of an event file says.

    Attributes:
        seconds: When it was begun; None if the name does not say.
        pid: The process of this machine that has begun it; None if the name does not say.
    """

    seconds: int | None = None
    pid: int | None = None


def parse_name(path: str, host: str) -> NamedAfter:
    """Read the name of an event file, on a machine called `host`."""
    found = _NAME.search(os.path.basename(path))
    if found is None:
        return NamedAfter()
    seconds, rest = int(found["seconds"]), found["rest"]
    pid = rest[len(host) + 1 :].partition(".")[0] if rest.startswith(f"{host}.") else ""
    return NamedAfter(seconds, int(pid) if pid.isdecimal() else None)


def name_without_stamp(path: str) -> str:
    """Return what the name of an event file and the names it is published under have in common.

    A publisher may change the time in the name, and number a file that replaces another one.
    """
    return _PUBLISHED.sub("", os.path.basename(path))


def is_surely_older(name: NamedAfter, since: float) -> bool:
    """Return whether the name alone says that a file was begun before `since`."""
    return name.seconds is not None and name.seconds < int(since - _CLOCK_SECONDS)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of an event file.

    Attributes:
        begun: When it was begun; None while that is not known.
        modified: When it was last written to.
        holder: Whose it is, by processes.
        is_shared: Whether processes of another run were seen to write to it.
        is_named: Whether the user has named the directory as the run's.
        is_vague_place: Whether all sorts of programs write there, as to ``/tmp``.
        is_settled: Whether it has been known for long enough to be judged without more evidence.
    """

    begun: float | None
    modified: float
    holder: Holder
    is_shared: bool = False
    is_named: bool = False
    is_vague_place: bool = False
    is_settled: bool = True


def judge(evidence: Evidence, since: float) -> Verdict:
    """Decide whether a file belongs to the run that was started at `since`."""
    if evidence.holder is Holder.OTHER:
        return Verdict.OTHERS
    is_own = evidence.holder is Holder.OWN
    if evidence.begun is None:
        return Verdict.WAIT
    if evidence.begun < since - _CLOCK_SECONDS:
        was_written = evidence.modified >= since
        return Verdict.OLDER if is_own and was_written else Verdict.OTHERS
    if is_own:
        return Verdict.SHARED if evidence.is_shared else Verdict.ADOPT
    if evidence.modified < since - _CLOCK_SECONDS:  # by a clock that was ahead
        return Verdict.OTHERS
    if not evidence.is_settled:
        return Verdict.WAIT
    if evidence.is_vague_place:
        return Verdict.OTHERS
    return Verdict.ADOPT if evidence.is_named else Verdict.UNSURE
