"""The answers that a page of charts waits for, put together without TensorBoard.

A page asks for its runs, their tags and every visible chart again at each refresh. Charts are put
together from fragments of JSON, which are kept as long as the run they belong to has not changed.
What these functions leave to TensorBoard's plugins they answer with None.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

import orjson

from tbhub._kernel import points_to_json
from tbhub.boards.board import Board, ShownRun
from tbhub.series.downsample import downsample

SAMPLES = 1000  # points of a series, unless a board says otherwise; TensorBoard's number
# Where many lines lie over one another fewer points show the same picture, much sooner: the
# extremes are kept, and a card is some 400 pixels wide. (runs, points)
_CROWDS = ((30, SAMPLES), (60, SAMPLES // 2), (float("inf"), SAMPLES // 4))

RUNS = "data/runs"
TAGS = "data/plugin/timeseries/tags"
CHARTS = "data/plugin/timeseries/timeSeries"


class Fragments:
    """Pieces of answers, the least recently used of which go first."""

    def __init__(self, limit: int) -> None:
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


def answer(
    board: Board, fragments: Fragments, path: str, form: Callable[[], str | None]
) -> bytes | None:
    """The answer to a request for runs, tags or charts; `form` gives its field ``requests``."""
    if path == RUNS:
        return orjson.dumps([run.name for run in board.runs.values()])
    if path == TAGS:
        return _plain_tags(board, fragments)
    if path == CHARTS:
        text = form()
        wanted = _parsed(text) if text else None
        if wanted is not None and all(map(is_chart, wanted)):
            with suppress(orjson.JSONEncodeError):  # half a character, which no tag has
                return join([chart(board, fragments, one) for one in wanted])
    return None


def is_chart(wanted: dict[str, Any]) -> bool:
    """Whether the page wants scalars, of one run or of all."""
    return (
        wanted.get("plugin") == "scalars"
        and isinstance(wanted.get("tag"), str)
        and isinstance(wanted.get("run"), str | None)
    )


def chart(board: Board, fragments: Fragments, wanted: dict[str, Any]) -> list[bytes]:
    """One chart of Time Series, in pieces: it may be megabytes."""
    tag, only = wanted["tag"], wanted.get("run")
    runs = board.runs
    count = board.samples or next(points for most, points in _CROWDS if len(runs) <= most)
    # TensorBoard takes an empty or missing run to mean all.
    chosen = runs.values() if not only else filter(None, [runs.get(only)])
    series: list[bytes] = []
    for run in chosen:
        if tag in run.tags:
            text = fragments.series(run, tag, count, True)
            if text:
                series += [b",", orjson.dumps(run.name), b":", text]
    front: dict[str, Any] = {"plugin": "scalars", "tag": tag}
    if only is not None:
        front["run"] = only
    if isinstance(wanted.get("sample"), int):
        front["sample"] = wanted["sample"]
    return [orjson.dumps(front)[:-1], b',"runToSeries":{', *series[1:], b"}}"]


def join(charts: list[list[bytes]]) -> bytes:
    """Several charts as one answer, copied once."""
    pieces: list[bytes] = []
    for pieces_of_one in charts:
        pieces += [b",", *pieces_of_one]
    return b"".join([b"[", *pieces[1:], b"]"])


def _plain_tags(board: Board, fragments: Fragments) -> bytes | None:
    """The tags of runs that hold plain scalars and nothing else."""
    pieces: list[bytes] = []
    for run in board.runs.values():
        if run.view.blob_tags or run.view.plugins:
            return None
        if run.tags:
            tags = fragments.get(("tags", run.stamp), _dump_tags(run))
            pieces += [b",", orjson.dumps(run.name), b":", tags]
    none = b'{"tagDescriptions":{},"%s":{}}'
    return b"".join(
        [
            b'{"scalars":{"tagDescriptions":{},"runTagInfo":{',
            *pieces[1:],
            b'}},"histograms":' + none % b"runTagInfo",
            b',"images":' + none % b"tagRunSampledInfo" + b"}",
        ]
    )


def _dump_tags(run: ShownRun) -> Callable[[], bytes]:
    return lambda: orjson.dumps(sorted(run.tags))


def _parsed(text: str) -> list[dict[str, Any]] | None:
    try:
        wanted = json.loads(text)
    except (ValueError, RecursionError):
        return None
    good = isinstance(wanted, list) and all(isinstance(one, dict) for one in wanted)
    return wanted if good else None


def field_of(body: bytes, content_type: str, name: str) -> str | None:
    """A field of a form as browsers send it; None where it is sent in any other way."""
    try:
        if content_type.startswith("application/x-www-form-urlencoded"):
            return parse_qs(body.decode("ascii"), strict_parsing=True)[name][0]
        if content_type.startswith("multipart/form-data; boundary="):
            boundary = content_type.partition("boundary=")[2].strip('"').encode("ascii")
            for part in body.split(b"--" + boundary):
                head, _, data = part.partition(b"\r\n\r\n")
                if head.strip() == f'Content-Disposition: form-data; name="{name}"'.encode():
                    return data.removesuffix(b"\r\n").decode()
    except (ValueError, KeyError):
        pass
    return None
