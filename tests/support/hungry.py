"""A program that takes memory until it is stopped: ``python -m support.hungry``."""

from __future__ import annotations

import itertools

if __name__ == "__main__":
    taken = []
    for number in itertools.count():
        taken.append(bytearray(1 << 20))
        taken[number][::4096] = bytes([1]) * 256
