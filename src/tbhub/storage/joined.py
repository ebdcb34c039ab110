"""The files of a run as people know them: what a bucket keeps in segments is one file here.

For reading alone. What a file is made of is found by listing its directory, once; reads are then
ranges of these parts. A file that has grown meanwhile is still the same one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tbhub.events.names import is_event_file, is_log
from tbhub.events.segments import group_segments
from tbhub.storage.errors import NotFound
from tbhub.storage.local import LocalStore
from tbhub.storage.store import READ, Entry, Store


class Readable(Protocol):
    """As much of a store as it takes to show files. Whatever fails raises a StoreError."""

    def list(self, prefix: str) -> Iterator[Entry]:
        """All files below ``prefix/``."""

    def stat(self, path: str) -> Entry:
        """What is known about a file."""

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Bytes of a file: fewer than asked for at its end."""

    def is_same(self, path: str, version: str) -> bool:
        """Whether what was read of a file since it was looked at is of one file."""

    def close(self) -> None:
        """It is not used any more."""


class JoinedStore:
    """A store whose segments are put together."""

    def __init__(self, store: Store) -> None:
        """The store is closed together with this."""
        self._store = store
        self._parts: dict[str, tuple[Entry, ...]] = {}  # by path, as they were looked at

    def list(self, prefix: str) -> Iterator[Entry]:
        """All files below a prefix."""
        for path, parts in self._below(prefix).items():
            yield _whole(path, parts)

    def stat(self, path: str) -> Entry:
        """What is known about a file."""
        parts = self._parts[path] = self._find(path)
        return _whole(path, parts)

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Bytes of a file, as it was when it was looked at."""
        if path not in self._parts:
            self.stat(path)
        pieces = []
        missing = size
        for part in self._parts[path]:
            if missing == 0:
                break
            if offset < part.size:
                wanted = part.size - offset if missing is None else min(missing, part.size - offset)
                pieces.append(self._store.read(part.path, offset, wanted))
                missing = None if missing is None else missing - wanted
            offset = max(0, offset - part.size)
        return b"".join(pieces)

    def is_same(self, path: str, version: str) -> bool:
        """Whether a file is as it was looked at, or has grown."""
        before, now = self._parts[path], self._find(path)
        if len(now) < len(before):
            return False
        *sealed, last = zip(before, now, strict=False)
        return all(old.version == new.version for old, new in sealed) and (
            last[0].version == last[1].version
            or (last[0].path != path and last[0].size < last[1].size)
        )

    def close(self) -> None:
        """Closes the store."""
        self._store.close()

    def parts(self, path: str) -> tuple[Entry, ...]:
        """The objects that are a file, in order."""
        return self._find(path)

    def _find(self, path: str) -> tuple[Entry, ...]:
        if not is_event_file(path) and not is_log(path):
            return (self._store.stat(path),)
        found = self._below(path.rpartition("/")[0]).get(path)
        if found is None:
            raise NotFound(READ, path, "there is no such object")
        return found

    def _below(self, prefix: str) -> dict[str, tuple[Entry, ...]]:
        entries = {entry.path: entry for entry in self._store.list(prefix)}
        return {
            name: tuple(entries[part] for part in parts)
            for name, parts in group_segments(entries).items()
        }


class PlainStore:
    """Files of this machine, each as it is."""

    def __init__(self, store: LocalStore) -> None:
        self.local = store
        self.list, self.stat, self.read, self.close = (
            store.list,
            store.stat,
            store.read,
            store.close,
        )

    def is_same(self, path: str, version: str) -> bool:
        """Whether a file has not been replaced or written to."""
        return self.local.stat(path).version == version


def readable(store: Store) -> Readable:
    """A store to be shown."""
    return PlainStore(store) if isinstance(store, LocalStore) else JoinedStore(store)


def _whole(path: str, parts: tuple[Entry, ...]) -> Entry:
    if len(parts) == 1:
        return parts[0]._replace(path=path)
    version = f"{len(parts)}-{parts[-1].version}"
    modified = max(part.modified for part in parts)
    return Entry(path, sum(part.size for part in parts), version, modified)
