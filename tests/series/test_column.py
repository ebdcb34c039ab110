"""Columns put together, thinned out, and kept few."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tbhub.series.column import Column, Part, append, before, concatenate

STEPS = st.one_of(
    st.integers(-5, 50), st.sampled_from([-(1 << 63), -(1 << 63) + 1, (1 << 63) - 1, 0])
)


def part(steps: list[int] | tuple[int, int], size: int = 0) -> Part:
    size = len(steps) if isinstance(steps, list) else size
    numbers = np.arange(size)
    array = np.array(steps, np.int64) if isinstance(steps, list) else steps
    return Part(array, numbers + 0.5, numbers.astype(np.float32))


def points(columns: tuple[Column, ...]) -> list[tuple[int, float, float]]:
    return [
        point
        for column in columns
        for point in zip(
            column.steps.tolist(), column.wall_times.tolist(), column.values.tolist(), strict=True
        )
    ]


def check_summary(column: Column) -> None:
    steps, wall_times = column.steps.tolist(), column.wall_times.tolist()
    assert column.max_step == max(steps)
    assert column.max_wall_time == max(wall_times)
    assert column.ends == (steps[0], wall_times[0], steps[-1], wall_times[-1])


def test_even_steps_take_no_memory_and_stay_even() -> None:
    joined = concatenate([part((0, 10), 5), part((50, 10), 3), part((80, 0), 1), part((90, 10), 2)])
    assert joined.even_steps == (0, 10)
    assert joined.nbytes == 11 * 12
    assert joined.steps.tolist() == list(range(0, 110, 10))
    assert joined.ends == (0, 0.5, 100, 1.5)
    check_summary(joined)


def test_single_points_become_even_where_they_can() -> None:
    columns: tuple[Column, ...] = ()
    for step in (3, 5, 7, 9):
        columns = append(columns, part((step, 0), 1))
    assert concatenate(columns).even_steps == (3, 2)


def test_steps_that_do_not_go_on_evenly() -> None:
    for second in (part((51, 10), 3), part((50, 9), 3), part([50, 60, 61])):
        joined = concatenate([part((0, 10), 5), second])
        assert joined.even_steps is None
        assert joined.steps.tolist() == [0, 10, 20, 30, 40, *second.steps.tolist()]
        assert joined.nbytes == 8 * 20


def test_steps_wrap_around_as_in_the_kernel() -> None:
    low, high = -(1 << 63), (1 << 63) - 1
    for first, second in ((low, high), (high, low)):
        joined = concatenate([part((first, 0), 1), part((second, 0), 1)])
        assert joined.steps.tolist() == [first, second]
        assert joined.ends == (first, 0.5, second, 0.5)


def test_a_wider_value_widens_what_it_is_put_together_with() -> None:
    double = Part((1, 0), np.array([1.0]), np.array([0.1]))
    values = concatenate([part((0, 0), 1), double]).values
    assert values.dtype == np.float64
    assert values.tolist() == [0, 0.1]


def test_ten_thousand_appends_leave_few_columns() -> None:
    columns: tuple[Column, ...] = ()
    most = 0
    for step in range(10_000):
        columns = append(columns, part((step, 0), 1))
        most = max(most, len(columns))
    assert most <= math.log2(10_000) + 1
    assert concatenate(columns).even_steps == (0, 1)
    assert [step for step, _, _ in points(columns)] == list(range(10_000))


def test_what_stands_in_a_file_is_not_copied() -> None:
    stored = part((0, 1), 4)
    columns: tuple[Column, ...] = (stored,)
    for step in range(4, 100):
        columns = append(columns, part((step, 0), 1), keep=1)
    assert columns[0] is stored
    assert concatenate(columns).even_steps == (0, 1)


def test_what_lies_before_a_step() -> None:
    whole, cut, gone = part((0, 1), 3), part((3, 1), 4), part((10, 1), 2)
    left = before([whole, cut, gone], 5)
    assert left[0] is whole
    assert len(left) == 2
    assert left[1].even_steps == (3, 1)
    assert left[1].steps.tolist() == [3, 4]
    # Steps that count down lose their front: what is left begins elsewhere.
    assert before([part((9, -3), 4)], 5)[0].steps.tolist() == [3, 0]


def test_a_time_that_is_no_number_is_never_the_latest() -> None:
    times = np.array([np.nan, 3.0, np.nan])
    assert Part((0, 1), times, times).max_wall_time == 3
    assert Part((0, 1), times[:1], times[:1]).max_wall_time == -np.inf


@given(
    st.lists(st.lists(STEPS, min_size=1, max_size=6), min_size=1, max_size=20),
    st.integers(0, 3),
    STEPS,
)
def test_as_good_as_one_list(pieces: list[list[int]], keep: int, step: int) -> None:
    columns: tuple[Column, ...] = ()
    expected: list[tuple[int, float, float]] = []
    for steps in pieces:
        fresh = part(steps)
        expected += points((fresh,))
        columns = append(columns, fresh, keep)
    assert points(columns) == expected
    for column in columns:
        check_summary(column)
    check_summary(concatenate(columns))
    left = before(columns, step)
    assert points(left) == [point for point in expected if point[0] < step]
    for column in left:
        check_summary(column)
