"""How far an upload is that a program waits for at its end, on standard error.

On a terminal that is a line with bytes, rate and remaining time; elsewhere a sentence now and then.
Nothing is shown of an upload that takes no longer than a moment, or with ``TBHUB_QUIET``.
"""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tbhub.publisher.publisher import Backlog

if TYPE_CHECKING:
    from rich.progress import Progress

_FIRST_LINE, _NEXT_LINES = 10.0, 30.0  # seconds


class UploadProgress:
    """Shows how much is left, as often as it is told."""

    def __init__(self) -> None:
        self._is_quiet = bool(os.environ.get("TBHUB_QUIET"))
        self._begun = time.monotonic()
        self._due = self._begun + _FIRST_LINE
        self._total = 0
        self._bar: Progress | None = None

    def show(self, left: Backlog) -> None:
        """Show what is left now."""
        if self._is_quiet:
            return
        self._total = max(self._total, left.bytes)
        if sys.stderr.isatty():
            self._draw(left)
        elif time.monotonic() >= self._due:
            self._due = time.monotonic() + _NEXT_LINES
            print(f"tbhub: {self._sentence(left)}", file=sys.stderr, flush=True)

    def _draw(self, left: Backlog) -> None:
        if self._bar is None:
            self._bar = _bar()
            self._bar.start()
            self._bar.add_task("uploading", total=self._total)
        (task,) = self._bar.task_ids
        self._bar.update(
            task,
            description=f"tbhub: uploading {_files(left.files)}",
            total=self._total,
            completed=self._total - left.bytes,
        )

    def _sentence(self, left: Backlog) -> str:
        rate = (self._total - left.bytes) / max(time.monotonic() - self._begun, 0.001)
        text = f"uploading {_files(left.files)}, {in_bytes(left.bytes)} left"
        if rate > 0:
            text += f" at {in_bytes(rate)}/s, about {left.bytes / rate:,.0f} s"
        return f"{text} ({left.problem})" if left.problem else text

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def in_bytes(number: float) -> str:
    """Return a number of bytes in words: ``850 bytes``, ``3.1 kB``, ``12.5 MB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:,.0f} bytes"


def _files(number: int) -> str:
    return "1 file" if number == 1 else f"{number:,} files"


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
