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
from typing import Any, Self

from tbhub._kernel import MAX_PENDING_BYTES, MAX_RECORD_BYTES, Sink, flush_all
from tbhub.errors import TbhubWarning, WriteError
from tbhub.writer.record_writer import find_place

# How long an event may stay in memory. The libraries before us wait two minutes.
DEFAULT_FLUSH_SECS = 0.5

_open_files: weakref.WeakSet[EventFile] = weakref.WeakSet()
# Dropped by the program while they could not be written: kept, so that they are tried again.
_orphans: list[EventFile] = []


class EventFile:
    """The events of one writer in one directory, in one file per process and opening."""

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        max_queue: int | None = None,
        flush_secs: float | None = None,
        filename_suffix: str = "",
    ) -> None:
        """Opens a new event file; raises OSError where that cannot be done."""
        self._set_up(logdir, max_queue, flush_secs, filename_suffix)
        self.sink.open()
        self._audit()

    @classmethod
    def unopened(
        cls,
        logdir: str | os.PathLike[str],
        max_queue: int | None,
        flush_secs: float | None,
        filename_suffix: str,
    ) -> Self:
        """Waits for the first event to open a file, and tries again where that fails."""
        file = cls.__new__(cls)
        file._set_up(logdir, max_queue, flush_secs, filename_suffix)
        return file

    def _set_up(
        self,
        logdir: str | os.PathLike[str],
        max_queue: int | None,
        flush_secs: float | None,
        filename_suffix: str,
    ) -> None:
        flush_seconds = DEFAULT_FLUSH_SECS if flush_secs is None else float(flush_secs)
        if not flush_seconds >= 0:
            raise ValueError(f"flush_secs must not be negative, got {flush_secs}")
        if max_queue is not None and max_queue < 0:
            raise ValueError(f"max_queue must not be negative, got {max_queue}")
        if os.sep in filename_suffix:
            raise ValueError(f"filename_suffix must not contain {os.sep!r}: {filename_suffix!r}")
        self.logdir = os.fspath(logdir)
        place = find_place(self.logdir)
        self.sink: Any
        if isinstance(place, str):
            # Absolute: files are opened later, too, and the program may have moved by then.
            self.sink = Sink(
                os.path.abspath(place),
                filename_suffix,
                flush_seconds,
                max_queue or 0,
            )
        else:
            from tbhub.writer.factory_sink import FactorySink

            self.sink = FactorySink(place, self.logdir, filename_suffix, flush_seconds)
        self._start_reports()
        _open_files.add(self)
        _follow_child_processes()

    def _start_reports(self) -> None:
        self._warned = False
        self._reported_drops = 0

    def add_summary(self, summary: bytes, step: int, wall_time: float | None) -> None:
        """Adds an event around a serialized ``Summary``."""
        _check_size(summary)
        self.sink.add_summary(summary, step, time.time() if wall_time is None else wall_time)
        if self.sink.troubled:
            self.report()

    def add_record(self, event: bytes) -> None:
        """Adds a serialized ``Event``."""
        _check_size(event)
        self.sink.add_record(event)
        if self.sink.troubled:
            self.report()

    def flush(self) -> None:
        """Hands every event to the operating system; raises WriteError where that fails."""
        while not self.sink.flush():
            self._raise_problem()
        self._report_drops()

    def close(self) -> None:
        """Flushes and closes the file. After an error the events are still kept: call it again."""
        while not self.sink.close():
            self._raise_problem()
        self._audit()
        self._report_drops()

    def _audit(self) -> None:
        """Raise the audit event of an opened file, as `open` does: `tbhub run` listens to it."""
        if path := self.sink.path:
            sys.audit("open", path, "ab", os.O_WRONLY | os.O_APPEND)

    def __del__(self) -> None:
        if hasattr(self, "_reported_drops") and not self.sink.close():
            _orphans[:] = [file for file in _orphans if file.sink.pending_events]
            _orphans.append(self)

    def report(self) -> None:
        """Warns, once per episode, that the file cannot be written at the moment."""
        if self._warned:
            return
        self._warned = True  # before anything that lets another thread in
        code, path, *_ = self.sink.error() or (0, "")
        if not code:  # it is over already
            self._warned = False
            return
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

    def _raise_problem(self) -> None:
        code, path, pending, dropped = self.sink.error() or (0, "", 0, 0)
        if not code:
            return  # the background thread has got through in the meantime
        lost = f"; {dropped} more were dropped" if dropped else ""
        raise WriteError(
            code,
            f"{pending} events could not be written and are kept in memory{lost}: "
            f"{os.strerror(code)}",
            path,
        )


def _check_size(data: bytes) -> None:
    """Readers take a longer record for damage."""
    if len(data) > MAX_RECORD_BYTES - 64:
        raise ValueError(
            f"an event of {len(data) >> 20} MB is too large; readers take up to "
            f"{MAX_RECORD_BYTES >> 20} MB"
        )


def warn(text: str) -> None:
    """A warning that never becomes an exception: logging must not end a training."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("tbhub."):
        level, frame = level + 1, frame.f_back  # to the program's own line
    try:
        warnings.warn(text, TbhubWarning, stacklevel=level)
    except TbhubWarning:
        print(f"tbhub: {text}", file=sys.stderr)


@atexit.register
def _flush_at_exit() -> None:
    for file in [*_open_files, *_orphans]:
        try:
            file.flush()
        except WriteError as error:
            print(f"tbhub: {error}; they are lost with the end of this process", file=sys.stderr)


def _flush_for_good() -> None:
    _flush_at_exit()
    flush_all(write_through=True)  # a thread of this process may still log


# A child of multiprocessing ends without running atexit, but runs its own finalizers.
_finalizer_pid = 0


def _follow_child_processes() -> None:
    global _finalizer_pid
    util = sys.modules.get("multiprocessing.util")
    if util is None or _finalizer_pid == os.getpid():
        return
    _finalizer_pid = os.getpid()
    util.Finalize(None, _flush_for_good, exitpriority=0)
    util.register_after_fork(
        _flush_for_good, lambda _: util.Finalize(None, _flush_for_good, exitpriority=0)
    )


def _after_fork_in_child() -> None:
    _orphans.clear()  # the parent's
    for file in list(_open_files):
        file._start_reports()


os.register_at_fork(before=_follow_child_processes, after_in_child=_after_fork_in_child)
