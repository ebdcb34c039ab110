"""How a process ended: in words, and whether it was ended from outside."""

from __future__ import annotations

import signal
from contextlib import suppress

from tbhub.boards.life import Cause
from tbhub.launchers.base import Exited

# Requests to end. A process that does not catch them does not send them to itself.
_REQUESTS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def how(code: int) -> str:
    """An exit code in words; above 128 it tells of a signal."""
    if code <= 128:
        return f"with exit code {code}"
    with suppress(ValueError):
        return f"by signal {signal.Signals(code - 128).name} (exit code {code})"
    return f"with exit code {code}"


def cause_of(code: int) -> Cause:
    """Tell a process that was asked to end by a signal from one that crashed.

    SIGKILL counts as a crash: the kernel sends it to processes that use too much memory.
    """
    return Cause.TERMINATED if code - 128 in _REQUESTS else Cause.CRASH


def exited(code: int) -> Exited:
    """Return how a process ended of which only the exit code is known."""
    return Exited(code, how(code), cause_of(code))
