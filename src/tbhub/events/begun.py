"""When an event file was begun, by its first record; pure."""

from __future__ import annotations

import struct

_WALL_TIME = 0x09  # protobuf's key of Event.wall_time, the first field
_RECORD = struct.Struct("<QIBd")  # length, checksum, key, wall time

FIRST_BYTES = _RECORD.size
"""How much of a file's beginning `begun` needs; no two files begin alike."""


def begun(head: bytes) -> float | None:
    """Return when a file was begun; None while its first record is not written."""
    if len(head) < _RECORD.size:
        return None
    _, _, key, wall_time = _RECORD.unpack_from(head)
    return float(wall_time) if key == _WALL_TIME else None
