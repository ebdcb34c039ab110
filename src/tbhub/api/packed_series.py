"""``application/vnd.tbhub.series``: many series in one answer that a page need not parse.

    u32      how long the header is
    header   JSON, with spaces at its end, so that what follows begins at a multiple of 8
    for each of the header's series, one after the other:
        f64 × points   steps
        f64 × points   wall times, in seconds
        f64 × points   values of another tag to draw over, where ``x_tag`` was asked for
        f32 × points   values
        f32 × points   means of all values since the point before, where ``means`` were asked for
        zeros up to a multiple of 8

All little-endian. A browser lays typed arrays over the answer and draws; nothing is copied. A step
beyond 2^53 is rounded, and so is what a float does not hold of a value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONTENT_TYPE = "application/vnd.tbhub.series"
_ALIGNED = 8


@dataclass(frozen=True)
class Series:
    """One series of an answer; `about` is its part of the header."""

    about: dict[str, Any]
    steps: NDArray[np.float64]
    wall_times: NDArray[np.float64]
    values: NDArray[np.float32]
    xs: NDArray[np.float64] | None = None
    means: NDArray[np.float32] | None = None


def pack_points(
    steps: NDArray[Any],
    wall_times: NDArray[np.float64],
    values: NDArray[Any],
    xs: NDArray[np.float64] | None = None,
    means: NDArray[Any] | None = None,
) -> bytes:
    """The arrays of one series."""
    import numpy as np

    doubles = [steps, wall_times] if xs is None else [steps, wall_times, xs]
    floats = [values] if means is None else [values, means]
    with np.errstate(over="ignore"):  # beyond a float is infinite
        arrays = [each.astype("<f8").tobytes() for each in doubles]
        arrays += [each.astype("<f4").tobytes() for each in floats]
    return b"".join([*arrays, bytes(-4 * len(floats) * len(values) % _ALIGNED)])


def points_in(packed: bytes, *, has_xs: bool, has_means: bool) -> int:
    """How many points a packed series has."""
    return len(packed) // (20 + 8 * has_xs + 4 * has_means)


def pack(header: dict[str, Any], series: Iterable[bytes]) -> list[bytes]:
    """An answer in pieces; `header` says of each series how many ``points`` it has."""
    text = orjson.dumps(header, option=orjson.OPT_NON_STR_KEYS)
    text += b" " * (-(4 + len(text)) % _ALIGNED)
    return [struct.pack("<I", len(text)), text, *series]


def unpack(answer: bytes) -> tuple[dict[str, Any], Sequence[Series]]:
    """The header of an answer, and its series.

    Raises:
        ValueError: It is none, or was cut short.
    """
    import numpy as np

    if len(answer) < 4:
        raise ValueError("this is no answer with series")
    offset = 4 + struct.unpack_from("<I", answer)[0]
    header: dict[str, Any] = orjson.loads(answer[4:offset])
    doubles = 2 if header["x_tag"] is None else 3
    kinds = ["<f8"] * doubles + ["<f4"] * (2 if header["means"] else 1)
    found = []
    for about in header["series"]:
        arrays: list[Any] = []
        for kind in kinds:
            array = np.frombuffer(answer, kind, about["points"], offset)
            arrays.append(array)
            offset += array.nbytes
        offset += -offset % _ALIGNED
        xs = None if doubles == 2 else arrays[2]
        means = arrays[-1] if header["means"] else None
        found.append(Series(about, arrays[0], arrays[1], arrays[doubles], xs, means))
    return header, found
