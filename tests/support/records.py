"""Event files made by hand, byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from tbhub._kernel import masked_crc32c


def frame(data: bytes) -> bytes:
    """One TFRecord."""
    header = struct.pack("<Q", len(data))
    return b"".join(
        (
            header,
            struct.pack("<I", masked_crc32c(header)),
            data,
            struct.pack("<I", masked_crc32c(data)),
        )
    )


def write_events(path: Path, *events: Any) -> Path:
    """An event file of these messages (or serialized events)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = [event if isinstance(event, bytes) else event.SerializeToString() for event in events]
    path.write_bytes(b"".join(map(frame, data)))
    return path
