"""What TensorBoard's plugins find in a run: for every tag its plugin, kind of data and description.

TensorBoard converts every event it loads to one common form. Here only what is asked for is
converted, by TensorBoard's own functions; what a tag is follows from its first metadata alone.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensorboard import data_compat, dataclass_compat
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.audio import metadata as audio_metadata
from tensorboard.plugins.graph import metadata as graph_metadata
from tensorboard.plugins.histogram import metadata as histogram_metadata
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.util import tensor_util

from tbhub.boards.kinds import About, Entry, RunIndex
from tbhub.series.file_content import Blob
from tbhub.series.run_log import RunLog, RunView

# The numbers the kernel gives to what is not a scalar; see native/event.h.
_IMAGE, _HISTOGRAM, _AUDIO, _TENSOR, _BARE, _OLD_HISTOGRAM, _GRAPH = 1, 2, 3, 4, 5, 6, 7
_RUN_METADATA = 9

TENSOR = summary_pb2.DATA_CLASS_TENSOR
BLOBS = summary_pb2.DATA_CLASS_BLOB_SEQUENCE


@dataclass(frozen=True)
class _Known:
    """The index of a run, and what it was made from."""

    view: weakref.ref[RunView]
    tags: frozenset[str]
    plugins: Mapping[str, tuple[str, bytes]]
    blobs: Mapping[str, int]  # the kinds of the first ones, by tag
    index: RunIndex


_known: weakref.WeakKeyDictionary[RunLog, _Known] = weakref.WeakKeyDictionary()


def index_of(view: RunView) -> RunIndex:
    """The index of a view; the one of the view before it where only points are new."""
    known = _known.get(view.log)
    if known is not None and known.view() is view:
        return known.index
    tags, plugins, blobs = view.tags, view.plugins, _first_blobs(view)
    kinds = {tag: blob.kind for tag, blob in blobs.items()}
    if known is not None and (known.tags, known.plugins, known.blobs) == (tags, plugins, kinds):
        index = known.index
    else:
        index = _make_index(tags, plugins, blobs)
    _known[view.log] = _Known(weakref.ref(view), tags, plugins, kinds, index)
    return index


def _first_blobs(view: RunView) -> dict[str, Blob]:
    """By the tag they are shown under."""
    found = {}
    for tag in sorted(view.blob_tags):
        shown = graph_metadata.RUN_GRAPH_NAME if tag == "" else tag
        blobs = blobs_of(view, shown)
        if blobs:
            found[shown] = blobs[0]
    return found


def _make_index(
    tags: frozenset[str], plugins: Mapping[str, tuple[str, bytes]], blobs: Mapping[str, Blob]
) -> RunIndex:
    scalars = {tag: _about_scalar(tag, plugins.get(tag)) for tag in sorted(tags)}
    others: dict[str, Entry] = {}
    for shown, blob in blobs.items():
        entry = _entry(blob, plugins.get(blob.tag))
        if entry is not None:
            others[shown] = entry
    names = {entry.plugin for entry in others.values()}
    # TensorBoard counts a plugin as active as soon as a tag names it, shown or not.
    names.update(plugin for plugin, _ in plugins.values() if plugin)
    if scalars:
        names.add("scalars")
    return RunIndex(scalars, others, frozenset(names))


def blobs_of(view: RunView, tag: str) -> tuple[Blob, ...]:
    """Where the values of a tag stand; graphs have none of their own and are given one."""
    if tag == graph_metadata.RUN_GRAPH_NAME:
        return tuple(blob for blob in view.blobs("") if blob.kind == _GRAPH)
    return view.blobs(tag)


def _about_scalar(tag: str, known: tuple[str, bytes] | None) -> About:
    if known is None:
        return About(display_name=tag)
    plugin, data = known
    about = _about(data)
    if plugin == "scalars":
        return about
    # A plain number, which TensorBoard gives its tag as a name.
    return About(b"", about.description, about.display_name or tag)


@functools.lru_cache(maxsize=4096)
def _metadata(data: bytes) -> Any:
    return summary_pb2.SummaryMetadata.FromString(data)


@functools.lru_cache(maxsize=4096)
def _about(data: bytes) -> About:
    metadata = _metadata(data)
    return About(metadata.plugin_data.content, metadata.summary_description, metadata.display_name)


def _entry(first: Blob, known: tuple[str, bytes] | None) -> Entry | None:
    about = _about(known[1]) if known else About()
    name = about.display_name or first.tag
    if first.kind == _IMAGE:
        made = image_metadata.create_summary_metadata(
            name, about.description, converted_to_tensor=True
        )
        return _entry_of(made, BLOBS)
    if first.kind in (_HISTOGRAM, _OLD_HISTOGRAM):
        return _entry_of(
            histogram_metadata.create_summary_metadata(name, about.description), TENSOR
        )
    if first.kind == _AUDIO:
        made = audio_metadata.create_summary_metadata(
            name, about.description, audio_metadata.Encoding.Value("WAV"), converted_to_tensor=True
        )
        return _entry_of(made, BLOBS)
    if first.kind == _GRAPH:
        return Entry(graph_metadata.PLUGIN_NAME, BLOBS, About())
    if first.kind == _RUN_METADATA:
        return Entry(graph_metadata.PLUGIN_NAME_TAGGED_RUN_METADATA, BLOBS, About())
    if first.kind in (_TENSOR, _BARE) and known:
        metadata = _metadata(known[1])
        data_class = metadata.data_class or _data_class(known[1])
        return Entry(known[0], data_class, about, metadata)
    return None


def _entry_of(metadata: Any, data_class: int) -> Entry:
    data = metadata.plugin_data
    about = About(data.content, metadata.summary_description, metadata.display_name)
    return Entry(data.plugin_name, data_class, about)


@functools.lru_cache(maxsize=4096)
def _data_class(data: bytes) -> int:
    """What TensorBoard takes a tag of this plugin for that does not say itself."""
    value = summary_pb2.Summary.Value(tag="x")
    value.metadata.CopyFrom(_metadata(data))
    event = event_pb2.Event(summary=summary_pb2.Summary(value=[value]))
    (migrated,) = dataclass_compat.migrate_event(event, {})
    return int(migrated.summary.value[0].metadata.data_class)


def tensor_of(blob: Blob, entry: Entry) -> NDArray[Any]:
    """The value of a blob as TensorBoard's plugins want it; OSError, ValueError when it is bad."""
    return np.asarray(tensor_util.make_ndarray(_tensor_proto(blob, entry)))


def size_of(blob: Blob, entry: Entry) -> int:
    """How many blobs a sequence has."""
    if blob.kind in (_GRAPH, _RUN_METADATA):
        return 1
    if blob.kind == _IMAGE:
        return 3
    if blob.kind == _AUDIO:
        return 1
    dims = _tensor_proto(blob, entry).tensor_shape.dim
    return int(dims[0].size) if dims else 0


def _tensor_proto(blob: Blob, entry: Entry) -> Any:
    data = blob.read()
    if blob.kind in (_GRAPH, _RUN_METADATA):
        return tensor_util.make_tensor_proto([data])
    try:
        value = summary_pb2.Summary.Value.FromString(data)
    except Exception as error:  # protobuf's own DecodeError, by any implementation
        raise ValueError(f"{blob.path} has changed: no value at {blob.offset}") from error
    event = event_pb2.Event(step=blob.step, summary=summary_pb2.Summary(value=[value]))
    event = data_compat.migrate_event(event)
    initial = {} if entry.metadata is None else {blob.tag: entry.metadata}
    events = dataclass_compat.migrate_event(event, initial)
    return events[-1].summary.value[0].tensor
