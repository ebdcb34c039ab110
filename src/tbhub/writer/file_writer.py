"""FileWriter: events as protocol buffers into a log directory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from tbhub.writer.arrays import to_float, to_step
from tbhub.writer.event_file import EventFile
from tbhub.writer.publishing import publish


class FileWriter:
    """Writes ``Event`` and ``Summary`` messages to event files in a directory.

    Messages may come from any protobuf package (tbhub's, tensorboard's, tensorboardX's,
    TensorFlow's): all that counts is what they serialize to.
    """

    _event_file: type[EventFile] = EventFile

    def __init__(
        self,
        logdir: str | os.PathLike[str] | None = None,
        max_queue: int | None = None,
        flush_secs: float | None = None,
        filename_suffix: str = "",
        *,
        log_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """Opens a new event file in ``logdir`` (or ``log_dir``, torch's name for it)."""
        directory = logdir if logdir is not None else log_dir
        if directory is None:
            raise TypeError("FileWriter: a log directory is needed")
        self._set_up(directory, max_queue, flush_secs, filename_suffix)

    @classmethod
    def unopened(
        cls,
        logdir: str | os.PathLike[str],
        max_queue: int | None,
        flush_secs: float | None,
        filename_suffix: str,
    ) -> Self:
        """A writer that opens its file at the first event, and never raises because of the disk."""
        writer = cls.__new__(cls)
        writer._set_up(logdir, max_queue, flush_secs, filename_suffix, open_now=False)
        return writer

    def _set_up(
        self,
        directory: str | os.PathLike[str],
        max_queue: int | None,
        flush_secs: float | None,
        filename_suffix: str,
        open_now: bool = True,
    ) -> None:
        self._arguments = (os.fspath(directory), max_queue, flush_secs, filename_suffix)
        make = self._event_file if open_now else self._event_file.unopened
        self.event_writer = make(*self._arguments)
        self._default_step: int | None = None
        self._default_wall_time: float | None = None

    def get_logdir(self) -> str:
        """The directory the event files are in."""
        return self._arguments[0]

    def add_event(self, event: Any, step: Any = None, walltime: Any = None) -> None:
        """Adds an ``Event`` message, with its wall time set to ``walltime`` or now."""
        if not hasattr(event, "SerializeToString"):
            raise TypeError(f"add_event: expected an Event message, got {type(event).__name__}")
        event.wall_time = self._wall_time(walltime, "add_event")
        step = self._default_step if step is None else step
        if step is not None:
            event.step = to_step(step, "add_event")
        self.event_writer.add_record(event.SerializeToString())

    def add_summary(self, summary: Any, global_step: Any = None, walltime: Any = None) -> None:
        """Adds a ``Summary`` message (or its serialized bytes) at a step."""
        data = summary if isinstance(summary, bytes) else _serialize(summary, "add_summary")
        step = self._default_step if global_step is None else global_step
        self.event_writer.add_summary(
            data, to_step(step, "add_summary"), self._wall_time(walltime, "add_summary")
        )

    def add_graph(self, graph_profile: Any, walltime: Any = None) -> None:
        """Adds a ``(GraphDef, RunMetadata)`` pair."""
        from tbhub.events.schema import Event, TaggedRunMetadata

        graph, run_metadata = graph_profile
        self.add_event(Event(graph_def=_serialize(graph, "add_graph")), None, walltime)
        tagged = TaggedRunMetadata(tag="step1", run_metadata=_serialize(run_metadata, "add_graph"))
        self.add_event(Event(tagged_run_metadata=tagged), None, walltime)

    def add_onnx_graph(self, graph: Any, walltime: Any = None) -> None:
        """Adds a ``GraphDef`` made from an ONNX model."""
        from tbhub.events.schema import Event

        self.add_event(Event(graph_def=_serialize(graph, "add_onnx_graph")), None, walltime)

    def add_openvino_graph(self, graph: Any, walltime: Any = None) -> None:
        """Adds a ``GraphDef`` made from an OpenVINO model."""
        self.add_onnx_graph(graph, walltime)

    def flush(self) -> None:
        """Hands every event to the operating system; raises WriteError where that fails."""
        self.event_writer.flush()

    def close(self) -> None:
        """Flushes and closes the file. A later event opens a new one.

        Where the log directory is a URI this waits, a minute at most, until all is published. What
        is left then is kept, and published later.
        """
        self.close_file()
        publish(self._arguments[0])

    def close_file(self) -> None:
        """The same without waiting for a store."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Allowed after ``close``; the next event opens a new file by itself."""

    @contextmanager
    def use_metadata(
        self, *, global_step: int | None = None, walltime: float | None = None
    ) -> Iterator[FileWriter]:
        """Inside, events without a step or wall time of their own get these."""
        if global_step is None and walltime is None:
            raise ValueError("use_metadata: give global_step, walltime or both")
        before = self._default_step, self._default_wall_time
        self._default_step, self._default_wall_time = global_step, walltime
        try:
            yield self
        finally:
            self._default_step, self._default_wall_time = before

    def _wall_time(self, walltime: Any, where: str) -> float:
        if walltime is not None:
            return to_float(walltime, where)
        return time.time() if self._default_wall_time is None else self._default_wall_time

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).unopened, self._arguments


class DiscardingFileWriter(FileWriter):
    """Takes everything and keeps nothing: what ``write_to_disk=False`` asks for."""

    def __init__(self, logdir: str | os.PathLike[str]) -> None:
        self._arguments = (os.fspath(logdir), None, None, "")
        self._default_step = self._default_wall_time = None

    def add_event(self, event: Any, step: Any = None, walltime: Any = None) -> None:
        """Does nothing."""

    def add_summary(self, summary: Any, global_step: Any = None, walltime: Any = None) -> None:
        """Does nothing."""

    def flush(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""

    def close_file(self) -> None:
        """Does nothing."""

    def __reduce__(self) -> tuple[Any, ...]:
        return DiscardingFileWriter, self._arguments[:1]


def _serialize(message: Any, where: str) -> bytes:
    if not hasattr(message, "SerializeToString"):
        raise TypeError(f"{where}: expected a message, got {type(message).__name__}")
    data: bytes = message.SerializeToString()
    return data
