"""Free ports of loopback."""

from __future__ import annotations

import random
import socket


def free_port(*beside: int) -> int:
    """A port that is free now, and so are those at the given distances from it.

    Below the range that the system gives to outgoing connections, so that it stays free.
    """
    for _ in range(1000):
        port = random.randrange(10_000, 21_000)
        if all(_is_free(port + distance) for distance in (0, *beside)):
            return port
    raise RuntimeError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
