"""Which board takes its process down: found whichever it is, and the others stay up."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tbhub.boards.suspicion import (
    MAX_CRASHES_ALONE,
    MAX_ISOLATED_AT_ONCE,
    WINDOW_SECONDS,
    Judged,
    Record,
    judge,
)


def judged(
    records: Mapping[str, Record], now: float = 0.0, *, busy: str = "", room: int | None = None
) -> dict[str, Judged]:
    return judge(records, dict.fromkeys(records, 0.0), set(busy), now, room)


def verdicts(found: Mapping[str, Judged]) -> dict[str, str]:
    return {board: each.verdict for board, each in found.items()}


def records(found: Mapping[str, Judged]) -> dict[str, Record]:
    return {board: each.record for board, each in found.items()}


FRESH = {"a": Record(), "b": Record(), "c": Record()}


def test_all_boards_restart_after_the_first_crash() -> None:
    assert verdicts(judged(FRESH)) == dict.fromkeys("abc", "restart")


def test_the_busy_board_is_isolated_after_the_second_crash() -> None:
    again = judged(records(judged(FRESH)), 1.0, busy="b")
    assert verdicts(again) == {"a": "restart", "b": "isolate", "c": "restart"}


def test_crashes_far_apart_isolate_no_board() -> None:
    later = judged(records(judged(FRESH)), WINDOW_SECONDS + 1)
    assert set(verdicts(later).values()) == {"restart"}


def test_a_board_that_crashes_alone_is_given_up_after_some_pauses() -> None:
    found = {"a": Judged("restart", Record())}
    seen = []
    for now in range(MAX_CRASHES_ALONE):
        found = judged(records(found), float(now))
        seen.append((found["a"].verdict, found["a"].record.pause))
    assert seen == [("restart", 0.0), ("isolate", 1.0), ("give up", 2.0)]


def test_without_room_the_most_suspicious_board_is_given_up() -> None:
    found = judged(FRESH, 0.0, room=0)
    found = judged(records(found), 1.0, busy="b", room=0)
    assert set(verdicts(found).values()) == {"restart"}
    found = judged(records(found), 2.0, busy="b", room=0)
    assert verdicts(found) == {"a": "restart", "b": "give up", "c": "restart"}


@given(count=st.integers(1, 40), data=st.data())
def test_one_bad_board_is_found_and_no_other_is_given_up(count: int, data: st.DataObject) -> None:
    """The bad board crashes whatever process serves it; crashes end, and only that board does."""
    boards = [f"b{number}" for number in range(count)]
    bad = data.draw(st.sampled_from(boards))
    known = dict.fromkeys(boards, Record())
    shared, now = set(boards), 0.0
    for _ in range(count + 10):
        served = shared if bad in shared else {bad}
        now += 1.0
        found = judged({board: known[board] for board in served}, now)
        known.update(records(found))
        isolated = {board for board in found if found[board].verdict == "isolate"}
        assert len(isolated) <= MAX_ISOLATED_AT_ONCE
        given_up = {board for board in found if found[board].verdict == "give up"}
        assert given_up <= {bad}
        if given_up:
            return
        shared -= isolated
    raise AssertionError("it crashes for ever")
