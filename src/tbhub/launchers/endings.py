"""How a process ended, as a person would say it."""

from __future__ import annotations

import signal
from contextlib import suppress


def how(code: int) -> str:
    """An exit code in words; above 128 it tells of a signal."""
    if code <= 128:
        return f"with exit code {code}"
    with suppress(ValueError):
        return f"by signal {signal.Signals(code - 128).name} (exit code {code})"
    return f"with exit code {code}"
