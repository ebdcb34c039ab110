"""Runs that differ only by chance (seeds) as one: mean and spread of their series.

``GroupBy`` says which runs belong together, ``aggregate`` makes one ``Band`` of their points.

Members rarely log at quite the same steps. A member counts at its own steps and, by a straight
line, between two of them; never outside its span, and never beside a value that is not finite.
What is shown at a step is thus made only of members that were there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbhub.errors import TbhubError

# One run's steps, wall times and values, in the order they were logged.
Member = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[Any]]
# Given some steps of the grid: wall times and values there, a row per member.
Rows = Callable[[slice], tuple[NDArray[np.float64], NDArray[np.float64]]]
# What the runs of a group have in common: names and values, as text.
Key = tuple[tuple[str, str], ...]

# Members × steps that are worked on at once: what stays in cache, and a bound on memory.
_BLOCK = 1 << 16

_FORMS = (
    "give names of hyperparameters or columns (`hparams.lr`, `lr,batch`, `experiment`) "
    "or `all except` some hyperparameters (`all except seed, host`)"
)
_MISSING = "NA"
_PREFIX = "hparams."


class GroupByError(TbhubError, ValueError):
    """A ``--group-by`` that cannot be understood."""


@dataclass(frozen=True)
class Band:
    """Mean and spread of a group at each step where at least one member counts."""

    steps: NDArray[np.int64]
    wall_times: NDArray[np.float64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]
    count: NDArray[np.int64]

    def lines(self) -> dict[str, NDArray[np.float64]]:
        """What is drawn of it, by name."""
        with np.errstate(over="ignore", invalid="ignore"):
            above, below = self.mean + self.std, self.mean - self.std
        return {
            "mean": self.mean,
            "+std": above,
            "-std": below,
            "min": self.minimum,
            "max": self.maximum,
        }


def aggregate(members: Sequence[Member]) -> Band:
    """Mean, standard deviation and extremes of several runs' series, step by step.

    Members that share all their steps are compared as they are. Otherwise the steps are those of
    all members, thinned evenly to twice as many as the longest member has where there are more,
    and values in between are interpolated. Of points at the same step the last logged counts.

    The deviation is that of a sample (n - 1), and 0 where one member counts. The wall time of a
    step is the latest among the members that count there, and never goes back.
    """
    cleaned = [_clean(*member) for member in members if len(member[0])]
    if not cleaned:
        nothing, nowhere = np.zeros(0), np.zeros(0, np.int64)
        return Band(nowhere, nothing, nothing, nothing, nothing, nothing, nowhere)
    grid = cleaned[0][0]
    if all(np.array_equal(grid, steps) for steps, _, _ in cleaned[1:]):
        rows = _logged(cleaned)
    else:
        grid = _grid([steps for steps, _, _ in cleaned])
        rows = _interpolated(cleaned, grid)
    length = max(1, _BLOCK // len(cleaned))
    blocks = []
    for start in range(0, len(grid), length):
        at = slice(start, start + length)
        blocks.append(_statistics(grid[at], *rows(at)))
    steps, wall_times, *rest = (np.concatenate(column) for column in zip(*blocks, strict=True))
    # fmax passes over NaN, which a wall time may be in a damaged file.
    return Band(steps, np.fmax.accumulate(wall_times), *rest)


def _clean(
    steps: NDArray[np.int64], wall_times: NDArray[np.float64], values: NDArray[Any]
) -> Member:
    """Steps that only go up, of equal ones the last logged; NaN for all that is not finite."""
    if not (steps[1:] > steps[:-1]).all():
        order = np.argsort(steps, kind="stable")
        order = order[np.append(steps[order[1:]] != steps[order[:-1]], True)]
        steps, wall_times, values = steps[order], wall_times[order], values[order]
    values = values.astype(np.float64)
    values[~np.isfinite(values)] = np.nan
    return steps, wall_times, values


def _grid(steps: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The steps of all; bounded, as jittered ones would otherwise add up with every member."""
    union = np.sort(np.concatenate(steps))
    # np.unique takes 40 times as long.
    union = np.compress(np.append(True, union[1:] > union[:-1]), union)
    bound = 2 * max(map(len, steps))
    if len(union) <= bound:
        return union
    return np.take(union, np.linspace(0, len(union) - 1, bound).round().astype(np.intp))


def _logged(members: Sequence[Member]) -> Rows:
    """The members as they are, where they share their steps."""
    return lambda at: (
        np.stack([wall_times[at] for _, wall_times, _ in members]),
        np.stack([values[at] for _, _, values in members]),
    )


