"""The life of a board: what happens to it, and what is to be done then. No input, no output.

    QUEUED → STARTING → WAITING ⇄ RUNNING → STOPPING → STOPPED → QUEUED …
    and from anywhere to TERMINATED or FAILED

`handle` takes a life and an event and answers the life after it, with instructions for whoever
carries them out. The life is kept before the instructions are: who comes back after a crash finds
in it what is left to do.

- A board is *live* while it holds a place: until it is STOPPED, TERMINATED or FAILED.
- Every ending has a reason, an exit code, a time and a sentence. A live board has no reason, exit
  code or end; its message says why it restarts, until it is up again.
- A board whose host dies restarts by itself, with the same id and address. Only a board that
  repeatedly takes its process down fails; `suspicion` decides which one that is.
- TERMINATED is final. STOPPED and FAILED start again under the same id; each start counts the
  `generation` up, so that late news of an earlier start is told from news of this one.
- What a person asks for twice succeeds twice. Only the start of a TERMINATED board is refused.
- News that has been overtaken (a host that is ready when the board has been stopped) is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from tbhub.api.models import Reason, State
from tbhub.api.problems import Conflict

LIVE = frozenset({State.QUEUED, State.STARTING, State.WAITING, State.RUNNING, State.STOPPING})
"""States of boards that hold a place."""
READY = frozenset({State.WAITING, State.RUNNING})
"""States in which a board can be looked at."""
ENDED = frozenset(State) - LIVE
_SHOWN_LINES = 5


class Cause(StrEnum):
    """Why a host ended; the value completes the sentence "Host slurm-1 …"."""

    CRASH = "crashed"
    HANG = "hung"
    OUT_OF_MEMORY = "ran out of memory"
    PREEMPTION = "was preempted"
    EVICTION = "was evicted"
    DRAIN = "was drained"
    TIME_LIMIT = "reached its time limit"
    NODE_LOST = "lost its machine"
    TERMINATED = "was terminated"
    CANCELLED = "was cancelled"

    @property
    def taken(self) -> bool:
        """Whether the host was taken away from outside: its boards are not to blame."""
        return self not in (Cause.CRASH, Cause.HANG, Cause.OUT_OF_MEMORY, Cause.CANCELLED)


Verdict = Literal["restart", "isolate", "give up"]
"""What follows the end of its host for a board: a restart on any host, a restart in a process of
its own, or FAILED."""


@dataclass(frozen=True)
class Life:
    """Where a board is. Times are seconds since the epoch; limits are seconds, none: no limit."""

    state: State = State.QUEUED
    reason: Reason | None = None
    exit_code: int | None = None
    message: str = ""
    host: str | None = None
    generation: int = 1
    started: float | None = None
    ready: float | None = None
    ended: float | None = None
    deadline: float | None = None  # when max_runtime is over, as extended
    max_runtime: float | None = None


# --- what happens


@dataclass(frozen=True)
class Start:
    """Somebody wants it to run."""


@dataclass(frozen=True)
class Placed:
    """A host was chosen."""

    host: str


@dataclass(frozen=True)
class Requeued:
    """It loses its host by no fault of its own, and another will be chosen; its time goes on."""

    why: str


@dataclass(frozen=True)
class HostReady:
    """The host has the board; `pending` as in `AnswersPending`.

    Attributes:
        nothing: Why the board has nothing to show and none will come, in words; empty: it has.
    """

    has_data: bool
    pending: str = ""
    nothing: str = ""


@dataclass(frozen=True)
class AnswersPending:
    """Sources have not answered for the first time, or all have by now.

    Attributes:
        pending: What is waited for, in words; empty: every source has answered or failed once.
    """

    pending: str


@dataclass(frozen=True)
class Data:
    """There is data."""


@dataclass(frozen=True)
class DataGone:
    """What it showed is deleted, or cannot be read any more."""

    why: str


@dataclass(frozen=True)
class Stop:
    """Somebody wants it to end for now."""

    by: str = ""


@dataclass(frozen=True)
class Idle:
    """Nobody has looked at it for its idle_timeout."""

    seconds: float


@dataclass(frozen=True)
class Released:
    """The host does not have it any more."""


@dataclass(frozen=True)
class Kill:
    """Somebody wants it to end for good."""

    by: str = ""


@dataclass(frozen=True)
class Expired:
    """Its max_runtime is over."""


@dataclass(frozen=True)
class NoData:
    """Nothing was logged within its no_data_timeout."""

    seconds: float


@dataclass(frozen=True)
class HostDied:
    """The process that served it is gone.

    Attributes:
        reason: Completes the sentence "It ended …".
        crashes: How many crashes of its hosts the verdict is based on.
    """

    exit_code: int | None
    reason: str = ""
    last_lines: Sequence[str] = ()
    cause: Cause = Cause.CRASH
    verdict: Verdict = "restart"
    crashes: int = 1


@dataclass(frozen=True)
class StartFailed:
    """It cannot be served."""

    why: str


Event = (
    Start
    | Placed
    | Requeued
    | HostReady
    | AnswersPending
    | Data
    | DataGone
    | Stop
    | Idle
    | Released
    | Kill
    | Expired
    | NoData
    | HostDied
    | StartFailed
)

# --- what is to be done


@dataclass(frozen=True)
class Place:
    """Choose a host and give it the board."""


@dataclass(frozen=True)
class Release:
    """Take the board from its host; then say `Released`."""

    host: str


@dataclass(frozen=True)
class Say:
    """A line for the board's log."""

    text: str
    level: Literal["info", "warning", "error"] = "info"


