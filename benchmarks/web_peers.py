"""What our table of runs is compared with: MLflow's and Aim's, each installed into an environment
of its own and given the same runs, which are kept for the next time.

MLflow's runs are put into its database as it would have them; Aim's are logged with Aim, for
what it keeps is nobody else's to write.
"""

from __future__ import annotations

import os
import random
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.aim_runs import HPARAMS, METRICS
from benchmarks.measure import ROOT

_KEPT = ROOT / ".bench"
_PATIENCE = 180.0
_READY = ".ready"


@dataclass(frozen=True)
class Peer:
    """Somebody else's page of runs.

    Args:
        name: With its version.
        path: Where its table is.
        cells: What is drawn of the table, as a selector.
    """

    name: str
    path: str
    cells: str
    serve: Callable[[int], list[str]]
    most: int = 10_000
    """Runs that it is given: Aim takes a third of a second to log one."""


def mlflow() -> Peer:
    """MLflow's, on SQLite.

    Raises:
        RuntimeError: It does not install; says why.
    """
    return Peer(
        f"MLflow {_install('mlflow')}",
        "/#/experiments/1/runs",
        ".ag-center-cols-container [role=gridcell]",
        _serve_mlflow,
    )


def aim() -> Peer:
    """Aim's.

    Raises:
        RuntimeError: It does not install; says why.
    """
    cells = ".Table__cell[class*=rowKey]"
    return Peer(f"Aim {_install('aim')}", "/runs", cells, _serve_aim, most=1_000)


@contextmanager
def served(peer: Peer, runs: int) -> Iterator[str]:
    """The address of a peer that knows so many runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*peer.serve(runs), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env=_quiet(),
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url, process)
        yield url
    finally:
        # Its workers end with it, as children of its session.
        os.killpg(process.pid, 15)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


def _quiet() -> dict[str, str]:
    """Neither asks elsewhere for news, nor tells of itself."""
    said = {"MLFLOW_DISABLE_TELEMETRY": "true", "AIM_ANALYTICS_ENABLED": "0", "DO_NOT_TRACK": "1"}
    return {**os.environ, **said, "__AIM_ANALYTICS_ENABLED__": "0"}


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"it ended with code {process.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=10):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError("it does not answer")


def _install(name: str) -> str:
    """The version of a peer, which is installed if it is not there."""
    where = _KEPT / name
    python = where / "bin" / "python"
    if not (where / "bin" / name).exists():
        subprocess.run([sys.executable, "-m", "venv", where], check=True)
        done = subprocess.run(
            [python, "-m", "pip", "-q", "install", name], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"does not install: {done.stderr.strip().splitlines()[-1]}")
    asked = f"from importlib.metadata import version; print(version({name!r}))"
    return subprocess.run(
        [python, "-c", asked], check=True, capture_output=True, text=True
    ).stdout.strip()


# --- MLflow


def _serve_mlflow(runs: int) -> list[str]:
    program = str(_KEPT / "mlflow" / "bin" / "mlflow")
    where = _KEPT / f"mlflow-{runs}"
    address = f"sqlite:///{where}/mlflow.db"
    if not (where / _READY).exists():
        where.mkdir(exist_ok=True)
        (where / "mlflow.db").unlink(missing_ok=True)
        subprocess.run([program, "db", "upgrade", address], check=True, capture_output=True)
        _fill_mlflow(where / "mlflow.db", runs)
        (where / _READY).touch()
    return [program, "server", "--backend-store-uri", address, "--workers", "1"]


def _fill_mlflow(path: Path, runs: int) -> None:
    now = int(time.time() * 1000)
    numbers = range(1, runs + 1)
    key = "{:032x}".format
    chances = [random.Random(number) for number in numbers]
    hparams = [
        (n, name, chance.random())
        for n, chance in zip(numbers, chances, strict=True)
        for name in HPARAMS
    ]
    metrics = [
        (n, name, chance.random())
        for n, chance in zip(numbers, chances, strict=True)
        for name in METRICS
    ]
    with sqlite3.connect(path) as database:
        database.execute(
            "insert into experiments (experiment_id, name, lifecycle_stage, creation_time,"
            " last_update_time, artifact_location) values (1, 'table', 'active', ?, ?, '')",
            (now, now),
        )
        database.executemany(
            "insert into runs (run_uuid, name, source_type, user_id, status, start_time, end_time,"
            " lifecycle_stage, artifact_uri, experiment_id)"
            " values (?, ?, 'LOCAL', 'ada', 'FINISHED', ?, ?, 'active', '', 1)",
            [(key(n), f"run{n}", now - n * 1000, now - n * 500) for n in numbers],
        )
        database.executemany(
            "insert into tags (key, value, run_uuid) values ('mlflow.runName', ?, ?)",
            [(f"run{n}", key(n)) for n in numbers],
        )
        database.executemany(
            "insert into params (key, value, run_uuid) values (?, ?, ?)",
            [(name, str(value), key(n)) for n, name, value in hparams],
        )
        database.executemany(
            "insert into metrics (key, value, timestamp, step, run_uuid, is_nan)"
            " values (?, ?, ?, 0, ?, 0)",
            [(name, value, now, key(n)) for n, name, value in metrics],
        )
        database.executemany(
            "insert into latest_metrics (key, value, timestamp, step, run_uuid, is_nan)"
            " values (?, ?, ?, 0, ?, 0)",
            [(name, value, now, key(n)) for n, name, value in metrics],
        )


# --- Aim


def _serve_aim(runs: int) -> list[str]:
    where = _KEPT / f"aim-{runs}"
    if not (where / _READY).exists():
        where.mkdir(exist_ok=True)
        python = _KEPT / "aim" / "bin" / "python"
        script = Path(__file__).parent / "aim_runs.py"
        subprocess.run([python, script, where, str(runs)], check=True, env=_quiet())
        (where / _READY).touch()
    return [str(_KEPT / "aim" / "bin" / "aim"), "up", "--repo", str(where), "--yes"]
