"""What a hub keeps of its runs as a store, through the hub's API.

A path begins with the number of a run. Objects can grow: an append is checked against the object's
end by the hub, which acknowledges only what is on its disk, so that one whose answer was lost is
simply sent again. Requests are repeated here, as those to buckets are; where the hub says how long
to wait, that counts. A token goes to the hub's own address and nowhere else.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2

from tbhub.storage.errors import (
    BadCredentials,
    BadName,
    BrokenOff,
    Conflict,
    Fenced,
    NoPermission,
    NotFound,
    StoreError,
    Throttled,
    Timeout,
    Unreachable,
    WrongOffset,
)
from tbhub.storage.many_reads import ManyReads
from tbhub.storage.request_log import hide_requests
from tbhub.storage.source import PART, FileSource
from tbhub.storage.store import DELETE, LIST, READ, WRITE, Entry, Meter, Patience, Range
from tbhub.storage.uri import HUB, object_name

CHUNK = 8 << 20  # bytes of one append or part; the hub takes twice as many


class HubStore:
    """The files of a hub's runs. At most `limit` requests are under way at a time."""

    def __init__(self, settings: Mapping[str, str], patience: Patience, limit: int) -> None:
        self._patience = patience
        self._attempt = settings.get("attempt", "")
        self._places = threading.BoundedSemaphore(limit)
        self._many = ManyReads(self.read, limit)
        self.meter = Meter()
        url = settings["url"]
        headers = {"user-agent": "tbhub", "accept": "application/json"}
        token = settings.get("token", "")
        if token:
            headers["authorization"] = f"Bearer {token}"
        self._from_environment = bool(token) and token == os.environ.get("TBHUB_TOKEN")
        hide_requests(url)
        self._client = httpx2.Client(
            base_url=f"{url}/api/v1/",
            headers=headers,
            timeout=httpx2.Timeout(patience.timeout, connect=patience.connect_timeout),
            verify=httpx2.create_ssl_context() if url.startswith("https:") else False,
            trust_env=not _is_loopback(url),  # a proxy for the world is none for this machine
            limits=httpx2.Limits(max_connections=limit, max_keepalive_connections=limit),
        )

    def list(self, prefix: str) -> Iterator[Entry]:
        """All objects of a run, or below a directory of it."""
        run, below = _parted(prefix)
        answer = self._ask(LIST, prefix, lambda: self._get(f"runs/{run}/files", below=below))
        for found in answer.json()["files"]:
            yield _entry(run, found)

    def stat(self, path: str) -> Entry:
        """What is known about an object."""
        run, name = _file(path)
        answer = self._ask(READ, path, lambda: self._get(f"runs/{run}/files", only=name))
        return _entry(run, answer.json()["files"][0])

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Bytes of an object."""
        if offset < 0 or (size is not None and size < 0):
            raise ValueError("a range cannot begin or end before the object")
        address = _address(path)
        if size == 0:
            return b""
        headers = {}
        if offset or size is not None:
            last = "" if size is None else offset + size - 1
            headers["range"] = f"bytes={offset}-{last}"

        def ask() -> httpx2.Response:
            return self._client.get(address, headers=headers)

        answer = self._ask(READ, path, ask)
        if answer.status_code == 416:
            return b""
        data: bytes = answer.content
        self.meter.count(READ, 0, read=len(data))
        return data

    def read_many(self, ranges: Iterable[Range]) -> Iterator[bytes]:
        """Many reads at the same time, given back in their order."""
        return self._many(ranges)

    def put(self, path: str, data: bytes | FileSource) -> str:
        """Writes an object."""
        if isinstance(data, FileSource) and data.size > CHUNK:
            return self._put_in_parts(path, data)
        return self._put(path, data.read_all() if isinstance(data, FileSource) else data, {})

    def put_if_absent(self, path: str, data: bytes) -> str:
        """Writes an object unless there is one."""
        return self._put(path, data, {"if-none-match": "*"})

    def put_if_unchanged(self, path: str, data: bytes, version: str) -> str:
        """Replaces an object if it still has this version."""
        return self._put(path, data, {"if-match": f'"{version}"'})

    def _put_in_parts(self, path: str, source: FileSource) -> str:
        """Upload in parts; the hub keeps them until the last one, and then replaces the object.

        The parts are kept under the file's fingerprint: a process that takes over after a kill
        continues behind the last one that the hub has.
        """
        address, upload = _address(path), source.fingerprint
        part = CHUNK if source.part >= PART else source.part  # less where the rate is limited
        offset, has_restarted = 0, False
        while offset < source.size:
            piece = source.read(offset, min(part, source.size - offset))
            params = self._params(upload=upload, offset=str(offset))

            def send(piece: bytes = piece, params: dict[str, str] = params) -> httpx2.Response:
                return self._client.put(address, params=params, content=piece)

            try:
                offset = int(self._ask(WRITE, path, send).json()["size"])
            except WrongOffset as error:
                if error.size < offset:  # parts were lost
                    offset = error.size
                    continue
                if has_restarted:
                    raise
                has_restarted, offset = True, 0  # something else was uploaded under this name
                self._discard_parts(path, upload)
                continue
            self.meter.count(WRITE, 0, written=len(piece))
        source.verify()
        params = self._params(upload=upload, size=str(source.size))
        made = self._ask(WRITE, path, lambda: self._client.post(address, params=params))
        return str(made.json()["version"])

    def _discard_parts(self, path: str, upload: str) -> None:
        params = self._params(upload=upload)
        self._ask(DELETE, path, lambda: self._client.delete(_address(path), params=params))

    def _put(self, path: str, data: bytes, condition: Mapping[str, str]) -> str:
        address = _address(path)
        headers = {**condition, "content-length": str(len(data))}
        attempts = 0

        def ask() -> httpx2.Response:
            nonlocal attempts
            attempts += 1
            params = self._params(whole="true")
            return self._client.put(address, params=params, content=data, headers=headers)

        try:
            version = str(self._ask(WRITE, path, ask).json()["version"])
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

    def append(self, path: str, offset: int, data: bytes) -> int:
        """Writes bytes at the end of an object; its new size."""
        address = _address(path)
        size = offset
        whole = memoryview(data)
        for begin in range(0, max(1, len(data)), CHUNK):
            piece = bytes(whole[begin : begin + CHUNK])
            params = self._params(offset=str(offset + begin))

            def ask(piece: bytes = piece, params: dict[str, str] = params) -> httpx2.Response:
                return self._client.put(address, params=params, content=piece)

            size = int(self._ask(WRITE, path, ask).json()["size"])
            self.meter.count(WRITE, 0, written=len(piece))
        return size

    def delete(self, path: str) -> None:
        """Deletes an object."""
        address = _address(path)
        self._ask(DELETE, path, lambda: self._client.delete(address, params=self._params()))

    def delete_below(self, prefix: str) -> int:
        """Deletes all objects of a run, or below a directory of it."""
        run, below = _parted(object_name(prefix))
        params = self._params(below=below)

        def ask() -> httpx2.Response:
            return self._client.delete(f"runs/{run}/files", params=params)

        return int(self._ask(DELETE, prefix, ask).json()["deleted"])

    def close(self) -> None:
        """Ends the threads of `read_many`, and the connections."""
        self._many.close()
        self._client.close()

    def _get(self, address: str, **params: str) -> httpx2.Response:
        return self._client.get(address, params={k: v for k, v in params.items() if v})

    def _params(self, **params: str) -> dict[str, str]:
        if self._attempt:
            params["attempt"] = self._attempt
        return {name: value for name, value in params.items() if value}

    def _ask(self, verb: str, path: str, call: Callable[[], httpx2.Response]) -> httpx2.Response:
        """One request, repeated while its failures are passing ones."""
        begun = time.monotonic()
        attempt = 0
        where = f"{HUB}://runs/{path}"
        while True:
            wait = 0.0
            with self._places:
                self.meter.count(verb)
                try:
                    answer = call()
                except httpx2.HTTPError as raised:
                    error = _lost(raised, verb, where)
                else:
                    if answer.is_success or answer.status_code == 416:
                        return answer
                    error = _refused(answer, verb, where, self._from_environment)
                    with suppress(ValueError):
                        wait = float(answer.headers.get("retry-after", "0"))
            pause = max(self._patience.pause(attempt), min(wait, self._patience.longest_pause))
            late = time.monotonic() - begun + pause > self._patience.total
            if not error.passing or late or attempt >= self._patience.retries:
                raise error
            time.sleep(pause)
            attempt += 1


def _parted(path: str) -> tuple[str, str]:
    """A run's number, and what is below it."""
    run, _, below = path.partition("/")
    if not run.isdecimal() or path.endswith("/"):
        raise BadName("store", repr(path), "it begins with the number of a run")
    return run, object_name(below) if below else ""


