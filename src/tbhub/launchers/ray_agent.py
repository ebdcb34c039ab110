"""The process that talks to Ray for a hub: ``python -m tbhub.launchers.ray_agent``.

Ray is heavy, has threads and signal handlers of its own, and ends its process when its cluster is
away for long; none of it belongs into a hub. So the hub asks here, by lines of JSON on stdin, and
is answered on stdout, in whatever order. When the hub goes the pipe closes, and this ends; hosts
live on.

The first line says where Ray is. By ``ray://`` the asking is done by an actor in the cluster: the
client knows too little by itself.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

from tbhub.launchers.ray_options import AUTO_ADDRESS, CLIENT, NAMESPACE, place

_THREADS = 16
_REACH_SECONDS = 5.0
_END_SECONDS = 5.0

Ask = Callable[[str, Mapping[str, Any]], Any]


def main() -> None:
    """Connects, and answers until stdin ends."""
    # What Ray prints is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    told = json.loads(sys.stdin.readline())
    try:
        ask = connect(told["address"], told["runtime_env"])
    except BaseException as error:  # Ray means to end its process for some
        _say(answers, {"failed": _text(error)})
        os._exit(1)
    _say(answers, {"connected": True})
    saying = threading.Lock()
    with ThreadPoolExecutor(_THREADS) as threads:
        for line in sys.stdin:
            threads.submit(_answer, ask, json.loads(line), answers, saying)
        _end()


def _answer(ask: Ask, asked: Mapping[str, Any], answers: TextIO, saying: threading.Lock) -> None:
    try:
        answer = {"answer": ask(asked["ask"], asked["with"])}
    except Exception as error:
        answer = {"error": _text(error)}
    with saying:
        _say(answers, {"id": asked["id"], **answer})


def _say(answers: TextIO, what: Mapping[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


def connect(address: str, runtime_env: Mapping[str, Any]) -> Ask:
    """Connects this process; what asks the cluster."""
    if address == AUTO_ADDRESS:
        address = os.environ.get("RAY_ADDRESS") or address
    _reach(address)
    import ray

    by_client = address.startswith(CLIENT)
    ray.init(
        address=address,
        namespace=NAMESPACE,
        log_to_driver=False,
        configure_logging=False,
        **({"runtime_env": dict(runtime_env)} if by_client and runtime_env else {}),
    )
    from tbhub.launchers.ray_cluster import Cluster

    if not by_client:
        cluster = Cluster()
        return lambda what, given: getattr(cluster, what)(**given)
    there = ray.remote(Cluster).options(num_cpus=0, max_concurrency=_THREADS).remote()
    return lambda what, given: ray.get(getattr(there, what).remote(**given))


def _reach(address: str) -> None:
    """Ray would try for half a minute where nobody listens."""
    where = place(address)
    if where is not None:
        with socket.create_connection(where, _REACH_SECONDS):
            pass


def _end() -> None:
    """Disconnects, so that Ray does not take this for a crash; but it may be away."""
    late = threading.Timer(_END_SECONDS, os._exit, [1])
    late.daemon = True
    late.start()
    import ray

    ray.shutdown()
    os._exit(0)


def _text(error: BaseException) -> str:
    """What an error says first; those of Ray's go on for long."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):  # of what was asked in the cluster
        return _text(cause)
    lines = [each.strip() for each in str(error).splitlines() if each.strip()]
    if not lines:
        return type(error).__name__
    return f"{lines[0]} {lines[-1]}" if lines[0].endswith(":") and lines[1:] else lines[0]


if __name__ == "__main__":
    main()
