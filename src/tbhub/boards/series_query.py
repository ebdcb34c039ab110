"""What a page of charts asks of runs: their points, thinned out; their tags; their images.

Points are thinned out from all there are, whatever the zoom: the extremes of every bucket are kept,
so no spike is lost, and a narrower range shows more. A series that was thinned out is kept until
its run has news.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tbhub.api.packed_series import pack, pack_points, points_in
from tbhub.boards.asked_runs import AskedRun
from tbhub.boards.charts import Fragments
from tbhub.series.column import Part
from tbhub.series.join import restarts
from tbhub.series.run_log import RunLog, RunView

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_POINTS = 8_000_000  # of an answer: 160 MB
Runs = Mapping[int, AskedRun]

_restarts: weakref.WeakKeyDictionary[RunView, list[int]] = weakref.WeakKeyDictionary()


class TooManyPointsError(ValueError):
    """More than an answer may have."""


@dataclass(frozen=True)
class PointsQuery:
    """Which points.

    Args:
        tags: Of each run; all of them if None.
        points: How many of a series at most.
        x: What `low` and `high` are about: steps, seconds since the epoch, or seconds since the
            first point of the series.
        x_tag: Another tag, whose value at each point's step is wanted beside it.
        means: Whether the mean of all values since the point before is wanted, too: extremes are
            what is drawn, but not what is smoothed.
    """

    tags: tuple[str, ...] | None
    points: int
    x: Literal["step", "wall", "relative"] = "step"
    low: float | None = None
    high: float | None = None
    x_tag: str | None = None
    means: bool = False


def points(runs: Runs, query: PointsQuery, fragments: Fragments) -> list[bytes]:
    """The series of some runs, packed.

    Raises:
        TooManyPointsError: Fewer would have to be asked for.
    """
    chosen = [(run_id, *found) for run_id, run in runs.items() for found in _series(run, query)]
    least = sum(min(_total(log.view, tag), query.points) for _, _, log, tag in chosen)
    if least > MOST_POINTS:
        raise TooManyPointsError(
            f"{len(chosen)} series have {least} points of {query.points} each; an answer has at "
            f"most {MOST_POINTS}: ask for fewer runs, tags or points"
        )
    about, packed = [], []
    for run_id, shown, log, tag in chosen:
        x_log = None if query.x_tag is None else _find(runs[run_id], query.x_tag)
        key = _key(query, log, tag, x_log)
        made = fragments.get(key, lambda log=log, tag=tag, x=x_log: _made(query, log, tag, x))  # type: ignore[misc]
        packed.append(made)
        about.append(
            {
                "run": run_id,
                "tag": shown,
                "points": points_in(made, has_xs=query.x_tag is not None, has_means=query.means),
                "total": _total(log.view, tag),
                "restarts": _restarts_of(log.view),
            }
        )
    return pack(
        {"series": about, "x_tag": query.x_tag, "means": query.means, **_state(runs)}, packed
    )


def tags(runs: Runs) -> dict[str, Any]:
    """The tags of some runs by what they are, and how many of the runs have each."""
    found: dict[str, Counter[str]] = {"scalars": Counter()}
    curves: set[str] = set()  # with a second point, in some run
    for run in runs.values():
        mine: dict[str, set[str]] = {}
        for before, log in run.logs.items():
            view = log.view
            scalars = mine.setdefault("scalars", set())
            for tag in view.tags:
                scalars.add(before + tag)
                if before + tag not in curves and _total(view, tag) > 1:
                    curves.add(before + tag)
            if view.blob_tags:
                for tag, plugin in _others(view).items():
                    mine.setdefault(plugin, set()).add(before + tag)
        for kind, names in mine.items():
            found.setdefault(kind, Counter()).update(names)
    kinds: dict[str, list[dict[str, Any]]] = {
        kind: [{"tag": tag, "runs": count} for tag, count in sorted(counted.items())]
        for kind, counted in found.items()
    }
    kinds["scalars"] = [each | {"single": each["tag"] not in curves} for each in kinds["scalars"]]
    return {"tags": kinds, **_state(runs)}


def _others(view: RunView) -> dict[str, str]:
    from tbhub.boards.run_index import index_of  # brings TensorBoard along

    return {tag: entry.plugin for tag, entry in index_of(view).others.items()}


def _state(runs: Runs) -> dict[str, Any]:
    """Which runs are still being read, and which cannot be."""
    return {
        "loading": [run_id for run_id, run in runs.items() if not run.is_read],
        "problems": {str(run_id): run.problem for run_id, run in runs.items() if run.problem},
    }


# --- series


def _series(run: AskedRun, query: PointsQuery) -> Iterator[tuple[str, RunLog, str]]:
    """What a run has of what is asked for: the tag as it is shown, whose it is, and its own."""
    if query.tags is None:
        for before, log in run.logs.items():
            for tag in sorted(log.view.tags):
                yield before + tag, log, tag
        return
    for shown in query.tags:
        found = _find(run, shown)
        if found is not None:
            yield shown, *found


def _find(run: AskedRun, shown: str) -> tuple[RunLog, str] | None:
    for before, log in run.logs.items():
        if shown.startswith(before) and shown.removeprefix(before) in log.view.tags:
            return log, shown.removeprefix(before)
    return None


def _total(view: RunView, tag: str) -> int:
    return sum(map(len, view.columns(tag)))


def _restarts_of(view: RunView) -> list[int]:
    found = _restarts.get(view)
    if found is None:
        found = _restarts[view] = restarts(view.contents)
    return found


def _key(query: PointsQuery, log: RunLog, tag: str, x_log: tuple[RunLog, str] | None) -> Hashable:
    x = None if x_log is None else (_stamp(x_log[0]), x_log[1])
    with_xs = query.x_tag is not None
    return (_stamp(log), tag, query.points, query.x, query.low, query.high, x, with_xs, query.means)


def _stamp(log: RunLog) -> Hashable:
    # Not an id, which is given again: what is kept by stamp may outlive the run.
    return weakref.ref(log), log.view.version


def _made(query: PointsQuery, log: RunLog, tag: str, x_log: tuple[RunLog, str] | None) -> bytes:
    import numpy as np

    found = log.view.points(tag)
    if found is None:  # it has just been taken back
        none = np.empty(0)
        xs = None if query.x_tag is None else none
        return pack_points(none, none, none, xs, none if query.means else None)
    kept = _kept(found, query)
    steps = _steps(found, kept)
    xs = None if query.x_tag is None else _values_at(x_log, steps)
    means = _means(found.values, kept) if query.means else None
    return pack_points(steps, found.wall_times[kept], found.values[kept], xs, means)


def _means(values: NDArray[Any], kept: NDArray[np.intp]) -> NDArray[Any]:
    """The mean of the finite values from behind the point before to each that is kept; what is not
    finite stays so where it is kept."""
    import numpy as np

    own = values[kept]
    if len(kept) < 2 or kept[-1] - kept[0] + 1 == len(kept):
        return own
    starts = np.append(kept[:1], kept[:-1] + 1)
    inside = values[: kept[-1] + 1]
    finite = np.isfinite(inside)
    if finite.all():
        counts = np.diff(np.append(starts, kept[-1] + 1))
    else:
        inside = np.where(finite, inside, 0)
        counts = np.add.reduceat(finite, starts, dtype=np.intp)
    sums = np.add.reduceat(inside, starts, dtype=np.float64)
    return np.where(np.isfinite(own), sums / np.maximum(counts, 1), own)


def _kept(found: Part, query: PointsQuery) -> NDArray[np.intp]:
    """Which points of a series are sent."""
    import numpy as np

    from tbhub.series.downsample import between, downsample

    if query.low is None and query.high is None:
        return downsample(found.values, query.points)
    if query.x == "step":
        low = None if query.low is None else math.ceil(query.low)
        high = None if query.high is None else math.floor(query.high)
        inside = between(found.steps, low, high)
    else:
        start = float(found.wall_times[0]) if query.x == "relative" else 0.0
        low_time = None if query.low is None else query.low + start
        high_time = None if query.high is None else query.high + start
        inside = between(found.wall_times, low_time, high_time)
    places = np.arange(*inside.indices(len(found))) if isinstance(inside, slice) else inside
    return places[downsample(found.values[inside], query.points)]


def _steps(found: Part, kept: NDArray[np.intp]) -> NDArray[np.int64]:
    if found.even_steps is None:
        return found.steps[kept]
    first, stride = found.even_steps
    return first + stride * kept.astype("int64")


def _values_at(x_log: tuple[RunLog, str] | None, steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """What another tag was at some steps: its last value up to there; NaN before the first."""
    import numpy as np

    over = None if x_log is None else x_log[0].view.points(x_log[1])
    if over is None or not len(over):
        return np.full(len(steps), np.nan)
    order = np.argsort(over.steps, kind="stable")
    at = np.searchsorted(over.steps[order], steps, "right") - 1
    values = over.values[order].astype(np.float64)[np.maximum(at, 0)]
    return np.where(at < 0, np.nan, values)


# --- images


def images(runs: Runs, wanted: Sequence[str] | None) -> dict[str, Any]:
    """Where there are images: for each run and tag the steps, and how many each step has."""
    from tbhub.boards.run_index import blobs_of, index_of, size_of

    found = []
    for run_id, run in runs.items():
        for before, log in run.logs.items():
            others = index_of(log.view).others
            for tag, entry in others.items():
                shown = before + tag
                if entry.plugin != "images" or (wanted is not None and shown not in wanted):
                    continue
                blobs = blobs_of(log.view, tag)
                found.append(
                    {
                        "run": run_id,
                        "tag": shown,
                        "steps": [blob.step for blob in blobs],
                        "wall_times": [blob.wall_time for blob in blobs],
                        # Their width and height come first; the last one stands for all.
                        "samples": max(0, size_of(blobs[-1], entry) - 2) if blobs else 0,
                    }
                )
    return {"images": found, **_state(runs)}


def image(run: AskedRun, shown: str, step: int, wall_time: float, sample: int) -> bytes | None:
    """One image; None if there is no such."""
    from tbhub.boards.run_index import blobs_of, index_of, tensor_of

    for before, log in run.logs.items():
        tag = shown.removeprefix(before)
        entry = index_of(log.view).others.get(tag) if shown.startswith(before) else None
        if entry is None or entry.plugin != "images":
            continue
        for blob in blobs_of(log.view, tag):
            if blob.step == step and blob.wall_time == wall_time:
                values = tensor_of(blob, entry)
                return bytes(values[2 + sample]) if sample + 2 < len(values) else None
    return None
