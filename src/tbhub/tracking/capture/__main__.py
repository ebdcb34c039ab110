"""The process that adopts event files for `tbhub run`: ``python -m tbhub.tracking.capture 5``.

It reads lines of JSON from stdin: first its assignment, then ``{"command": 123}`` when the command
has been started, and ``{"end": true}`` when it has ended; then it writes its report to the
descriptor that is its argument, and ends. The
command has the other end of stdin as well: if `tbhub run` is killed, adopting continues as long as
the command runs. The locks and pipes of the run's spool are inherited, so that the spool stays and
is published until then.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tbhub.publisher.adopted import locked
from tbhub.tracking.capture.capturer import Assignment, Capturer
from tbhub.tracking.capture.reports import delete

_NICE = 10  # training goes first
_STEP_SECONDS = 0.5
_MIN_STEP_SECONDS = 0.05


class _Listener:
    """Reads stdin in a thread of its own.

    Attributes:
        ended: Set when the command has ended, or everybody who could say so.
    """

    def __init__(self, capturer: Capturer, unread: bytes) -> None:
        self._capturer = capturer
        self._unread = unread
        self.command: int | None = None
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
    """Adopt event files until the command has ended, and report.

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
        if assignment.record is not None:
            held.enter_context(locked(Path(assignment.record)))
        capturer = Capturer(assignment)
        listener = _Listener(capturer, unread)
        while not listener.ended.is_set():
            if listener.command is not None:
                capturer.add_process(listener.command)
                listener.command = None
            capturer.step()
            if not listener.ended.wait(_MIN_STEP_SECONDS):
                capturer.wait(_STEP_SECONDS)
        if listener.command is not None:
            capturer.add_process(listener.command)
        report = capturer.finish()
    delete(assignment.address)
    answer = json.dumps(asdict(report)).encode() + b"\n"
    while answer:
        answer = answer[os.write(answers, answer) :]


if __name__ == "__main__":
    main(int(sys.argv[1]))
