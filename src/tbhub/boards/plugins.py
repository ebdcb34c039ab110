"""TensorBoard's plugins for our application: its own, with the requests that matter made fast.

A page asks for every tag and every visible chart again at each refresh. These answers are put
together from fragments of JSON that are kept as long as the run they belong to has not changed.
"""

from __future__ import annotations

import json
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import orjson
from tensorboard import errors, plugin_util
from tensorboard.plugins.histogram import metadata as histogram_metadata
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.plugins.metrics import metrics_plugin
from tensorboard.plugins.scalar import metadata as scalar_metadata
from tensorboard.plugins.scalar import scalars_plugin
from werkzeug import exceptions, wrappers

from tbhub._kernel import points_to_json
from tbhub.boards.board import Board, ShownRun
from tbhub.boards.kinds import RunIndex
from tbhub.boards.provider import BoardProvider
from tbhub.series.downsample import downsample

_KEPT_BYTES = 64 << 20


class Request(wrappers.Request):
    """A request whose size the host has bounded: forms name as many runs as a board has."""

    max_form_memory_size = None
    max_form_parts = 1 << 30


as_wsgi: Callable[[Callable[..., Any]], Any] = Request.application


class Fragments:
    """Pieces of answers, the least recently used of which go first."""

    def __init__(self, limit: int = _KEPT_BYTES) -> None:
        self._limit = limit
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """The fragment of a key, made if it is not there."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        made = make()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._size += len(made)
            while self._size > self._limit and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self._size -= len(dropped)
        return made

    def series(self, run: ShownRun, tag: str, count: int, as_objects: bool) -> bytes:
        """A series as JSON; empty bytes when there is none."""
        key = (run.stamp, tag, count, as_objects)
        return self.get(key, lambda: _series_json(run, tag, count, as_objects))


def _series_json(run: ShownRun, tag: str, count: int, as_objects: bool) -> bytes:
    points = run.points(tag)
    if points is None:
        return b""
    steps, wall_times, values = points.steps, points.wall_times, points.values
    if len(values) > count:
        kept = downsample(values, count)
        steps, wall_times, values = steps[kept], wall_times[kept], values[kept]
    return points_to_json(wall_times, steps, values, as_objects)


class MetricsPlugin(metrics_plugin.MetricsPlugin):  # type: ignore[misc]
    """Time Series."""

    def __init__(self, context: Any, fragments: Fragments) -> None:
        super().__init__(context)
        self._provider: BoardProvider = context.data_provider
        self._fragments = fragments
        self._tags = _OfIndex(_tags_json)

    @as_wsgi
    def _serve_time_series(self, request: wrappers.Request) -> Any:
        experiment = plugin_util.experiment_id(request.environ)
        wanted = _requests(request)
        context = plugin_util.context(request.environ)
        board = self._provider.board(experiment)
        parts = [self._one(context, board, one) for one in wanted]
        return answer(b"[" + b",".join(parts) + b"]")

    def _one(self, context: Any, board: Board, wanted: dict[str, Any]) -> bytes:
        if wanted.get("plugin") != "scalars" or not isinstance(wanted.get("tag"), str):
            return _dumps(self._get_time_series(context, board.id, wanted))
        tag, only = wanted["tag"], wanted.get("run")
        count = board.samples or self._plugin_downsampling["scalars"]
        runs = board.runs
        # TensorBoard takes an empty or missing run to mean all.
        chosen = runs.values() if not only else filter(None, [runs.get(only)])
        series = [
            orjson.dumps(run.name) + b":" + text
            for run in chosen
            if tag in run.index.scalars and (text := self._fragments.series(run, tag, count, True))
        ]
        front = orjson.dumps(self._create_base_response(wanted))
        return front[:-1] + b',"runToSeries":{' + b",".join(series) + b"}}"

    @as_wsgi
    def _serve_tags(self, request: wrappers.Request) -> Any:
        experiment = plugin_util.experiment_id(request.environ)
        board = self._provider.board(experiment)
        context = plugin_util.context(request.environ)
        # Scalars are many and rarely described; the rest is left to TensorBoard.
        rest = self._other_tags(context, experiment)
        runs = [
            orjson.dumps(run.name) + b":" + self._tags.of(index)
            for run in board.runs.values()
            if (index := run.index).scalars
        ]
        descriptions = _described(board)
        return answer(
            b'{"scalars":{"runTagInfo":{'
            + b",".join(runs)
            + b'},"tagDescriptions":'
            + _dumps(descriptions)
            + b"},"
            + _dumps(rest)[1:]
        )

    def _other_tags(self, context: Any, experiment: str) -> dict[str, Any]:
        histograms = self._filter_by_version(
            self._provider.list_tensors(
                context, experiment_id=experiment, plugin_name="histograms"
            ),
            histogram_metadata.parse_plugin_metadata,
            self._histogram_version_checker,
        )
        images = self._filter_by_version(
            self._provider.list_blob_sequences(
                context, experiment_id=experiment, plugin_name="images"
            ),
            image_metadata.parse_plugin_metadata,
            self._image_version_checker,
        )
        return {
            "histograms": metrics_plugin._format_basic_mapping(histograms),
            "images": metrics_plugin._format_image_mapping(images),
        }


class _OfIndex:
    """Something about the tags of a run, made once for as long as they are the same."""

    def __init__(self, make: Callable[[RunIndex], bytes]) -> None:
        self._make = make
        self._made: weakref.WeakKeyDictionary[RunIndex, bytes] = weakref.WeakKeyDictionary()

    def of(self, index: RunIndex) -> bytes:
        found = self._made.get(index)
        if found is None:
            found = self._made[index] = self._make(index)
        return found


def _tags_json(index: RunIndex) -> bytes:
    return orjson.dumps(list(index.scalars))  # which are sorted


def _described(board: Board) -> dict[str, str]:
    mapping = {
        run.name: described for run in board.runs.values() if (described := run.index.described)
    }
    return dict(metrics_plugin._get_tag_to_description(mapping))


class ScalarsPlugin(scalars_plugin.ScalarsPlugin):  # type: ignore[misc]
    """Scalars."""

    def __init__(self, context: Any, fragments: Fragments) -> None:
        super().__init__(context)
        self._provider: BoardProvider = context.data_provider
        self._fragments = fragments
        self._tags = _OfIndex(self._tags_json)

    @as_wsgi
    def tags_route(self, request: wrappers.Request) -> Any:
        board = self._provider.board(plugin_util.experiment_id(request.environ))
        runs = [
            orjson.dumps(run.name) + b":" + self._tags.of(index)
            for run in board.runs.values()
            if (index := run.index).scalars
        ]
        return answer(b"{" + b",".join(runs) + b"}")

    def _tags_json(self, index: RunIndex) -> bytes:
        return orjson.dumps(
            {
                tag: {
                    "displayName": about.display_name,
                    "description": _html(about.description) if about.description else "",
                }
                for tag, about in index.scalars.items()
                if self._version_checker.ok(
                    scalar_metadata.parse_plugin_metadata(about.content).version, "", tag
                )
            }
        )

    @as_wsgi
    def scalars_multirun_route(self, request: wrappers.Request) -> Any:
        if request.method != "POST":
            raise exceptions.MethodNotAllowed(["POST"])
        tags = request.form.getlist("tag")
        if len(tags) != 1:
            raise errors.InvalidArgumentError("tag must be specified exactly once")
        board = self._provider.board(plugin_util.experiment_id(request.environ))
        runs = board.runs
        count = board.samples or self._downsample_to
        series = [
            orjson.dumps(name) + b":" + text
            for name in dict.fromkeys(request.form.getlist("runs"))
            if (run := runs.get(name)) is not None
            and tags[0] in run.index.scalars
            and (text := self._fragments.series(run, tags[0], count, False))
        ]
        return answer(b"{" + b",".join(series) + b"}")

    def scalars_impl(
        self, ctx: Any, tag: str, run: str, experiment: str, output_format: str | None
    ) -> tuple[Any, str]:
        if output_format == scalars_plugin.OutputFormat.CSV:
            # What is saved to work on is every point, not what was drawn.
            shown = self._provider.board(experiment).runs.get(run)
            points = shown.points(tag) if shown else None
            if points is None:
                raise errors.NotFoundError(f"No scalar data for run={run!r}, tag={tag!r}")
            rows = zip(
                points.wall_times.tolist(),
                points.steps.tolist(),
                points.values.tolist(),
                strict=True,
            )
            lines = ["Wall time,Step,Value", *(f"{w!r},{s},{v!r}" for w, s, v in rows), ""]
            return "\r\n".join(lines), "text/csv"
        return super().scalars_impl(ctx, tag, run, experiment, output_format)  # type: ignore[no-any-return]


def _html(description: str) -> str:
    return str(plugin_util.markdown_to_safe_html(description))


def _requests(request: wrappers.Request) -> list[dict[str, Any]]:
    text = (request.form if request.method == "POST" else request.args).get("requests")
    if not text:
        raise errors.InvalidArgumentError("Missing 'requests' field")
    try:
        wanted = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidArgumentError("Unable to parse 'requests' as JSON") from error
    if not isinstance(wanted, list) or not all(isinstance(one, dict) for one in wanted):
        raise errors.InvalidArgumentError("'requests' is not a list of objects")
    for one in wanted:
        if not isinstance(one.get("run"), str | None):
            raise errors.InvalidArgumentError("'run' is not text")
    return wanted


def _dumps(value: Any) -> bytes:
    from tensorboard.backend import json_util

    return orjson.dumps(json_util.Cleanse(value))


def answer(body: bytes) -> wrappers.Response:
    """JSON that may not be kept by the browser."""
    response = wrappers.Response(body, content_type="application/json")
    response.headers["Cache-Control"] = "no-cache, must-revalidate"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
