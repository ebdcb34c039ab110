"""What a log directory holds, in a form in which two libraries' logs can be compared."""

from __future__ import annotations

import io
import warnings
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData
from tensorboard.util.tensor_util import make_ndarray


@contextmanager
def quiet() -> Iterator[None]:
    """The other libraries' own warnings are not ours to fix."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@dataclass
class Logged:
    """One value of one event."""

    run: str
    tag: str
    step: int
    kind: str
    value: Any


def read_events(logdir: Path) -> dict[str, list[Any]]:
    """The events of every run, by its directory below ``logdir``."""
    runs: dict[str, list[Any]] = {}
    for path in sorted(logdir.rglob("*tfevents*")):
        events = [Event.FromString(each) for each in RawEventFileLoader(str(path)).Load()]
        assert events[0].file_version == "brain.Event:2"
        runs.setdefault(str(path.parent.relative_to(logdir)), []).extend(events)
    return runs


def read_values(logdir: Path) -> list[Logged]:
    """Every summary value, run by run in the order of writing."""
    return [
        Logged(run, value.tag, event.step, *_decode(value))
        for run, events in read_events(logdir).items()
        for event in events
        for value in event.summary.value
    ]


def read_graphs(logdir: Path) -> list[Any]:
    return [
        GraphDef.FromString(event.graph_def)
        for events in read_events(logdir).values()
        for event in events
        if event.HasField("graph_def")
    ]


def _decode(value: Any) -> tuple[str, Any]:
    metadata = value.metadata.display_name, value.metadata.summary_description
    plugin = value.metadata.plugin_data
    kind = value.WhichOneof("value") or "none"
    if kind == "simple_value":
        return kind, (value.simple_value, metadata)
    if kind == "histo":
        return kind, value.histo
    if kind == "image":
        return kind, (value.image.height, value.image.width, value.image.colorspace, pixels(value))
    if kind == "audio":
        return kind, (value.audio.sample_rate, value.audio.content_type, samples(value))
    content: Any = plugin.content
    if plugin.plugin_name == "hparams":
        content = HParamsPluginData.FromString(plugin.content)
    elif plugin.plugin_name == "mesh":
        content = MeshPluginData.FromString(plugin.content)
    array = make_ndarray(value.tensor) if kind == "tensor" else None
    return f"{kind} of {plugin.plugin_name}", (content, metadata, array)


def pixels(value: Any) -> np.ndarray:
    """The decoded frames of an image."""
    with Image.open(io.BytesIO(value.image.encoded_image_string)) as image:
        frames = []
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            has_alpha = image.mode == "RGBA"
            frames.append(np.asarray(image.convert("RGBA" if has_alpha else "RGB")))
    return np.stack(frames)


def samples(value: Any) -> np.ndarray:
    with wave.open(io.BytesIO(value.audio.encoded_audio_string)) as file:
        frames = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return frames.reshape(-1, file.getnchannels())


def assert_same(ours: list[Logged], theirs: list[Logged], audio_tolerance: int = 0) -> None:
    """Equal in runs, tags, steps, kinds and values."""
    heads = [[(each.run, each.tag, each.step, each.kind) for each in log] for log in (ours, theirs)]
    assert heads[0] == heads[1]
    for our, their in zip(ours, theirs, strict=True):
        a, b = our.value, their.value
        if our.kind == "histo":
            assert (a.min, a.max, a.num) == (b.min, b.max, b.num)
            np.testing.assert_allclose(a.sum, b.sum, rtol=1e-12)
            np.testing.assert_allclose(a.sum_squares, b.sum_squares, rtol=1e-12)
            assert list(a.bucket) == list(b.bucket)
            np.testing.assert_allclose(a.bucket_limit, b.bucket_limit, rtol=1e-12)
        elif our.kind == "simple_value":
            assert a == b or (np.isnan(a[0]) and np.isnan(b[0])), our.tag
        elif our.kind == "audio":
            assert a[:2] == b[:2]
            assert a[2].shape == b[2].shape
            difference = np.abs(a[2].astype(int) - b[2])
            assert difference.max() <= audio_tolerance
        else:
            assert a[:-1] == b[:-1], our.tag
            np.testing.assert_array_equal(a[-1], b[-1], our.tag)
