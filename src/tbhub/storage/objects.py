"""Buckets of S3, GCS, Azure and OSS as stores, through obstore.

Requests are repeated here and not by obstore, so that each is counted, and so that a conditional
put whose answer was lost can be told from one that came too late. Two things obstore repeats better
itself, page by page and part by part: listings and large uploads. They have a client of their own.

A version is an entity tag. Google's store replaces by generation instead: there we look up the
generation that belongs to the tag, and replace that. OSS cannot replace by version: the check and
the write are two requests, and between the two another may write.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import obstore

from tbhub.storage.classify import PastEndError, classify
from tbhub.storage.errors import BadName, BrokenOff, Conflict, NotFound, StoreError
from tbhub.storage.many_reads import ManyReads
from tbhub.storage.source import FileSource, SourceError
from tbhub.storage.store import DELETE, LIST, READ, WRITE, Entry, Meter, Patience, Range
from tbhub.storage.uri import AZ, GS, OSS, Uri, object_name

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode, UpdateVersion
    from obstore.store import ObjectStore

T = TypeVar("T")

_PART = 8 << 20  # bytes of a request; what is larger goes up in parts
_PARTS = 9000  # of an object at most
_PARTS_AT_ONCE = 3
_CHUNK = 1000  # entries taken from a listing at a time
_ENTRIES_PER_REQUEST = {AZ: 5000}  # others: as many as _CHUNK
_DELETES_PER_REQUEST = {AZ: 256, GS: 1, OSS: 1}


@dataclass(frozen=True)
class Clients:
    """Ways to the same bucket."""

    once: ObjectStore  # tries a request once
    patient: ObjectStore  # repeats requests
    creating: ObjectStore | None = None  # asks never to replace: for OSS, which knows a header


class BucketStore:
    """A bucket. At most `limit` requests are under way at a time.

    Args:
        login_file: The file that the login is read from, for errors; empty if from none.
    """

    def __init__(
        self,
        bucket: Uri,
        clients: Clients,
        patience: Patience,
        limit: int,
        login_file: str = "",
    ) -> None:
        self._bucket = replace(bucket, path="")
        self._clients = clients
        self._patience = patience
        self._login_file = login_file
        self._places = threading.BoundedSemaphore(limit)
        self._many = ManyReads(self.read, limit)
        self.meter = Meter()

    def list(self, prefix: str) -> Iterator[Entry]:
        """All objects below ``prefix/``."""
        prefix = object_name(prefix) if prefix else ""
        # obstore repeats what fails, but not a page that breaks off: then the listing begins anew,
        # and gives each name once.
        seen: set[str] = set()
        failures = 0
        while True:
            before = len(seen)
            try:
                for chunk in self._chunks(prefix):
                    for found in chunk:
                        path = found["path"]
                        if path not in seen:
                            seen.add(path)
                            yield _entry(found)
                return
            except BrokenOff:
                failures = 1 if len(seen) > before else failures + 1
                if failures > self._patience.retries:
                    raise
            time.sleep(self._patience.pause(failures))

    def _chunks(self, prefix: str) -> Iterator[Sequence[ObjectMeta]]:
        per_request = _ENTRIES_PER_REQUEST.get(self._bucket.scheme, _CHUNK)
        taken, requests = 0, 1
        self.meter.count(LIST)
        stream = self._call(
            LIST,
            prefix,
            lambda: obstore.list(self._clients.patient, prefix or None, chunk_size=_CHUNK),
        )
        while (chunk := self._call(LIST, prefix, lambda: next(stream, None))) is not None:
            taken += len(chunk)
            needed = max(1, -(-taken // per_request))
            self.meter.count(LIST, needed - requests)
            requests = needed
            yield chunk

    def stat(self, path: str) -> Entry:
        """What is known about an object."""
        return _entry(self._stat(path))

    def _stat(self, path: str) -> ObjectMeta:
        object_name(path)
        try:
            return self._ask(READ, path, lambda: obstore.head(self._clients.once, path))
        except NotFound:
            raise
        except StoreError as error:
            if error.passing:
                raise
        # Answers to this request have no text: another tells why.
        self.read(path, 0, 1)
        return self._ask(READ, path, lambda: obstore.head(self._clients.once, path))

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Bytes of an object."""
        if offset < 0 or (size is not None and size < 0):
            raise ValueError("a range cannot begin or end before the object")
        object_name(path)
        if size == 0:
            return b""

        def ask() -> bytes:
            if size is not None:
                return obstore.get_range(
                    self._clients.once, path, start=offset, length=size
                ).to_bytes()
            if not offset:
                return obstore.get(self._clients.once, path).bytes().to_bytes()
            found = obstore.get(self._clients.once, path, options={"range": {"offset": offset}})
            return found.bytes().to_bytes()

        try:
            data = self._ask(READ, path, ask)
        except PastEndError:
            return b""
        self.meter.count(READ, 0, read=len(data))
        return data

    def read_many(self, ranges: Iterable[Range]) -> Iterator[bytes]:
        """Many reads at the same time, given back in their order."""
        return self._many(ranges)

    def put(self, path: str, data: bytes | FileSource) -> str:
        """Writes an object."""
        object_name(path)
        size = data.size if isinstance(data, FileSource) else len(data)
        if size > _PART:
            return self._put_in_parts(path, data, size)
        content = data.read_all() if isinstance(data, FileSource) else data
        return self._put(path, content, "overwrite", self._clients.once)

    def put_if_absent(self, path: str, data: bytes) -> str:
        """Writes an object unless there is one."""
        object_name(path)
        creating = self._clients.creating
        if creating is None:
            return self._put(path, data, "create", self._clients.once)
        if self._exists(path):
            raise Conflict(WRITE, self._where(path), "there is one already")
        return self._put(path, data, "overwrite", creating)

    def put_if_unchanged(self, path: str, data: bytes, version: str) -> str:
        """Replaces an object if it still has this version."""
        object_name(path)
        mode: PutMode = {"e_tag": _tag(version)}
        if self._bucket.scheme in (GS, OSS):
            try:
                found = self._stat(path)
            except NotFound:
                raise Conflict(WRITE, self._where(path), "there is none any more") from None
            if _entry(found).version != version:
                raise Conflict(WRITE, self._where(path), "it has been written to by someone else")
            mode = "overwrite" if self._bucket.scheme == OSS else self._generation(found)
        return self._put(path, data, mode, self._clients.once)

    def _generation(self, found: ObjectMeta) -> UpdateVersion:
        if found["version"] is None:
            raise StoreError(
                WRITE, self._where(found["path"]), "the store does not tell generations"
            )
        return {"version": found["version"]}

    def _put(self, path: str, data: bytes, mode: PutMode, client: ObjectStore) -> str:
        attempts = 0

        def ask() -> str:
            nonlocal attempts
            attempts += 1
            result = obstore.put(client, path, data, mode=mode, use_multipart=False)
            return _version(result["e_tag"])

        try:
            version = self._ask(WRITE, path, ask)
        except Conflict:
            if attempts == 1:
                raise
            # Perhaps an attempt went through unheard, and it is our own object that is there.
            found = self.stat(path)
            if found.size != len(data) or self.read(path) != data:
                raise
            version = found.version
        self.meter.count(WRITE, 0, written=len(data))
        return version

    def _put_in_parts(self, path: str, data: bytes | FileSource, size: int) -> str:
        """Upload in parts, of which a few are in memory at a time.

        An upload that fails is aborted, which deletes its parts. Those of a process that is killed
        stay in the bucket, unseen, until its life-cycle rule for incomplete uploads removes them.
        """
        part = max(_PART, -(-size // _PARTS))
        self.meter.count(WRITE, 2 - (-size // part))
        result = self._call(
            WRITE,
            path,
            lambda: obstore.put(
                self._clients.patient,
                path,
                data.parts() if isinstance(data, FileSource) else data,
                use_multipart=True,
                chunk_size=part,
                max_concurrency=_PARTS_AT_ONCE,
            ),
        )
        self.meter.count(WRITE, 0, written=size)
        return _version(result["e_tag"])

    def delete(self, path: str) -> None:
        """Deletes an object."""
        object_name(path)
        self._delete([path])

    def delete_below(self, prefix: str) -> int:
        """Deletes all objects below ``prefix/``."""
        object_name(prefix)
        deleted = 0
        paths: deque[str] = deque(entry.path for entry in self.list(prefix))
        while paths:
            batch = [paths.popleft() for _ in range(min(len(paths), _CHUNK))]
            self._delete(batch)
            deleted += len(batch)
        return deleted

    def _delete(self, paths: Sequence[str]) -> None:
        per_request = _DELETES_PER_REQUEST.get(self._bucket.scheme, _CHUNK)
        self.meter.count(DELETE, -(-len(paths) // per_request) - 1)
        try:
            self._ask(DELETE, paths[0], lambda: obstore.delete(self._clients.once, paths))
        except NotFound:
            # Some stores mind that one is missing: the others are deleted one by one.
            if len(paths) > 1:
                for path in paths:
                    self._delete([path])

    def close(self) -> None:
        """Ends the threads of `read_many`."""
        self._many.close()

    def _exists(self, path: str) -> bool:
        try:
            self._stat(path)
        except NotFound:
            return False
        return True

    def _ask(self, verb: str, path: str, call: Callable[[], T]) -> T:
        """One request, repeated while its failures are passing ones."""
        begun = time.monotonic()
        attempt = 0
        while True:
            self.meter.count(verb)
            pause = self._patience.pause(attempt)
            try:
                return self._call(verb, path, call)
            except StoreError as error:
                late = time.monotonic() - begun + pause > self._patience.total
                if not error.passing or late or attempt >= self._patience.retries:
                    raise
            time.sleep(pause)
            attempt += 1

    def _call(self, verb: str, path: str, call: Callable[[], T]) -> T:
        """Call obstore; every failure of its is raised as one of ours, panics included."""
        with self._places:
            try:
                return call()
            except SourceError:
                raise
            except BaseException as raised:
                error = classify(raised, verb, self._where(path), path, self._login_file)
        # Raised out here, so that obstore's text is not part of the traceback.
        raise error

    def _where(self, path: str) -> str:
        try:
            return str(self._bucket / path) if path else str(self._bucket)
        except BadName:
            return str(self._bucket)


def _entry(found: ObjectMeta) -> Entry:
    return Entry(
        found["path"],
        found["size"],
        _version(found["e_tag"]),
        found["last_modified"].timestamp(),
    )


def _version(tag: str | None) -> str:
    """Some stores quote a tag in one answer and not in another."""
    tag = tag or ""
    return tag if tag.startswith("W/") else tag.strip('"')


def _tag(version: str) -> str:
    return version if version.startswith("W/") else f'"{version}"'
