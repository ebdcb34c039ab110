"""Event files behind the constructors both libraries have.

Both default to 10 waiting events and 120 seconds. A caller who leaves these alone has no wish, so
tbhub's own defaults apply; any other value is passed on.
"""

from __future__ import annotations

import os
from typing import Any

from tbhub.writer.event_file import EventFile
from tbhub.writer.file_writer import FileWriter as _FileWriter

LIBRARY_MAX_QUEUE = 10
LIBRARY_FLUSH_SECS = 120


class EventFileWriter(EventFile):
    """Writes ``Event`` messages to one event file."""

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        max_queue_size: int | None = LIBRARY_MAX_QUEUE,
        flush_secs: float | None = LIBRARY_FLUSH_SECS,
        filename_suffix: str = "",
    ) -> None:
        """Opens a new event file in ``logdir``."""
        super().__init__(logdir, max_queue_size, flush_secs, filename_suffix)

    def _set_up(
        self,
        logdir: str | os.PathLike[str],
        max_queue_size: int | None,
        flush_secs: float | None,
        filename_suffix: str,
    ) -> None:
        super()._set_up(
            logdir,
            None if max_queue_size == LIBRARY_MAX_QUEUE else max_queue_size,
            None if flush_secs == LIBRARY_FLUSH_SECS else flush_secs,
            filename_suffix,
        )

    def get_logdir(self) -> str:
        """The directory the event file is in."""
        return self.logdir

    def add_event(self, event: Any) -> None:
        """Adds an ``Event`` message of any protobuf package."""
        if not hasattr(event, "SerializeToString"):
            raise TypeError(f"add_event: expected an Event message, got {type(event).__name__}")
        self.add_record(event.SerializeToString())

    def reopen(self) -> None:
        """Allowed after ``close``; the next event opens a new file by itself."""


class FileWriter(_FileWriter):
    """tbhub's FileWriter with the libraries' constructor."""

    _event_file = EventFileWriter
    event_writer: EventFileWriter

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        max_queue: int | None = LIBRARY_MAX_QUEUE,
        flush_secs: float | None = LIBRARY_FLUSH_SECS,
        filename_suffix: str = "",
    ) -> None:
        """Opens a new event file in ``logdir``."""
        self._set_up(logdir, max_queue, flush_secs, filename_suffix)
