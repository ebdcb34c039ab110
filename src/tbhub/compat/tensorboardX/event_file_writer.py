"""tensorboardX's event files, below its writers."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from tbhub.compat.common.files import EventFileWriter
from tbhub.writer.record_writer import RecordWriter

__all__ = ["EventFileWriter", "EventsWriter"]


class EventsWriter:
    """Writes ``Event`` messages to one file at once, without a queue."""

    def __init__(self, file_prefix: str, filename_suffix: str = "") -> None:
        """Opens ``<file_prefix>.out.tfevents.…``, a name no other writer has."""
        from tbhub.events.schema import Event

        now = time.time_ns()
        self._file_name = (
            f"{file_prefix}.out.tfevents.{now // 10**9}.{socket.gethostname()}."
            f"{os.getpid()}.{now % 10**9:09d}{filename_suffix}"
        )
        self._writer = RecordWriter(self._file_name)
        self.write_event(Event(wall_time=now / 1e9, file_version="brain.Event:2"))

    def write_event(self, event: Any) -> None:
        """Writes an ``Event`` message of any protobuf package."""
        if not hasattr(event, "SerializeToString"):
            raise TypeError(f"write_event: expected an Event message, got {type(event).__name__}")
        self._writer.write(event.SerializeToString())

    def flush(self) -> bool:
        """Hands what was written to the operating system."""
        self._writer.flush()
        return True

    def close(self) -> bool:
        """Closes the file."""
        self._writer.close()
        return True
