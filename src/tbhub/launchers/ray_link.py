"""The hub's end of the process that talks to Ray: started when something is asked, and again when
it has ended.

No thread of the hub waits for Ray: an answer is a future that the thread which reads them sets. So
it may be asked from any event loop, and a cluster that hangs holds up nobody but who asks for it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import Any

from tbhub.launchers.base import LaunchError

_MODULE = "tbhub.launchers.ray_agent"
_CONNECT_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
_END_SECONDS = 6.0
_PAUSE_SECONDS = 3.0  # after a connection that failed, before the next is tried


class Link:
    """Asks Ray by a process of its own.

    Args:
        address: Where Ray is.
        runtime_env: What that process needs in the cluster, as Ray knows it.
        log: What Ray prints there.
    """

    def __init__(self, address: str, runtime_env: Mapping[str, Any], log: Path) -> None:
        self._where = f"Ray at {address}"
        self._told = {"address": address, "runtime_env": dict(runtime_env)}
        self._log = log
        self._agent: _Agent | None = None
        self._lock = threading.Lock()

    async def ask(self, what: str, **given: Any) -> Any:
        """What a method of `ray_cluster.Cluster` answers.

        Raises:
            LaunchError: Ray refuses, or cannot be reached, or does not answer.
        """
        agent, answer = await asyncio.to_thread(self._ask, what, given)
        seconds = _ANSWER_SECONDS if agent.is_connected else _CONNECT_SECONDS
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(answer)
        except TimeoutError:
            agent.kill()
            text = f"{self._where} did not answer within {seconds:g} s"
            raise LaunchError(text) from None

    async def close(self) -> None:
        """Ends the process, if there is one."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._lock:
            agent, self._agent = self._agent, None
        if agent is not None:
            agent.close()

    def _ask(self, what: str, given: Mapping[str, Any]) -> tuple[_Agent, Future[Any]]:
        with self._lock:
            if self._agent is not None and self._agent.ended is not None:
                is_new = time.monotonic() < self._agent.ended + _PAUSE_SECONDS
                if is_new and not self._agent.is_connected:
                    raise LaunchError(self._agent.why)
                self._agent = None
            if self._agent is None:
                self._agent = self._start()
            return self._agent, self._agent.ask(what, given)

    def _start(self) -> _Agent:
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return _Agent(self._where, self._told, self._log)
        except OSError as error:
            text = f"the process that talks to Ray cannot be started: {error}"
            raise LaunchError(text) from error


class _Agent:
    """One such process.

    Attributes:
        is_connected: Whether it is, or was.
        ended: When it did, on the monotonic clock.
        why: Why it has ended.
    """

    def __init__(self, where: str, told: Mapping[str, Any], log: Path) -> None:
        self.is_connected = False
        self.ended: float | None = None
        self.why = ""
        self._where = where
        self._numbers = itertools.count()
        self._asked: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=_environment(),
                cwd="/",  # Ray has its workers look for modules where it was started
                start_new_session=True,  # an interrupt is for the hub
            )
        finally:
            os.close(output)
        self._write(told)
        self._reader = threading.Thread(target=self._read, name="tbhub-ray", daemon=True)
        self._reader.start()

    def ask(self, what: str, given: Mapping[str, Any]) -> Future[Any]:
        """Asks; the future has the answer, or a `LaunchError`."""
        answer: Future[Any] = Future()
        with self._lock:
            if self.ended is not None:
                answer.set_exception(LaunchError(self.why))
                return answer
            number = next(self._numbers)
            self._asked[number] = answer
            self._write({"id": number, "ask": what, "with": given})
        return answer

    def _write(self, what: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it has ended, as its reader will see
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        why = ""
        with self._process.stdout as answers:
            for line in answers:
                told = json.loads(line)
                if "connected" in told:
                    self.is_connected = True
                elif "failed" in told:
                    why = str(told["failed"])
                else:
                    self._take(told)
        why = why or f"the process that talks to it ended with code {self._process.wait()}"
        self._process.wait()
        with self._lock:
            self.why = f"{self._where} cannot be reached: {why}"
            self.ended = time.monotonic()
            for each in self._asked.values():
                with suppress(InvalidStateError):  # nobody waits for it any more
                    each.set_exception(LaunchError(self.why))
            self._asked.clear()
            with suppress(OSError):
                self._process.stdin.close()

    def _take(self, told: Mapping[str, Any]) -> None:
        with self._lock:
            answer = self._asked.pop(told["id"])
        with suppress(InvalidStateError):
            if "error" in told:
                answer.set_exception(LaunchError(f"{self._where}: {told['error']}"))
            else:
                answer.set_result(told["answer"])

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()

    def close(self) -> None:
        """Ends it; it disconnects from Ray before."""
        with self._lock, suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join()


def _environment() -> dict[str, str]:
    """The hub's without its settings, some of which are secrets."""
    return {name: it for name, it in os.environ.items() if not name.startswith("TBHUB_")}
