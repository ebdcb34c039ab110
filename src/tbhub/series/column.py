"""Columns: some points of one tag as three arrays of one length, never changed once made.

A series is a short tuple of columns. What a growing file adds every second is put together with
what came just before, so that their number grows with the logarithm of the points and not with the
hours a run has been followed.

numpy is imported where it is used: logs are being read while it is being loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Steps that count up evenly take no memory: the first and the difference say it all.
EvenSteps = tuple[int, int]
# Step and wall time of the first point and of the last.
Ends = tuple[int, float, int, float]


class Column(Protocol):
    """What the kernel's Points, Part and a column stored in the cache have in common."""

    def __len__(self) -> int: ...
    @property
    def steps(self) -> NDArray[np.int64]: ...
    @property
    def wall_times(self) -> NDArray[np.float64]: ...
    @property
    def values(self) -> NDArray[Any]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def max_step(self) -> int: ...
    @property
    def max_wall_time(self) -> float: ...
    @property
    def even_steps(self) -> EvenSteps | None: ...
    @property
    def ends(self) -> Ends: ...


class Part:
    """A column put together or thinned out in Python."""

    __slots__ = ("_steps", "even_steps", "max_step", "max_wall_time", "values", "wall_times")

    def __init__(
        self,
        steps: NDArray[np.int64] | EvenSteps,
        wall_times: NDArray[np.float64],
        values: NDArray[Any],
        max_step: int | None = None,
        max_wall_time: float | None = None,
    ) -> None:
        import numpy as np

        self.even_steps = steps if isinstance(steps, tuple) else None
        self._steps = steps
        self.wall_times = wall_times
        self.values = values
        self.max_step = int(self.steps.max()) if max_step is None else max_step
        # NaN is never the latest, as in the kernel.
        self.max_wall_time = (
            float(np.fmax.reduce(wall_times, initial=-np.inf))
            if max_wall_time is None
            else max_wall_time
        )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        steps = 0 if isinstance(self._steps, tuple) else self._steps.nbytes
        return steps + self.wall_times.nbytes + self.values.nbytes

    @property
    def steps(self) -> NDArray[np.int64]:
        """The global steps."""
        if isinstance(self._steps, tuple):
            import numpy as np

            first, stride = self._steps
            return first + stride * np.arange(len(self), dtype=np.int64)
        return self._steps

    @property
    def ends(self) -> Ends:
        """Step and wall time of the first point and of the last."""
        steps = self._steps
        if isinstance(steps, tuple):
            first, stride = steps
            last = _wrapped(first + stride * (len(self) - 1))
        else:
            first, last = int(steps[0]), int(steps[-1])
        return first, float(self.wall_times[0]), last, float(self.wall_times[-1])


def _wrapped(step: int) -> int:
    """Steps wrap around, as they do in the kernel."""
    return (step + (1 << 63)) % (1 << 64) - (1 << 63)


def concatenate(columns: Sequence[Column]) -> Column:
    """Several columns as one."""
    if len(columns) == 1:
        return columns[0]
    import numpy as np

    return Part(
        _joined_steps(columns),
        np.concatenate([column.wall_times for column in columns]),
        np.concatenate([column.values for column in columns]),
        max(column.max_step for column in columns),
        max(column.max_wall_time for column in columns),
    )


def _joined_steps(columns: Sequence[Column]) -> NDArray[np.int64] | EvenSteps:
    """Even as long as each goes on where the one before it ended."""
    even = columns[0].even_steps
    size = len(columns[0])
    for column in columns[1:]:
        following = column.even_steps
        if even is None or following is None:
            break
        first, stride = even
        if size == 1:
            stride = _wrapped(following[0] - first)
        goes_on = following[0] == _wrapped(first + stride * size)
        if not goes_on or (len(column) > 1 and following[1] != stride):
            break
        even = (first, stride)
        size += len(column)
    else:
        assert even is not None
        return even
    import numpy as np

    return np.concatenate([column.steps for column in columns])


def append(columns: tuple[Column, ...], fresh: Column, keep: int = 0) -> tuple[Column, ...]:
    """Adds what has just come, and puts it together with smaller neighbours.

    The first `keep` columns stay as they are: they stand in a file.
    """
    cut = len(columns)
    size = len(fresh)
    while cut > keep and len(columns[cut - 1]) <= 2 * size:
        cut -= 1
        size += len(columns[cut])
    return (*columns[:cut], concatenate([*columns[cut:], fresh]))


def before(columns: Sequence[Column], step: int) -> tuple[Column, ...]:
    """What lies before a step; the rest has been taken back by whoever logged it."""
    kept: list[Column] = []
    for column in columns:
        if column.max_step < step:
            kept.append(column)
            continue
        steps = column.steps
        keep = steps < step
        size = int(keep.sum())
        if size:
            # What is left of even steps that count up is their front.
            even = column.even_steps if keep[:size].all() else None
            kept.append(Part(even or steps[keep], column.wall_times[keep], column.values[keep]))
    return tuple(kept)