def _interpolated(members: Sequence[Member], grid: NDArray[np.int64]) -> Rows:
    """The members on the lines between their points: exact at a point, NaN to and from a NaN."""

    def offsets(steps: NDArray[np.int64]) -> NDArray[np.float64]:
        # Exact for steps that are large themselves (nanoseconds); no difference overflows.
        distances: NDArray[np.uint64] = (steps - grid[0]).view(np.uint64)
        return distances.astype(np.float64)

    here = offsets(grid)
    lines = [(offsets(steps), wall_times, values) for steps, wall_times, values in members]

    def rows(at: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        where = here[at]
        return (
            np.stack([np.interp(where, own, walls, np.nan, np.nan) for own, walls, _ in lines]),
            np.stack([np.interp(where, own, values, np.nan, np.nan) for own, _, values in lines]),
        )

    return rows


def _statistics(
    steps: NDArray[np.int64], wall_times: NDArray[np.float64], values: NDArray[np.float64]
) -> tuple[NDArray[Any], ...]:
    """The columns of a band, from a row per member; steps where none counts are left out."""
    counted = np.isfinite(values)
    count = counted.sum(axis=0)
    if not count.all():
        some = count > 0
        steps, count = steps[some], count[some]
        counted, wall_times, values = counted[:, some], wall_times[:, some], values[:, some]
    minimum = np.where(counted, values, np.inf).min(axis=0)
    maximum = np.where(counted, values, -np.inf).max(axis=0)
    latest = np.where(counted, wall_times, -np.inf).max(axis=0)
    # By step, all is divided by a power of two, which is exact, so that no square overflows or
    # vanishes; and counted from the minimum, so that a large offset costs no digits.
    _, exponent = np.frexp(np.maximum(-minimum, maximum))
    exponent = np.maximum(exponent, -1000)
    values = values * np.ldexp(1.0, -exponent)
    base = np.ldexp(minimum, -exponent)
    values = np.where(counted, values - base, 0)
    shift = values.sum(axis=0) / count
    values = (values - shift) * counted
    variance = np.einsum("ij,ij->j", values, values) / np.maximum(count - 1, 1)
    with np.errstate(over="ignore"):
        std = np.ldexp(np.sqrt(variance), exponent)
        mean = np.clip(np.ldexp(base + shift, exponent), minimum, maximum)
    return steps, latest, mean, std, minimum, maximum, count


@dataclass(frozen=True)
class GroupBy:
    """Which runs belong together: those alike in the named fields, or in all hparams but those."""

    names: tuple[str, ...]
    all_except: bool = False

    def key(self, hparams: Mapping[str, object], columns: Mapping[str, object]) -> Key | None:
        """What a run shares with its group; None if it belongs to none.

        ``hparams.x`` is a hyperparameter; a plain ``x`` is a column of the run where there is one
        of that name, and a hyperparameter otherwise. A run that has some of the named fields but
        not all is NA in the others. With ``all except``, runs that were given different
        hyperparameters are in different groups.

        Numbers are alike when they are equal, as 1 and 1.0 are, but no text is like a number, and
        True is not 1.
        """
        if self.all_except:
            if not hparams:
                return None
            excepted = {name.removeprefix(_PREFIX) for name in self.names}
            return tuple(
                (name, _text(value))
                for name, value in sorted(hparams.items())
                if name not in excepted and value is not None
            )
        found = [self._field(name, hparams, columns) for name in self.names]
        if all(value is None for value in found):
            return None
        labels = [name.removeprefix(_PREFIX) for name in self.names]
        return tuple(zip(labels, map(_text, found), strict=True))

    @staticmethod
    def _field(
        name: str, hparams: Mapping[str, object], columns: Mapping[str, object]
    ) -> object | None:
        if name.startswith(_PREFIX):
            return hparams.get(name.removeprefix(_PREFIX))
        return columns[name] if name in columns else hparams.get(name)

    @staticmethod
    def label(key: Key) -> str:
        """A group's name, like ``lr=.01,batch=32``."""
        return ",".join(f"{name}={text}" for name, text in key) or "all"


def parse_group_by(text: str) -> GroupBy:
    """Reads ``--group-by``: ``hparams.lr,batch``, ``experiment`` or ``all except seed, host``.

    Raises:
        GroupByError: A name is missing, or something else than ``except`` follows ``all``.
    """
    match = re.fullmatch(r"\s*all\s+except\b(.*)", text, re.IGNORECASE | re.DOTALL)
    names = [name.strip() for name in (match[1] if match else text).split(",")]
    if any(name in ("", _PREFIX) for name in names):
        raise GroupByError(f"--group-by {text!r} lacks a name; {_FORMS}")
    if match is None and re.match(r"all\s", names[0], re.IGNORECASE):
        raise GroupByError(f"--group-by {text!r} cannot be understood; {_FORMS}")
    return GroupBy(tuple(dict.fromkeys(names)), all_except=match is not None)


def _text(value: object) -> str:
    """A value such that two are alike if and only if their texts are."""
    if value is None:
        return _MISSING
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Integral):
        return _integer(int(value))
    if isinstance(value, Real):
        return _number(float(value))
    text = str(value)
    return f'"{text}"' if isinstance(value, str) and _looks_otherwise(text) else text


def _integer(value: int) -> str:
    """As the float that is equal, if there is one."""
    try:
        number = float(value)
    except OverflowError:
        return str(value)
    return _number(number) if number == value else str(value)


def _number(value: float) -> str:
    """Every digit that counts and no other: 1, .01, 1e-5."""
    if value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    digits, e, power = repr(value).partition("e")
    digits = re.sub(r"^(-?)0\.", r"\1.", digits)
    return f"{digits}e{int(power)}" if e else digits


def _looks_otherwise(text: str) -> bool:
    """Whether a text reads like a value that is none, and so needs quotes."""
    if text in ("", "True", "False", _MISSING) or text.startswith('"'):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True
