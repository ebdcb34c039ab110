"""``tbhub/scalars``: the points of a series between two steps, as many as are wanted.

    GET …/tbhub/scalars?run=a&tag=loss&from=100&to=200&points=1000

answers ``[[wall time, step, value], …]``. A page that zooms in asks again, and sees what is there.
"""

from __future__ import annotations

from urllib.parse import parse_qs

import orjson

from tbhub._kernel import points_to_json
from tbhub.boards.board import Board
from tbhub.series.downsample import between, downsample

_MAX_POINTS = 1_000_000


def answer_range_query(board: Board, query: str) -> tuple[int, bytes]:
    """Status and JSON."""
    fields = {name: values[-1] for name, values in parse_qs(query).items()}
    run_name, tag = fields.get("run"), fields.get("tag")
    if run_name is None or tag is None:
        return _error(400, "give run and tag")
    try:
        start = int(fields["from"]) if "from" in fields else None
        stop = int(fields["to"]) if "to" in fields else None
        count = int(fields.get("points", 1000))
    except ValueError:
        return _error(400, "from, to and points are whole numbers")
    if not 0 <= count <= _MAX_POINTS:
        return _error(400, f"points is between 0 and {_MAX_POINTS}")
    run = board.runs.get(run_name)
    points = run.points(tag) if run is not None else None
    if points is None:
        return _error(404, "no such series in this board")
    chosen = between(points.steps, start, stop)
    steps, wall_times = points.steps[chosen], points.wall_times[chosen]
    values = points.values[chosen]
    if len(values) > count:
        kept = downsample(values, count)
        steps, wall_times, values = steps[kept], wall_times[kept], values[kept]
    return 200, points_to_json(wall_times, steps, values, False)


def _error(status: int, reason: str) -> tuple[int, bytes]:
    return status, orjson.dumps({"error": reason})
