"""How things are measured.

Machines are noisy, so a result is a ratio: both sides do the same work on the same data in the
same run, in turns, each time in a fresh process, and the median of their CPU times is compared.
Files lie in memory where there is ``/dev/shm``, so that the disk does not count.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") else None


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    work: str
    ours: str
    peer: str
    theirs: str
    ratio: str
    goal: str
    met: bool


def in_process(function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Runs a function of this package in a process of its own; it returns a dict of numbers."""
    code = (
        f"import json, {function.__module__} as m; "
        f"print(json.dumps(m.{function.__name__}(*json.loads({json.dumps(arguments)!r}))))"
    )
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "TBHUB_BENCH_SCRATCH": scratch, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
    if done.returncode:
        raise RuntimeError(f"{function.__name__}{arguments} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def scratch() -> str:
    """An empty directory for the process that measures."""
    directory = os.path.join(os.environ["TBHUB_BENCH_SCRATCH"], "logs")
    shutil.rmtree(directory, ignore_errors=True)
    os.mkdir(directory)
    return directory


@contextmanager
def changed_environment(**values: str) -> Iterator[None]:
    """What processes find that are started meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def in_turns(
    sides: Mapping[str, Callable[[], dict[str, Any]]], repeats: int, say: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Each side ``repeats`` times, taking turns; the median of every number."""
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for turn in range(repeats):
        for name, side in sides.items():
            say(f"{name} {turn + 1}/{repeats}")
            results[name].append(side())
    return {name: medians(found) for name, found in results.items()}


def medians(found: Iterable[dict[str, Any]]) -> dict[str, float]:
    """The median of each number over several results."""
    all_found = list(found)
    return {key: statistics.median(each[key] for each in all_found) for key in all_found[0]}


def resident(pid: int) -> int:
    """Memory of a process in bytes; 0 when it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0


def time_text(seconds: float) -> str:
    """A time for people."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
