"""A store in memory that can be down, and whose listings can be stale; it counts requests."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator

from tbhub.storage.errors import Conflict, NotFound, Unreachable
from tbhub.storage.source import FileSource
from tbhub.storage.store import DELETE, LIST, READ, WRITE, Entry, Meter, Range


class StaleStore:
    """Objects by path. While it is `stale`, listings show what there was when it became so."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.objects: dict[str, tuple[Entry, bytes]] = {}
        self.is_down = False
        self._seen: dict[str, tuple[Entry, bytes]] | None = None
        self._versions = itertools.count(1)
        self._lock = threading.Lock()

    def become_stale(self) -> None:
        self._seen = dict(self.objects)

    def become_fresh(self) -> None:
        self._seen = None

    def list(self, prefix: str) -> Iterator[Entry]:
        self._ask(LIST, prefix)
        seen = self.objects if self._seen is None else self._seen
        below = f"{prefix}/" if prefix else ""
        return iter([entry for path, (entry, _) in list(seen.items()) if path.startswith(below)])

    def stat(self, path: str) -> Entry:
        self._ask(READ, path)
        return self._found(path)[0]

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        self._ask(READ, path)
        data = self._found(path)[1][offset:][:size]
        self.meter.count(READ, 0, read=len(data))
        return data

    def read_many(self, ranges: Iterable[Range]) -> Iterator[bytes]:
        return (self.read(*wanted) for wanted in list(ranges))

    def put(self, path: str, data: bytes | FileSource) -> str:
        self._ask(WRITE, path)
        content = data.read_all() if isinstance(data, FileSource) else data
        with self._lock:
            number = next(self._versions)
            entry = Entry(path, len(content), f"v{number}", 1_700_000_000.0 + number)
            self.objects[path] = entry, content
        return entry.version

    def put_if_absent(self, path: str, data: bytes) -> str:
        if path in self.objects:
            raise Conflict(WRITE, path, "there is one already")
        return self.put(path, data)

    def put_if_unchanged(self, path: str, data: bytes, version: str) -> str:
        if self._found(path)[0].version != version:
            raise Conflict(WRITE, path, "it has been written to by someone else")
        return self.put(path, data)

    def delete(self, path: str) -> None:
        self._ask(DELETE, path)
        self.objects.pop(path, None)

    def delete_below(self, prefix: str) -> int:
        gone = [path for path in self.objects if path.startswith(f"{prefix}/")]
        for path in gone:
            self.delete(path)
        return len(gone)

    def close(self) -> None:
        """There is nothing to give back."""

    def _found(self, path: str) -> tuple[Entry, bytes]:
        try:
            return self.objects[path]
        except KeyError:
            raise NotFound(READ, f"s3://double/{path}", "no such object") from None

    def _ask(self, verb: str, path: str) -> None:
        self.meter.count(verb)
        if self.is_down:
            raise Unreachable(verb, f"s3://double/{path}", "it is down")
