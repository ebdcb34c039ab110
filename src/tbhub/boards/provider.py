"""Boards as TensorBoard's plugins read them: TensorBoard's DataProvider on our series.

The experiment id is the id of a board. `read_blob` is given none, so the board of the request
stands in a context variable, and a key is looked up among that board's runs and nowhere else.
"""

from __future__ import annotations

import base64
import binascii
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

import orjson
from tensorboard import errors
from tensorboard.data import provider

from tbhub.boards.board import Board, ShownRun
from tbhub.boards.kinds import About, Entry, RunIndex
from tbhub.boards.run_index import BLOBS, TENSOR, blobs_of, size_of, tensor_of
from tbhub.boards.sampling import evenly
from tbhub.events.names import SESSION_START_TAG
from tbhub.series.downsample import downsample as sample
from tbhub.series.file_content import Blob

current_board: ContextVar[str] = ContextVar("current_board", default="")


class Boards(Protocol):
    """Where boards are found by their ids."""

    def get(self, board_id: str) -> Board | None: ...


class BoardProvider(provider.DataProvider):  # type: ignore[misc]
    """TensorBoard's view of all boards of this process."""

    def __init__(self, boards: Boards) -> None:
        self._boards = boards
        self._series: weakref.WeakKeyDictionary[ShownRun, tuple[RunIndex, dict[str, Any]]]
        self._series = weakref.WeakKeyDictionary()

    def __str__(self) -> str:
        return "tbhub"

    def board(self, board_id: str) -> Board:
        """The board of an id; NotFoundError when there is none."""
        board = self._boards.get(board_id)
        if board is None:
            raise errors.NotFoundError("no such board")
        return board

    # --- what there is

    def experiment_metadata(self, ctx: Any = None, *, experiment_id: str) -> Any:
        board = self.board(experiment_id)
        return provider.ExperimentMetadata(data_location=board.location)

    def list_plugins(self, ctx: Any = None, *, experiment_id: str) -> list[str]:
        board = self.board(experiment_id)
        found: set[str] = set()
        for run in board.runs.values():
            found |= run.index.plugins
        if board.given_hparams:
            found.add("hparams")
        return sorted(found)

    def list_runs(self, ctx: Any = None, *, experiment_id: str) -> list[Any]:
        # TensorBoard gives colours in the order of start times: the order of adding keeps them.
        return [
            provider.Run(run_id=name, run_name=name, start_time=float(run.order))
            for name, run in self.board(experiment_id).runs.items()
        ]

    # --- scalars

    def list_scalars(
        self,
        ctx: Any = None,
        *,
        experiment_id: str,
        plugin_name: str,
        run_tag_filter: Any = None,
    ) -> dict[str, dict[str, Any]]:
        if plugin_name != "scalars":
            return {}
        result: dict[str, dict[str, Any]] = {}
        for name, run in _chosen_runs(self.board(experiment_id), run_tag_filter):
            series = self._scalar_series(run)
            tags = None if run_tag_filter is None else run_tag_filter.tags
            if tags is not None:
                series = {tag: series[tag] for tag in tags if tag in series}
            if series:
                result[name] = series
        return result

    def _scalar_series(self, run: ShownRun) -> dict[str, Any]:
        """All of a run, kept as long as its tags are the same: some plugins ask each time."""
        index = run.index
        known = self._series.get(run)
        if known is None or known[0] is not index:
            made = {tag: _LazyScalarSeries(run, tag, about) for tag, about in index.scalars.items()}
            known = self._series[run] = (index, made)
        return known[1]

    def read_scalars(
        self,
        ctx: Any = None,
        *,
        experiment_id: str,
        plugin_name: str,
        downsample: int | None = None,
        run_tag_filter: Any = None,
    ) -> dict[str, dict[str, Any]]:
        count = self.board(experiment_id).samples or downsample
        return self._each_scalar(
            experiment_id,
            plugin_name,
            run_tag_filter,
            lambda run, tag: _scalar_data(run, tag, count),
        )

    def read_last_scalars(
        self, ctx: Any = None, *, experiment_id: str, plugin_name: str, run_tag_filter: Any = None
    ) -> dict[str, dict[str, Any]]:
        return self._each_scalar(experiment_id, plugin_name, run_tag_filter, _last_scalar)

    def _each_scalar(
        self,
        experiment_id: str,
        plugin_name: str,
        run_tag_filter: Any,
        make: Callable[[ShownRun, str], Any],
    ) -> dict[str, dict[str, Any]]:
        if plugin_name != "scalars":
            return {}
        result: dict[str, dict[str, Any]] = {}
        for name, run in _chosen_runs(self.board(experiment_id), run_tag_filter):
            tags = _chosen_tags(run.index.scalars, run_tag_filter)
            made = {tag: one for tag in tags if (one := make(run, tag)) is not None}
            if made:
                result[name] = made
        return result

    # --- tensors

    def list_tensors(
        self,
        ctx: Any = None,
        *,
        experiment_id: str,
        plugin_name: str,
        run_tag_filter: Any = None,
    ) -> dict[str, dict[str, Any]]:
        board = self.board(experiment_id)
        found = _each_other(board, plugin_name, TENSOR, run_tag_filter, _tensor_series)
        if plugin_name == "hparams" and _wants(run_tag_filter, "tags", SESSION_START_TAG):
            for name, content in board.given_hparams.items():
                if _wants(run_tag_filter, "runs", name) and (
                    SESSION_START_TAG not in found.get(name, {})
                ):
                    found.setdefault(name, {})[SESSION_START_TAG] = provider.TensorTimeSeries(
                        max_step=0,
                        max_wall_time=0.0,
                        plugin_content=content,
                        description="",
                        display_name="",
                    )
        return found

    def read_tensors(
        self,
        ctx: Any = None,
        *,
        experiment_id: str,
        plugin_name: str,
        downsample: int | None = None,
        run_tag_filter: Any = None,
    ) -> dict[str, dict[str, Any]]:
        def read(run: ShownRun, tag: str, entry: Entry) -> list[Any]:
            chosen = evenly(blobs_of(run.view, tag), downsample)
            return [
                provider.TensorDatum(step=blob.step, wall_time=blob.wall_time, numpy=tensor)
                for blob in chosen
                if (tensor := _try(tensor_of, blob, entry)) is not None
            ]

        board = self.board(experiment_id)
        return _each_other(board, plugin_name, TENSOR, run_tag_filter, read)

    # --- blobs

    def list_blob_sequences(
        self,
        ctx: Any = None,
        *,
        experiment_id: str,
        plugin_name: str,
        run_tag_filter: Any = None,
    ) -> dict[str, dict[str, Any]]:
        board = self.board(experiment_id)
        return _each_other(board, plugin_name, BLOBS, run_tag_filter, _blob_series)

    def read_blob_sequences(
        self,
        ctx: Any = None,
        *,
        experiment_id: str,
        plugin_name: str,
        downsample: int | None = None,
        run_tag_filter: Any = None,
    ) -> dict[str, dict[str, Any]]:
        def read(run: ShownRun, tag: str, entry: Entry) -> list[Any]:
            by_step: dict[int, Blob] = {}
            for blob in blobs_of(run.view, tag):
                by_step.setdefault(blob.step, blob)
            return [
                provider.BlobSequenceDatum(
                    step=step,
                    wall_time=blob.wall_time,
                    values=tuple(
                        provider.BlobReference(_blob_key(run.name, tag, step, number), url=None)
                        for number in range(_try(size_of, blob, entry) or 0)
                    ),
                )
                for step, blob in evenly(sorted(by_step.items()), downsample)
            ]

        board = self.board(experiment_id)
        return _each_other(board, plugin_name, BLOBS, run_tag_filter, read)

    def read_blob(self, ctx: Any = None, *, blob_key: str) -> bytes:
        run_name, tag, step, number = _parse_blob_key(blob_key)
        run = self.board(current_board.get()).runs.get(run_name)
        entry = run.index.others.get(tag) if run else None
        if run is None or entry is None or entry.data_class != BLOBS:
            raise errors.NotFoundError("no such blob in this board")
        for blob in blobs_of(run.view, tag):
            if blob.step == step:
                tensor = _try(tensor_of, blob, entry)
                if tensor is not None and 0 <= number < len(tensor):
                    return bytes(tensor[number])
                break
        raise errors.NotFoundError("this blob is no longer there")


