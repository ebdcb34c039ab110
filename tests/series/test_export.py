"""Series as CSV, JSON and Parquet: what other programs read is what was logged, bit by bit."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tbhub.series import export
from tbhub.series.export import Points, points_of, series_writer
from tbhub.series.run_data import ScalarSeries

Series = list[tuple[str, str, Points]]

FORMATS = ("csv", "json", "parquet")
HOSTILE = [
    "a,b",
    'say "hi"',
    '"',
    "two\nlines",
    "dos\r\nline",
    "\r",
    "",
    " spaces ",
    "=1+1",
    "naïve/损失/🙂",
    "nul\0tab\t\x1b[31m",
    "NaN",
    "\\",
]


def points(values: Any, start: int = 0) -> Points:
    values = np.asarray(values)
    steps = np.arange(start, start + len(values), dtype=np.int64)
    return Points(steps, 1.7e9 + steps / 3, values)


def written(kind: str, series: Series) -> bytes:
    stream = io.BytesIO()
    with series_writer(kind, stream) as writer:
        for run, tag, each in series:
            writer.add(run, tag, each)
    return stream.getvalue()


def rows(series: Series) -> list[tuple[Any, ...]]:
    return [
        (run, tag, *numbers)
        for run, tag, each in series
        for numbers in zip(*(column.tolist() for column in each), strict=True)
    ]


def read(kind: str, data: bytes) -> list[tuple[Any, ...]]:
    """The rows of a document, by a reader that is not ours."""
    if kind == "csv":
        header, *found = csv.reader(io.StringIO(data.decode(), newline=""))
        assert header == ["run", "tag", "step", "wall_time", "value"]
        return [
            (run, tag, int(step), float(time), float(value))
            for run, tag, step, time, value in found
        ]
    if kind == "json":
        return [
            (each["run"], each["tag"], step, float(time), float(value))
            for each in json.loads(data)
            for step, time, value in zip(*each["points"].values(), strict=True)
        ]
    table = pq.read_table(io.BytesIO(data))
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def same(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> bool:
    """Equal with NaN equal to NaN and the sign of zero looked at."""
    return [tuple(map(repr, row)) for row in found] == [tuple(map(repr, row)) for row in expected]


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=60, deadline=None)
@given(
    names=st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]))] * 2),
    steps=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20),
    data=st.data(),
)
def test_every_bit_comes_back(
    kind: str, names: tuple[str, str], steps: list[int], data: st.DataObject
) -> None:
    width = data.draw(st.sampled_from([32, 64]))
    count = len(steps)
    values = data.draw(st.lists(st.floats(width=width), min_size=count, max_size=count))
    times = data.draw(st.lists(st.floats(), min_size=count, max_size=count))
    each = Points(
        np.array(steps, np.int64),
        np.array(times, np.float64),
        np.array(values, np.float32 if width == 32 else np.float64),
    )
    series = [(*names, each)]
    assert same(read(kind, written(kind, series)), rows(series))


@pytest.mark.parametrize("kind", FORMATS)
def test_hostile_names(kind: str) -> None:
    series = [(run, tag, points([1.0])) for run in HOSTILE for tag in HOSTILE]
    assert same(read(kind, written(kind, series)), rows(series))


@pytest.mark.parametrize("kind", FORMATS)
def test_series_longer_and_shorter_than_a_piece(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_TEXT_PIECE", 100)
    monkeypatch.setattr(export, "_ROW_GROUP", 100)
    random = np.random.default_rng(0)
    series: Series = []
    for number, length in enumerate((1, 99, 1, 100, 101, 1000, 3)):
        values = random.standard_normal(length).astype(np.float32)
        values[random.random(length) < 0.01] = np.nan
        series.append((f"run{number % 2}", f"tag{number}", points(values)))
    told: list[int] = []
    stream = io.BytesIO()
    with series_writer(kind, stream, told.append) as writer:
        for run, tag, each in series:
            writer.add(run, tag, each)
    assert same(read(kind, stream.getvalue()), rows(series))
    assert sum(told) == 1305


def test_float32_is_written_as_the_double_tensorboard_shows() -> None:
    value = np.float32(0.1)
    data = written("csv", [("r", "t", points(np.array([value])))])
    text = data.decode().splitlines()[1].split(",")[-1]
    assert text == repr(float(value)) == "0.10000000149011612"
    assert np.float32(text) == value


def test_json_is_one_document_with_a_series_to_a_line() -> None:
    values = [1.5, math.nan, math.inf, -math.inf]
    data = written("json", [("r", "a\nb", points(values)), ("r", "c", points([2.0]))])
    assert data.count(b"\n") == 4
    assert json.loads(data.splitlines()[2])["tag"] == "c"
    first = json.loads(data)[0]
    assert list(first) == ["run", "tag", "points"]
    assert first["points"]["value"] == [1.5, "NaN", "Infinity", "-Infinity"]


def test_csv_of_not_finite_numbers_is_what_pandas_reads() -> None:
    values = [1.5, math.nan, math.inf, -math.inf]
    data = written("csv", [("r", "t", points(values))])
    frame = pd.read_csv(io.BytesIO(data))
    np.testing.assert_array_equal(frame["value"].to_numpy(), values)


def test_parquet_has_names_as_dictionaries_and_few_row_groups() -> None:
    series = [(f"run{number % 10}", f"tag{number}", points([1.0, 2.0])) for number in range(500)]
    file = pq.ParquetFile(io.BytesIO(written("parquet", series)))
    assert file.num_row_groups == 1
    schema = {field.name: str(field.type) for field in file.schema_arrow}
    name = "dictionary<values=string, indices=int32, ordered=0>"
    assert schema == {
        "run": name,
        "tag": name,
        "step": "int64",
        "wall_time": "double",
        "value": "double",
    }


@pytest.mark.parametrize("kind", FORMATS)
def test_no_series_is_an_empty_document(kind: str) -> None:
    assert read(kind, written(kind, [])) == []


@pytest.mark.parametrize("kind", FORMATS)
def test_nothing_is_written_before_the_first_series(kind: str) -> None:
    stream = io.BytesIO()
    with pytest.raises(KeyError), series_writer(kind, stream):
        raise KeyError
    assert stream.getvalue() == b""


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_document_that_was_given_up_is_not_taken_for_a_whole_one(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_ROW_GROUP", 10)
    stream = io.BytesIO()
    writer = series_writer(kind, stream)
    writer.add("r", "t", points(np.zeros(100)))
    writer.__exit__(KeyError, KeyError(), None)
    del writer
    assert stream.getvalue()
    with pytest.raises(ValueError, match=r"Parquet|Expecting"):
        read(kind, stream.getvalue())


class FullDisk(io.BytesIO):
    """Takes so many bytes and no more."""

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > 1000:
            raise OSError(28, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("kind", FORMATS)
def test_an_error_of_the_stream_comes_through(kind: str) -> None:
    with (
        pytest.raises(OSError, match="No space left"),
        series_writer(kind, FullDisk()) as writer,
    ):
        writer.add("r", "t", points(np.random.default_rng(0).random(5000)))


def test_points_of_a_series_and_of_a_downsampled_one() -> None:
    values = np.sin(np.arange(10_000)).astype(np.float32)
    values[5000] = 7
    series = ScalarSeries("t", [points(values)])  # type: ignore[list-item]
    assert len(points_of(series).steps) == 10_000
    some = points_of(series, 100)
    assert len(some.steps) <= 100
    assert 7 in some.values
    np.testing.assert_array_equal(some.values, values[some.steps])
    np.testing.assert_array_equal(some.wall_times, 1.7e9 + some.steps / 3)
