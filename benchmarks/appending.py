"""Appending through the hub: fifty workers at once, each to a file of its own run.

What is acknowledged is on the disk, so the disk is what it is compared with, in the same run: `dd`
of as many bytes with a sync at the end, which is the best it can do, and fifty threads that write
and sync as the hub does for its workers. Afterwards every file is what its worker has sent.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.hub import Hub, hub
from benchmarks.measure import ROOT, Row

_WORKERS = 50
_EACH = 16 << 20  # bytes of a worker
_PIECE = 1 << 20
_GOAL = 100e6  # bytes a second


def _disk(directory: Path, size: int) -> float:
    """Bytes a second that the disk takes."""
    target = directory / "dd"
    blocks = size // _PIECE
    command = ["dd", "if=/dev/zero", f"of={target}", f"bs={_PIECE}", f"count={blocks}"]
    begin = time.perf_counter()
    subprocess.run([*command, "conv=fsync"], check=True, capture_output=True)
    seconds = time.perf_counter() - begin
    target.unlink()
    return size / seconds


def _synced(directory: Path) -> float:
    """The same of the writes and syncs that the workers ask for."""
    piece = os.urandom(_PIECE)

    def write(number: int) -> None:
        with (directory / f"synced{number}").open("wb", buffering=0) as file:
            for _ in range(_EACH // _PIECE):
                file.write(piece)
                os.fdatasync(file)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(_WORKERS)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    for number in range(_WORKERS):
        (directory / f"synced{number}").unlink()
    return _WORKERS * _EACH / seconds


def _work(running: Hub, run: int, piece: bytes, together: threading.Barrier) -> None:
    connection: http.client.HTTPConnection = running.connect()
    headers = {"Authorization": f"Bearer {running.token}"}
    together.wait()
    for offset in range(0, _EACH, _PIECE):
        path = f"/api/v1/runs/{run}/files/events?offset={offset}&attempt=1"
        while True:
            connection.request("PUT", path, piece, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                break
            if answer.status != 503:
                raise RuntimeError(f"{path}: {answer.status}")
            time.sleep(float(answer.headers.get("retry-after", 1)))
    connection.close()


def _append(running: Hub) -> float:
    """Bytes a second of all workers together; nothing may be missing."""
    runs = [running.ask("POST", "/api/v1/runs", {})["run"]["id"] for _ in range(_WORKERS)]
    pieces = [os.urandom(_PIECE) for _ in runs]
    together = threading.Barrier(_WORKERS + 1)
    workers = [
        threading.Thread(target=_work, args=(running, run, piece, together))
        for run, piece in zip(runs, pieces, strict=True)
    ]
    for worker in workers:
        worker.start()
    together.wait()
    begin = time.perf_counter()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - begin
    for run, piece in zip(runs, pieces, strict=True):
        found = (running.home / "files" / str(run) / "events").read_bytes()
        expected = hashlib.sha256(piece * (_EACH // _PIECE)).digest()
        if hashlib.sha256(found).digest() != expected:
            raise RuntimeError(f"run {run} has lost something")
    return _WORKERS * _EACH / seconds


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Fifty workers, and the disk alone."""
    rates: list[tuple[float, float, float]] = []
    for number in range(repeats):
        say(f"fifty workers append through the hub, {number + 1} of {repeats}")
        (ROOT / ".bench").mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=ROOT / ".bench") as name:  # on a disk, not in memory
            disk = _disk(Path(name), _WORKERS * _EACH)
            synced = _synced(Path(name))
            with hub(Path(name) / "home") as running:
                rates.append((_append(running), disk, synced))
    ours, disk, synced = sorted(rates)[len(rates) // 2]
    yield Row(
        f"{_WORKERS} workers append through the hub, {_PIECE >> 20} MiB at a time, durable",
        f"{ours / 1e6:,.0f} MB/s",
        "dd, one file, one sync",
        f"{disk / 1e6:,.0f} MB/s (the same writes and syncs without a hub {synced / 1e6:,.0f})",
        f"{ours / disk:.2f}×",
        "≥ 100 MB/s or the disk's limit",
        ours >= min(_GOAL, 0.8 * disk),
    )
