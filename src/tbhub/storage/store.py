"""What every store can do, and what is known about its objects.

A store is a bucket, or this machine's files. Paths are names within it, with slashes and none at
either end. Everything may be called from any thread and returns when it is done: a request that
fails in passing is repeated, with growing and uneven pauses, as long as its `Patience` allows. An
object is replaced as a whole: readers see the old one or the new one.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from tbhub.storage.source import FileSource

LIST, READ, WRITE, DELETE = "list", "read", "write", "delete"


class Entry(NamedTuple):
    """An object: equal versions mean equal content."""

    path: str
    size: int
    version: str
    modified: float  # seconds since the epoch, by the store's clock


class Range(NamedTuple):
    """Bytes of an object; without a size up to its end."""

    path: str
    offset: int = 0
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request may take, and how often it is repeated."""

    timeout: float = 60.0  # seconds for one attempt, data included
    connect_timeout: float = 10.0
    retries: int = 6
    first_pause: float = 0.2  # doubled for every further attempt
    longest_pause: float = 15.0
    total: float = 180.0  # no attempt begins later than this

    def pause(self, attempt: int) -> float:
        """Seconds before the next attempt: uneven, so that many clients do not come at once."""
        whole = min(self.longest_pause, self.first_pause * 2.0**attempt)
        return whole * random.uniform(0.5, 1.0)


class Meter:
    """What a store was asked: requests by verb, repeated ones among them, and bytes of content."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[str] = Counter()
        self._bytes_read = 0
        self._bytes_written = 0

    def count(self, verb: str, requests: int = 1, *, read: int = 0, written: int = 0) -> None:
        """Adds requests and bytes."""
        with self._lock:
            if requests:
                self._requests[verb] += requests
            self._bytes_read += read
            self._bytes_written += written

    def reading(self) -> Reading:
        """What the meter shows now."""
        with self._lock:
            return Reading(dict(self._requests), self._bytes_read, self._bytes_written)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a meter showed."""

    requests: dict[str, int]
    bytes_read: int
    bytes_written: int

    @property
    def total(self) -> int:
        """All requests."""
        return sum(self.requests.values())


class Store(Protocol):
    """Objects by path. Whatever fails raises a StoreError."""

    @property
    def meter(self) -> Meter:
        """Counts what this store is asked."""

    def list(self, prefix: str) -> Iterator[Entry]:
        """All objects below ``prefix/``, in no particular order; of the store if it is empty."""

    def stat(self, path: str) -> Entry:
        """What is known about an object."""

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Bytes of an object: fewer than asked for at its end, none behind it."""

    def read_many(self, ranges: Iterable[Range]) -> Iterator[bytes]:
        """Many reads at the same time, given back in their order."""

    def put(self, path: str, data: bytes | FileSource) -> str:
        """Write an object, whatever is there, from memory or from a file; return its version.

        A file is streamed in parts, so that memory does not grow with its size, and the object is
        replaced after the last part only.

        Raises:
            SourceError: The file has changed meanwhile; the object is as it was.
        """

    def put_if_absent(self, path: str, data: bytes) -> str:
        """Writes an object unless there is one, which is a Conflict."""

    def put_if_unchanged(self, path: str, data: bytes, version: str) -> str:
        """Replaces an object if it still has this version; otherwise it is a Conflict."""

    def delete(self, path: str) -> None:
        """Deletes an object; there need not be one."""

    def delete_below(self, prefix: str) -> int:
        """Deletes all objects below ``prefix/``, never of a whole store; how many there were."""

    def close(self) -> None:
        """Gives back threads; the store is not used any more."""


@runtime_checkable
class AppendingStore(Store, Protocol):
    """A store whose objects can grow: files, and those that a hub keeps."""

    def append(self, path: str, offset: int, data: bytes) -> int:
        """Writes bytes at the end of an object, which is made if there is none; its new size.

        Returns when the bytes are where they should be safe. May be repeated: bytes that are there
        already, at that offset, are not written again. Where the object ends before the offset, or
        has other bytes there, it is a WrongOffset.
        """
