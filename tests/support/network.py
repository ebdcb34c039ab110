"""Keeps tests that make network interfaces apart from tests that open pages.

Chromium ends the connections it is making whenever an interface or an address comes or goes
(``net::ERR_NETWORK_CHANGED``), so a container with a network of its own breaks pages of other
tests. Tests of all processes share one pair of locks: any number may browse at once, and one that
changes the network is alone with it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE = 10


@contextmanager
def browse() -> Iterator[None]:
    """Wait until no test changes the network, and let none begin to."""
    with _opened("network") as network:
        with _opened("network-next") as turn:  # whoever waits to change it goes first
            fcntl.flock(turn, fcntl.LOCK_EX)
            fcntl.flock(network, fcntl.LOCK_SH)
        yield


@contextmanager
def change_network() -> Iterator[None]:
    """Wait until no other test needs the network, and leave it as it was found."""
    with _opened("network") as network, _opened("network-next") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(network, fcntl.LOCK_EX)
        before = _interfaces()
        yield
        deadline = time.monotonic() + _PATIENCE
        while _interfaces() != before and time.monotonic() < deadline:
            time.sleep(0.02)


@contextmanager
def _opened(name: str) -> Iterator[int]:
    """Open a file that every process of tests locks; closing it gives the lock back."""
    path = Path(tempfile.gettempdir()) / f"tbhub-tests-{os.getuid()}-{name}.lock"
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield opened
    finally:
        os.close(opened)


def _interfaces() -> set[str]:
    """The names of this machine's network interfaces."""
    return set(os.listdir("/sys/class/net"))
