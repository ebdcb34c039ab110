"""One log directory being written: the kernel's sink, and what Python has to say about it.

The kernel buffers, writes and retries without Python. This module adds what needs the interpreter:
warnings, exceptions, and the flush when the program or one of its child processes ends.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import warnings
import weakref
from typing import Any

from tbhub._kernel import MAX_PENDING_BYTES, Sink, flush_all
from tbhub.errors import TbhubWarning, WriteError
from tbhub.writer.record_writer import find_factory

# How long an event may stay in memory. The libraries before us wait two minutes.
DEFAULT_FLUSH_SECS = 2.0

_open_files: weakref.WeakSet[EventFile] = weakref.WeakSet()


class EventFile:
    """The events of one writer in one directory, in one file per process and opening."""

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        max_queue: int | None = None,
        flush_secs: float | None = None,
        filename_suffix: str = "",
    ) -> None:
        flush_seconds = DEFAULT_FLUSH_SECS if flush_secs is None else float(flush_secs)
        if not flush_seconds >= 0:
            raise ValueError(f"flush_secs must not be negative, got {flush_secs}")
        if max_queue is not None and max_queue < 0:
            raise ValueError(f"max_queue must not be negative, got {max_queue}")
        if os.sep in filename_suffix:
            raise ValueError(f"filename_suffix must not contain {os.sep!r}: {filename_suffix!r}")
        self.logdir = os.fspath(logdir)
        factory = find_factory(self.logdir)
        self.sink: Any
        if factory is None:
            self.sink = Sink(self.logdir, filename_suffix, flush_seconds, max_queue or 0)
        else:
            from tbhub.writer.factory_sink import FactorySink

            self.sink = FactorySink(factory, self.logdir, filename_suffix, flush_seconds)
        self._warned = False
        self._reported_drops = 0
        _open_files.add(self)
        _follow_child_processes()

    def add_summary(self, summary: bytes, step: int, wall_time: float | None) -> None:
        """Adds an event around a serialized ``Summary``."""
        self.sink.add_summary(summary, step, time.time() if wall_time is None else wall_time)
        if self.sink.troubled:
            self.report()

    def add_record(self, event: bytes) -> None:
        """Adds a serialized ``Event``."""
        self.sink.add_record(event)
        if self.sink.troubled:
            self.report()

    def flush(self) -> None:
        """Hands every event to the operating system; raises WriteError where that fails."""
        if not self.sink.flush():
            raise self._write_error()
        self._report_drops()

    def close(self) -> None:
        """Flushes and closes the file. After an error the events are still kept: call it again."""
        if not self.sink.close():
            raise self._write_error()
        self._report_drops()

    def report(self) -> None:
        """Warns, once per episode, that the file cannot be written at the moment."""
        if self._warned or (problem := self.sink.error()) is None:
            return
        self._warned = True
        code, path, *_ = problem
        warn(
            f"cannot write to {path}: {os.strerror(code)}; events are kept in memory "
            f"(up to {MAX_PENDING_BYTES >> 20} MB) and tried again"
        )

    def _report_drops(self) -> None:
        self._warned = False
        problem = self.sink.error()
        dropped = problem[3] if problem else 0
        if dropped > self._reported_drops:
            warn(
                f"{dropped - self._reported_drops} events for {self.logdir} were dropped because "
                f"more than {MAX_PENDING_BYTES >> 20} MB waited while it could not be written"
            )
            self._reported_drops = dropped

    def _write_error(self) -> WriteError:
        code, path, pending, dropped = self.sink.error() or (0, self.logdir, 0, 0)
        lost = f"; {dropped} more were dropped" if dropped else ""
        return WriteError(
            code,
            f"{pending} events could not be written and are kept in memory{lost}: "
            f"{os.strerror(code)}",
            path,
        )


def warn(text: str) -> None:
    """A warning that never becomes an exception: logging must not end a training."""
    try:
        warnings.warn(text, TbhubWarning, stacklevel=4)
    except TbhubWarning:
        print(f"tbhub: {text}", file=sys.stderr)


@atexit.register
def _flush_at_exit() -> None:
    for file in list(_open_files):
        try:
            file.flush()
        except WriteError as error:
            print(f"tbhub: {error}; they are lost with the end of this process", file=sys.stderr)


# A child of multiprocessing ends without running atexit, but runs its own finalizers.
_finalizer_pid = 0


def _follow_child_processes() -> None:
    global _finalizer_pid
    util = sys.modules.get("multiprocessing.util")
    if util is None or _finalizer_pid == os.getpid():
        return
    _finalizer_pid = os.getpid()
    util.Finalize(None, flush_all, exitpriority=0)
    util.register_after_fork(
        _flush_at_exit, lambda _: util.Finalize(None, flush_all, exitpriority=0)
    )


os.register_at_fork(before=_follow_child_processes)
