"""The program's end of the process that publishes: starts it, tells it what, asks how far it is.

One agent serves all that a process publishes, unless the variables that name credentials have been
changed since it was started: then there is another. It is told by lines of JSON on its stdin,
credentials among them, and answers by another pipe: a `sitecustomize` may print to its stdout. When
its stdin ends, because the program has ended in whatever way, the agent publishes what is left and
ends as well: it is in a session of its own, so that what is sent to the program's group of
processes does not reach it. Children that were forked hold the pipe, too, so that what they write
is followed as long as they live.

An agent that was killed is replaced when something is asked of it, or when somebody looks after it.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tbhub.publisher.publisher import Backlog
from tbhub.publisher.spool import Spool

_CONCERNING = (
    *("AWS_", "AZURE_", "GOOGLE_", "OSS_", "ALIBABA_", "STORAGE_EMULATOR", "TBHUB_", "SSL_CERT_"),
    *("IDENTITY_", "GCE_"),
)
_GRACE = 5.0  # seconds that an agent has to answer beyond the time it was given


class Publishing:
    """A place of the spool that an agent publishes."""

    def __init__(self, agent: _Agent, spool: Spool) -> None:
        self._agent = agent
        self.spool = spool

    @property
    def is_ours(self) -> bool:
        """Whether this process, and not the one it was forked from, has started the agent."""
        return self._agent.is_ours

    @property
    def pipe(self) -> int:
        """The agent's stdin: it goes on as long as any process has this open."""
        return self._agent.pipe

    def revive(self) -> None:
        """Has another agent go on if this one was killed; to be called now and then."""
        if self.is_ours:
            self._agent.revive()

    def flush(self, timeout: float, *, has_ended: bool = False) -> Backlog:
        """Publish all that is on disk now and return what is left when time is up.

        Args:
            timeout: Seconds.
            has_ended: The program has ended: also publish files that are called like unfinished
                ones.
        """
        return self._agent.ask("publish", self.spool, timeout, has_ended=has_ended)

    def close(self, timeout: float) -> Backlog:
        """The same for the last time: the place in the spool is removed if nothing is left."""
        return self._agent.ask("close", self.spool, timeout)

    def abandon(self) -> None:
        """Publishes nothing more: what is left waits in the spool."""
        self._agent.ask("abandon", self.spool, 0)


class _Agent:
    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._given: dict[Path, Mapping[str, str] | None] = {}
        self._asked = 0
        self._unread = b""
        self._process = self._spawn()

    @property
    def is_ours(self) -> bool:
        return self._pid == os.getpid()

    @property
    def pipe(self) -> int:
        return self._stdin

    def _spawn(self) -> subprocess.Popen[bytes]:
        self._unread = b""
        # Bare descriptors: only the end of the process, after all it has to write, closes them.
        told, self._stdin = os.pipe()
        self._answers, said = os.pipe()
        try:
            # -P: a module of the program's directory must not take the place of one of ours.
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "tbhub.publisher", str(said)],
                stdin=told,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(said,),
                start_new_session=True,
            )
        finally:
            os.close(told)
            os.close(said)

    def add(self, spool: Spool, credentials: Mapping[str, str] | None) -> None:
        with self._lock:
            self._given[spool.path] = credentials
            self._send({"spool": str(spool.path), "credentials": credentials})

    def revive(self) -> None:
        with self._lock:
            if self._process.poll() is not None:
                self._send(again=True)

    def ask(self, what: str, spool: Spool, timeout: float, **more: bool) -> Backlog:
        deadline = time.monotonic() + timeout
        with self._lock:
            self._asked += 1
            question = {what: self._asked, "spool": str(spool.path), "timeout": timeout, **more}
            self._send(question, again=True)
            answer = self._answer(self._asked, deadline + _GRACE)
            if answer is None and self._process.poll() is not None:
                # It was killed while we waited; the next one goes on where it stood.
                self._send(question, again=True)
                answer = self._answer(self._asked, deadline + _GRACE)
            if what != "publish":
                self._given.pop(spool.path, None)
        if answer is None:
            left = spool.backlog()
            return replace(left, problem=left.problem or "no answer in time")
        return Backlog(
            answer["files"], answer["bytes"], answer["problem"], tuple(answer["refused"])
        )

    def _send(self, *lines: dict[str, Any], again: bool = False) -> None:
        if again and self._process.poll() is not None:
            os.close(self._stdin)
            os.close(self._answers)
            self._process = self._spawn()
            given = self._given.items()
            lines = (*({"spool": str(path), "credentials": each} for path, each in given), *lines)
        try:
            for line in lines:
                os.write(self._stdin, json.dumps(line).encode() + b"\n")
        except BrokenPipeError:
            self._process.wait()  # it has just been killed: whoever asks next starts another

    def _answer(self, number: int, deadline: float) -> dict[str, Any] | None:
        while True:
            line, newline, rest = self._unread.partition(b"\n")
            if newline:
                self._unread = rest
                answer: dict[str, Any] = json.loads(line)
                if answer["id"] == number:
                    return answer
                continue
            ready, _, _ = select.select(
                [self._answers], [], [], max(0.0, deadline - time.monotonic())
            )
            data = os.read(self._answers, 65536) if ready else b""
            if not data:
                if ready:
                    self._process.wait()
                return None
            self._unread += data

    def let_go(self) -> None:
        """It outlives this process, and is not waited for."""
        self._process.returncode = 0

    def _after_fork_in_child(self) -> None:
        self._lock._at_fork_reinit()  # type: ignore[attr-defined]
        self.let_go()  # the parent's


# By the environment they were started in, as far as it concerns stores.
_agents: dict[frozenset[tuple[str, str]], _Agent] = {}
_starting = threading.Lock()


def start_agent(spool: Spool, credentials: Mapping[str, str] | None = None) -> Publishing:
    """Has a place of the spool published by this process's agent, which is started if need be.

    Credentials go to it through a pipe and are kept nowhere; without any it finds them in the
    environment, as it is now.
    """
    concerning = frozenset(
        (name, value)
        for name, value in os.environ.items()
        if name.upper().startswith(_CONCERNING) or name.upper().endswith("_PROXY")
    )
    with _starting:
        agent = _agents.get(concerning)
        if agent is None or not agent.is_ours:
            agent = _agents[concerning] = _Agent()
    agent.add(spool, credentials)
    return Publishing(agent, spool)


@atexit.register
def _let_go() -> None:
    for agent in _agents.values():
        agent.let_go()


def _after_fork_in_child() -> None:
    _starting._at_fork_reinit()  # type: ignore[attr-defined]
    for agent in _agents.values():
        agent._after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
