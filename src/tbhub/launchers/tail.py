"""Log files of hosts: their ends, and which of them are old."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_MOST = 64 << 10  # bytes looked at for the last lines


def last_lines(path: Path, tail: int) -> list[str]:
    """The last lines of a file; none if it is not there."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _MOST))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return text.splitlines()[-tail:] if tail > 0 else []


def all_but_newest(paths: Iterable[Path], kept: int) -> list[Path]:
    """The files that were written to before so many others."""
    return sorted(paths, key=_modified)[:-kept]


def _modified(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
