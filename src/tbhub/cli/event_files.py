"""The event files that paths on the command line mean, and work done on all of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import track

from tbhub.errors import NoEventsError
from tbhub.series.tree import find_runs

T = TypeVar("T")

errors = Console(stderr=True, highlight=False)


def event_files(path: Path) -> list[str]:
    """A file itself, or every event file below a directory."""
    if not path.exists():
        raise NoEventsError(f"{path} does not exist")
    if not path.is_dir():
        return [str(path)]
    tree = find_runs(str(path))
    for directory, error in tree.unreadable.items():
        print(f"tbhub: skipped {directory}: {error.strerror}", file=sys.stderr)
    files = [file for group in tree.runs.values() for file in group]
    if not files:
        raise NoEventsError(f"no event files below {path}")
    return files


def work_on(files: Sequence[str], work: Callable[[str], T], what: str) -> Iterator[T]:
    """The results in order, worked out on all cores, with a bar where someone is watching."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(work, files)
        yield from track(
            results,
            description=what,
            total=len(files),
            console=errors,
            transient=True,
            disable=len(files) < 2 or not errors.is_terminal,
        )


def size_text(size: float) -> str:
    """A size for people."""
    units = iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 1000 and unit != "TB":
        size, unit = size / 1000, next(units)
    return f"{size:.0f} B" if unit == "B" else f"{size:,.1f} {unit}"