def _file(path: str) -> tuple[str, str]:
    run, name = _parted(object_name(path))
    if not name:
        raise BadName("store", repr(path), "it names a run and no file of it")
    return run, name


def _address(path: str) -> str:
    run, name = _file(path)
    return f"runs/{run}/files/{quote(name, safe='/')}"


def _entry(run: str, found: Mapping[str, Any]) -> Entry:
    return Entry(f"{run}/{found['path']}", found["size"], found["version"], found["modified"])


def _lost(error: httpx2.HTTPError, verb: str, where: str) -> StoreError:
    """Why there is no answer; without the library's text, which may hold an address."""
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return Unreachable(verb, where, "no hub answers at its url; is it running?")
    if isinstance(error, httpx2.TimeoutException):
        return Timeout(verb, where, "the hub did not answer in time")
    if isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError | httpx2.DecodingError):
        return BrokenOff(verb, where, "the hub's answer ended in the middle")
    return Unreachable(verb, where, "the connection to the hub broke")


def _refused(answer: httpx2.Response, verb: str, where: str, from_environment: bool) -> StoreError:
    """What the hub says; its sentences hold no secrets."""
    code, what, details = "", f"the hub answers {answer.status_code}", {}
    with suppress(ValueError, KeyError, TypeError):
        problem = json.loads(answer.content)["error"]
        code, what, details = problem["code"], str(problem["message"]), problem["details"]
    match answer.status_code:
        case 401:
            if from_environment:
                what = f"{what} hint: the token is in the environment variable TBHUB_TOKEN"
            return BadCredentials(verb, where, what)
        case 403:
            return NoPermission(verb, where, what)
        case 404:
            return NotFound(verb, where, f"no such file: {what}")
        case 409 if code == "fenced":
            return Fenced(verb, where, what)
        case 409 if code == "wrong_offset":
            return WrongOffset(verb, where, what, int(details.get("size", 0)))
        case 412:
            return Conflict(verb, where, what)
        case 413 | 422 | 400:
            return BadName(verb, where, what)
        case 429 | 503:
            return Throttled(verb, where, what)
        case 408 | 500 | 502 | 504:
            return Unreachable(verb, where, what)
    return StoreError(verb, where, what)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
