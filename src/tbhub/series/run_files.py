"""Where the event files of one run are, and which they are.

Segments of a file are one file (`events/segments.py`), also in a directory of this machine, where
somebody has copied a bucket.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from tbhub.events.names import is_event_file
from tbhub.events.segments import group_segments
from tbhub.series.growing_file import GrowingFile, LocalFile
from tbhub.series.parted_file import Part, PartedFile, Span
from tbhub.series.tree import is_folder
from tbhub.storage.errors import StoreError

Files = dict[str, GrowingFile]  # by path, in the order they were opened in


class Workers(Protocol):
    """Threads that read."""

    def submit(self, work: Callable[..., object], /, *arguments: object) -> object: ...


class RunFiles(Protocol):
    """The event files of one run."""

    @property
    def path(self) -> str:
        """The directory, the file or the URI."""

    @property
    def key(self) -> Hashable:
        """Alike for those that are the same run."""

    @property
    def workers(self) -> Workers | None:
        """Who reads them; None: whoever reads this machine's files."""

    @property
    def is_remote(self) -> bool:
        """Whether reading them costs requests."""

    def open(self, known: Mapping[str, GrowingFile], problems: dict[str, str]) -> Files:
        """The files there are now; those that are known already stay the same objects."""

    def started(self) -> float:
        """When the first event was logged; infinity when that is not known."""

    def size(self) -> int:
        """Bytes of all of them."""

    def after_reading(self, good: bool) -> None:
        """They have been read, or not all of them could be."""


class LocalFiles:
    """The event files of a directory, or a single event file."""

    workers: Workers | None = None
    is_remote = False

    def __init__(self, path: str, listed: Sequence[str] = ()) -> None:
        """`listed`: the paths of its files, as they were just found."""
        self.path = path
        self._listed = listed

    @property
    def key(self) -> Hashable:
        return self.path

    def open(self, known: Mapping[str, GrowingFile], problems: dict[str, str]) -> Files:
        try:
            with os.scandir(self.path) as entries:
                names = [
                    entry.name
                    for entry in entries
                    if is_event_file(entry.name) and not is_folder(entry)
                ]
        except FileNotFoundError:
            return {}
        except NotADirectoryError:
            return {self.path: known.get(self.path) or LocalFile(self.path)}
        except OSError as error:
            problems[self.path] = why(error)
            return dict(known)
        return local_files(self.path, names, known, problems)

    def started(self) -> float:
        """Of the first file, as TensorBoard has it: the record every file begins with."""
        try:
            for file in self.open({}, {}).values():
                start = file.read(0, 21)
                if len(start) == 21 and start[12] == 0x09:  # field 1, a double
                    return float(struct.unpack_from("<d", start, 13)[0])
        except OSError:
            pass
        return math.inf

    def size(self) -> int:
        found = 0
        for path in self._listed:
            with suppress(OSError):
                found += os.path.getsize(path)
        return found

    def after_reading(self, good: bool) -> None:
        """The kernel tells of changes, or we look again anyway."""


def local_files(
    directory: str,
    names: Sequence[str],
    known: Mapping[str, GrowingFile],
    problems: dict[str, str],
) -> Files:
    """The event files of a directory of this machine, their segments put together."""
    files: Files = {}
    for name, parts in group_segments(names).items():
        path = os.path.join(directory, name)
        before = known.get(path)
        if parts == (name,):
            files[path] = before if isinstance(before, LocalFile) else LocalFile(path)
            continue
        try:
            listed = [_local_part(os.path.join(directory, part)) for part in parts]
        except OSError as error:
            problems[path] = why(error)
            if before is not None:
                files[path] = before
            continue
        files[path] = parted(before, path, listed, _read_local, _read_local_again)
    return files


def joined_files(paths: Sequence[str]) -> list[GrowingFile]:
    """Event files of one run by their paths, with segments put together."""
    directory = os.path.dirname(paths[0])
    problems: dict[str, str] = {}
    names = [os.path.basename(path) for path in paths]
    files = local_files(directory, names, {}, problems)
    # A segment that cannot even be looked at is told of when it is read.
    files.update((path, LocalFile(path)) for path in problems)
    return list(files.values())


def parted(
    before: GrowingFile | None,
    path: str,
    parts: Sequence[Part],
    reader: Callable[[Sequence[Span]], Iterator[bytes]],
    read_again: Callable[[Part, int, int], bytes],
) -> PartedFile:
    """A file in parts, the same as before if there was one."""
    if isinstance(before, PartedFile):
        before.update(parts)
        return before
    return PartedFile(path, parts, reader, read_again)


def _local_part(path: str) -> Part:
    status = os.stat(path)
    version = f"{status.st_ino}-{status.st_mtime_ns}"
    return Part(path, status.st_size, version, status.st_mtime)


def _read_local(spans: Sequence[Span]) -> Iterator[bytes]:
    for span in spans:
        yield LocalFile(span.name).read(span.offset, span.size)


def _read_local_again(part: Part, offset: int, size: int) -> bytes:
    return LocalFile(part.name).read(offset, size)


def why(error: OSError) -> str:
    """What is wrong, without the place, which is told beside it."""
    if isinstance(error, StoreError):
        return error.what
    return error.strerror or str(error)
