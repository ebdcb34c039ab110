"""Downsampling keeps what an eye would miss: ends, extremes, spikes and what is not finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from tbhub.series.downsample import between, downsample

DTYPES = [np.float16, np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_]
NOISE = np.random.default_rng(0).standard_normal(50_000).astype(np.float32)


@st.composite
def series(draw: st.DrawFn) -> NDArray[Any]:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    elements = arrays.from_dtype(dtype)
    if dtype.kind == "f":
        elements |= st.sampled_from([float("nan"), float("inf"), float("-inf")])
    return draw(arrays.arrays(dtype, st.integers(0, 200), elements=elements))


def buckets_of(size: int, buckets: int) -> list[slice]:
    """The layout, seen on a ramp: there the extremes of a bucket are its ends."""
    ramp = downsample(np.arange(size), 2 * buckets + 2)[: 2 * buckets].reshape(-1, 2)
    assert len(ramp) == buckets
    assert ramp[0, 0] == 0
    assert ramp[-1, 1] >= size - 2
    np.testing.assert_array_equal(ramp[1:, 0], ramp[:-1, 1] + 1)
    return [slice(first, last + 1) for first, last in ramp]


def kinds_of(values: NDArray[Any]) -> list[NDArray[np.bool_]]:
    """What is not finite in values, kind by kind."""
    kinds = (np.isnan(values), values == np.inf, values == -np.inf)
    return [kind for kind in kinds if kind.any()]


def assert_stands_for(kept: NDArray[np.intp], values: NDArray[Any], count: int) -> None:
    assert kept.dtype == np.intp
    assert len(kept) <= count
    assert (np.diff(kept) > 0).all()
    if len(values) <= count:
        np.testing.assert_array_equal(kept, np.arange(len(values)))
        return
    if count >= 1:
        assert kept[-1] == len(values) - 1
    if count >= 2:
        assert kept[0] == 0
    if count < 4:
        return
    kinds = kinds_of(values)[: count - 4]
    mask = np.zeros(len(values), bool)
    mask[kept] = True
    for bucket in buckets_of(len(values), (count - 2) // (2 + len(kinds))):
        finite = np.isfinite(values[bucket])
        if finite.any():
            there = values[bucket][finite]
            seen = values[bucket][finite & mask[bucket]]
            assert seen.min() == there.min()
            assert seen.max() == there.max()
        for kind in kinds:
            assert (kind & mask)[bucket].any() == kind[bucket].any()


@settings(deadline=None)
@given(series(), st.integers(0, 60))
def test_what_is_kept(values: NDArray[Any], count: int) -> None:
    values.flags.writeable = False
    before = values.copy()
    kept = downsample(values, count)
    assert_stands_for(kept, values, count)
    np.testing.assert_array_equal(downsample(values, count), kept)
    np.testing.assert_array_equal(values, before)


@settings(deadline=None)
@given(st.permutations(range(80)), st.integers(4, 60))
def test_nothing_else_is_kept(order: list[int], count: int) -> None:
    """The ends, and two points to each of as many buckets as there is room for."""
    values = np.array(order, np.float32)
    expected = {0, len(values) - 1}
    for bucket in buckets_of(len(values), (count - 2) // 2):
        expected.add(int(bucket.start + values[bucket].argmin()))
        expected.add(int(bucket.start + values[bucket].argmax()))
    assert downsample(values, count).tolist() == sorted(expected)


@settings(deadline=None)
@given(
    st.integers(0, len(NOISE) - 1),
    st.integers(10, 3000),
    st.sampled_from([1e3, -1e3]),
    st.booleans(),
)
def test_a_spike_survives_anywhere(at: int, count: int, height: float, among_nan: bool) -> None:
    values = NOISE.copy()
    if among_nan:
        values[max(at - 100, 0) : at + 100] = np.nan
        values[::97] = np.inf
    values[at] = height
    assert at in downsample(values, count)


@settings(deadline=None)
@given(st.integers(0, len(NOISE) - 1), st.integers(5, 3000))
def test_a_nan_survives_anywhere(at: int, count: int) -> None:
    values = NOISE.copy()
    values[at] = np.nan
    kept = downsample(values, count)
    assert at in kept
    assert {int(np.nanargmin(values)), int(np.nanargmax(values))} <= set(kept.tolist())


def test_a_run_that_diverges_is_seen_to_do_so() -> None:
    values = NOISE.copy()
    values[30_000:] = np.nan
    kept = downsample(values, 1000)
    assert 30_000 in kept
    assert np.isnan(values[kept[kept >= 30_000]]).all()


@pytest.mark.parametrize(
    ("count", "expected"), [(0, []), (1, [9]), (2, [0, 9]), (3, [0, 9]), (4, [0, 3, 6, 9])]
)
def test_tiny_counts(count: int, expected: list[int]) -> None:
    values = np.array([0, 1, 2, 9, 2, 1, -9, 1, 2, 0])
    assert downsample(values, count).tolist() == expected


def test_where_not_all_fits_finite_extremes_go_first() -> None:
    values = np.array([0, 1, np.nan, 9, np.inf, 1, -9, -np.inf, 2, 0])
    assert downsample(values, 4).tolist() == [0, 3, 6, 9]
    assert downsample(values, 5).tolist() == [0, 2, 3, 6, 9]
    assert downsample(values, 6).tolist() == [0, 2, 3, 4, 6, 9]
    assert downsample(values, 7).tolist() == [0, 2, 3, 4, 6, 7, 9]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0])
def test_all_values_alike(value: float) -> None:
    values = np.full(1000, value)
    kept = downsample(values, 20)
    assert_stands_for(kept, values, 20)


def test_arrays_that_are_not_contiguous() -> None:
    values = NOISE[::-3]
    np.testing.assert_array_equal(downsample(values, 100), downsample(values.copy(), 100))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_minus_zero_is_less_than_one(dtype: Any) -> None:
    values = np.ones(40, dtype)
    values[9] = -0.0
    assert 9 in downsample(values, 4)


def test_an_empty_series() -> None:
    assert downsample(np.zeros(0), 0).tolist() == []
    assert downsample(np.zeros(0), 10).tolist() == []


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 points"):
        downsample(NOISE, -1)


BOUNDS = st.none() | st.integers(-12, 12) | st.sampled_from([-(10**30), 10**30])


@settings(deadline=None)
@given(st.lists(st.integers(-10, 10)), BOUNDS, BOUNDS)
def test_between(listed: list[int], start: int | None, stop: int | None) -> None:
    steps = np.array(listed, np.int64)
    inside = [
        at
        for at, step in enumerate(listed)
        if (start is None or step >= start) and (stop is None or step <= stop)
    ]
    found = between(steps, start, stop)
    chosen = np.arange(len(steps))[found].tolist()
    if start is not None and stop is not None and start > stop:
        assert chosen == []
        return
    if listed != sorted(listed):
        assert chosen == inside
        return
    assert isinstance(found, slice)
    before = [at for at, step in enumerate(listed) if start is not None and step < start]
    behind = [at for at, step in enumerate(listed) if stop is not None and step > stop]
    assert chosen == before[-1:] + inside + behind[:1]


def test_a_range_between_two_points_holds_both() -> None:
    assert between(np.array([0, 10, 20]), 12, 15) == slice(1, 3)


def test_steps_at_the_end_of_their_range() -> None:
    ends = np.array([-(2**63), 0, 2**63 - 1])
    assert between(ends, None, None) == slice(0, 3)
    assert between(ends, -(2**63), 2**63 - 1) == slice(0, 3)
