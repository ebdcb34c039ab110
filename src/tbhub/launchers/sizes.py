"""Sizes of memory, as people and engines write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def as_bytes(size: int | str) -> int:
    """A size as people write it, ``"1.5g"``, in bytes.

    Raises:
        ValueError: It is none.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([bkmgt]?)i?b?\s*", str(size), re.IGNORECASE)
    if found is None:
        raise ValueError(f"{size!r} is no size; write 512m or 2g")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def as_size(number: int) -> str:
    """Bytes as people write them."""
    for unit in ("T", "G", "M", "K"):
        size = number / _UNITS[unit.lower()]
        if size >= 1:
            return f"{size:.4g} {unit}B"
    return f"{number} bytes"
