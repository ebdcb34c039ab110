"""Aggregates put together from parts are those of the whole."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tbhub.catalog.aggregates import aggregate, as_time, merge
from tbhub.series.column import Part

_POINTS = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.floats(0, 1e9),
        st.one_of(st.floats(width=32), st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf])),
    ),
    min_size=1,
    max_size=30,
)


def column(points: list[tuple[int, float, float]]) -> Part:
    steps, times, values = zip(*points, strict=True)
    return Part(np.array(steps, np.int64), np.array(times), np.array(values, np.float32))


@given(_POINTS, _POINTS)
def test_parts_make_the_whole(
    earlier: list[tuple[int, float, float]], later: list[tuple[int, float, float]]
) -> None:
    whole = aggregate(column(earlier + later))
    assert merge(aggregate(column(earlier)), aggregate(column(later))) == whole
    finite = [(value, step) for step, _, value in earlier + later if math.isfinite(value)]
    assert whole.count == len(earlier) + len(later)
    assert (whole.min is None) == (whole.max_step is None) == (not finite)
    if finite:
        low = min(value for value, _ in finite)
        assert whole.min == low
        assert whole.min_step == next(step for value, step in finite if value == low)


def test_times_no_calendar_has() -> None:
    assert [as_time(each) for each in (math.nan, -1.0, math.inf, 1e300)] == [None] * 4
    assert as_time(0.0) == 0.0
