"""What one event file holds, decoded by the kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tbhub._kernel import Decoder, Points

_PIECE = 64 << 20


@dataclass(frozen=True)
class Blob:
    """Where a value that is not a scalar stands in its file."""

    path: str
    kind: int
    tag: str
    step: int
    wall_time: float
    offset: int
    size: int

    def read(self) -> bytes:
        """The bytes of the value."""
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            data = file.read(self.size)
        if len(data) != self.size:
            raise OSError(f"{self.path} was cut short while it was being read")
        return data


@dataclass(frozen=True)
class FileContent:
    """Everything in one file, in the order it was written."""

    path: str
    columns: list[tuple[str, Points]]
    blobs: list[Blob]
    purges: list[tuple[int, str | None]]  # step, tag (None: all): forget what is at or behind it
    plugins: dict[str, tuple[str, bytes]]  # by tag: plugin name, SummaryMetadata
    size: int
    events: int
    pending: int  # bytes at the end that are no whole record (yet)
    skipped: int  # values beyond the bound on tags
    damage_counts: dict[str, int]


def read_content(path: str, advance: Callable[[int], None]) -> FileContent:
    """Reads a whole file, and says every now and then how many bytes more it has read."""
    decoder = Decoder()
    at_end = False
    while not at_end:
        before = decoder.offset
        at_end = decoder.read_file(path, _PIECE) < _PIECE
        advance(decoder.offset - before)
    columns, index, purges = decoder.drain()
    return FileContent(
        path=path,
        columns=columns,
        blobs=_blobs(path, index),
        purges=purges,
        plugins=decoder.plugins(),
        size=decoder.offset,
        events=decoder.events,
        pending=decoder.pending,
        skipped=decoder.over_limit,
        damage_counts=decoder.damage_counts,
    )


def _blobs(path: str, index: Any) -> list[Blob]:
    if index is None:
        return []
    tags, kinds, steps, wall_times, offsets, sizes = index
    return [
        Blob(path, kind, tag, step, wall_time, offset, size)
        for tag, kind, step, wall_time, offset, size in zip(
            tags,
            kinds.tolist(),
            steps.tolist(),
            wall_times.tolist(),
            offsets.tolist(),
            sizes.tolist(),
            strict=True,
        )
    ]
