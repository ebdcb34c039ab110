"""What one event file holds, decoded by the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tbhub._kernel import Decoder
from tbhub.series import column
from tbhub.series.column import Column
from tbhub.series.growing_file import GrowingFile, Readable

Purge = tuple[int, str | None]  # step, tag (None: all): forget what is at or behind it


@dataclass(frozen=True, slots=True)
class Blob:
    """Where a value that is not a scalar stands in its file."""

    file: Readable = field(repr=False, compare=False)
    kind: int
    tag: str
    step: int
    wall_time: float
    offset: int
    size: int

    @property
    def path(self) -> str:
        """The file it stands in."""
        return self.file.path

    def read(self) -> bytes:
        """The bytes of the value."""
        data = self.file.read(self.offset, self.size)
        if len(data) != self.size:
            raise OSError(f"{self.path} was cut short while it was being read")
        return data


class Counts(NamedTuple):
    """What a decoder counts, of the part of a file before it began."""

    events: int = 0
    skipped: int = 0
    damages: Mapping[str, int] = {}


@dataclass(frozen=True)
class FileContent:
    """Everything in one file, in the order it was written. Never changed: it is replaced."""

    file: Readable
    columns: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    stored: int = 0  # how many columns of each tag stand in the cache: all or none but the last
    blobs: Mapping[str, tuple[Blob, ...]] = field(default_factory=dict)
    purges: tuple[Purge, ...] = ()  # for the files before this one
    plugins: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)  # name, SummaryMetadata
    size: int = 0
    events: int = 0
    pending: int = 0  # bytes at the end that are no whole record (yet)
    skipped: int = 0  # values beyond the bound on tags
    damage_counts: Mapping[str, int] = field(default_factory=dict)
    file_version: int = 2
    last_step: int = 0

    @property
    def path(self) -> str:
        """The file."""
        return self.file.path

    @property
    def counts(self) -> Counts:
        """What a decoder that goes on from here has to add to."""
        return Counts(self.events, self.skipped, self.damage_counts)

    def with_more(self, decoder: Decoder, before: Counts) -> FileContent:
        """This content and what the decoder has found since it was last drained.

        Args:
            decoder: Has read on in this file.
            before: What was counted before the decoder began.
        """
        fresh, index, purges = decoder.drain()
        columns = dict(self.columns)
        blobs = dict(self.blobs)
        for step, tag in purges:
            for name in list(columns) if tag is None else [tag]:
                columns[name] = column.before(columns.get(name, ()), step)
            for name in list(blobs) if tag is None else [tag]:
                blobs[name] = tuple(blob for blob in blobs.get(name, ()) if blob.step < step)
        for name, points in fresh:
            earlier = columns.get(name)
            columns[name] = column.append(earlier, points, self.stored) if earlier else (points,)
        if index is not None:
            for name, group in _blobs(self.file, index).items():
                blobs[name] = (*blobs.get(name, ()), *group)
        if purges:
            columns = {name: parts for name, parts in columns.items() if parts}
            blobs = {name: group for name, group in blobs.items() if group}
        return replace(
            self,
            columns=columns,
            blobs=blobs,
            purges=(*self.purges, *purges),
            plugins=decoder.plugins(),
            size=decoder.offset,
            events=before.events + decoder.events,
            pending=decoder.pending,
            skipped=before.skipped + decoder.over_limit,
            damage_counts=_added(before.damages, decoder.damage_counts),
            file_version=decoder.file_version,
            last_step=decoder.last_step,
        )


def read_content(file: GrowingFile, advance: Callable[[int], None]) -> FileContent:
    """Reads a whole file, and says every now and then how many bytes more it has read."""
    decoder = Decoder()
    end = file.look().size
    start = -1
    while start < decoder.offset:  # else that was all, or it has been cut short in this moment
        start = decoder.offset
        file.feed(decoder, end)
        advance(decoder.offset - start)
        if decoder.offset >= end:
            break
    return FileContent(file).with_more(decoder, Counts())


def _added(some: Mapping[str, int], more: dict[str, int]) -> Mapping[str, int]:
    if not some:
        return more
    return {kind: some.get(kind, 0) + more.get(kind, 0) for kind in {**some, **more}}


def _blobs(file: Readable, index: Any) -> dict[str, list[Blob]]:
    tags, kinds, steps, wall_times, offsets, sizes = index
    found: dict[str, list[Blob]] = {}
    for tag, kind, step, wall_time, offset, size in zip(
        tags,
        kinds.tolist(),
        steps.tolist(),
        wall_times.tolist(),
        offsets.tolist(),
        sizes.tolist(),
        strict=True,
    ):
        found.setdefault(tag, []).append(Blob(file, kind, tag, step, wall_time, offset, size))
    return found
