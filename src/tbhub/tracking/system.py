"""What a command uses of its machine, as curves: processors, memory, graphics cards."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tbhub.writer.summary_writer import SummaryWriter

_EVERY = 10.0  # seconds
_GPU_TIMEOUT = 5.0
_GPU_QUERY = ("index", "utilization.gpu", "memory.used")
_GPU_CURVES = (("percent", 1), ("memory_bytes", 2**20))
_PROC = Path("/proc")


class SystemMetrics:
    """Logs until it is closed, in a thread of its own.

    Args:
        logdir: The run's directory; the curves are in ``system`` below it.
        process: The command; those that it starts count with it.
        first_step: Where earlier attempts have come to. Steps are seconds.
    """

    def __init__(self, logdir: Path, process: int, first_step: int = 0) -> None:
        self._writer = SummaryWriter(logdir / "system")
        self._process = process
        self._first_step = first_step
        self._closing = threading.Event()
        self._begun = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="tbhub-system", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it."""
        self._closing.set()
        self._thread.join(_GPU_TIMEOUT)
        self._writer.close()

    def _run(self) -> None:
        used, at = cpu_seconds(self._process), time.monotonic()
        pause = 1.0  # a short run has a point, too
        while not self._closing.wait(pause):
            pause = _EVERY
            now, total = time.monotonic(), cpu_seconds(self._process)
            step = self._first_step + round(now - self._begun)
            # A process that has ended takes its time with it.
            percent = max(0.0, total - used) / (now - at) * 100
            used, at = total, now
            self._writer.add_scalar("system/cpu_percent", percent, step)
            self._writer.add_scalar("system/memory_bytes", memory_bytes(self._process), step)
            for name, value in graphics_cards().items():
                self._writer.add_scalar(f"system/{name}", value, step)


def cpu_seconds(process: int) -> float:
    """The processor time of a process and those it has started."""
    ticks = sum(int(stat[11]) + int(stat[12]) for stat in _tree(process).values())
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_bytes(process: int) -> int:
    """The memory of a process and those it has started; what they share counts for each."""
    pages = sum(int(stat[21]) for stat in _tree(process).values())
    return pages * os.sysconf("SC_PAGE_SIZE")


def graphics_cards() -> dict[str, float]:
    """How busy each card is in percent, and the bytes in use; nothing where there is no tool.

    A card that does not tell one of them (``[N/A]``) has a curve of the other.
    """
    try:
        answer = subprocess.run(
            ["nvidia-smi", f"--query-gpu={','.join(_GPU_QUERY)}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_GPU_TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found = {}
    for line in answer.stdout.splitlines():
        card, *told = (word.strip() for word in line.split(","))
        if not card.isdecimal() or len(told) != len(_GPU_CURVES):
            continue  # words of a tool that has failed
        for (name, unit), value in zip(_GPU_CURVES, told, strict=True):
            with suppress(ValueError):
                found[f"gpu{card}_{name}"] = float(value) * unit
    return found


def _tree(process: int) -> dict[int, list[str]]:
    """The fields after the name in ``/proc/<pid>/stat``, of a process and those below it."""
    stats = dict(_stats())
    found: dict[int, list[str]] = {}
    below = {process}
    while below:
        found |= {number: stats[number] for number in below if number in stats}
        below = {
            number
            for number, stat in stats.items()
            if int(stat[1]) in below and number not in found
        }
    return found


def _stats() -> Iterator[tuple[int, list[str]]]:
    for path in _PROC.glob("[0-9]*/stat"):
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue  # it has just ended
        yield int(path.parent.name), text.rpartition(")")[2].split()
