"""Why what a board shows cannot be read, with a hint that helps."""

from __future__ import annotations

import pytest

from tbhub.hub.troubles import unreadable
from tbhub.storage.classify import classify
from tbhub.storage.errors import StoreError
from tbhub.texts import Message, recognize

PLACE = "s3://bucket/runs"


def said(path: str, problem: str, connection: str = "") -> str:
    troubles = [{"path": path, "problem": problem, "place": True}]
    return unreadable(
        troubles,
        has_data=False,
        on_hub=lambda _: False,
        launcher="local",
        connections={PLACE: connection},
    )


def refused(text: str) -> str:
    """Return the problem that an answer of a store is reported as."""
    error = classify(Exception(text), "list", PLACE, "runs")
    assert isinstance(error, StoreError)
    return error.what


@pytest.mark.parametrize(
    ("path", "problem", "hint"),
    [
        ("/logs", "Permission denied", " hint: the user that the board is served as needs "),
        (
            PLACE,
            refused("<Code>InvalidToken</Code>"),
            f" hint: `tbhub storage test {PLACE}` tells ",
        ),
        (PLACE, refused("<Code>NoSuchBucket</Code>"), " hint: check the name of the bucket, or "),
        (PLACE, refused("No CA certificates were loaded"), ""),
    ],
)
def test_the_hint_is_about_the_problem(path: str, problem: str, hint: str) -> None:
    written = said(path, problem)
    assert written.startswith(f"{path} cannot be read: {problem}.{hint}")
    assert written.count("hint:") == 1
    assert ("storage add" in written) == ("credentials" in problem)
    found = recognize(written)
    assert isinstance(found, Message)
    assert found == written
    assert "hint: check" not in found.in_language("zh")


def test_the_connection_that_is_used_is_named() -> None:
    written = said(PLACE, refused("<Code>InvalidToken</Code>"), connection="old")
    assert " hint: `tbhub storage test old --for boards` tests the connection" in written
    found = recognize(written)
    assert isinstance(found, Message)
    assert found.code == "wait.unreadable_connection"
