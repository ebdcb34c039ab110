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
        ("/logs", "Operation not permitted", " hint: the user that the board is served as needs "),
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


def test_a_path_that_is_a_loop_of_links_has_no_hint_about_rights() -> None:
    written = said("/loop", "Too many levels of symbolic links")
    assert written == "/loop cannot be read: Too many levels of symbolic links."


def of_board_with_data(**trouble: object) -> str:
    return unreadable(
        [{"path": PLACE, "problem": "", "place": False, **trouble}],
        has_data=True,
        on_hub=lambda _: True,
        launcher="slurm",
        connections={},
    )


def test_a_run_that_cannot_be_read_is_a_problem_of_a_board_with_data() -> None:
    written = of_board_with_data(problem="there is no such bucket")
    assert written.startswith(f"{PLACE} cannot be read: there is no such bucket. hint: ")


def test_a_run_that_does_not_exist_is_no_problem_of_a_board_with_data() -> None:
    assert of_board_with_data() == ""
    assert of_board_with_data(place=True) != ""


def test_what_stays_shown_of_a_source_that_cannot_be_read_is_reported() -> None:
    written = of_board_with_data(problem="no connection.", shown=True)
    assert written.startswith(
        f"{PLACE} cannot be read: no connection; what was read before stays shown. hint: "
    )
    assert isinstance(recognize(written), Message)


def test_the_connection_that_is_used_is_named() -> None:
    written = said(PLACE, refused("<Code>InvalidToken</Code>"), connection="old")
    assert " hint: `tbhub storage test old --for boards` tests the connection" in written
    found = recognize(written)
    assert isinstance(found, Message)
    assert found.code == "wait.unreadable_connection"
