"""The calls of Vertex AI's TensorboardService that are used here, over real gRPC.

What Vertex does with names is done here: a TensorBoard gets an id of the server's own and may have
a name that another has; everything below has the caller's id, once.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.cloud.aiplatform_v1 import types
from google.longrunning import operations_pb2
from google.protobuf import any_pb2, empty_pb2

_SERVICE = "google.cloud.aiplatform.v1.TensorboardService"


class VertexServer:
    """A server on a free port.

    Attributes:
        address: Where it is.
        tensorboards, experiments, runs, series: What there is, by whole name.
        points: By the whole name of a series: the points, in the order they came.
        refusals: By call: how often it is answered with UNAVAILABLE before it works.
    """

    def __init__(self) -> None:
        self.tensorboards: dict[str, Any] = {}
        self.experiments: dict[str, Any] = {}
        self.runs: dict[str, Any] = {}
        self.series: dict[str, Any] = {}
        self.points: dict[str, list[tuple[int, float]]] = {}
        self.refusals: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._server = grpc.server(ThreadPoolExecutor(16))
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(0).wait()

    def by_tag(self) -> dict[str, list[tuple[int, float]]]:
        """The points by the names of their series."""
        return {self.series[name].display_name: points for name, points in self.points.items()}

    def _handlers(self) -> Any:
        calls: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
            "CreateTensorboard": (self._create, types.CreateTensorboardRequest),
            "GetTensorboard": (self._get, types.GetTensorboardRequest),
            "ListTensorboards": (self._list, types.ListTensorboardsRequest),
            "DeleteTensorboard": (self._delete, types.DeleteTensorboardRequest),
            "CreateTensorboardExperiment": (
                self._create_experiment,
                types.CreateTensorboardExperimentRequest,
            ),
            "CreateTensorboardRun": (self._create_run, types.CreateTensorboardRunRequest),
            "CreateTensorboardTimeSeries": (
                self._create_series,
                types.CreateTensorboardTimeSeriesRequest,
            ),
            "ListTensorboardTimeSeries": (
                self._list_series,
                types.ListTensorboardTimeSeriesRequest,
            ),
            "WriteTensorboardExperimentData": (
                self._write,
                types.WriteTensorboardExperimentDataRequest,
            ),
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                self._guarded(name, call),
                request_deserializer=kind.deserialize,
                response_serializer=_serialize,
            )
            for name, (call, kind) in calls.items()
        }
        return grpc.method_handlers_generic_handler(_SERVICE, handlers)

    def _guarded(self, name: str, call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def answer(request: Any, context: Any) -> Any:
            with self._lock:
                if self.refusals.get(name, 0) > 0:
                    self.refusals[name] -= 1
                    context.abort(grpc.StatusCode.UNAVAILABLE, "later")
                return call(request, context)

        return answer

    def _create(self, request: Any, context: Any) -> Any:
        number = next(self._numbers)
        made = types.Tensorboard(request.tensorboard)
        made.name = f"{request.parent}/tensorboards/{number}"
        made.create_time = {"seconds": number}
        self.tensorboards[made.name] = made
        return _done(types.Tensorboard.pb(made))

    def _get(self, request: Any, context: Any) -> Any:
        if request.name not in self.tensorboards:
            context.abort(grpc.StatusCode.NOT_FOUND, f"{request.name} is not there")
        return self.tensorboards[request.name]

    def _list(self, request: Any, context: Any) -> Any:
        wanted = request.filter.removeprefix("display_name=").strip('"')
        found = [
            each
            for each in self.tensorboards.values()
            if each.name.startswith(f"{request.parent}/") and each.display_name == wanted
        ]
        return types.ListTensorboardsResponse(tensorboards=found[::-1])

    def _delete(self, request: Any, context: Any) -> Any:
        del self.tensorboards[request.name]
        return _done(empty_pb2.Empty())

    def _create_experiment(self, request: Any, context: Any) -> Any:
        name = f"{request.parent}/experiments/{request.tensorboard_experiment_id}"
        return _put(self.experiments, name, request.tensorboard_experiment, context)

    def _create_run(self, request: Any, context: Any) -> Any:
        name = f"{request.parent}/runs/{request.tensorboard_run_id}"
        return _put(self.runs, name, request.tensorboard_run, context)

    def _create_series(self, request: Any, context: Any) -> Any:
        name = f"{request.parent}/timeSeries/{request.tensorboard_time_series_id}"
        return _put(self.series, name, request.tensorboard_time_series, context)

    def _list_series(self, request: Any, context: Any) -> Any:
        found = []
        for name, series in self.series.items():
            if name.startswith(f"{request.parent}/"):
                if points := self.points.get(name):
                    last = max(step for step, _ in points)
                    series.metadata = {"max_step": last, "max_wall_time": {"seconds": 1}}
                found.append(series)
        return types.ListTensorboardTimeSeriesResponse(tensorboard_time_series=found)

    def _write(self, request: Any, context: Any) -> Any:
        for run in request.write_run_data_requests:
            for data in run.time_series_data:
                name = f"{run.tensorboard_run}/timeSeries/{data.tensorboard_time_series_id}"
                if name not in self.series:
                    context.abort(grpc.StatusCode.NOT_FOUND, f"{name} is not there")
                for each in data.values:
                    self.points.setdefault(name, []).append((each.step, each.scalar.value))
        return types.WriteTensorboardExperimentDataResponse()


def _put(there: dict[str, Any], name: str, made: Any, context: Any) -> Any:
    if name in there:
        context.abort(grpc.StatusCode.ALREADY_EXISTS, f"{name} is there")
    made.name = name
    there[name] = made
    return made


def _done(message: Any) -> operations_pb2.Operation:
    packed = any_pb2.Any()
    packed.Pack(message)
    return operations_pb2.Operation(name="operations/1", done=True, response=packed)


def _serialize(message: Any) -> bytes:
    if isinstance(message, operations_pb2.Operation):
        return bytes(message.SerializeToString())
    return bytes(type(message).serialize(message))


@pytest.fixture
def vertex_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[VertexServer]:
    """A server that clients find, and whose project is named."""
    server = VertexServer()
    monkeypatch.setenv("TBHUB_VERTEX_EMULATOR", server.address)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "team")
    yield server
    server.close()
