"""The agent: ``python -m tbhub.publisher 5``, which publishes for a program and outlives it.

It is told by lines of JSON on stdin:

    {"spool": "/path", "credentials": null}              publish this from now on
    {"publish": 1, "spool": "/path", "timeout": 60}      all that is on disk now; answer when done
    {"publish": 1, …, "has_ended": true}                 the same, unfinished names as well
    {"close": 2, "spool": "/path", "timeout": 60}        for the last time
    {"abandon": 3, "spool": "/path", "timeout": 0}       nothing more: it is left as it is

and answers ``{"id": 1, "files": 0, "bytes": 0, "problem": "", "refused": []}`` to the descriptor
that is its argument. When stdin ends it publishes what is left, until that makes no progress for an
hour, says in the spool's log what it could not, and ends. After SIGTERM it has 25 seconds for that,
and none where someone has to do something first: credentials are wrong, or the disk is full.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tbhub.errors import TbhubError
from tbhub.publisher.publisher import Backlog, Publisher
from tbhub.publisher.spool import Spool, find_spool, remove_published

_NICE = 10  # training goes first
_LINGER = 3600.0  # seconds without progress after the program's end; then `tbhub sync` is needed
_HURRY = 25.0  # the same where the machine is about to be taken away
_LOOKS = 1.0  # seconds between two looks at what has gone wrong
_TRIES = 10
_AGAIN = 0.2  # seconds between two passes that someone waits for
_STOP_TIMEOUT = 5.0  # seconds for large uploads to be given up
_QUESTIONS = ("publish", "close", "abandon")


class Watched:
    """A place of the spool, once its lock is ours and its store open."""

    def __init__(self, spool: Spool, credentials: Mapping[str, str] | None) -> None:
        self.spool = spool
        self._credentials = credentials
        self._held = ExitStack()
        self._publisher: Publisher | None = None
        self._problem = ""
        self._lock = threading.Lock()

    def open(self) -> Publisher | None:
        """Begins to publish; None if that is not possible now."""
        with self._lock:
            if self._publisher is not None:
                return self._publisher
            try:
                with ExitStack() as held:
                    held.enter_context(self.spool.taken())
                    self._publisher, store = self.spool.open(self._credentials)
                    held.callback(store.close)
                    self._held = held.pop_all()
            except (TbhubError, OSError) as error:
                self.note(str(error))
                return None
            self._publisher.start()
            return self._publisher

    def note(self, problem: str) -> None:
        """Writes a problem to the log, once."""
        if problem and problem != self._problem:
            self.spool.log(problem)
        self._problem = problem

    def look(self) -> None:
        """Tries to begin if that was not possible before; notes what is wrong."""
        publisher = self.open()
        if publisher is not None:
            self.note(publisher.backlog.problem)
            if publisher.is_fenced:  # and the program is alive
                self.spool.mark_fenced()

    def publish(self, timeout: float, has_ended: bool) -> Backlog:
        """Publishes all that is there now."""
        deadline = time.monotonic() + timeout
        while True:
            publisher = self.open()
            left = publisher.publish(has_ended=has_ended) if publisher else self._without_store()
            left = self._recorded(left)
            if not left.files or time.monotonic() + _AGAIN > deadline:
                return left
            time.sleep(_AGAIN)

    def close(
        self,
        timeout: float,
        *,
        is_patient: bool = False,
        is_hurried: Callable[[], bool] = lambda: False,
    ) -> Backlog:
        """Publish what is left; delete the local copy of what is published.

        Args:
            timeout: Seconds.
            is_patient: Count them from the last progress.
            is_hurried: Whether to give up as soon as someone has to do something first.
        """
        try:
            self.spool.catch_up()
        except OSError as error:
            self.note(str(error))
        deadline = time.monotonic() + timeout
        least = math.inf
        while (publisher := self.open()) is None:
            if is_hurried() or time.monotonic() + _LOOKS > deadline:
                left = self._without_store()
                self._say(left)
                return left
            time.sleep(_LOOKS)
        # Someone who knows another way there may ask for it: `tbhub sync`.
        left = publisher.close(min(_LOOKS, max(0.0, deadline - time.monotonic())))
        while publisher.is_alive and time.monotonic() < deadline:
            self.note(left.problem)
            if self.spool.is_wanted() or (is_hurried() and publisher.is_stuck):
                break
            left = publisher.close(min(_LOOKS, max(0.0, deadline - time.monotonic())))
            if is_patient and left.bytes < least:
                least, deadline = left.bytes, time.monotonic() + timeout
        is_done, left = publisher.is_done, publisher.backlog
        publisher.stop(_STOP_TIMEOUT)
        if is_done and not left.files and not left.refused:
            self._held.close()
            self._remove()
        else:
            left = self._recorded(left)
            self._say(left)
            self._held.close()
        return left

    def abandon(self) -> Backlog:
        """Publishes nothing more."""
        with self._lock:
            if self._publisher is not None:
                self._publisher.stop(_STOP_TIMEOUT)
            self._held.close()
        return self.spool.backlog()

    def _remove(self) -> None:
        """The program closes its pipe and its lock at its very end, but one after the other."""
        for _ in range(_TRIES):
            if remove_published(self.spool):
                return
            if not self.spool.is_held() and (left_out := self.spool.left_out()):
                size = sum(each.look.size for each in left_out)
                files = "1 file" if len(left_out) == 1 else f"{len(left_out):,} files"
                self.spool.log(f"{files} with {size:,} bytes kept: not to be published")
                return
            if opened := self.spool.open_files():
                files = "1 file is" if len(opened) == 1 else f"{len(opened):,} files are"
                self.spool.log(f"{files} open in another process, and kept: {opened[0]}")
                return
            time.sleep(_AGAIN)

    def again(self) -> Watched | None:
        """Return the same place to be published once more if a file of it may still be written."""
        if find_spool(self.spool.path) is None or not self.spool.open_files():
            return None
        return Watched(self.spool, self._credentials)

    def _say(self, left: Backlog) -> None:
        self.spool.log(
            f"{left} left for `tbhub sync`" + (f": {left.problem}" if left.problem else "")
        )
        for each in left.refused:
            self.spool.log(f"cannot be published: {each}")

    def _recorded(self, left: Backlog) -> Backlog:
        """Return what is left by the state on disk, if all is published and not recorded."""
        if left.files or not left.problem:
            return left
        return replace(self.spool.backlog(), problem=left.problem, refused=left.refused)

    def _without_store(self) -> Backlog:
        return replace(self.spool.backlog(), problem=self._problem)


class Agent:
    """All that one program publishes."""

    def __init__(self, answers: int) -> None:
        self._answers = answers  # a descriptor
        self._watched: dict[str, Watched] = {}
        self._open: dict[str, Watched] = {}  # closed, but for files that the program may have open
        self._ended = threading.Event()
        self._linger = _LINGER
        self._latest = float("inf")
        self._is_hurried = False
        self._writing = threading.Lock()

    def run(self) -> None:
        """Until stdin ends, and then until all is published."""
        signal.signal(signal.SIGTERM, lambda *_: self._hurry())
        threading.Thread(target=self._listen, name="tbhub-listen", daemon=True).start()
        while not self._ended.wait(_LOOKS):
            for watched in list(self._watched.values()):
                watched.look()
        for path, watched in self._open.items():
            if find_spool(Path(path)) is not None:
                self._watched.setdefault(path, watched)
        is_patient = self._linger == _LINGER
        threads = [
            threading.Thread(
                target=watched.close,
                args=(self._linger,),
                kwargs={"is_patient": is_patient, "is_hurried": lambda: self._is_hurried},
                daemon=True,
            )
            for watched in self._watched.values()
        ]
        if not is_patient:
            self._latest = time.monotonic() + self._linger
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and time.monotonic() < self._latest:
                thread.join(_LOOKS)

    def _hurry(self) -> None:
        """The machine may be taken away: the program ends as it likes, and we not long after."""
        self._is_hurried = True
        self._linger = _HURRY
        if self._ended.is_set():
            self._latest = time.monotonic() + _HURRY

    def _listen(self) -> None:
        unread = b""
        # Not sys.stdin: Python would wait for its lock when it ends.
        while data := os.read(0, 65536):
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                self._hear(json.loads(line))
        self._ended.set()

    def _hear(self, message: dict[str, Any]) -> None:
        path = message["spool"]
        if "credentials" in message:
            spool = find_spool(Path(path))
            self._open.pop(path, None)
            if spool is not None and path not in self._watched:
                self._watched[path] = Watched(spool, message["credentials"])
                self._watched[path].open()
            return
        threading.Thread(target=self._serve, args=(message,), daemon=True).start()

    def _serve(self, message: dict[str, Any]) -> None:
        what = next(word for word in _QUESTIONS if word in message)
        watched = self._watched.get(message["spool"])
        if what != "publish":
            self._watched.pop(message["spool"], None)
        if watched is None:
            left = Backlog()
        elif what == "abandon":
            left = watched.abandon()
        elif what == "close":
            left = watched.close(message["timeout"])
            if (again := watched.again()) is not None:
                self._open[message["spool"]] = again
        else:
            left = watched.publish(message["timeout"], message.get("has_ended", False))
        answer = {
            "id": message[what],
            "files": left.files,
            "bytes": left.bytes,
            "problem": left.problem,
            "refused": left.refused,
        }
        with self._writing, suppress(OSError):
            os.write(self._answers, json.dumps(answer).encode() + b"\n")


def main(answers: int) -> None:
    """Run the agent, which answers to a descriptor."""
    os.nice(_NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    Agent(answers).run()
    sys.stdout.flush()
    os._exit(0)  # a request that hangs is not waited for


if __name__ == "__main__":
    main(int(sys.argv[1]))
