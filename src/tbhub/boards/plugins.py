"""TensorBoard's plugins for our application: its own, with the requests that matter made fast."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable
from typing import Any

import orjson
from tensorboard import errors, plugin_util
from tensorboard.plugins.histogram import metadata as histogram_metadata
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.plugins.metrics import metrics_plugin
from tensorboard.plugins.scalar import metadata as scalar_metadata
from tensorboard.plugins.scalar import scalars_plugin
from werkzeug import exceptions, wrappers

from tbhub.boards import charts
from tbhub.boards.board import Board
from tbhub.boards.charts import Fragments
from tbhub.boards.kinds import RunIndex
from tbhub.boards.provider import BoardProvider


class Request(wrappers.Request):
    """A request whose size the host has bounded: forms name as many runs as a board has."""

    max_form_memory_size = None
    max_form_parts = 1 << 30


as_wsgi: Callable[[Callable[..., Any]], Any] = Request.application


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
        return answer(charts.join([self._one(context, board, one) for one in wanted]))

    def _one(self, context: Any, board: Board, wanted: dict[str, Any]) -> list[bytes]:
        if charts.is_chart(wanted):
            return charts.chart(board, self._fragments, wanted)
        return [_dumps(self._get_time_series(context, board.id, wanted))]

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
