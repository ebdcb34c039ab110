"""What TensorBoard itself reads from a log: the truth our reader and writer are held to."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.util import tensor_util

KEEP_ALL = dict.fromkeys(event_accumulator.DEFAULT_SIZE_GUIDANCE, 0)


def event_files(directory: Path | str) -> list[str]:
    """The event files of one directory, in order."""
    return sorted(str(path) for path in Path(directory).iterdir() if "tfevents" in path.name)


def read_events(directory: Path | str) -> Iterator[Any]:
    """Every event of a run directory (or file), by TensorBoard's file loader."""
    path = Path(directory)
    for file in event_files(path) if path.is_dir() else [str(path)]:
        yield from LegacyEventFileLoader(file).Load()


def read_values(directory: Path | str) -> list[tuple[int, Any]]:
    """(step, Summary.Value) of every summary value in a run directory."""
    return [
        (event.step, value) for event in read_events(directory) for value in event.summary.value
    ]


def read_scalars(directory: Path | str) -> dict[str, list[tuple[int, float]]]:
    """(step, value) of every scalar by tag, by TensorBoard's EventAccumulator."""
    accumulator = event_accumulator.EventAccumulator(str(directory), size_guidance=KEEP_ALL)
    accumulator.Reload()
    scalars = {
        tag: [(point.step, point.value) for point in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }
    for tag in accumulator.Tags()["tensors"]:
        metadata = accumulator.summary_metadata.get(tag)
        if metadata is None or metadata.plugin_data.plugin_name != "scalars":
            continue
        scalars[tag] = [
            (point.step, float(tensor_util.make_ndarray(point.tensor_proto).item()))
            for point in accumulator.Tensors(tag)
        ]
    return scalars


def read_scalars_in_rust(logdir: Path | str) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """(step, value) by tag by run, from TensorBoard's Rust data server keeping every point."""
    import grpc
    import tensorboard_data_server
    from tensorboard.data import grpc_provider
    from tensorboard.data import provider as provider_lib

    with tempfile.TemporaryDirectory() as scratch:
        port_file = Path(scratch) / "port"
        server = subprocess.Popen(
            [
                tensorboard_data_server.server_binary(),
                f"--logdir={logdir}",
                "--port=0",
                f"--port-file={port_file}",
                "--reload=once",
                "--samples-per-plugin=scalars=all",
                "--die-after-stdin",
            ],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + 30
            while not port_file.exists() or not port_file.read_text().strip():
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            address = f"localhost:{port_file.read_text().strip()}"
            with grpc.insecure_channel(address) as channel:
                stub = grpc_provider.make_stub(channel)
                provider = grpc_provider.GrpcDataProvider(address, stub)
                from tensorboard.context import RequestContext

                found = provider.read_scalars(
                    RequestContext(),
                    experiment_id="",
                    plugin_name="scalars",
                    downsample=10**9,
                    run_tag_filter=provider_lib.RunTagFilter(),
                )
                return {
                    run: {
                        tag: [(point.step, point.value) for point in points]
                        for tag, points in tags.items()
                    }
                    for run, tags in found.items()
                }
        finally:
            assert server.stdin is not None
            server.stdin.close()
            server.wait(10)


def pairs(series: Any) -> list[tuple[int, float]]:
    """(step, value) of one of our series, for comparison with the oracle's."""
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def same_points(ours: list[tuple[int, float]], theirs: list[tuple[int, float]]) -> bool:
    """Equal steps and values, NaN being equal to NaN."""
    return np.array_equal(np.array(ours), np.array(theirs), equal_nan=True)


def as_theirs(message: Any) -> Any:
    """One of our Event messages as TensorBoard's class."""
    return Event.FromString(message.SerializeToString())
