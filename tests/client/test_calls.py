"""What is sent, call by call."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tbhub.api import models
from tbhub.api.problems import BadRequest
from tbhub.client import calls
from tbhub.client.hub import AsyncHub, Hub, Methods
from tbhub.client.steps import Both


def test_names_in_addresses_escape_nothing() -> None:
    assert calls.board("../x?a=b#c").path == "boards/..%2Fx%3Fa%3Db%23c"
    assert calls.members("ws 1/é").path == "workspaces/ws%201%2F%C3%A9/members"
    assert calls.board("%2f").path == "boards/%252f"


def test_what_is_not_given_is_not_sent() -> None:
    assert calls.boards().params == {"limit": "100", "offset": "0"}
    assert calls.boards(everyone=True, live=True).params["all"] == "true"
    assert calls.logs("a", tail=0).params == {"tail": "0"}
    since = datetime(2026, 11, 16, 10, tzinfo=UTC)
    assert calls.logs("a", since=since).params == {"since": "2026-11-16T10:00:00+00:00"}
    assert calls.create_board(models.NewBoard(runs="7")).json == {"runs": "7"}
    assert calls.change_user("a", models.UserChange(disabled=False)).json == {"disabled": False}
    assert calls.start_board("a").json is None


def test_only_what_changes_nothing_is_safe() -> None:
    assert calls.runs("where lr<.1").is_safe
    assert not calls.kill_board("a").is_safe
    assert not calls.delete_runs("run1", dry_run=True).is_safe


def test_bodies_that_cannot_be_are_told_in_a_line() -> None:
    with pytest.raises(BadRequest, match=r"^idle_timeout: input should be greater than") as raised:
        calls.build(models.NewBoard, idle_timeout=-5)
    assert "\n" not in str(raised.value)
    with pytest.raises(BadRequest, match=r"^name: "):
        calls.build(models.NewBoard, name="two\nlines")
    assert calls.build(models.NewBoard, name=None).model_fields_set == set()


def test_both_hubs_have_every_call() -> None:
    made = {
        name
        for name, thing in vars(calls).items()
        if callable(thing)
        and not name.startswith("_")
        and str(getattr(thing, "__annotations__", {}).get("return", "")).startswith("Call[")
    }
    offered = {name for name, thing in vars(Methods).items() if isinstance(thing, Both)}
    assert made == offered | {"follow_logs"}
    for name in made:
        assert getattr(Hub, name).__doc__
        assert getattr(AsyncHub, name).__doc__
