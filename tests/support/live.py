"""Runs that grow: records to append, what a view of them shows, and waiting for it."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.util import tensor_util

import tbhub
from support.records import frame
from tbhub.errors import NoEventsError
from tbhub.series.cache import ColumnCache
from tbhub.series.column import Column, concatenate
from tbhub.series.file_content import FileContent, read_content
from tbhub.series.growing_file import LocalFile
from tbhub.series.memory import Memory
from tbhub.series.run_log import RunView

# Seconds; only against hangs: no test waits for it when all is well.
PATIENCE = 60

# By tag: steps, wall times and values, so that NaN equals itself.
Shown = dict[str, tuple[list[int], bytes, bytes]]


def record(**fields: Any) -> bytes:
    """The record of an Event message."""
    return frame(Event(**fields).SerializeToString())


VERSION = record(wall_time=1, file_version="brain.Event:2")
VERSION_1 = record(wall_time=1, file_version="brain.Event:1")


def scalar(tag: str, step: int, value: float, wall_time: float = 10) -> bytes:
    """A record of one number, as torch and tensorboardX write it."""
    values = [Summary.Value(tag=tag, simple_value=value)]
    return record(wall_time=wall_time, step=step, summary=Summary(value=values))


def tensor(tag: str, step: int, array: Any, plugin: str | None = None) -> bytes:
    """A record of one tensor; TensorFlow 2 names the plugin only the first time."""
    value = Summary.Value(tag=tag, tensor=tensor_util.make_tensor_proto(array))
    if plugin is not None:
        value.metadata.plugin_data.plugin_name = plugin
        value.metadata.plugin_data.content = b"\x00\xff"
    return record(wall_time=step, step=step, summary=Summary(value=[value]))


def session_start(step: int) -> bytes:
    """A record that takes back everything from a step on."""
    return record(wall_time=3, step=step, session_log=SessionLog(status=SessionLog.START))


def every_kind() -> bytes:
    """A file with every kind of value, damage and purges; its last record is cut short."""
    parts = [VERSION]
    for step in range(300):
        parts.append(scalar("even", step * 10, step / 3, 100 + step))
        parts.append(scalar("uneven", step * step, step / 7))
        parts.append(tensor("double", step, np.float64(step / 3), "scalars" if step == 0 else None))
    parts.append(scalar("not a time", 1, float("nan"), float("nan")))
    parts.append(scalar("not a time", 2, float("inf"), 5))
    parts.append(scalar("widens", 1, 0.1))
    parts.append(tensor("widens", 2, np.float64(0.1)))
    parts.append(tensor("text", 5, b"hello", "text"))
    parts.append(tensor("text", 290, b"taken back"))
    parts.append(tensor("matrix", 7, np.eye(3)))
    parts.append(record(wall_time=1, step=1, graph_def=b"graph"))
    parts.append(scalar("far", -(1 << 63), 1) + scalar("far", (1 << 63) - 1, 2))
    parts.append(scalar("all taken back", 400, 1))
    parts.append(frame(b"\xff\xff") + b"noise between records")
    parts.append(session_start(280))
    parts.append(scalar("even", 280, 1) + scalar("new", 281, 1) + scalar("even", 282, 1)[:-5])
    return b"".join(parts)


def cache_at(directory: Path | None, budget: int = 1 << 30) -> ColumnCache:
    """A cache below a directory, or none."""
    return ColumnCache(directory, Memory(budget))


def read(path: Path | str) -> FileContent:
    """A whole file read at once: what following it must come to."""
    return read_content(LocalFile(str(path)), lambda _: None)


def column_of(columns: Sequence[Column]) -> tuple[list[int], bytes, bytes]:
    """The points of some columns, for comparison."""
    joined = concatenate(columns)
    values = np.asarray(joined.values, np.float64)
    return joined.steps.tolist(), joined.wall_times.tobytes(), values.tobytes()


def content_of(content: FileContent) -> dict[str, Any]:
    """Everything a content says, for comparison. Times may be NaN."""
    return {
        "columns": {tag: column_of(columns) for tag, columns in content.columns.items()},
        "blobs": {tag: repr(blobs) for tag, blobs in content.blobs.items()},
        "purges": content.purges,
        "plugins": dict(content.plugins),
        "size": content.size,
        "events": content.events,
        "pending": content.pending,
        "skipped": content.skipped,
        "damages": dict(content.damage_counts),
        "version": content.file_version,
    }


def shown(view: RunView) -> Shown:
    """What a view shows of its scalars."""
    found = {}
    for tag in view.tags:
        points = view.points(tag)
        assert points is not None
        found[tag] = column_of([points])
    return found


def loaded(path: Path | str) -> dict[str, Shown]:
    """What `tbhub.load` makes of a path, by run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            runs = tbhub.load(path)
        except (NoEventsError, OSError):
            return {}
    return {
        name: {tag: column_of(series._parts) for tag, series in run.scalars.items()}
        for name, run in runs.items()
    }


def append(path: Path | str, data: bytes) -> None:
    """Appends to a file as a writer does."""
    with open(path, "ab") as file:
        file.write(data)


def eventually(condition: Callable[[], bool]) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


def descriptors() -> int:
    """How many files this process has open."""
    return len(os.listdir("/proc/self/fd"))
