"""A sink whose bytes go through a registered factory instead of to a file of this machine.

It answers to the same calls as the kernel's sink: the kernel gathers the records, and a thread
hands them to the factory's stream every ``flush_seconds``. What the stream refuses is kept and
tried again, whole, before anything newer; the kernel drops and counts what is too much.

Invariants
  - Streams are only touched under ``_handing_over``, and have been flushed when it is free.
  - Fork waits for both locks, so that a child inherits neither a lock that is taken nor a stream
    with something in it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from tbhub._kernel import TROUBLED, Sink

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tbhub.writer.record_writer import RecordStream, WriterFactory

# So much is handed over without waiting for the thread, while the stream takes it.
_EAGER_BYTES = 4 << 20
_BATCH = 32_768  # points between two looks at how much has gathered
_RECORD_FRAME = 16  # bytes around the data of a record

_sinks: weakref.WeakSet[FactorySink] = weakref.WeakSet()
_parents_streams: list[RecordStream] = []  # never to be closed here


class FactorySink:
    """Records on their way through a factory's stream."""

    def __init__(
        self,
        factory: WriterFactory,
        directory: str,
        suffix: str,
        flush_seconds: float,
    ) -> None:
        self._factory = factory
        self._directory = directory
        self._suffix = suffix
        self._flush_seconds = flush_seconds
        self._gathered = Sink(None)
        self._start()
        _sinks.add(self)

    def _start(self) -> None:
        self._stream: RecordStream | None = None
        self._held = b""  # taken from the gathered ones, but not by the stream
        self._version_held = False  # and begins with a file's version
        self._unflushed = False
        self._problem: Exception | None = None
        self._handing_over = threading.RLock()  # a factory that forks has it already
        self._adding = threading.Lock()
        self._closing: threading.Event | None = None  # of the thread, while there is one
        self.path = ""

    def open(self) -> None:
        """Opens a stream now instead of at the first flush; raises what the factory does."""
        with self._handing_over:
            self._open()

    def _open(self) -> None:
        from tbhub.events.schema import Event

        self.path = (
            f"{self._directory.rstrip('/')}/events.out.tfevents.{int(time.time())}."
            f"{socket.gethostname()}.{os.getpid()}.{time.time_ns() % 10**9:09d}{self._suffix}"
        )
        self._factory.directory_check(self._directory)
        self._stream = self._factory.open(self.path)
        version = Sink(None)
        version.add_record(
            Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString()
        )
        self._held = version.take() + self._held
        self._version_held = True

    def _follow(self) -> None:
        """Sees to it that a thread is there to write what has been added."""
        with self._adding:
            if self._closing is not None:
                return
            closing = threading.Event()

            def run() -> None:
                while not closing.wait(max(self._flush_seconds, 0.05)):
                    self.flush()

            # Where the interpreter is going down there is no thread to be had: its end flushes.
            with contextlib.suppress(RuntimeError):
                threading.Thread(target=run, name="tbhub-factory-sink", daemon=True).start()
                self._closing = closing

    def add_scalar(self, tag: Any, value: Any, step: Any, wall_time: Any) -> int:
        """Adds a scalar; what it answers is the kernel's."""
        self._follow()
        status = self._gathered.add_scalar(tag, value, step, wall_time)
        self._keep_up()
        return status | TROUBLED if self._problem else status

    def add_summary(self, summary: bytes, step: int, wall_time: float) -> None:
        """Adds an event around a serialized summary."""
        self._follow()
        self._gathered.add_summary(summary, step, wall_time)
        self._keep_up()

    def add_record(self, event: bytes) -> None:
        """Adds a serialized event."""
        self._follow()
        self._gathered.add_record(event)
        self._keep_up()

    def add_session_start(self, step: int) -> None:
        """Adds the mark that makes readers forget what lies at and behind ``step``."""
        self._follow()
        self._gathered.add_session_start(step)

    def add_scalars(
        self,
        tag: str,
        values: NDArray[np.float64],
        steps: NDArray[np.int64] | None,
        wall_times: NDArray[np.float64] | None,
    ) -> None:
        """Adds a whole series."""
        import numpy as np

        self._follow()
        for start in range(0, len(values), _BATCH):
            piece = slice(start, start + _BATCH)
            some = np.arange(start, start + len(values[piece])) if steps is None else steps[piece]
            times = None if wall_times is None else wall_times[piece]
            with self._adding:  # the kernel gives up the GIL, and so would let a fork in
                self._gathered.add_scalars(tag, values[piece], some, times)
            self._keep_up()

    def _keep_up(self) -> None:
        """A stream that works but is slower than the program makes it wait, and loses nothing."""
        if self._gathered.pending_bytes >= _EAGER_BYTES and self._problem is None:
            self.flush()

    def flush(self) -> bool:
        """Hands everything to the stream; False where it refused."""
        with self._handing_over:
            try:
                for _ in range(2):  # what was refused before, and what has gathered since
                    if not self._held:
                        self._held = self._gathered.take()
                    if self._held:
                        if self._stream is None:
                            self._open()
                        assert self._stream is not None
                        self._stream.write(self._held)
                        self._held, self._version_held = b"", False
                        self._unflushed = True
                if self._unflushed and self._stream is not None:
                    self._stream.flush()
                    self._unflushed = False
            except Exception as problem:  # a factory may raise anything; training goes on
                self._problem = problem
                return False
            self._problem = None
            return True

    def close(self) -> bool:
        """Flushes and closes the stream; a later event opens a new one."""
        with self._handing_over:
            if not self.flush():
                return False
            if self._stream is not None:
                try:
                    self._stream.close()
                except Exception as problem:
                    self._problem = problem
                    return False
                self._stream = None
            if self._closing is not None:
                self._closing.set()
                self._closing = None
        return True

    def error(self) -> tuple[int, str, int, int] | None:
        """The last problem, as the kernel's sink tells it."""
        _, _, _, dropped = self._gathered.error() or (0, "", 0, 0)
        problem = self._problem
        if problem is None and dropped == 0:
            return None
        code = (getattr(problem, "errno", None) or errno.EIO) if problem else 0
        return (
            code,
            f"{self.path or self._directory} ({problem or repr(problem)})",
            self.pending_events,
            dropped,
        )

    @property
    def troubled(self) -> bool:
        """Whether the last attempt to write failed."""
        return self._problem is not None

    @property
    def pending_events(self) -> int:
        """How many events have not been handed to the stream."""
        held = self._held
        count, position = -self._version_held, 0
        while position < len(held):
            position += _RECORD_FRAME + int.from_bytes(held[position : position + 8], "little")
            count += 1
        return count + self._gathered.pending_events

    def _before_fork(self) -> None:
        self._handing_over.acquire()
        self._adding.acquire()

    def _after_fork_in_parent(self) -> None:
        self._adding.release()
        self._handing_over.release()

    def _after_fork_in_child(self) -> None:
        self._gathered.take()  # the parent's, as is the stream
        if self._stream is not None:
            _parents_streams.append(self._stream)
        self._start()


_forking: list[FactorySink] = []


def _before_fork() -> None:
    _forking[:] = _sinks
    for sink in _forking:
        sink._before_fork()


def _after_fork_in_parent() -> None:
    for sink in _forking:
        sink._after_fork_in_parent()
    _forking.clear()


def _after_fork_in_child() -> None:
    for sink in _forking:
        sink._after_fork_in_child()
    _forking.clear()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
