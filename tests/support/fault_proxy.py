"""A proxy in front of a real store that fails as stores and networks do.

It speaks enough HTTP/1.1 to know where a request ends; everything else is passed on as it came, so
that signatures stay good. One request per connection. Faults are named by how they fail and are
used up one request at a time:

    proxy.add(Status(503), times=2)    # the next two requests
    proxy.add(LostAnswer(), methods={"PUT"}, every=5)
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass, field

_PATIENCE = 30
_PIECE = 4096
_TURNS = 10


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    raw: bytes  # head and body, as they came


@dataclass(frozen=True)
class Status:
    """The store answers with a status and an error code of its own."""

    code: int = 503
    reason: str = "SlowDown"

    @property
    def answer(self) -> bytes:
        body = f"<Error><Code>{self.reason}</Code><Message>later</Message></Error>".encode()
        head = (
            f"HTTP/1.1 {self.code} Fault\r\nContent-Type: application/xml\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body


@dataclass(frozen=True)
class Slow:
    """The answer comes late."""

    seconds: float


@dataclass(frozen=True)
class Silent:
    """The request is taken, and nothing ever comes back."""


@dataclass(frozen=True)
class Half:
    """The answer ends in the middle of its body."""


@dataclass(frozen=True)
class LostRequest:
    """The connection breaks before the store has seen the request."""


@dataclass(frozen=True)
class LostAnswer:
    """The store has done what it was asked, and the connection breaks before it says so."""


Fault = Status | Slow | Silent | Half | LostRequest | LostAnswer


@dataclass
class _Rule:
    fault: Fault
    methods: Collection[str] | None
    times: int | None
    every: int
    matching: Callable[[Request], bool] | None
    seen: int = field(default=0)

    def takes(self, request: Request) -> bool:
        if self.methods is not None and request.method not in self.methods:
            return False
        if self.matching is not None and not self.matching(request):
            return False
        self.seen += 1
        if self.seen % self.every or self.times == 0:
            return False
        if self.times is not None:
            self.times -= 1
        return True


class FaultProxy:
    """Listens on a free port of loopback; `url` takes the place of the store's own."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = host, port
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        self.requests: list[Request] = []  # all that came, faulty or not
        self.acknowledged: list[Request] = []  # those whose good answer was handed over
        self._until_byte: tuple[int, Callable[[], None]] | None = None
        self.most_at_once = 0
        self._at_once = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: weakref.WeakSet[asyncio.StreamWriter] = weakref.WeakSet()
        self._server: asyncio.Server | None = None
        self.port = 0
        self._run(self._listen())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(
        self,
        fault: Fault,
        *,
        methods: Collection[str] | None = None,
        times: int | None = None,
        every: int = 1,
        matching: Callable[[Request], bool] | None = None,
    ) -> None:
        """Fails every n-th fitting request, so many times or for good."""
        with self._lock:
            self._rules.append(_Rule(fault, methods, times, every, matching))

    def heal(self) -> None:
        """No more faults."""
        with self._lock:
            self._rules.clear()
        if self._server is None:
            self._run(self._listen())

    def refuse(self) -> None:
        """Connections are refused until `heal`."""
        self._run(self._deafen())

    def at_byte(self, number: int, do: Callable[[], None]) -> None:
        """Does something once, when so many more bytes have come, in whatever request that is."""
        with self._lock:
            self._until_byte = number, do

    def counts(self) -> Counter[str]:
        """How many requests came, by method."""
        with self._lock:
            return Counter(request.method for request in self.requests)

    def forget(self) -> None:
        """Counts from zero."""
        with self._lock:
            self.requests.clear()

    def close(self) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()

    def _run(self, work: Coroutine[object, object, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _deafen(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _end(self) -> None:
        await self._deafen()
        # What was accepted a moment ago has no task yet, and a transport is closed a turn after it
        # was told to: some turns of the loop, until nothing is open.
        for _ in range(_TURNS):
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for writer in list(self._writers):
                writer.transport.abort()
            await asyncio.sleep(0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the proxy ends
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _read_request(reader, self._came)
        with self._lock:
            self.requests.append(request)
            fault = next((rule.fault for rule in self._rules if rule.takes(request)), None)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await self._answer(request, fault, writer)
        finally:
            self._at_once -= 1

    async def _answer(
        self, request: Request, fault: Fault | None, writer: asyncio.StreamWriter
    ) -> None:
        match fault:
            case Status():
                writer.write(fault.answer)
                await writer.drain()
                return
            case Silent():
                await asyncio.Event().wait()
            case LostRequest():
                writer.transport.abort()
                return
            case Slow():
                await asyncio.sleep(fault.seconds)
        answer = await self._ask(request)
        match fault:
            case LostAnswer():
                writer.transport.abort()
                return
            case Half():
                head, _, body = answer.partition(b"\r\n\r\n")
                answer = head + b"\r\n\r\n" + body[: len(body) // 2]
        writer.write(answer)
        await writer.drain()
        if fault is None and answer[9:10] == b"2":
            with self._lock:
                self.acknowledged.append(request)

    def _came(self, size: int) -> None:
        with self._lock:
            if self._until_byte is None:
                return
            left, do = self._until_byte
            self._until_byte = (left - size, do) if left > size else None
        if left <= size:
            do()

    async def _ask(self, request: Request) -> bytes:
        reader, writer = await asyncio.open_connection(*self._upstream)
        self._writers.add(writer)
        try:
            head, _, body = request.raw.partition(b"\r\n\r\n")
            writer.write(head + b"\r\nConnection: close\r\n\r\n" + body)
            await writer.drain()
            return await reader.read()  # the store closes when it is done
        finally:
            writer.close()


async def _read_request(reader: asyncio.StreamReader, came: Callable[[int], None]) -> Request:
    head = await reader.readuntil(b"\r\n\r\n")
    came(len(head))
    lines = head.decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
    body = b""
    while left := int(headers.get("content-length", "0")) - len(body):
        more = await reader.read(min(left, _PIECE))
        if not more:
            raise asyncio.IncompleteReadError(body, left)
        came(len(more))
        body += more
    return Request(method, target, head + body)


@contextlib.contextmanager
def fault_proxy(host: str, port: int) -> Iterator[FaultProxy]:
    """A proxy for the length of a test."""
    proxy = FaultProxy(host, port)
    try:
        yield proxy
    finally:
        proxy.close()
