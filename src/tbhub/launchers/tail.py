"""The end of a log file."""

from __future__ import annotations

import os
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
