"""Stores in memory that are like buckets, named by how they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tbhub.storage.errors import Conflict, NotFound, Unreachable
from tbhub.storage.source import FileSource
from tbhub.storage.store import DELETE, LIST, READ, WRITE, Entry, Meter, Range


class Bucket:
    """Objects that are replaced whole; nothing fails."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.objects: dict[str, bytes] = {}
        self.puts: list[str] = []

    def list(self, prefix: str) -> Iterator[Entry]:
        self.meter.count(LIST)
        for path, data in sorted(self.objects.items()):
            if not prefix or path.startswith(f"{prefix}/"):
                yield Entry(path, len(data), str(hash(data)), 0.0)

    def stat(self, path: str) -> Entry:
        self.meter.count(READ)
        if path not in self.objects:
            raise NotFound(READ, path, "there is no such object")
        return Entry(path, len(self.objects[path]), str(hash(self.objects[path])), 0.0)

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        self.stat(path)
        return self.objects[path][offset:][:size]

    def read_many(self, ranges: Iterable[Range]) -> Iterator[bytes]:
        return (self.read(*wanted) for wanted in ranges)

    def put(self, path: str, data: bytes | FileSource) -> str:
        content = data.read_all() if isinstance(data, FileSource) else data
        self.meter.count(WRITE, written=len(content))
        self.puts.append(path)
        self.objects[path] = content
        return str(hash(content))

    def put_if_absent(self, path: str, data: bytes) -> str:
        if path in self.objects:
            raise Conflict(WRITE, path, "there is one already")
        return self.put(path, data)

    def put_if_unchanged(self, path: str, data: bytes, version: str) -> str:
        if self.stat(path).version != version:
            raise Conflict(WRITE, path, "it has been written to by someone else")
        return self.put(path, data)

    def delete(self, path: str) -> None:
        self.meter.count(DELETE)
        self.objects.pop(path, None)

    def delete_below(self, prefix: str) -> int:
        raise NotImplementedError

    def close(self) -> None:
        pass


class StumblingBucket(Bucket):
    """Each put asks what is to happen to it: nothing, or its request or its answer is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.stumble: Callable[[], str] = lambda: ""

    def put(self, path: str, data: bytes | FileSource) -> str:
        how = self.stumble()
        if how == "request":
            raise Unreachable(WRITE, path, "the request was lost")
        version = super().put(path, data)
        if how == "answer":
            raise Unreachable(WRITE, path, "the answer was lost")
        if how == "kill":
            raise KilledError
        return version


class StaleBucket(Bucket):
    """Lists what there was some time ago."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: dict[str, bytes] = {}

    def list(self, prefix: str) -> Iterator[Entry]:
        for path, data in sorted(self.listed.items()):
            yield Entry(path, len(data), str(hash(data)), 0.0)


class KilledError(BaseException):
    """The process ends here."""
