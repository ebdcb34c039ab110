"""Logs to read: made once, kept in .bench/ until `make clean`."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import ROOT

TAGS = ["loss", "accuracy", "train/lr", "val/loss", "grad/norm", "a/b", "c/d", "e/f", "g/h", "i/j"]
SPIKE = 1000.0


def corpus(name: str, runs: int, tags: int, points: int, say: Callable[[str], None]) -> Path:
    """The directory of a corpus; ``name`` says how its scalars are stored (simple or tf2).

    ``spikes`` are stored as simple ones: noise with one point of `SPIKE` in each series.
    """
    directory = ROOT / ".bench" / f"{name}-{runs}x{tags}x{points}"
    if directory.exists():
        return directory
    unfinished = directory.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    write = {"simple": _write_simple, "tf2": _write_tf2, "spikes": _write_spikes}[name]
    for run in range(runs):
        if run % 10 == 0:
            say(f"writing corpus {directory.name}: run {run + 1}/{runs}")
        write(unfinished / f"run{run:04d}", run, TAGS[:tags], points)
    os.replace(unfinished, directory)
    return directory


def _write_simple(directory: Path, run: int, tags: list[str], points: int) -> None:
    import numpy as np

    values = np.random.default_rng(run).standard_normal((points, len(tags)))
    _write_values(directory, tags, values.tolist())


def _write_spikes(directory: Path, run: int, tags: list[str], points: int) -> None:
    import numpy as np

    random = np.random.default_rng(run)
    values = random.standard_normal((points, len(tags)))
    for column in range(len(tags)):
        values[random.integers(1, points - 1), column] = SPIKE
    _write_values(directory, tags, values.tolist())


def _write_values(directory: Path, tags: list[str], values: list[list[float]]) -> None:
    from tbhub._kernel import Sink

    sink = Sink(directory)
    add = sink.add_scalar
    for step, row in enumerate(values):
        wall_time = 1.7e9 + step * 0.1
        for tag, value in zip(tags, row, strict=True):
            add(tag, value, step, wall_time)
    assert sink.close()


def _write_tf2(directory: Path, run: int, tags: list[str], points: int) -> None:
    """As tf.summary.scalar stores them: a rank-0 tensor and the plugin's metadata every time."""
    import numpy as np

    from tbhub._kernel import Sink
    from tbhub.events.schema import Summary

    marker = struct.pack("<f", 123.456)
    around = []
    for tag in tags:
        value = Summary.Value(tag=tag)
        value.metadata.plugin_data.plugin_name = "scalars"
        value.tensor.dtype = 1
        value.tensor.tensor_shape.SetInParent()
        value.tensor.tensor_content = marker
        before, after = Summary(value=[value]).SerializeToString().split(marker)
        around.append((before, after))
    sink = Sink(directory)
    add = sink.add_summary
    values = np.random.default_rng(run).standard_normal((points, len(tags))).astype("<f4")
    for step in range(points):
        wall_time = 1.7e9 + step * 0.1
        row = values[step].tobytes()
        for place, (before, after) in enumerate(around):
            add(before + row[4 * place : 4 * place + 4] + after, step, wall_time)
    assert sink.close()
