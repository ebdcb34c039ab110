"""Names of segments, and what a listing of them means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbhub.events.segments import MAX_SEGMENTS, group_segments, segment_name, split_segment

FILE = "events.out.tfevents.1700000000.host.12.0"


@given(st.integers(1, MAX_SEGMENTS))
def test_a_name_is_taken_apart_again(number: int) -> None:
    assert split_segment(segment_name(FILE, number)) == (FILE, number)


@pytest.mark.parametrize(
    "name",
    [
        FILE,
        f"{FILE}.v2",
        f"{FILE}.00001",
        f"{FILE}.0000001",
        f"{FILE}.000000",
        "notes.000001",
        "events.out.tfevents.1700000000",
        ".000001",
    ],
)
def test_other_names(name: str) -> None:
    assert split_segment(name) is None


@pytest.mark.parametrize("number", [0, -1, MAX_SEGMENTS + 1])
def test_numbers_there_are_not(number: int) -> None:
    with pytest.raises(ValueError, match=str(number)):
        segment_name(FILE, number)


@given(st.sets(st.integers(1, 8)), st.randoms())
def test_what_lies_behind_a_gap_is_not_read_yet(numbers: set[int], random: object) -> None:
    names = [segment_name(FILE, number) for number in numbers]
    random.shuffle(names)  # type: ignore[attr-defined]
    found = group_segments([*names, "other.tfevents.1"])
    assert found.pop("other.tfevents.1") == ("other.tfevents.1",)
    if 1 not in numbers:
        assert found == {name: (name,) for name in names}
        return
    assert list(found) == [FILE]
    whole = found[FILE]
    assert list(whole) == [segment_name(FILE, number + 1) for number in range(len(whole))]
    assert len(whole) + 1 not in numbers


def test_a_file_that_stands_beside_its_segments_is_itself() -> None:
    one = segment_name(FILE, 1)
    assert group_segments([FILE, one]) == {FILE: (FILE,), one: (one,)}
