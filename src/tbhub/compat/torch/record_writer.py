"""The RecordWriter that torch.utils.tensorboard passes on from TensorBoard."""

from __future__ import annotations

from typing import Any

from tbhub.writer import record_writer


class RecordWriter(record_writer.RecordWriter):
    """Frames records and hands them to an open binary file."""

    def __init__(self, writer: Any) -> None:
        self._stream = writer

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return bool(self._stream.closed)  # type: ignore[attr-defined]
