"""When a call is sent again, and what its answers become; without anybody answering."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tbhub.api import problems
from tbhub.api.models import BoardRuns, Me
from tbhub.client import calls, steps
from tbhub.client.calls import Call
from tbhub.client.errors import HubUnreachable
from tbhub.client.replies import Lost, Reply, read
from tbhub.client.steps import Pause, ask, do, do_async

GET = calls.version()
POST = calls.add_runs("a", BoardRuns(runs="run1"))
DONE = Reply(200, b'{"version": "1"}')
REFUSED = Lost("refused", sent=False)
BROKEN = Lost("broke off", sent=True)
BUSY = Reply(503, b"<html>busy</html>")


class Script:
    """Answers one after the other; counts how often it was asked."""

    def __init__(self, *answers: Reply | Lost) -> None:
        self._answers = list(answers)
        self.asked = 0

    def __call__(self, call: Call[Any]) -> Reply | Lost:
        self.asked += 1
        return self._answers.pop(0)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setattr(steps, "_REFUSED_PAUSES", (0.0, 0.0))


@pytest.mark.parametrize("passing", [BROKEN, BUSY, REFUSED], ids=["broken", "busy", "refused"])
def test_what_changes_nothing_is_sent_again(passing: Reply | Lost) -> None:
    script = Script(passing, passing, DONE)
    assert do(ask(GET), script) == {"version": "1"}
    assert script.asked == 3


def test_what_may_have_been_done_is_not_sent_again() -> None:
    script = Script(BROKEN)
    with pytest.raises(HubUnreachable, match="broke off"):
        do(ask(POST), script)
    assert script.asked == 1


def test_what_never_arrived_is_sent_again() -> None:
    script = Script(REFUSED, REFUSED, REFUSED)
    with pytest.raises(HubUnreachable, match="refused"):
        do(ask(POST), script)
    assert script.asked == 3


def test_nothing_is_tried_for_ever() -> None:
    script = Script(*[BROKEN] * 10)
    with pytest.raises(HubUnreachable):
        do(ask(GET), script)
    assert script.asked == 4


def test_awaited_steps_are_the_same_steps() -> None:
    script = Script(REFUSED, DONE)

    async def send(call: Call[Any]) -> Reply | Lost:
        return script(call)

    assert asyncio.run(do_async(ask(GET), send)) == {"version": "1"}


def test_pauses_are_made() -> None:
    made = ask(GET)
    next(made)
    assert isinstance(made.send(REFUSED), Pause)


@pytest.mark.parametrize(
    "problem",
    [
        problems.NotFound("no board x"),
        problems.Ambiguous("several", matches=[{"id": "a"}]),
        problems.TensorboardLimitExceeded("no more", boards=[{"id": "a", "name": "b"}]),
        problems.BadRequest("no", position=3, selector="run1 ??"),
    ],
    ids=lambda problem: problem.code,
)
def test_problems_are_raised_as_they_were(problem: problems.Problem) -> None:
    reply = Reply(problem.status, json.dumps(problem.to_json()).encode())
    with pytest.raises(type(problem), match=problem.message) as raised:
        read(GET, reply)
    assert raised.value.details == problem.details


@pytest.mark.parametrize(
    "reply",
    [
        Reply(404, b"<html>nginx</html>"),
        Reply(302, b""),
        Reply(500, b'{"error": "no"}'),
        Reply(200, b"<html>a page</html>"),
        Reply(200, b'{"user": 1}'),
    ],
    ids=["other server", "redirection", "other error", "page", "other answer"],
)
def test_what_is_not_a_hub(reply: Reply) -> None:
    with pytest.raises(HubUnreachable, match="not a hub"):
        read(Call("GET", "me", Me), reply)


def test_an_answer_nobody_wants_is_not_read() -> None:
    assert read(calls.delete_board("a"), Reply(204, b"")) is None  # type: ignore[func-returns-value]