Instruction = Place | Release | Say
After = tuple[Life, list[Instruction]]


def handle(life: Life, event: Event, now: float) -> After:
    """The life after an event, and what is to be done; the same life if the event is overtaken.

    Raises:
        Conflict: The start of a board that has ended for good.
    """
    after: After = _HANDLERS[type(event)](life, event, now)
    return after


def _start(life: Life, event: Start, now: float) -> After:
    if life.state == State.TERMINATED:
        raise Conflict(
            f"The board has ended for good ({life.reason}): {life.message} "
            "Create another one with the same runs."
        )
    if life.state in LIVE and life.state != State.STOPPING:
        return life, []
    fresh = replace(
        life,
        state=State.QUEUED,
        reason=None,
        exit_code=None,
        message="",
        host=None,
        generation=life.generation + 1,
        started=None,
        ready=None,
        ended=None,
        deadline=None,
    )
    release: list[Instruction] = [Release(life.host)] if life.host else []
    return fresh, [*release, Say("starting again"), Place()]


def _placed(life: Life, event: Placed, now: float) -> After:
    if life.state != State.QUEUED:
        return life, []
    deadline = life.deadline
    if deadline is None and life.max_runtime is not None:
        deadline = now + life.max_runtime
    placed = replace(life, state=State.STARTING, host=event.host, started=now, deadline=deadline)
    return placed, [Say(f"was placed on host {event.host}")]


def _requeued(life: Life, event: Requeued, now: float) -> After:
    if life.state not in (State.STARTING, *READY):
        return life, []
    message = "" if life.state in READY else life.message
    queued = replace(life, state=State.QUEUED, host=None, started=None, ready=None, message=message)
    return queued, [Say(f"{event.why}; another host will be chosen"), Place()]


def _host_ready(life: Life, event: HostReady, now: float) -> After:
    if life.state != State.STARTING:
        return life, []
    if event.has_data:
        running = replace(life, state=State.RUNNING, ready=now, message=event.pending)
        return running, [Say("is running")]
    waiting = replace(life, state=State.WAITING, ready=now, message=event.pending)
    if event.nothing:
        return waiting, [Say(f"is up without data. {event.nothing}", "warning")]
    return waiting, [Say("is up and waits for the first data")]


def _answers_pending(life: Life, event: AnswersPending, now: float) -> After:
    if life.state not in READY:
        return life, []
    return replace(life, message=event.pending), []


def _data(life: Life, event: Data, now: float) -> After:
    if life.state != State.WAITING:
        return life, []
    return replace(life, state=State.RUNNING), [Say("data is there; is running")]


def _data_gone(life: Life, event: DataGone, now: float) -> After:
    if life.state != State.RUNNING:
        return life, []
    waiting = replace(life, state=State.WAITING, ready=now)  # no_data_timeout begins again
    return waiting, [Say(f"there is no data any more. {event.why}", "warning")]


def _stop(life: Life, event: Stop, now: float) -> After:
    by = f" by {event.by}" if event.by else ""
    text = f"It was stopped{by}; it can be started again."
    return _let_go(life, Reason.USER_STOPPED, text, now)


def _idle(life: Life, event: Idle, now: float) -> After:
    if life.state not in READY:
        return life, []
    text = f"Nobody looked at it for {_duration(event.seconds)}; it starts again when visited."
    return _let_go(life, Reason.IDLE, text, now)


