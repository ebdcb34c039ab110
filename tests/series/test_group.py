"""Groups of runs: their mean and spread against a slow and obvious reference, and their names."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tbhub.errors import TbhubError
from tbhub.series.group import Band, GroupBy, Member, aggregate, parse_group_by

Points = list[tuple[int, float, float]]  # step, wall time, value


def member(points: Points, dtype: type = np.float64) -> Member:
    return (
        np.array([step for step, _, _ in points], np.int64),
        np.array([wall_time for _, wall_time, _ in points], np.float64),
        np.array([value for _, _, value in points], dtype),
    )


def at_steps(steps: list[int], values: list[float]) -> Member:
    return member([(step, float(step), value) for step, value in zip(steps, values, strict=True)])


def value_at(points: Points, step: int) -> tuple[float, float] | None:
    """Wall time and value of a member at a step, point by point."""
    last = {own: (wall_time, value) for own, wall_time, value in points}
    if step in last:
        return last[step] if math.isfinite(last[step][1]) else None
    before = [own for own in last if own < step]
    behind = [own for own in last if own > step]
    if not before or not behind:
        return None
    left, right = max(before), min(behind)
    share = Fraction(step - left, right - left)
    ends = (last[left], last[right])
    if not all(math.isfinite(value) for _, value in ends):
        return None
    wall_time, value = (
        float(Fraction(a) + share * (Fraction(b) - Fraction(a))) for a, b in zip(*ends, strict=True)
    )
    return wall_time, value


def reference(members: list[Points]) -> list[tuple[float, ...]]:
    grid = sorted({step for points in members for step, _, _ in points})
    bound = 2 * max(len({step for step, _, _ in points}) for points in members)
    if len(grid) > bound:
        grid = [grid[round(at)] for at in np.linspace(0, len(grid) - 1, bound)]
    rows: list[tuple[float, ...]] = []
    latest = -math.inf
    for step in grid:
        there = [found for points in members if (found := value_at(points, step))]
        if not there:
            continue
        latest = max(latest, *(wall_time for wall_time, _ in there))
        values = [value for _, value in there]
        mean = statistics.mean(map(Fraction, values))
        std = statistics.stdev(values) if len(values) > 1 else 0.0
        rows.append((step, latest, float(mean), std, min(values), max(values), len(values)))
    return rows


def columns(band: Band) -> np.ndarray:
    return np.array(
        [
            band.steps,
            band.wall_times,
            band.mean,
            band.std,
            band.minimum,
            band.maximum,
            band.count,
        ]
    ).T


def assert_is_reference(members: list[Points]) -> None:
    band = aggregate([member(points) for points in members])
    expected = np.array(reference(members)).reshape(-1, 7)
    found = columns(band)
    np.testing.assert_array_equal(found[:, [0, 6]], expected[:, [0, 6]])
    largest = max(
        (abs(value) for points in members for _, _, value in points if math.isfinite(value)),
        default=0,
    )
    np.testing.assert_allclose(found[:, 1], expected[:, 1], rtol=1e-12)
    np.testing.assert_allclose(found[:, 2:6], expected[:, 2:6], rtol=1e-9, atol=largest * 1e-13)
    assert (band.minimum <= band.mean).all()
    assert (band.mean <= band.maximum).all()
    assert (band.std >= 0).all()
    assert (np.diff(band.steps) > 0).all()
    assert (np.diff(band.wall_times) >= 0).all()


FINITE = st.floats(-1e12, 1e12, allow_subnormal=False)
VALUES = FINITE | st.sampled_from([math.nan, math.inf, -math.inf])
WALL_TIMES = st.integers(0, 1000).map(lambda each: 1e9 + each)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(-9, 30), WALL_TIMES, VALUES), min_size=1), min_size=1)
)
def test_members_at_any_steps(members: list[Points]) -> None:
    assert_is_reference(members)


@settings(deadline=None)
@given(st.lists(st.lists(VALUES, min_size=12, max_size=12), min_size=1, max_size=5))
def test_members_at_the_same_steps(rows: list[list[float]]) -> None:
    assert_is_reference(
        [[(step, 1e9 + step, value) for step, value in enumerate(row)] for row in rows]
    )


def test_more_points_than_are_worked_on_at_once() -> None:
    random = np.random.default_rng(0)
    steps = np.arange(30_000)
    values = random.standard_normal((5, 30_000))
    band = aggregate([(steps, steps * 1.0, row.astype(np.float32)) for row in values])
    rows = values.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(band.steps, steps)
    np.testing.assert_array_equal(band.wall_times, steps)
    np.testing.assert_allclose(band.mean, rows.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(band.std, rows.std(axis=0, ddof=1), atol=1e-12)
    np.testing.assert_array_equal(band.minimum, rows.min(axis=0))
    np.testing.assert_array_equal(band.maximum, rows.max(axis=0))
    assert (band.count == 5).all()
    assert {column.dtype for column in (band.steps, band.count)} == {np.dtype(np.int64)}
    assert band.mean.dtype == np.float64


def test_a_member_counts_between_its_points_and_not_outside() -> None:
    band = aggregate([at_steps([0, 10, 20], [0, 10, 20]), at_steps([5, 15], [7, 17])])
    assert band.steps.tolist() == [0, 5, 10, 15, 20]
    assert band.count.tolist() == [1, 2, 2, 2, 1]
    assert band.mean.tolist() == [0, 6, 11, 16, 20]
    assert band.std[[0, 4]].tolist() == [0, 0]
    assert band.std[1] == pytest.approx(math.sqrt(2))


def test_no_line_is_drawn_to_a_nan() -> None:
    gap = at_steps([0, 10, 20, 30], [0, math.nan, 20, 30])
    band = aggregate([gap, at_steps([0, 5, 10, 15, 20, 25, 30], [1] * 7)])
    assert band.steps.tolist() == [0, 5, 10, 15, 20, 25, 30]
    assert band.count.tolist() == [2, 1, 1, 1, 2, 2, 2]


def test_steps_where_no_member_counts_are_left_out() -> None:
    band = aggregate([at_steps([0, 1, 2], [1, math.nan, 3]), at_steps([0, 1, 2], [1, math.inf, 5])])
    assert band.steps.tolist() == [0, 2]
    assert band.mean.tolist() == [1, 4]
    assert len(aggregate([at_steps([0, 1], [math.nan, math.nan])]).steps) == 0


def test_of_equal_steps_the_last_logged_wins() -> None:
    again = member([(0, 1, 1), (2, 2, 2), (1, 3, 8), (2, 4, 9), (1, 5, 7)])
    band = aggregate([again])
    assert band.steps.tolist() == [0, 1, 2]
    assert band.mean.tolist() == [1, 7, 9]
    assert band.wall_times.tolist() == [1, 5, 5]


def test_jittered_steps_stay_bounded() -> None:
    random = np.random.default_rng(0)
    members = [
        at_steps(np.sort(random.choice(100_000, 50, replace=False)).tolist(), [1.0] * 50)
        for _ in range(40)
    ]
    band = aggregate(members)
    assert len(band.steps) == 100
    assert band.steps[0] == min(steps[0] for steps, _, _ in members)
    assert band.steps[-1] == max(steps[-1] for steps, _, _ in members)
    assert band.mean.tolist() == [1.0] * 100
    assert band.std.tolist() == [0.0] * 100


def test_nothing_to_aggregate() -> None:
    for members in ([], [member([])], [member([]), member([])]):
        band = aggregate(members)
        assert columns(band).shape == (0, 7)
        assert band.steps.dtype == np.int64
    assert aggregate([member([]), at_steps([1], [2])]).mean.tolist() == [2]


def test_a_large_offset_costs_no_digits() -> None:
    noise = np.random.default_rng(0).integers(-1000, 1000, (5, 100)) / 1024
    steps = np.arange(100)
    band = aggregate([(steps, steps * 1.0, 1e9 + row) for row in noise])
    np.testing.assert_allclose(band.std, noise.std(axis=0, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(band.mean - 1e9, noise.mean(axis=0), atol=2e-7)


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e-160, 1e160, 1e300, 1.7e308])
def test_the_largest_and_the_smallest_numbers(size: float) -> None:
    band = aggregate([at_steps([0, 1], [size, 0]), at_steps([0, 1], [size, size])])
    assert band.mean[0] == size
    assert band.std[0] == 0
    assert band.mean[1] == size / 2
    assert band.std[1] == pytest.approx(size * math.sqrt(0.5), rel=1e-12)
    opposite = aggregate([at_steps([0], [size]), at_steps([0], [-size])])
    assert opposite.mean.tolist() == [0]
    assert opposite.std[0] >= size
    assert all(len(line) == 1 for line in opposite.lines().values())


def test_members_that_are_alike_do_not_spread() -> None:
    band = aggregate([at_steps([0, 1], [0.1, 0.3])] * 3)
    assert band.mean.tolist() == [0.1, 0.3]
    assert band.std.tolist() == [0, 0]


def test_steps_as_large_as_nanoseconds() -> None:
    start = 1_700_000_000_000_000_000
    band = aggregate([at_steps([start, start + 2], [0, 2]), at_steps([start + 1], [5])])
    assert (band.steps - start).tolist() == [0, 1, 2]
    assert band.mean.tolist() == [0, 3, 2]
    ends = aggregate([at_steps([-(2**63), 2**63 - 1], [0, 1]), at_steps([0], [5])])
    assert ends.mean.tolist() == [0, 2.75, 1]


def test_a_wall_time_that_is_none_does_no_harm() -> None:
    band = aggregate([member([(0, 5, 1), (1, math.nan, 2), (2, 7, 3)])])
    assert band.wall_times.tolist() == [5, 5, 7]


def test_members_are_not_changed() -> None:
    steps, wall_times, values = at_steps([2, 1, 3], [1, math.inf, 2])
    for column in (steps, wall_times, values):
        column.flags.writeable = False
    aggregate([(steps, wall_times, values), at_steps([1, 2], [1, 2])])
    assert values.tolist() == [1, math.inf, 2]


def test_lines() -> None:
    lines = aggregate([at_steps([0], [1]), at_steps([0], [3])]).lines()
    assert list(lines) == ["mean", "+std", "-std", "min", "max"]
    assert lines["mean"].tolist() == [2]
    assert lines["+std"].tolist() == [2 + math.sqrt(2)]
    assert lines["-std"].tolist() == [2 - math.sqrt(2)]
    assert (lines["min"].tolist(), lines["max"].tolist()) == ([1], [3])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lr", GroupBy(("lr",))),
        (" hparams.lr ", GroupBy(("hparams.lr",))),
        ("hparams.lr,hparams.batch", GroupBy(("hparams.lr", "hparams.batch"))),
        ("lr, lr, experiment", GroupBy(("lr", "experiment"))),
        ("all except seed", GroupBy(("seed",), all_except=True)),
        ("All  except hparams.seed,host", GroupBy(("hparams.seed", "host"), all_except=True)),
        ("hparams.all exceptions", GroupBy(("hparams.all exceptions",))),
        ("learning rate,all units", GroupBy(("learning rate", "all units"))),
        ("all", GroupBy(("all",))),
    ],
)
def test_group_by_forms(text: str, expected: GroupBy) -> None:
    assert parse_group_by(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        ",",
        "lr,",
        ",lr",
        "lr,,batch",
        "hparams.",
        "all except",
        "all except ,",
        "all except,a",
        "all exept seed",
        "ALL but seed, host",
        "all exceptions",
    ],
)
def test_group_by_that_cannot_be_understood(text: str) -> None:
    with pytest.raises(ValueError, match="`all except seed, host`") as caught:
        parse_group_by(text)
    assert isinstance(caught.value, TbhubError)
    assert repr(text) in str(caught.value)


@settings(deadline=None)
@given(st.text(alphabet="al except,.hpr", max_size=30))
def test_group_by_is_read_or_refused(text: str) -> None:
    try:
        group_by = parse_group_by(text)
    except ValueError:
        return
    assert group_by.names
    assert all(name == name.strip() != "" for name in group_by.names)


HPARAMS = {"lr": 0.01, "batch": 32.0, "seed": 1.0, "host": "a"}
COLUMNS = {"experiment": "cifar", "host": "node7"}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("lr", "lr=.01"),
        ("hparams.lr,hparams.batch", "lr=.01,batch=32"),
        ("batch,lr", "batch=32,lr=.01"),
        ("lr,momentum", "lr=.01,momentum=NA"),
        ("experiment,lr", "experiment=cifar,lr=.01"),
        ("host", "host=node7"),
        ("hparams.host", "host=a"),
        ("all except seed", "batch=32,host=a,lr=.01"),
        ("all except seed, hparams.host", "batch=32,lr=.01"),
        ("all except lr,batch,seed,host", "all"),
    ],
)
def test_groups_are_named_by_what_they_share(text: str, label: str) -> None:
    group_by = parse_group_by(text)
    key = group_by.key(HPARAMS, COLUMNS)
    assert key is not None
    assert group_by.label(key) == label


def test_runs_that_belong_to_no_group() -> None:
    assert parse_group_by("momentum,nesterov").key(HPARAMS, COLUMNS) is None
    assert parse_group_by("hparams.experiment").key(HPARAMS, COLUMNS) is None
    assert parse_group_by("all except seed").key({}, COLUMNS) is None
    assert parse_group_by("lr").key({"lr": None}, {}) is None


def same(one: object, other: object) -> bool:
    group_by = parse_group_by("x")
    return group_by.key({"x": one}, {}) == group_by.key({"x": other}, {})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (0.01, 1e-2),
        (0.0, -0.0),
        (10**20, 1e20),
        (np.float64(0.1), 0.1),
        (np.int64(3), 3),
        (math.nan, -math.nan),
        (np.True_, True),
    ],
)
def test_equal_numbers_are_alike(one: object, other: object) -> None:
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, 1),
        (False, 0),
        (True, "True"),
        (0.01, "0.01"),
        (0.01, ".01"),
        (1, "1"),
        ("1", '"1"'),
        (math.nan, "nan"),
        (0.1, np.float32(0.1)),
        (2**53, 2**53 + 1),
        ("a", "A"),
        (10**400, 1e300),
    ],
)
def test_others_are_not(one: object, other: object) -> None:
    assert not same(one, other)


SCALARS = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@settings(deadline=None)
@given(SCALARS, SCALARS)
def test_alike_means_equal_and_of_one_kind(one: object, other: object) -> None:
    def kind(value: object) -> str:
        return "number" if type(value) in (int, float) else type(value).__name__

    assert same(one, other) == (kind(one) == kind(other) and one == other)


def test_text_that_reads_na_is_not_missing() -> None:
    group_by = parse_group_by("a,b")
    assert group_by.key({"a": "NA", "b": 1}, {}) != group_by.key({"b": 1}, {})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, ".5"),
        (-0.25, "-.25"),
        (1e-5, "1e-5"),
        (1.5e-7, "1.5e-7"),
        (1e300, "1e300"),
        (10.5, "10.5"),
        (3e4, "30000"),
        (math.inf, "inf"),
        (True, "True"),
        ("adam", "adam"),
        ("", '""'),
        ([1, 2], "[1, 2]"),
    ],
)
def test_values_are_short(value: object, text: str) -> None:
    assert parse_group_by("x").key({"x": value}, {}) == (("x", text),)
