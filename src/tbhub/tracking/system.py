"""What a command uses of its machine, as curves: processors, memory, graphics cards."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from tbhub.tracking.process_table import all_stats
from tbhub.writer.summary_writer import SummaryWriter

_INTERVAL = 5.0  # seconds between two points
_LOOK_INTERVAL = 1.0  # seconds between two looks at the memory
_FIRST_LOOK = 0.1  # seconds until the first point
_GPU_TIMEOUT = 5.0
_GPU_QUERY = ("index", "utilization.gpu", "memory.used")
_GPU_CURVES = (("percent", 1), ("memory_bytes", 2**20))


class SystemMetrics:
    """Logs at the start, every few seconds and when it is closed, in a thread of its own.

    Tags have no prefix: their directory is called ``system``, and a tag is shown below that.

    Args:
        logdir: The run's directory; the curves are in ``system`` below it.
        process: The command; those that it starts count with it.
        first_step: Where earlier attempts have come to. Steps are seconds.
    """

    def __init__(self, logdir: Path, process: int, first_step: int = 0) -> None:
        self._writer = SummaryWriter(logdir / "system")
        self._process = process
        self._next_step = first_step
        self._first_step = first_step
        self._closing = threading.Event()
        self._begun = self._written = time.monotonic()
        self._cpu = 0.0
        self._memory = memory_bytes(process)
        self._thread = threading.Thread(target=self._run, name="tbhub-system", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Log once more and end; the command has ended, but its exit status is not collected."""
        self._closing.set()
        self._thread.join(2 * _GPU_TIMEOUT)
        self._writer.close()

    def _run(self) -> None:
        due = self._begun + _FIRST_LOOK
        while not self._closing.wait(min(_LOOK_INTERVAL, max(0.0, due - time.monotonic()))):
            self._memory = max(self._memory, memory_bytes(self._process))
            if time.monotonic() >= due:
                self._write()
                self._memory = memory_bytes(self._process) or self._memory  # it may have just ended
                due = self._written + _INTERVAL
        self._write()

    def _write(self) -> None:
        """Log a point: the processor time since the last one, and the most memory seen since."""
        now, cpu = time.monotonic(), cpu_seconds(self._process)
        step = max(self._next_step, self._first_step + round(now - self._begun))
        # A process that was not waited for takes its time with it.
        percent = max(0.0, cpu - self._cpu) / max(now - self._written, 1e-3) * 100
        self._cpu, self._written, self._next_step = cpu, now, step + 1
        self._writer.add_scalar("cpu_percent", percent, step)
        if self._memory:  # a command that had ended before the first look has shown none
            self._writer.add_scalar("memory_bytes", self._memory, step)
        for name, value in graphics_cards().items():
            self._writer.add_scalar(name, value, step)


def cpu_seconds(process: int) -> float:
    """The processor time of a process and those it has started, with those they waited for."""
    ticks = sum(sum(map(int, stat[11:15])) for stat in _tree(process).values())
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
    stats = dict(all_stats())
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