def _let_go(life: Life, reason: Reason, text: str, now: float) -> After:
    if life.state not in LIVE or life.state == State.STOPPING:
        return life, []
    if life.host is None:
        stopped = _ended(life, State.STOPPED, reason, 0, text, now)
        return stopped, [Say(f"stopped: {text}")]
    # The reason is that of an ending under way.
    stopping = replace(life, state=State.STOPPING, reason=reason, message=text)
    return stopping, [Say("is stopping"), Release(life.host)]


def _released(life: Life, event: Released, now: float) -> After:
    if life.state != State.STOPPING:
        return life, []
    reason = life.reason or Reason.USER_STOPPED
    return _ended(life, State.STOPPED, reason, 0, life.message, now), [
        Say(f"stopped: {life.message}")
    ]


def _kill(life: Life, event: Kill, now: float) -> After:
    if life.state in (State.TERMINATED, State.FAILED):
        return life, []
    text = f"It was killed by {event.by}." if event.by else "It was killed."
    return _terminated(life, Reason.USER_KILLED, 0, text, now)


def _expired(life: Life, event: Expired, now: float) -> After:
    if life.state not in LIVE:
        return life, []
    return _terminated(life, Reason.MAX_RUNTIME, 0, "Its maximum run time is over.", now)


def _no_data(life: Life, event: NoData, now: float) -> After:
    if life.state != State.WAITING:
        return life, []
    text = f"Nothing was logged by its runs within {_duration(event.seconds)}."
    return _terminated(life, Reason.NO_DATA, 1, text, now)


def _terminated(life: Life, reason: Reason, code: int, text: str, now: float) -> After:
    release: list[Instruction] = [Release(life.host)] if life.host else []
    level: Literal["info", "error"] = "error" if code else "info"
    after = _ended(life, State.TERMINATED, reason, code, text, now)
    return after, [Say(f"terminated: {text}", level), *release]


def _host_died(life: Life, event: HostDied, now: float) -> After:
    if life.state == State.STOPPING:  # which is what was wanted
        return _released(life, Released(), now)
    if life.state not in LIVE or life.state == State.QUEUED:
        return life, []
    how = event.reason or (
        "for an unknown reason" if event.exit_code is None else f"with exit code {event.exit_code}"
    )
    ended = "was ended" if event.cause is Cause.HANG else "ended"  # by the hub
    text = f"Host {life.host} {event.cause}: it {ended} {how}."
    lines = [line for line in event.last_lines if line.strip()][-_SHOWN_LINES:]
    if event.verdict == "give up":
        if event.crashes > 1:
            text = f"{text} It was crash {event.crashes} of the processes that served this board."
        message = "\n".join([text, *lines])
        reason = Reason.CANCELLED if event.cause is Cause.CANCELLED else Reason.CRASHED
        failed = _ended(life, State.FAILED, reason, event.exit_code, message, now)
        return failed, [Say(f"failed: {text}", "error"), *(Say(line, "error") for line in lines)]
    where = "in a process of its own" if event.verdict == "isolate" else "by itself"
    text = f"{text} The board restarts {where}."
    queued = replace(life, state=State.QUEUED, host=None, started=None, ready=None, message=text)
    shown = [] if event.cause.taken else [Say(line, "warning") for line in lines]
    return queued, [Say(text, "warning"), *shown, Place()]


def _start_failed(life: Life, event: StartFailed, now: float) -> After:
    if life.state not in (State.QUEUED, State.STARTING):
        return life, []
    release: list[Instruction] = [Release(life.host)] if life.host else []
    failed = _ended(life, State.FAILED, Reason.START_FAILED, 1, event.why, now)
    return failed, [Say(f"failed to start: {event.why}", "error"), *release]


def _ended(
    life: Life, state: State, reason: Reason, code: int | None, message: str, now: float
) -> Life:
    return replace(
        life,
        state=state,
        reason=reason,
        exit_code=code,
        message=message,
        host=None,
        ended=now,
        deadline=None,
    )


def _duration(seconds: float) -> str:
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size and seconds % size == 0:
            count = int(seconds // size)
            return f"{count} {name}{'s' * (count != 1)}"
    return f"{seconds:g} second{'s' * (seconds != 1)}"


_HANDLERS: dict[type[Event], Callable[..., After]] = {
    Start: _start,
    Placed: _placed,
    Requeued: _requeued,
    HostReady: _host_ready,
    AnswersPending: _answers_pending,
    Data: _data,
    DataGone: _data_gone,
    Stop: _stop,
    Idle: _idle,
    Released: _released,
    Kill: _kill,
    Expired: _expired,
    NoData: _no_data,
    HostDied: _host_died,
    StartFailed: _start_failed,
}
