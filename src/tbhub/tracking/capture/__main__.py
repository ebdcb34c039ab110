"""The process that adopts event files for `tbhub run`: ``python -m tbhub.tracking.capture 5``.

It reads lines of JSON from stdin: first its assignment, then ``{"command": 123, …}`` when the
command has been started, and ``{"end": true}`` when it has ended; then it writes its report to the
descriptor that is its argument. If processes of the command still run, it continues to adopt at a
low rate until they have ended, and appends what has changed since the report to the log of what the
command has printed. The command has the other end of stdin as well: if `tbhub run` is killed,
adopting continues as long as the command runs. The locks and pipes of the run's spool are
inherited, so that the spool stays and is published until then.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tbhub.publisher.adopted import locked
from tbhub.tracking.capture.capturer import Assignment, Capturer, Report
from tbhub.tracking.capture.reports import delete
from tbhub.tracking.capture.summary import later_lines
from tbhub.tracking.process_table import inheritors

_NICE = 10  # training goes first
_STEP_SECONDS = 0.5
_MIN_STEP_SECONDS = 0.05
_ENDING_SECONDS = 0.5  # that processes have to end with the command
_ENDING_INTERVAL = 0.02
_LATE_INTERVAL = 1.0  # seconds between two looks at processes that were left behind
_LATE_SHARE = 200  # adopting from them takes at most one part in so many of a processor's time


class _Listener:
    """Reads stdin in a thread of its own.

    Attributes:
        command: The command that was started and is not known to the capturer yet.
        console: The file that has what the command prints; empty if it was not started.
        pipe: The number that the other end of stdin has in the command; -1 if it was not started.
        ended: Set when the command has ended, or all processes that could report its end.
    """

    def __init__(self, capturer: Capturer, unread: bytes) -> None:
        self._capturer = capturer
        self._unread = unread
        self.command: int | None = None
        self.console = ""
        self.pipe = -1
        self.ended = threading.Event()
        threading.Thread(target=self._listen, name="tbhub-listen", daemon=True).start()

    def _listen(self) -> None:
        while not self.ended.is_set():
            line, newline, rest = self._unread.partition(b"\n")
            if newline:
                self._unread = rest
                self._hear(json.loads(line))
                continue
            data = os.read(0, 65536)
            if not data:
                break
            self._unread += data
        self.ended.set()
        self._capturer.wake()

    def _hear(self, message: dict[str, Any]) -> None:
        if "command" in message:
            self.console, self.pipe = message["console"], message["pipe"]
            self.command = message["command"]
        if message.get("end"):
            self.ended.set()


def _assignment() -> tuple[Assignment, bytes]:
    unread = b""
    while b"\n" not in unread:
        data = os.read(0, 65536)
        if not data:
            raise SystemExit(0)
        unread += data
    line, _, unread = unread.partition(b"\n")
    return Assignment(**json.loads(line)), unread


def main(answers: int) -> None:
    """Adopt event files until the command has ended, report, and adopt those of what it has left.

    Args:
        answers: The descriptor that the report is written to.
    """
    os.nice(_NICE)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # it ends with the command
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # deleted files stay open
    assignment, unread = _assignment()
    with ExitStack() as held:
        held.callback(delete, assignment.address)
        if assignment.record is not None:
            held.enter_context(locked(Path(assignment.record)))
        capturer = Capturer(assignment)
        listener = _Listener(capturer, unread)
        try:
            _adopt(capturer, listener)
            report = capturer.report()
        except Exception as error:  # whatever it is, the user is to know
            report = capturer.report_error(error)
        told = report if _is_answered(answers, report) else Report()
        try:
            while report.running:
                _adopt_late(capturer)
                report = capturer.report()
        except Exception as error:
            report = capturer.report_error(error)
        if listener.console:
            _append(listener.console, later_lines(report, told))
        capturer.close()


def _adopt(capturer: Capturer, listener: _Listener) -> None:
    """Adopt event files until the command has ended."""
    while not listener.ended.is_set():
        if listener.command is not None:
            capturer.add_process(listener.command)
            listener.command = None
        capturer.step()
        if not listener.ended.wait(_MIN_STEP_SECONDS):
            capturer.wait(_STEP_SECONDS)
    if listener.command is not None:
        capturer.add_process(listener.command)
    _await_ends(capturer, listener.pipe)


def _await_ends(capturer: Capturer, pipe: int) -> None:
    """Wait a moment for the processes that the command has left: most are about to end."""
    for process in inheritors(pipe, os.fstat(0)):
        if process != os.getppid():  # `tbhub run`, which may not have closed it yet
            capturer.add_process(process)
    deadline = time.monotonic() + _ENDING_SECONDS
    while capturer.has_processes() and time.monotonic() < deadline:
        time.sleep(_ENDING_INTERVAL)


def _is_answered(answers: int, report: Report) -> bool:
    """Write a report. Return False if the process that waits for it was killed."""
    answer = json.dumps(asdict(report)).encode() + b"\n"
    try:
        while answer:
            answer = answer[os.write(answers, answer) :]
    except BrokenPipeError:
        return False
    finally:
        os.close(answers)
    return True


def _adopt_late(capturer: Capturer) -> None:
    """Adopt at a low rate until the processes of the command seem to have ended."""
    next_step = 0.0
    while capturer.has_processes():
        now = time.monotonic()
        if now >= next_step:
            begun = time.process_time()
            capturer.wait(0.0)  # takes what the kernel has reported
            capturer.step()
            next_step = now + _LATE_SHARE * (time.process_time() - begun)
        time.sleep(_LATE_INTERVAL)


def _append(console: str, lines: list[str]) -> None:
    """Append lines to the log of what the command has printed."""
    if not lines:
        return
    with suppress(OSError), open(console, "a+b") as file:
        size = file.seek(0, os.SEEK_END)
        is_line = size == 0 or os.pread(file.fileno(), 1, size - 1) == b"\n"
        text = "".join(f"tbhub: {line}\n" for line in lines)
        file.write((text if is_line else f"\n{text}").encode(errors="surrogateescape"))


if __name__ == "__main__":
    main(int(sys.argv[1]))
