"""Runs sent to a managed TensorBoard of Vertex AI, what is there and then what is new.

What Vertex has is asked of Vertex: a run and a tag have ids made of their names, and of a series it
knows the last step. So an upload may be ended at any time and begun again, by another process or on
another machine, and no point is there twice. Scalars are sent; what else a run has is not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tbhub.integrations.vertex import asked, slug
from tbhub.series.column import Part
from tbhub.series.follower import Follower
from tbhub.series.run_log import RunView

_MOST_POINTS = 1000  # of one request
_PATIENCE = 60.0  # seconds for one answer
_INSIST = 600.0  # on an answer, while Vertex is away

Progress = Callable[[str, int], None]
"""Is told of a run and how many points of it have been sent."""


class Uploader:
    """Sends runs to one experiment.

    Args:
        client: A ``TensorboardServiceClient``.
        tensorboard: The whole name of the TensorBoard.
        experiment: A name for what is sent together.
    """

    def __init__(self, client: Any, tensorboard: str, experiment: str) -> None:
        self._client = client
        self._tensorboard = tensorboard
        self._experiment = experiment
        self._parent = ""
        self._runs: dict[str, str] = {}
        self._sent: dict[str, dict[str, int | None]] = {}  # by run and tag: the last step

    @property
    def experiment(self) -> str:
        """The whole name of the experiment; it is made if there is none."""
        if not self._parent:
            number = slug(self._experiment)
            request = {
                "parent": self._tensorboard,
                "tensorboard_experiment_id": number,
                "tensorboard_experiment": {"display_name": self._experiment},
            }
            self._make(self._client.create_tensorboard_experiment, request)
            self._parent = f"{self._tensorboard}/experiments/{number}"
        return self._parent

    def send(self, run: str, view: RunView) -> int:
        """Sends what Vertex does not have of a run; how many points that were.

        Raises:
            VertexError: Vertex refuses, or cannot be asked.
        """
        return asked(lambda: self._send(run, view))

    def _send(self, run: str, view: RunView) -> int:
        here = self._run(run)
        sent = self._sent[run]
        points = 0
        for tag in sorted(view.tags):
            if tag not in sent:
                self._make_series(here, tag)
                sent[tag] = None
            part = view.points(tag)
            if part is None:
                continue
            for chunk in chunks(part, sent[tag]):
                self._write(here, tag, chunk)
                sent[tag] = chunk[-1]["step"]
                points += len(chunk)
        return points

    def _run(self, run: str) -> str:
        """The whole name of a run, and what it has already."""
        if run not in self._runs:
            number = slug(run)
            request = {
                "parent": self.experiment,
                "tensorboard_run_id": number,
                "tensorboard_run": {"display_name": run},
            }
            is_new = self._make(self._client.create_tensorboard_run, request)
            here = f"{self.experiment}/runs/{number}"
            self._sent[run] = {} if is_new else self._known(here)
            self._runs[run] = here
        return self._runs[run]

    def _known(self, here: str) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        request = {"parent": here}
        listed = self._client.list_tensorboard_time_series(request=request, timeout=_PATIENCE)
        for each in listed:
            # A step of 0 says nothing; when the last point was logged does.
            has_points = "max_wall_time" in each.metadata
            found[each.display_name] = each.metadata.max_step if has_points else None
        return found

    def _make_series(self, here: str, tag: str) -> None:
        from google.cloud.aiplatform_v1.types import TensorboardTimeSeries

        series = {
            "display_name": tag,
            "value_type": TensorboardTimeSeries.ValueType.SCALAR,
            "plugin_name": "scalars",
        }
        request = {
            "parent": here,
            "tensorboard_time_series_id": slug(tag),
            "tensorboard_time_series": series,
        }
        self._make(self._client.create_tensorboard_time_series, request)

    def _write(self, here: str, tag: str, chunk: list[dict[str, Any]]) -> None:
        from google.cloud.aiplatform_v1.types import TensorboardTimeSeries

        data = {
            "tensorboard_time_series_id": slug(tag),
            "value_type": TensorboardTimeSeries.ValueType.SCALAR,
            "values": chunk,
        }
        request = {
            "tensorboard_experiment": self.experiment,
            "write_run_data_requests": [{"tensorboard_run": here, "time_series_data": [data]}],
        }
        call = self._client.write_tensorboard_experiment_data
        call(request=request, timeout=_PATIENCE, retry=_patiently())

    def _make(self, call: Any, request: Mapping[str, Any]) -> bool:
        """Makes something under a name of ours; false if it was there."""
        from google.api_core.exceptions import AlreadyExists

        try:
            call(request=request, timeout=_PATIENCE, retry=_patiently())
        except AlreadyExists:
            return False
        return True


def upload(
    uploader: Uploader,
    path: str,
    *,
    stop: threading.Event | None = None,
    progress: Progress = lambda run, points: None,
) -> None:
    """Sends every run below a path.

    Args:
        uploader: Where to.
        path: A directory of this machine, or a URI.
        stop: Given, what is logged from now on is sent, too, until it is set.
        progress: Is told of what has been sent.

    Raises:
        VertexError: Vertex refuses, or cannot be asked.
    """
    news = threading.Event()
    follower = Follower()
    try:
        root = follower.follow(path, news.set)
        follower.wait_until_loaded()
        sent: dict[str, int] = {}
        while True:
            news.clear()
            for name, log in sorted(root.runs.items()):
                view = log.view
                if sent.get(name) != view.version:
                    points = uploader.send(name, view)
                    sent[name] = view.version
                    progress(name, points)
            if stop is None or stop.is_set():
                return
            while not news.wait(0.2) and not stop.is_set():
                pass
    finally:
        follower.close()


def chunks(part: Part, after: int | None) -> Iterator[list[dict[str, Any]]]:
    """The points behind a step, as Vertex takes them: one for each step, the last one logged."""
    steps, values, times = part.steps, part.values, part.wall_times
    chosen = np.arange(len(steps)) if after is None else np.nonzero(steps > after)[0]
    # Stable by step, so that of several the last one logged comes last.
    chosen = chosen[np.argsort(steps[chosen], kind="stable")]
    ordered = steps[chosen]
    if len(ordered):
        chosen = chosen[np.append(ordered[1:] != ordered[:-1], True)]
    for start in range(0, len(chosen), _MOST_POINTS):
        yield [
            {
                "step": int(steps[each]),
                "wall_time": _time(float(times[each])),
                "scalar": {"value": float(values[each])},
            }
            for each in chosen[start : start + _MOST_POINTS]
        ]


def _time(seconds: float) -> dict[str, int]:
    nanos = round(seconds * 1e6) * 1000
    return {"seconds": nanos // 1_000_000_000, "nanos": nanos % 1_000_000_000}


def _patiently() -> Any:
    """Asks again while Vertex is away: what is sent twice is there once."""
    from google.api_core.exceptions import ResourceExhausted, ServiceUnavailable
    from google.api_core.retry import Retry, if_exception_type

    away = if_exception_type(ResourceExhausted, ServiceUnavailable)
    return Retry(predicate=away, initial=0.2, maximum=30.0, timeout=_INSIST)
