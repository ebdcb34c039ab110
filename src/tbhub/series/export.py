"""Series written as CSV, JSON or Parquet, piece by piece.

Numbers are exact: a float has the shortest digits that read back as the same double, and a float32
is written as its double, which is what TensorBoard shows of it.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from tbhub.series.downsample import downsample
from tbhub.series.run_data import ScalarSeries

# Points formatted at a time: so few that their texts stay in the processor's cache.
_TEXT_PIECE = 1 << 13
# Points in a row group of Parquet, at least; only the last one may have fewer.
_ROW_GROUP = 1 << 20

# As Python writes them, and with it TensorBoard's own CSV.
_CSV_NON_FINITE = {"nan": b"nan", "inf": b"inf", "-inf": b"-inf"}
# JSON has no numbers for them; these are TensorBoard's strings.
_JSON_NON_FINITE = {"nan": b'"NaN"', "inf": b'"Infinity"', "-inf": b'"-Infinity"'}


def series_writer(
    kind: str, stream: BinaryIO, advance: Callable[[int], None] = lambda points: None
) -> SeriesWriter:
    """The writer of a format: ``csv``, ``json`` or ``parquet``.

    Args:
        kind: The name of the format.
        stream: Where the bytes go. It need not be seekable, and stays open.
        advance: Told every now and then how many points more are written.

    Raises:
        ImportError: Parquet is asked for, and pyarrow is not installed.
    """
    writers: dict[str, type[SeriesWriter]] = {
        "csv": _CsvWriter,
        "json": _JsonWriter,
        "parquet": _ParquetWriter,
    }
    return writers[kind](stream, advance)


class Points(NamedTuple):
    """The points of a series: three arrays of one length."""

    steps: NDArray[np.int64]
    wall_times: NDArray[np.float64]
    values: NDArray[Any]

    def at(self, where: slice | NDArray[np.intp]) -> Points:
        """Some of the points."""
        return Points(self.steps[where], self.wall_times[where], self.values[where])


def points_of(series: ScalarSeries, at_most: int | None = None) -> Points:
    """All points of a series, or at most so many with its extremes among them."""
    points = Points(series.steps, series.wall_times, series.values)
    return points if at_most is None else points.at(downsample(points.values, at_most))


class SeriesWriter(ABC):
    """Takes series one after the other, and writes a whole document when it is left in peace.

    Nothing reaches the stream before the first series. When an error ends the ``with`` block, the
    document stays without its end, so that no one takes it for a whole one.
    """

    def __init__(self, stream: BinaryIO, advance: Callable[[int], None]) -> None:
        self._stream = stream
        self._advance = advance
        self._count = 0

    def add(self, run: str, tag: str, points: Points) -> None:
        """Writes one series; its names are text that UTF-8 can hold."""
        if self._count == 0:
            self._begin()
        self._add(run, tag, points)
        self._count += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._abandon()
            return
        if self._count == 0:
            self._begin()
        self._finish()

    @abstractmethod
    def _begin(self) -> None:
        """Writes what comes before all series."""

    @abstractmethod
    def _add(self, run: str, tag: str, points: Points) -> None: ...

    @abstractmethod
    def _finish(self) -> None:
        """Writes what comes behind all series."""

    @abstractmethod
    def _abandon(self) -> None:
        """Writes nothing any more."""


class _CsvWriter(SeriesWriter):
    """One row per point, quoted as RFC 4180 says."""

    def _begin(self) -> None:
        self._stream.write(b"run,tag,step,wall_time,value\n")

    def _add(self, run: str, tag: str, points: Points) -> None:
        names = b"%b,%b," % (_quoted(run), _quoted(tag))
        between_rows = b"\n" + names
        for steps, wall_times, values in _pieces(points, _TEXT_PIECE):
            columns = (
                _texts(steps),
                _float_texts(wall_times, _CSV_NON_FINITE),
                _float_texts(values, _CSV_NON_FINITE),
            )
            rows = between_rows.join(map(b",".join, zip(*columns, strict=True)))
            self._stream.write(b"%b%b\n" % (names, rows))
            self._advance(len(steps))

    def _finish(self) -> None:
        pass

    def _abandon(self) -> None:
        pass


class _JsonWriter(SeriesWriter):
    """One array with an object for each series, each on a line of its own."""

    def _begin(self) -> None:
        self._stream.write(b"[")

    def _add(self, run: str, tag: str, points: Points) -> None:
        names = orjson.dumps({"run": run, "tag": tag})[:-1]
        self._stream.write(b'%b\n%b,"points":{' % (b"," if self._count else b"", names))
        for column, name in enumerate((b'"step":[', b'],"wall_time":[', b'],"value":[')):
            self._stream.write(name)
            for index, piece in enumerate(_pieces(points, _TEXT_PIECE)):
                text = _json_numbers(piece[column])
                self._stream.write(b"," + text if index else text)
                if name == b'],"value":[':
                    self._advance(len(piece[column]))
        self._stream.write(b"]}}")

    def _finish(self) -> None:
        self._stream.write(b"\n]\n")

    def _abandon(self) -> None:
        pass


class _ParquetWriter(SeriesWriter):
    """One row per point, in row groups of about a million however short the series are."""

    def __init__(self, stream: BinaryIO, advance: Callable[[int], None]) -> None:
        # An extra of ours, and slow to import.
        import pyarrow
        import pyarrow.parquet

        super().__init__(stream, advance)
        self._arrow: Any = pyarrow
        self._sink = _Sink(stream)
        self._file: Any = None
        self._waiting: list[tuple[str, str, Points]] = []
        self._rows = 0

    def _begin(self) -> None:
        arrow = self._arrow
        name = arrow.dictionary(arrow.int32(), arrow.string())
        schema = arrow.schema(
            [
                ("run", name),
                ("tag", name),
                ("step", arrow.int64()),
                ("wall_time", arrow.float64()),
                ("value", arrow.float64()),
            ]
        )
        # Half the size of the defaults, and faster to write and to read.
        self._file = arrow.parquet.ParquetWriter(
            self._sink,
            schema,
            compression="zstd",
            use_dictionary=["run", "tag"],
            column_encoding={
                "step": "DELTA_BINARY_PACKED",
                "wall_time": "BYTE_STREAM_SPLIT",
                "value": "BYTE_STREAM_SPLIT",
            },
        )

    def _add(self, run: str, tag: str, points: Points) -> None:
        for steps, wall_times, values in _pieces(points, _ROW_GROUP):
            # Copies, because what waits would keep the whole of its run in memory.
            self._waiting.append((run, tag, Points(steps.copy(), wall_times.copy(), values)))
            self._rows += len(steps)
            if self._rows >= _ROW_GROUP:
                self._write_group()
            self._advance(len(steps))

    def _finish(self) -> None:
        if self._waiting:
            self._write_group()
        self._file.close()

    def _abandon(self) -> None:
        self._sink.is_open = False
        with contextlib.suppress(Exception):  # it has failed before
            if self._file is not None:
                self._file.close()

    def _write_group(self) -> None:
        runs, tags, pieces = zip(*self._waiting, strict=True)
        lengths = [len(piece.steps) for piece in pieces]
        numbers = [np.concatenate(column) for column in zip(*pieces, strict=True)]
        self._waiting, self._rows = [], 0
        table = self._arrow.table(
            [self._names(runs, lengths), self._names(tags, lengths), *numbers],
            schema=self._file.schema,
        )
        self._file.write_table(table, row_group_size=len(table))

    def _names(self, names: Sequence[str], lengths: list[int]) -> Any:
        """Each name as often as it has points."""
        codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
        indices = np.repeat(np.array([codes[name] for name in names], np.int32), lengths)
        return self._arrow.DictionaryArray.from_arrays(indices, list(codes))


class _Sink:
    """The stream as pyarrow sees it, who ends the document even when it is thrown away."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.is_open = True
        self.closed = False

    def write(self, data: bytes) -> int:
        if self.is_open:
            self._stream.write(data)
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def _pieces(points: Points, size: int) -> Iterator[Points]:
    """So many points at a time, their values as doubles."""
    for start in range(0, len(points.steps), size):
        piece = points.at(slice(start, start + size))
        yield piece._replace(values=piece.values.astype(np.float64))


def _json_numbers(numbers: NDArray[Any]) -> bytes:
    """The numbers with commas between them."""
    if np.isfinite(numbers).all():
        return _joined_texts(numbers)
    return b",".join(_float_texts(numbers, _JSON_NON_FINITE))


def _float_texts(numbers: NDArray[np.float64], non_finite: Mapping[str, bytes]) -> list[bytes]:
    texts = _texts(numbers)
    for index in np.flatnonzero(~np.isfinite(numbers)).tolist():
        texts[index] = non_finite[str(numbers[index])]
    return texts


def _texts(numbers: NDArray[Any]) -> list[bytes]:
    return _joined_texts(numbers).split(b",")


def _joined_texts(numbers: NDArray[Any]) -> bytes:
    # Ten times as fast as Python's repr, with the same digits; ``null`` is what is not finite.
    return orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]


def _quoted(name: str) -> bytes:
    if any(special in name for special in ',"\r\n'):
        name = '"' + name.replace('"', '""') + '"'
    return name.encode()
