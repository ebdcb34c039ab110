"""The life of a board: each ending with its reason, and whatever order things happen in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tbhub.api.models import Reason, State
from tbhub.api.problems import Conflict
from tbhub.boards import life as lives
from tbhub.boards.life import (
    ENDED,
    LIVE,
    READY,
    AnswersPending,
    Cause,
    Data,
    DataGone,
    Event,
    Expired,
    HostDied,
    HostReady,
    Idle,
    Kill,
    Life,
    NoData,
    Place,
    Placed,
    Release,
    Released,
    Requeued,
    Say,
    Start,
    StartFailed,
    Stop,
    handle,
)

UP = (Placed("h1"), HostReady(True))


def after(*events: Event, life: Life | None = None) -> Life:
    """The life of a new board after some events, a second apart."""
    life = life or Life()
    for now, event in enumerate(events, 100):
        life, _ = handle(life, event, now)
    return life


def done(life: Life, event: Event) -> list[object]:
    """What is to be done, without the words."""
    return [each for each in handle(life, event, 1.0)[1] if not isinstance(each, Say)]


def ending(life: Life) -> tuple[State, Reason | None, int | None]:
    return life.state, life.reason, life.exit_code


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([*UP, Stop(), Released()], (State.STOPPED, Reason.USER_STOPPED, 0)),
        ([Stop()], (State.STOPPED, Reason.USER_STOPPED, 0)),
        ([*UP, Idle(5), Released()], (State.STOPPED, Reason.IDLE, 0)),
        ([*UP, Kill()], (State.TERMINATED, Reason.USER_KILLED, 0)),
        ([*UP, Kill(), Kill()], (State.TERMINATED, Reason.USER_KILLED, 0)),
        ([*UP, Stop(), Kill()], (State.TERMINATED, Reason.USER_KILLED, 0)),
        ([*UP, Stop(), Released(), Kill()], (State.TERMINATED, Reason.USER_KILLED, 0)),
        ([*UP, Expired()], (State.TERMINATED, Reason.MAX_RUNTIME, 0)),
        ([*UP, Expired(), Kill()], (State.TERMINATED, Reason.MAX_RUNTIME, 0)),
        ([UP[0], HostReady(False), NoData(9)], (State.TERMINATED, Reason.NO_DATA, 1)),
        ([*UP, HostDied(137, verdict="give up")], (State.FAILED, Reason.CRASHED, 137)),
        ([UP[0], HostDied(None, verdict="give up")], (State.FAILED, Reason.CRASHED, None)),
        (
            [*UP, HostDied(None, cause=Cause.CANCELLED, verdict="give up")],
            (State.FAILED, Reason.CANCELLED, None),
        ),
        ([*UP, Stop(), HostDied(1)], (State.STOPPED, Reason.USER_STOPPED, 0)),
        ([StartFailed("no")], (State.FAILED, Reason.START_FAILED, 1)),
        ([UP[0], StartFailed("no")], (State.FAILED, Reason.START_FAILED, 1)),
        ([*UP, HostDied(1, verdict="give up"), Kill()], (State.FAILED, Reason.CRASHED, 1)),
    ],
)
def test_every_ending_has_its_reason_and_exit_code(
    events: list[Event], expected: tuple[State, Reason, int]
) -> None:
    assert ending(after(*events)) == expected


def test_a_board_without_data_waits_and_then_runs() -> None:
    waiting = after(Placed("h1"), HostReady(False))
    assert waiting.state == State.WAITING
    assert after(Data(), life=waiting).state == State.RUNNING


def test_a_running_board_has_a_message_while_it_waits_for_the_first_answer_of_a_source() -> None:
    running = after(Placed("h1"), HostReady(True, "Waiting for x."))
    assert (running.state, running.message) == (State.RUNNING, "Waiting for x.")
    answered, said = handle(running, AnswersPending(""), 9.0)
    assert (answered.state, answered.message, said) == (State.RUNNING, "", [])
    assert after(AnswersPending("Waiting for y."), life=answered).message == "Waiting for y."
    assert after(Requeued("moved"), life=running).message == ""
    waiting = after(Placed("h1"), HostReady(False, "Waiting for x."), Data())
    assert (waiting.state, waiting.message) == (State.RUNNING, "Waiting for x.")


def test_a_board_that_is_not_up_ignores_answers_of_sources() -> None:
    for life in (after(), after(Placed("h1")), after(*UP, Stop()), after(*UP, Kill())):
        assert handle(life, AnswersPending("Waiting for x."), 9.0) == (life, [])


def test_a_board_whose_data_is_gone_waits_and_its_no_data_timeout_begins_again() -> None:
    up = after(*UP)
    waiting, said = handle(up, DataGone("/x cannot be read: no."), 500.0)
    assert (waiting.state, waiting.host, waiting.ready) == (State.WAITING, "h1", 500.0)
    assert said == [Say("there is no data any more. /x cannot be read: no.", "warning")]
    assert handle(waiting, DataGone("again"), 501.0) == (waiting, [])
    assert after(Data(), life=waiting).state == State.RUNNING


def test_a_stopped_board_starts_again_as_new() -> None:
    stopped = after(*UP, Stop(), Released())
    again = after(Start(), life=stopped)
    assert again == Life(generation=2)
    assert done(stopped, Start()) == [Place()]


def test_a_board_that_is_stopping_can_be_started_at_once() -> None:
    stopping = after(*UP, Stop())
    assert done(stopping, Start()) == [Release("h1"), Place()]
    again = after(Start(), life=stopping)
    assert again.state == State.QUEUED
    assert after(Released(), life=again) == again  # late news of the stop


def test_a_terminated_board_stays_so_and_says_what_to_do() -> None:
    killed = after(*UP, Kill("ada"))
    assert killed.message == "It was killed by ada."
    with pytest.raises(Conflict, match=r"USER_KILLED.*Create another"):
        handle(killed, Start(), 1.0)


def test_the_last_lines_of_a_host_are_in_the_message() -> None:
    lines = [f"line {number}" for number in range(50)] + ["", "MemoryError"]
    failed = after(*UP, HostDied(1, last_lines=lines, verdict="give up", crashes=3))
    assert failed.message.startswith("Host h1 crashed: it ended with exit code 1. It was crash 3 ")
    assert failed.message.endswith("line 49\nMemoryError")
    assert len(failed.message.splitlines()) < 10


def test_a_board_whose_host_crashed_restarts_under_its_deadline() -> None:
    up = after(*UP, life=Life(max_runtime=60))
    queued = after(HostDied(137, "by signal SIGKILL"), life=up)
    assert (queued.state, queued.generation, queued.deadline) == (State.QUEUED, 1, up.deadline)
    assert queued.message == (
        "Host h1 crashed: it ended by signal SIGKILL. The board restarts by itself."
    )
    assert done(up, HostDied(137)) == [Place()]
    assert after(Placed("h2"), HostReady(True), life=queued).message == ""


@pytest.mark.parametrize("cause", list(Cause))
def test_causes_differ_in_words(cause: Cause) -> None:
    event = HostDied(None, "for a reason", cause=cause)
    said = [each.text for each in handle(after(*UP), event, 1.0)[1] if isinstance(each, Say)]
    ended = "was ended" if cause is Cause.HANG else "ended"  # the hub ends one that hangs
    assert said[0].startswith(f"Host h1 {cause.value}: it {ended} for a reason.")


def test_the_deadline_begins_with_each_start() -> None:
    life = after(*UP, life=Life(max_runtime=60))
    assert life.deadline == 160
    stopped = after(Stop(), Released(), life=life)
    assert stopped.deadline is None
    assert after(Start(), Placed("h1"), life=stopped).deadline == 161


def test_a_board_that_is_moved_keeps_its_deadline() -> None:
    life = after(*UP, Requeued("the hub is stopping"), Placed("h2"), life=Life(max_runtime=60))
    assert (life.state, life.host, life.deadline) == (State.STARTING, "h2", 160)


def test_limits_are_told_as_people_say_them() -> None:
    assert "1 hour;" in after(*UP, Idle(3600)).message
    assert "2 minutes;" in after(*UP, Idle(120)).message
    assert "1.5 seconds;" in after(*UP, Idle(1.5)).message


class Board(RuleBasedStateMachine):
    """Events in any order; a host that has exactly what it was told to have."""

    @initialize(limit=st.none() | st.floats(1, 100))
    def born(self, limit: float | None) -> None:
        self.life = Life(max_runtime=limit)
        self.now = 1000.0
        self.to_place = True
        self.to_release: list[str] = []
        self.finals: list[Life] = []

    def tell(self, event: Event) -> None:
        self.now += 1
        before = self.life
        self.life, instructions = handle(before, event, self.now)
        for each in instructions:
            match each:
                case Place():
                    self.to_place = True
                case Release(host):
                    self.to_release.append(host)
                case Say(text):
                    assert text
        if self.life.host != before.host and before.host is not None:
            released = before.host in self.to_release or isinstance(event, HostDied | Requeued)
            assert released or isinstance(event, Released)
        if before.state == State.TERMINATED:
            assert self.life == before
        if self.life == before:
            assert instructions == []

    @rule(name=st.sampled_from(["h1", "h2"]))
    def placed(self, name: str) -> None:
        self.tell(Placed(name))

    @rule(has_data=st.booleans())
    def ready(self, has_data: bool) -> None:
        self.tell(HostReady(has_data))

    @rule()
    def data(self) -> None:
        self.tell(Data())

    @rule()
    def data_goes(self) -> None:
        self.tell(DataGone("it was deleted"))

    @rule()
    def stop(self) -> None:
        self.tell(Stop())
        assert self.life.state in ENDED | {State.STOPPING}

    @rule()
    def kill(self) -> None:
        self.tell(Kill())
        assert self.life.state in (State.TERMINATED, State.FAILED)

    @rule()
    def start(self) -> None:
        if self.life.state == State.TERMINATED:
            with pytest.raises(Conflict):
                handle(self.life, Start(), self.now)
            return
        generation = self.life.generation
        was_up = self.life.state in LIVE - {State.STOPPING}
        self.tell(Start())
        assert self.life.state in LIVE - {State.STOPPING}
        assert self.life.generation == generation + (not was_up)

    @rule()
    def expired(self) -> None:
        self.tell(Expired())
        assert self.life.state in ENDED

    @rule(pending=st.sampled_from(["", "Waiting for x."]))
    def answers_pending(self, pending: str) -> None:
        self.tell(AnswersPending(pending))

    @rule(event=st.sampled_from([Idle(1.0), NoData(1.0), Released(), Requeued("moved")]))
    def other(self, event: Event) -> None:
        self.tell(event)

    @rule(
        code=st.none() | st.integers(0, 255),
        lines=st.lists(st.text(), max_size=9),
        cause=st.sampled_from(Cause),
        verdict=st.sampled_from(["restart", "isolate", "give up"]),
    )
    def host_died(self, code: int | None, lines: list[str], cause: Cause, verdict: Any) -> None:
        self.tell(HostDied(code, last_lines=lines, cause=cause, verdict=verdict))
        assert self.life.state in ENDED | {State.QUEUED}

    @rule()
    def start_failed(self) -> None:
        self.tell(StartFailed("why"))
        assert self.life.state not in (State.QUEUED, State.STARTING)

    @precondition(lambda self: self.life.state == State.STOPPING)
    @rule()
    def what_stops_ends(self) -> None:
        assert self.to_release
        self.tell(Released())
        assert self.life.state == State.STOPPED

    @invariant()
    def it_makes_sense(self) -> None:
        life = self.life
        if life.state in ENDED:
            assert life.reason
            assert life.message
            assert life.ended is not None
            assert life.host is None
            assert life.deadline is None
        else:
            assert life.ended is None
            assert life.exit_code is None
            assert (life.reason is None) == (life.state != State.STOPPING)
            assert (life.host is None) == (life.state == State.QUEUED)
            if life.state != State.QUEUED and life.max_runtime is not None:
                assert life.deadline is not None
        if life.state in READY:
            assert life.ready is not None
        if life.state == State.QUEUED:
            assert self.to_place
            kept = ("generation", "max_runtime", "deadline", "message")
            assert life == replace(Life(), **{name: getattr(life, name) for name in kept})


Board.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestBoard = Board.TestCase


def test_every_event_is_handled() -> None:
    assert set(lives._HANDLERS) == set(lives.Event.__args__)