class _LazyScalarSeries(provider.ScalarTimeSeries):  # type: ignore[misc]
    """Metadata of a series; plugins that list thousands of them rarely ask for the ends."""

    __slots__ = ("_run", "_tag")

    def __init__(self, run: ShownRun, tag: str, about: About) -> None:
        super().__init__(
            max_step=None,
            max_wall_time=None,
            plugin_content=about.content,
            description=about.description,
            display_name=about.display_name,
        )
        self._run = weakref.ref(run)  # which the series are kept by
        self._tag = tag

    @property
    def max_step(self) -> int:
        return self._extent[0]

    @property
    def max_wall_time(self) -> float:
        return self._extent[1]

    @property
    def _extent(self) -> tuple[int, float]:
        run = self._run()
        return (0, 0.0) if run is None else run.extent(self._tag)


def _scalar_data(run: ShownRun, tag: str, count: int | None) -> list[Any] | None:
    points = run.points(tag)
    if points is None:
        return None
    steps, wall_times, values = points.steps, points.wall_times, points.values
    if count is not None and count < len(values):
        kept = sample(values, count)
        steps, wall_times, values = steps[kept], wall_times[kept], values[kept]
    return [
        provider.ScalarDatum(step=step, wall_time=wall_time, value=value)
        for step, wall_time, value in zip(
            steps.tolist(), wall_times.tolist(), values.tolist(), strict=True
        )
    ]


