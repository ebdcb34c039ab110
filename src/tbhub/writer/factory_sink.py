"""A sink whose bytes go through a registered factory instead of to a file of this machine.

It answers to the same calls as the kernel's sink: the kernel gathers the records, and a thread
hands them to the factory's stream every ``flush_seconds``. What the stream refuses is kept and
tried again.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
import weakref
from typing import TYPE_CHECKING

from tbhub._kernel import MAX_PENDING_BYTES, Sink

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tbhub.writer.record_writer import RecordStream, WriterFactory

_sinks: weakref.WeakSet[FactorySink] = weakref.WeakSet()


class FactorySink:
    """Records on their way through a factory's stream."""

    def __init__(
        self, factory: WriterFactory, directory: str, suffix: str, flush_seconds: float
    ) -> None:
        self._factory = factory
        self._directory = directory
        self._suffix = suffix
        self._flush_seconds = flush_seconds
        factory.directory_check(directory)
        self._reset()
        self._open()
        _sinks.add(self)

    def _reset(self) -> None:
        self._gathered = Sink(None)
        self.add_scalar = self._gathered.add_scalar
        self._stream: RecordStream | None = None
        self._held = b""
        self._problem = ""
        self._lost_bytes = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self.path = ""

    def _open(self) -> None:
        from tbhub.events.schema import Event

        self.path = (
            f"{self._directory.rstrip('/')}/events.out.tfevents.{int(time.time())}."
            f"{socket.gethostname()}.{os.getpid()}.{time.time_ns() % 10**9:09d}{self._suffix}"
        )
        self._stream = self._factory.open(self.path)
        version = Event(wall_time=time.time(), file_version="brain.Event:2")
        # The version goes first, whatever has gathered before the file was opened.
        waiting = self._gathered.take()
        self._gathered.add_record(version.SerializeToString())
        self._held = self._gathered.take() + self._held + waiting
        self._closing.clear()
        self._thread = threading.Thread(target=self._run, name="tbhub-factory-sink", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.wait(max(self._flush_seconds, 0.05)):
            self.flush()

    def add_summary(self, summary: bytes, step: int, wall_time: float) -> None:
        """Adds an event around a serialized summary."""
        self._gathered.add_summary(summary, step, wall_time)

    def add_record(self, event: bytes) -> None:
        """Adds a serialized event."""
        self._gathered.add_record(event)

    def add_session_start(self, step: int) -> None:
        """Adds the mark that makes readers forget what lies at and behind ``step``."""
        self._gathered.add_session_start(step)

    def add_scalars(
        self,
        tag: str,
        values: NDArray[np.float64],
        steps: NDArray[np.int64] | None,
        wall_times: NDArray[np.float64] | None,
    ) -> None:
        """Adds a whole series."""
        self._gathered.add_scalars(tag, values, steps, wall_times)

    def flush(self) -> bool:
        """Hands everything to the stream; False where it refused."""
        with self._lock:
            data = self._held + self._gathered.take()
            self._held = b""
            if not data:
                return True
            try:
                if self._stream is None:
                    self._held, data = data, b""
                    self._open()
                    data, self._held = self._held, b""
                assert self._stream is not None
                self._stream.write(data)
                data = b""  # the stream has it; what it does with it shows in flush
                self._stream.flush()
            except Exception as problem:  # a factory may raise anything; training goes on
                self._problem = str(problem) or type(problem).__name__
                kept = (self._held or data)[:MAX_PENDING_BYTES]
                self._lost_bytes += len(self._held or data) - len(kept)
                self._held = kept
                return False
            self._problem = ""
            return True

    def close(self) -> bool:
        """Flushes and closes the stream; a later event opens a new one."""
        if not self.flush():
            return False
        self._closing.set()
        with self._lock:
            if self._stream is not None:
                self._stream.close()
                self._stream = None
        return True

    def error(self) -> tuple[int, str, int, int] | None:
        """The last problem, as the kernel's sink tells it."""
        if not self._problem and not self._lost_bytes:
            return None
        return (errno.EIO if self._problem else 0, f"{self.path} ({self._problem})", 0, 0)

    @property
    def troubled(self) -> bool:
        """Whether the last attempt to write failed."""
        return bool(self._problem)

    @property
    def pending_events(self) -> int:
        """How many events have not been handed to the stream."""
        return self._gathered.pending_events

    def _after_fork(self) -> None:
        self._reset()  # what had gathered is the parent's; the stream opens at the first flush
        self._thread = threading.Thread(target=self._run, name="tbhub-factory-sink", daemon=True)
        self._thread.start()


def _after_fork_in_child() -> None:
    for sink in list(_sinks):
        sink._after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
