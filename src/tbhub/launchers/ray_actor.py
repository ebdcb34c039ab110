"""What of a host runs on Ray: an actor, and below it the host's own process.

TensorBoard is in no worker of Ray's. The actor starts the process, keeps its log with those of
Ray's session on that node, and knows how it ended; for a while it stays to tell. When its node is
being drained it ends the process, so that boards are elsewhere before the node goes. Whatever ends
the actor (``ray.kill``, a signal, the end of its node) ends the process: the kernel sees to it.

Imported by workers of Ray's, so it is light.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from tbhub.launchers.tail import last_lines

_MODULE = "tbhub.launchers.ray_actor"
_KEPT_SECONDS = 300.0  # an actor stays when its host has ended, so that the hub can ask how
_LOOK_SECONDS = 5.0  # whether its node is to go; a preempted one has half a minute or more
_PR_SET_PDEATHSIG = 1


class HostActor:
    """Keeps the process of a host."""

    def __init__(self, name: str, environment: Mapping[str, str], module: str) -> None:
        self._name = name
        self._is_drained = False
        self._left = threading.Event()
        self._asking = threading.Lock()
        self._asked = False
        started: Future[subprocess.Popen[bytes]] = Future()
        # The kernel ends the process with the thread that started it; this one waits for its end.
        threading.Thread(
            target=self._run, args=(environment, module, started), name="tbhub-host", daemon=True
        ).start()
        self._process = started.result()

    def _run(
        self,
        environment: Mapping[str, str],
        module: str,
        started: Future[subprocess.Popen[bytes]],
    ) -> None:
        try:
            process = _start(log_path(self._name), environment, module)
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(process)
        while process.returncode is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_SECONDS)
                break
            if _is_draining():
                self._is_drained = True
                self._ask(process)
        if not self._left.wait(_KEPT_SECONDS):
            os.kill(os.getpid(), signal.SIGTERM)  # Ray takes its worker away

    def ending(self) -> dict[str, Any] | None:
        """How the host ended, if it has: its exit code, as a shell has it, and whether by us."""
        code = self._process.poll()
        if code is None:
            return None
        return {"code": 128 - code if code < 0 else code, "is_drained": self._is_drained}

    def pid(self) -> int:
        """The number of the host's process on its node."""
        return self._process.pid

    def logs(self, tail: int) -> list[str]:
        """The last lines it has printed."""
        return last_lines(log_path(self._name), tail)

    def stop(self, seconds: float, tail: int) -> dict[str, Any]:
        """Ends the host, asking first; how it ended and what it printed last."""
        self._ask(self._process)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._left.set()
        return {**(self.ending() or {}), "lines": self.logs(tail)}

    def _ask(self, process: subprocess.Popen[bytes]) -> None:
        """Asks the host to end; once, since a Python that ends is killed by what it had caught."""
        with self._asking:
            if not self._asked:
                self._asked = True
                process.terminate()


def log_path(name: str) -> Path:
    """Where the log of a host is, on the node that asks."""
    from ray._private.worker import global_worker

    return Path(global_worker.node.get_logs_dir_path()) / f"{name}.log"


def _is_draining() -> bool:
    import ray
    from ray._private.state import state

    with suppress(Exception):  # the cluster is away; what ends then ends by itself
        return ray.get_runtime_context().get_node_id() in state.get_draining_nodes()
    return False


def read_log(name: str, tail: int) -> list[str]:
    """The last lines of a host whose actor is dead; asked on the node that it had."""
    return last_lines(log_path(name), tail)


def _start(log: Path, environment: Mapping[str, str], module: str) -> subprocess.Popen[bytes]:
    # For its owner alone, as elsewhere; of a host that had its name nothing is to be said.
    how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    output = os.open(log, how, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, str(os.getpid()), module],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            cwd="/",
        )
    finally:
        os.close(output)


def main(parent: int, module: str) -> None:
    """The host's process: tied to its actor before it is anything else."""
    with suppress(OSError, AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the actor of this host is gone")
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