def _last_scalar(run: ShownRun, tag: str) -> Any:
    last = run.last(tag)
    if last is None:
        return None
    step, wall_time, value = last
    return provider.ScalarDatum(step=step, wall_time=wall_time, value=value)


def _wants(run_tag_filter: Any, kind: str, name: str) -> bool:
    wanted = None if run_tag_filter is None else getattr(run_tag_filter, kind)
    return wanted is None or name in wanted


def _chosen_runs(board: Board, run_tag_filter: Any) -> Iterator[tuple[str, ShownRun]]:
    wanted = None if run_tag_filter is None else run_tag_filter.runs
    if wanted is None:
        yield from board.runs.items()
        return
    runs = board.runs
    for name in runs if len(wanted) > len(runs) else [name for name in runs if name in wanted]:
        if name in wanted:
            yield name, runs[name]


def _chosen_tags(tags: Mapping[str, Any], run_tag_filter: Any) -> list[str]:
    wanted = None if run_tag_filter is None else run_tag_filter.tags
    if wanted is None:
        return list(tags)
    return [tag for tag in wanted if tag in tags]


def _each_other(
    board: Board,
    plugin_name: str,
    data_class: int,
    run_tag_filter: Any,
    make: Callable[[ShownRun, str, Entry], Any],
) -> dict[str, dict[str, Any]]:
    result: dict[str, dict[str, Any]] = {}
    for name, run in _chosen_runs(board, run_tag_filter):
        if plugin_name not in run.index.plugins:
            continue
        others = run.index.others
        made = {
            tag: make(run, tag, others[tag])
            for tag in _chosen_tags(others, run_tag_filter)
            if others[tag].plugin == plugin_name and others[tag].data_class == data_class
        }
        if made:
            result[name] = made
    return result


def _tensor_series(run: ShownRun, tag: str, entry: Entry) -> Any:
    blobs = blobs_of(run.view, tag)
    return provider.TensorTimeSeries(
        max_step=max(blob.step for blob in blobs),
        max_wall_time=max(blob.wall_time for blob in blobs),
        plugin_content=entry.about.content,
        description=entry.about.description,
        display_name=entry.about.display_name,
    )


def _blob_series(run: ShownRun, tag: str, entry: Entry) -> Any:
    blobs = blobs_of(run.view, tag)
    return provider.BlobSequenceTimeSeries(
        max_step=max(blob.step for blob in blobs),
        max_wall_time=max(blob.wall_time for blob in blobs),
        max_length=run.longest(tag, blobs, lambda blob: _try(size_of, blob, entry) or 0),
        plugin_content=entry.about.content,
        description=entry.about.description,
        display_name=entry.about.display_name,
    )


def _try(read: Callable[[Blob, Entry], Any], blob: Blob, entry: Entry) -> Any:
    """A value that can no longer be read is left out: its file may just have been replaced."""
    try:
        return read(blob, entry)
    except (OSError, ValueError, TypeError):
        return None


def _blob_key(run: str, tag: str, step: int, number: int) -> str:
    data = orjson.dumps([run, tag, step, number])
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _parse_blob_key(key: str) -> tuple[str, str, int, int]:
    try:
        data = base64.urlsafe_b64decode(key.encode("ascii") + b"=" * (-len(key) % 4))
        run, tag, step, number = orjson.loads(data)
    except (ValueError, TypeError, binascii.Error) as error:
        raise errors.InvalidArgumentError("not a blob key") from error
    if not (
        isinstance(run, str)
        and isinstance(tag, str)
        and isinstance(step, int)
        and isinstance(number, int)
    ):
        raise errors.InvalidArgumentError("not a blob key")
    return run, tag, step, number
