"""Fewer points that look the same: what a chart is sent instead of a long series.

The series is cut into buckets of equal length. Each keeps its smallest and its largest finite
value, so no spike is lost at any zoom, and one point of every kind of value that is not finite
(NaN, +inf, -inf), so a run that diverged is seen to have done so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_STEPS = np.iinfo(np.int64)


def downsample(values: NDArray[Any], count: int) -> NDArray[np.intp]:
    """The indices of at most so many points that stand for all; strictly increasing.

    The first and the last point are kept, and in between the extremes of every bucket. The same
    values and count give the same indices. A count below four has no room for a bucket: 3 and 2
    keep the ends, 1 the last point, 0 none. Where the count has no room for every kind of value
    that is not finite (below seven), the finite extremes go before NaN, and NaN before infinities.

    Args:
        values: Real numbers of any type, in the order of the chart.
        count: How many points there may be.

    Raises:
        ValueError: The count is negative.
    """
    if count < 0:
        raise ValueError(f"a series cannot be downsampled to {count} points; give 0 or more")
    size = len(values)
    if size <= count:
        return np.arange(size)
    ends = np.array([0, size - 1][max(2 - count, 0) :], np.intp)
    if count < 4:
        return ends
    # tsdownsample 0.1.5 passes over -0.0 in float16.
    dtype = np.float32 if values.dtype == np.float16 else values.dtype
    values = np.ascontiguousarray(values, dtype)
    kinds: list[NDArray[np.bool_]] = []
    if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
        candidates = (np.isnan(values), values == np.inf, values == -np.inf)
        kinds = [kind for kind in candidates if kind.any()][: count - 4]
        # Extremes pass over NaN, but would be the infinities.
        values = np.where(finite, values, values.dtype.type(np.nan))
    # The ends come beside the buckets; each bucket has two extremes and one point of each kind.
    buckets = (count - 2) // (2 + len(kinds))
    kept = [ends, _extremes(values, buckets)]
    for kind in kinds:
        # The buckets depend on the length alone, so these are the same; True is the maximum.
        found = _extremes(kind, buckets)
        kept.append(found[kind[found]])
    indices = np.sort(np.concatenate(kept))
    # np.unique would take longer than all of the above.
    return np.compress(np.append(True, indices[1:] > indices[:-1]), indices)


def _extremes(values: NDArray[Any], buckets: int) -> NDArray[np.intp]:
    """Where a minimum and a maximum of each bucket are, passing over NaN; any point if all are NaN.

    By a rounding error the last point of all may be in no bucket.
    """
    # Costs 5 to 20 ms, which whoever draws no charts should not pay.
    from tsdownsample import MinMaxDownsampler

    downsampler = MinMaxDownsampler()  # type: ignore[no-untyped-call]
    indices: NDArray[Any] = downsampler.downsample(values, n_out=2 * buckets)
    return indices.astype(np.intp)


def between(
    places: NDArray[Any], start: float | None, stop: float | None
) -> slice | NDArray[np.intp]:
    """Which points have ``start <= place <= stop``, by steps or wall times; None is no bound.

    Where the places never go back, the answer is a slice, found by bisection, and holds one point
    more beyond each bound that is given: the lines that enter and leave the range end there, and
    a range between two points still shows the line that crosses it. Where they go back, the answer
    is the indices of the points in the range alone: the point next to one of them may be anywhere.
    A range that ends before it starts has no points.
    """
    low, high = _within(places, start, "least"), _within(places, stop, "most")
    if low > high:
        return slice(0, 0)
    if not (places[1:] >= places[:-1]).all():
        return np.flatnonzero((places >= low) & (places <= high))
    first = int(np.searchsorted(places, low, "left")) - 1
    end = int(np.searchsorted(places, high, "right")) + 1
    return slice(max(first, 0), min(end, len(places)))


def _within(places: NDArray[Any], bound: float | None, end: str) -> float:
    """A bound that is compared as what the places are."""
    if places.dtype.kind == "f":
        return float(bound) if bound is not None else (-np.inf if end == "least" else np.inf)
    if bound is None:
        return _STEPS.min if end == "least" else _STEPS.max
    # Bounds come from users; numpy would compare larger ones as Python objects.
    return min(max(bound, _STEPS.min), _STEPS.max)
