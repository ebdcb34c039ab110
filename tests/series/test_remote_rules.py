"""What is listed, how often, and what of it is believed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tbhub.series.objects import GRACE_SECONDS, Objects, is_below
from tbhub.series.pace import QUICK_SECONDS, SLOW_SECONDS, Pace
from tbhub.series.prefixes import plan
from tbhub.storage.store import Entry

NAMES = st.sampled_from(["a", "b", "ab", "a b", "c", "d", "e"])
PREFIXES = st.lists(NAMES, max_size=4).map("/".join)


@given(st.sets(PREFIXES, min_size=1), st.sets(PREFIXES))
def test_everything_that_is_wanted_is_listed_once(wanted: set[str], too_wide: set[str]) -> None:
    found = plan(wanted, too_wide)
    for prefix in wanted:
        assert sum(is_below(prefix, each) for each in found) == 1
    for prefix, limit in found.items():
        below = [each for each in wanted if is_below(each, prefix)]
        assert below
        if limit is None:
            assert prefix in wanted
        else:
            assert prefix not in too_wide
            assert 4 <= limit <= len(below)


def test_neighbours_are_listed_together() -> None:
    runs = {f"team/runs/run{number}" for number in range(1000)}
    assert plan(runs, ()) == {"team/runs": 1000}
    assert plan(runs, {"team/runs"}) == dict.fromkeys(runs)
    assert plan({*runs, "team"}, ()) == {"team": None}
    assert plan({"a/1", "a/2", "b"}, ()) == {"a/1": None, "a/2": None, "b": None}


def test_what_has_changed_lately_is_listed_often() -> None:
    assert Pace(changed=100.0).pause(110.0) == QUICK_SECONDS
    assert QUICK_SECONDS < Pace(changed=0.0).pause(1000.0) < SLOW_SECONDS
    assert Pace(changed=0.0).pause(1e9) == SLOW_SECONDS


@given(st.floats(0, 1e6), st.integers(1, 10_000), st.floats(0, 100), st.integers(0, 50))
def test_pauses_are_bounded_below_and_grow(
    age: float, requests: int, seconds: float, failures: int
) -> None:
    pace = Pace(0.0, requests, seconds, failures)
    assert pace.pause(age) >= QUICK_SECONDS
    assert Pace(0.0, requests + 1000, seconds, failures).pause(age) >= pace.pause(age)
    if failures:
        assert pace.pause(age) <= SLOW_SECONDS
        assert Pace(0.0, requests, seconds, failures + 1).pause(age) >= pace.pause(age)


def test_a_clock_that_is_off_does_not_make_a_live_run_wait_long() -> None:
    for age in (-3600.0, 3600.0):
        assert Pace.of_age(1000.0, age).pause(1000.0) <= 5


def entry(name: str, size: int, version: str, modified: float) -> Entry:
    return Entry(f"run/tfevents.{name}", size, version, modified)


def test_less_than_is_known_is_believed_after_a_while() -> None:
    known = Objects()
    now, old = entry("1", 20, "new", 2.0), entry("1", 10, "old", 1.0)
    assert known.take("", [now], 0.0) == {"run"}
    for stale in ([old], []):
        assert known.take("", stale, 100.0) == set()
        assert known.in_doubt
        assert known.take("", [now], 101.0) == set()
        assert not known.in_doubt
    assert known.take("", [], 200.0) == set()
    assert known.take("", [], 200.0 + GRACE_SECONDS) == {"run"}
    assert known.folders == {}


def test_what_is_shorter_but_newer_is_believed_at_once() -> None:
    known = Objects()
    known.take("", [entry("1", 20, "old", 1.0)], 0.0)
    assert known.take("", [entry("1", 10, "new", 2.0)], 0.0) == {"run"}


def test_a_listing_of_a_part_says_nothing_of_the_rest() -> None:
    known = Objects()
    known.take("", [entry("1", 1, "v", 1.0), Entry("runner/tfevents.1", 1, "v", 1.0)], 0.0)
    known.take("run", [], 0.0)
    assert known.take("run", [], 2 * GRACE_SECONDS) == {"run"}
    assert list(known.folders) == ["runner"]
