"""From asking for a board to RUNNING where each board has a host of its own, beside what the engine
takes to start a process that says a word.

Kubernetes takes too long to build for this; ``make test-kubernetes`` measures the same there.
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks import engines
from benchmarks.corpus import corpus
from benchmarks.hub import Hub, hub, start_board, temporary
from benchmarks.measure import Row, in_process, time_text

_TURNS = 3
_GOAL = 1.0
_PATIENCE = 60.0
_HELD = 600  # seconds a process stays that nobody ends


@dataclass(frozen=True)
class Engine:
    """Where hosts run.

    Attributes:
        launcher, options: As a hub is set to it.
        peer: What is started by the engine alone.
        word: Seconds until that says a word.
        is_at_rest: Whether nothing is left of what was there.
    """

    launcher: str
    options: dict[str, Any]
    peer: str
    word: Callable[[], float]
    is_at_rest: Callable[[], bool] = lambda: True


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Slurm, Docker and Ray, as far as they are here."""
    logdir = str(corpus("simple", 10, 5, 1000, say))
    for name, needed, engine in (
        ("Slurm", ("slurmctld", "slurmd", "munged"), _slurm),
        ("podman behind Docker's interface", ("podman", "runc"), _docker),
        ("Ray", (), _ray),
    ):
        if not engines.has(*needed):
            continue
        say(f"start → RUNNING on {name}")
        with engine() as there:
            ours, theirs = _in_turns(there, logdir, _TURNS * repeats)
        more = ours - theirs
        yield Row(
            f"start → RUNNING on {name}, a host for each board ({_TURNS * repeats} boards)",
            f"{time_text(ours)}, {more:.2f} s more",
            there.peer,
            time_text(theirs),
            "–",
            f"≤ {_GOAL:g} s more",
            more <= _GOAL,
        )


def _in_turns(engine: Engine, logdir: str, turns: int) -> tuple[float, float]:
    """Medians of a board, and of a process."""
    settings = {"launcher": engine.launcher, "launcher_options": json.dumps(engine.options)}
    with (
        temporary() as directory,
        hub(directory / "home", logdirs=logdir, host_linger=0, **settings) as running,
    ):
        running.until(lambda: running.ask("GET", "/api/v1/runs?limit=1")["total"] == 10)
        runs = [run["id"] for run in running.ask("GET", "/api/v1/runs")["runs"]]
        ours, theirs = [], []
        for _ in range(turns + 1):  # the first warms both
            ours.append(_board(running, runs))
            running.until(engine.is_at_rest)
            theirs.append(engine.word())
            running.until(engine.is_at_rest)
    return statistics.median(ours[1:]), statistics.median(theirs[1:])


def _board(running: Hub, runs: list[int]) -> float:
    connection = running.connect()
    took = start_board(running, runs, connection)
    (board,) = running.ask("GET", "/api/v1/boards?live=true", connection=connection)["boards"]
    running.ask("DELETE", f"/api/v1/boards/{board['id']}", connection=connection)
    running.until(lambda: not running.ask("GET", "/api/v1/status")["hosts"])
    return took


@contextmanager
def _listening() -> Iterator[tuple[str, Callable[[], float]]]:
    """A command that says a word by connecting, and how long that takes from now on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(_PATIENCE)
        begin = time.perf_counter()

        def heard() -> float:
            server.accept()[0].close()
            return time.perf_counter() - begin

        port = server.getsockname()[1]
        yield f"exec 3<>/dev/tcp/127.0.0.1/{port}; sleep {_HELD}", heard


@contextmanager
def _slurm() -> Iterator[Engine]:
    with engines.slurm() as cluster:

        def word() -> float:
            with _listening() as (speak, heard):
                job = subprocess.run(
                    ["sbatch", "--parsable", "--output=/dev/null"],
                    input=f"#!/bin/bash\n{speak}\n",
                    text=True,
                    capture_output=True,
                    check=True,
                ).stdout.strip()
                took = heard()
            cluster.run("scancel", job)
            return took

        peer = "a job's first word after `sbatch`"
        yield Engine("slurm", {}, peer, word, lambda: not cluster.ask("squeue", "-h"))


@contextmanager
def _docker() -> Iterator[Engine]:
    import docker

    from support.podman import IMAGE

    with engines.podman() as there:
        client = docker.DockerClient(base_url=there.url)
        volumes = {here: {"bind": seen, "mode": "ro"} for here, seen in there.volumes.items()}

        def word() -> float:
            with _listening() as (speak, heard):
                made = client.containers.create(
                    IMAGE,
                    entrypoint=["bash", "-c", speak],
                    network_mode="host",
                    volumes=volumes,
                )
                made.start()
                took = heard()
            made.remove(force=True)
            return took

        options = {"image": IMAGE, "engine": there.url, "volumes": there.volumes}
        yield Engine("docker", options, "a container's first word, same volumes", word)
        client.close()


@contextmanager
def _ray() -> Iterator[Engine]:
    with engines.ray() as cluster:

        def word() -> float:
            return float(in_process(actor, cluster.address)["seconds"])

        options = {"address": cluster.address, "num_cpus": 0.5}
        yield Engine("ray", options, "the first answer of an actor that does nothing", word)


def actor(address: str) -> dict[str, float]:
    """Seconds until an actor of Ray's answers; the first one is not counted."""
    import ray

    class Nothing:
        def word(self) -> int:
            return 1

    ray.init(address, log_to_driver=False, logging_level="error")
    took = []
    for _ in range(2):
        begin = time.perf_counter()
        made = ray.remote(num_cpus=0.5)(Nothing).remote()
        ray.get(made.word.remote())
        took.append(time.perf_counter() - begin)
        ray.kill(made)
    ray.shutdown()
    return {"seconds": took[-1]}
