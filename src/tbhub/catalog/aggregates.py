"""What is known of a series without reading it again: its size, its last value, its extremes.

Values that are not finite count, but are no extremes; as a last value they are none: databases and
JSON have no word for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tbhub.series.column import Column

# The times a calendar has; anything else in a file is nonsense.
_LAST_TIME = 253402300799.0


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Of some points in the order they were logged; the fields are those of the table."""

    count: int
    last: float | None
    last_step: int
    last_time: float
    min: float | None
    min_step: int | None
    max: float | None
    max_step: int | None


def aggregate(column: Column) -> Aggregate:
    """Of one column, which has at least one point."""
    import numpy as np

    values = column.values
    _, _, last_step, last_time = column.ends
    last = float(values[-1])
    low: tuple[float | None, int | None] = (None, None)
    high: tuple[float | None, int | None] = (None, None)
    finite = np.isfinite(values)
    everything = bool(finite.all())
    if everything or finite.any():
        steps = column.steps
        at = int((values if everything else np.where(finite, values, np.inf)).argmin())
        low = (float(values[at]), int(steps[at]))
        at = int((values if everything else np.where(finite, values, -np.inf)).argmax())
        high = (float(values[at]), int(steps[at]))
    return Aggregate(
        len(column),
        last if math.isfinite(last) else None,
        last_step,
        as_time(last_time) or 0.0,
        *low,
        *high,
    )


def merge(earlier: Aggregate, later: Aggregate) -> Aggregate:
    """Of the points of both; of equal extremes the earlier one is taken."""
    low, high = earlier, earlier
    if low.min is None or (later.min is not None and later.min < low.min):
        low = later
    if high.max is None or (later.max is not None and later.max > high.max):
        high = later
    return Aggregate(
        earlier.count + later.count,
        later.last,
        later.last_step,
        later.last_time,
        low.min,
        low.min_step,
        high.max,
        high.max_step,
    )


def as_time(seconds: float) -> float | None:
    """A time as it stands in a file, if a calendar has it."""
    return seconds if 0 <= seconds <= _LAST_TIME else None
