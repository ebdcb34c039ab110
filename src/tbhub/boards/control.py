"""What the hub asks of a host: which boards it has, and how they stand.

    PUT    /control/boards/<id>   {"sources": […], "options": {…}} → how it stands
    GET    /control/boards/<id>   → how it stands
    DELETE /control/boards/<id>
    GET    /control/checks[/<id>] → whether TensorBoard works here, and what is seen of the sources
    GET    /control/events        server-sent: {"boards": [ids]}, then {"board", "state"} for each,
                                  and again whenever one stands differently
    GET    /control/health
    POST   /control/shutdown
    POST   /series/…              points, tags, images and news of any runs; see `series_requests`

    GET    /healthz               for engines that ask whether it answers; they have no secret

Everything else goes to the boards themselves. Every request carries the secret that the host was
given when it registered; without it nothing else is answered, not even whether a board is there.

A PUT is the whole truth about a board and may be sent again: what is the same stays untouched, so
that runs keep their colours and pages stay open.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson

from tbhub.boards.board import Board, BoardOptions, KnownRun, Source
from tbhub.boards.handover import Handovers
from tbhub.boards.host import Host
from tbhub.boards.live import state_of
from tbhub.boards.readiness import NotReadyError, check_board, describe_tensorboard
from tbhub.boards.series_requests import SeriesRequests
from tbhub.boards.source_check import check_sources
from tbhub.boards.wsgi import Headers, Receive, Response, Scope, Send, read_body

_MAX_BODY = 256 << 20
_LEAST_SECONDS = 0.25  # between two looks at a board whose first data is waited for
_QUIET_SECONDS = 5.0  # and at one that is up
_PING_SECONDS = 20.0
_MOMENT, _MOMENTS = 0.005, 100  # for the first data, before a PUT is answered
_LISTING_SECONDS = 0.3  # for many sources, before a PUT is answered
_MAX_LISTING_SECONDS = 3.0  # the same while no run is found: a board that moves must not look empty
_THREADS = 4

logger = logging.getLogger("tbhub")


class SourceError(ValueError):
    """A source that no host of this kind can read."""


@dataclass(eq=False)
class _Watched:
    """A board as its hub knows it; `adding` is done when all its sources are listed."""

    board: Board
    stop: Callable[[], None]
    wanted: Sequence[Source] = ()
    adding: asyncio.Future[None] | None = None
    is_over: bool = False
    told: dict[str, Any] | None = None
    looked: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Control:
    """An ASGI application around a host.

    Attributes:
        secret: What every request must show; none before the host has registered.
        handovers: Where the hub can hand clients over, if it is on this machine.
        heard: When the hub last asked something, on the monotonic clock.
        streams: How many hubs listen now.
    """

    def __init__(self, host: Host, name: str, *, shutdown: Callable[[], None]) -> None:
        self.secret: str | None = None
        self.handovers: Handovers | None = None
        self.heard = time.monotonic()
        self._host = host
        self._series = SeriesRequests(host.follower)
        self._name = name
        self._shutdown = shutdown
        self._watched: dict[str, _Watched] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._dirty: set[str] = set()
        self._looking: asyncio.Task[None] | None = None
        self._streams: set[asyncio.Queue[bytes]] = set()
        self._closing = False
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="tbhub-control")

    @property
    def streams(self) -> int:
        return len(self._streams)

    def close(self) -> None:
        """Ends streams and threads, those of the host too."""
        self._closing = True
        for each in self._streams:
            each.put_nowait(b"")
        self._host.close()
        self._series.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request of the hub's."""
        if scope["type"] != "http":
            return
        if scope["path"] == "/healthz":
            await _json(200, {"ok": True}).send(send)
            return
        if not self._is_hub(scope):
            await _json(401, {"error": "only the hub may ask this"}).send(send)
            return
        self.heard = time.monotonic()
        path: str = scope["path"]
        if path.startswith("/series/") and scope["method"] == "POST":
            await self._series(scope, receive, send)
        elif not path.startswith("/control/"):
            if self.handovers is not None:
                send = self.handovers.sender(scope, receive, send)
            await self._host(scope, receive, send)
        elif path == "/control/events" and scope["method"] == "GET":
            await self._stream(receive, send)
        else:
            await (await self._answer_while_up(scope["method"], path, receive)).send(send)

    def _is_hub(self, scope: Scope) -> bool:
        if self.secret is None:
            return False
        expected = f"Bearer {self.secret}".encode()
        shown = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(shown) == 1 and hmac.compare_digest(shown[0], expected)

    async def _answer_while_up(self, method: str, path: str, receive: Receive) -> Response:
        """Answer a request; with 503 if it fails because this process is ending."""
        try:
            answer = await self._answer(method, path, receive)
        except Exception:
            if not self._closing:
                raise
        else:
            if not self._closing or answer.status < 400:
                return answer
        return _json(503, {"error": "the host is ending"})

    async def _answer(self, method: str, path: str, receive: Receive) -> Response:
        kind, _, board_id = path.removeprefix("/control/").partition("/")
        match method, kind, bool(board_id):
            case "PUT", "boards", True:
                return await self._put(board_id, receive)
            case "GET", "boards", True:
                return await self._get(board_id)
            case "DELETE", "boards", True:
                return await self._delete(board_id)
            case "GET", "checks", True:
                return await self._check(board_id)
            case "GET", "checks", False:
                return _json(200, await self._describe())
            case "GET", "health", False:
                return _json(200, self._health())
            case "POST", "shutdown", False:
                asyncio.get_running_loop().call_soon(self._shutdown)
                return _json(200, {})
            case _:
                return _json(404, {"error": "no such request"})

    async def _check(self, board_id: str) -> Response:
        watched = self._watched.get(board_id)
        if watched is None:
            return _json(404, {"error": "no such board"})
        found = await self._describe()
        found["sources"] = await self._in_thread(check_sources, watched.board)
        return _json(200, found)

    async def _describe(self) -> dict[str, Any]:
        """Return what runs here, for `tbhub doctor`."""
        return {**self._health(), "tensorboard": await describe_tensorboard(self._host)}

    def _health(self) -> dict[str, Any]:
        from importlib.metadata import version

        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        return {
            "host": self._name,
            "pid": os.getpid(),
            "boards": len(self._watched),
            "version": version("tbhub"),
            "rss": pages * os.sysconf("SC_PAGE_SIZE"),
        }

    # --- boards

    async def _put(self, board_id: str, receive: Receive) -> Response:
        body = await read_body(receive, _MAX_BODY)
        if body is None:
            return _json(413, {"error": "the board has too many sources"})
        try:
            asked = orjson.loads(body)
            sources = [_source(each) for each in asked["sources"]]
            options = BoardOptions(**asked["options"])
            # What cannot be understood is said before anything changes.
            Board("", self._host.follower, options)
        except SourceError as error:
            return _json(422, {"error": str(error)})
        except (KeyError, TypeError, ValueError) as error:
            return _json(422, {"error": f"the board cannot be made: {error}"})
        async with self._locks.setdefault(board_id, asyncio.Lock()):
            watched = self._watched.get(board_id)
            if watched is not None and watched.adding is not None:
                await asyncio.wait({watched.adding})
            if watched is None or watched.board.options != options:
                watched = await self._replace(board_id, options)
                try:
                    await check_board(self._host, board_id)
                except NotReadyError as error:
                    await self._remove(board_id)
                    return _json(422, {"error": str(error)})
            await self._show(board_id, watched, sources)
            return _json(200, await self._look(watched))

    async def _show(self, board_id: str, watched: _Watched, sources: list[Source]) -> None:
        """Makes the sources of a board these. Thousands go on being listed behind the answer."""

        def listed(adding: asyncio.Future[None]) -> None:
            if not adding.cancelled() and adding.exception() is not None:
                logger.error("board %s lacks runs", board_id, exc_info=adding.exception())
            self._note(board_id)

        watched.wanted = sources
        work = self._in_thread(_make_sources, watched, sources)
        watched.adding = asyncio.ensure_future(work)
        watched.adding.add_done_callback(listed)
        end = time.monotonic() + _MAX_LISTING_SECONDS
        await asyncio.wait({watched.adding}, timeout=_LISTING_SECONDS)
        while not (watched.adding.done() or watched.board.run_count or time.monotonic() > end):
            await asyncio.wait({watched.adding}, timeout=_LISTING_SECONDS)
        await _first_data(watched.board)

    async def _replace(self, board_id: str, options: BoardOptions) -> _Watched:
        """A new board in the place of one with other options; its pages connect to it again."""
        if board_id in self._watched:
            await self._remove(board_id)
        board = self._host.create(board_id, options)
        loop = asyncio.get_running_loop()
        called = False

        def tell() -> None:
            nonlocal called
            if not called:  # a call is under way: busy runs tell often
                called = True
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(take)

        def take() -> None:
            nonlocal called
            called = False
            self._note(board_id)

        watched = _Watched(board, board.listen(tell))
        self._watched[board_id] = watched
        return watched

    async def _get(self, board_id: str) -> Response:
        watched = self._watched.get(board_id)
        if watched is None:
            return _json(404, {"error": "no such board"})
        return _json(200, await self._look(watched))

    async def _delete(self, board_id: str) -> Response:
        async with self._locks.setdefault(board_id, asyncio.Lock()):
            there = board_id in self._watched
            if there:
                await self._remove(board_id)
        if board_id not in self._watched:
            self._locks.pop(board_id, None)
        return _json(200 if there else 404, {})

    async def _remove(self, board_id: str) -> None:
        watched = self._watched.pop(board_id)
        watched.stop()
        watched.is_over = True
        if watched.adding is not None:
            await asyncio.wait({watched.adding})
        await self._in_thread(self._host.delete, board_id)

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(work, *arguments))

    # --- how they stand

    async def _look(self, watched: _Watched) -> dict[str, Any]:
        async with watched.lock:
            watched.looked = time.monotonic()
            is_incomplete = len(watched.board.sources) < len(watched.wanted)
            state: dict[str, Any] = await self._in_thread(board_state, watched.board)
            if watched.adding is not None and not watched.adding.done():
                done, total = watched.board.loading
                state["loading"] = {"done": done, "total": max(total, len(watched.wanted))}
                if is_incomplete:
                    state["unanswered"] = state["unanswered"] or watched.wanted[-1].path
            watched.told = state
            return state

    def _note(self, board_id: str) -> None:
        """A board has news: somebody will look at it, but not too often."""
        if not self._streams or self._closing:
            return
        self._dirty.add(board_id)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_at_dirty())

    async def _look_at_dirty(self) -> None:
        while self._dirty and self._streams and not self._closing:
            now = time.monotonic()
            due = {each: self._due(each) for each in self._dirty}
            ready = [each for each, at in due.items() if at <= now]
            self._dirty.difference_update(ready)
            for board_id in ready:
                await self._tell(board_id)
            if self._dirty and not ready:
                await asyncio.sleep(min(due.values()) - now)
        self._dirty.clear()

    def _due(self, board_id: str) -> float:
        watched = self._watched.get(board_id)
        if watched is None:
            return 0.0
        is_up = watched.told and watched.told["has_data"] and watched.told["loading"] is None
        return watched.looked + (_QUIET_SECONDS if is_up else _LEAST_SECONDS)

    async def _tell(self, board_id: str) -> None:
        watched = self._watched.get(board_id)
        if watched is None:
            return
        before = watched.told
        try:
            state = await self._look(watched)
        except Exception:
            logger.exception("board %s cannot be looked at", board_id)
            return
        if state != before:
            message = _message({"board": board_id, "state": state})
            for each in self._streams:
                each.put_nowait(message)

    async def _stream(self, receive: Receive, send: Send) -> None:
        headers: Headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.create_task(_until_gone(receive))
        sending = asyncio.create_task(self._send_all(send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            sending.cancel()
            self.heard = time.monotonic()
        with suppress(asyncio.CancelledError):
            await sending
        await send({"type": "http.response.body", "body": b""})

    async def _send_all(self, send: Send) -> None:
        async for chunk in self._news():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def _news(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._streams.add(queue)
        try:
            boards = dict(self._watched)
            yield _message({"boards": list(boards)})
            for board_id, watched in boards.items():
                if self._watched.get(board_id) is watched:
                    state = await self._look(watched)
                    yield _message({"board": board_id, "state": state})
            while not self._closing:
                try:
                    async with asyncio.timeout(_PING_SECONDS):
                        chunk = await queue.get()
                except TimeoutError:
                    chunk = b": ping\n\n"
                if chunk:
                    yield chunk
        finally:
            self._streams.discard(queue)


def board_state(board: Board) -> dict[str, Any]:
    """Return how a board stands, for the hub; `unanswered` is one of the sources, or empty."""
    # What is known of a source that has answered is looked up after that it has.
    unanswered = board.unanswered
    state = state_of(board)
    return {
        "unanswered": unanswered,
        "runs": state["runs"],
        "loading": state["loading"],
        "has_data": board.has_data,
        "notices": state["notices"],
        "traffic": state["traffic"],
        "troubles": [asdict(each) for each in board.troubles()],
    }


def _source(asked: dict[str, Any]) -> Source:
    path = asked["path"]
    scheme, colon, _ = path.partition("://")
    if colon and scheme == "file":
        parts = urlsplit(path)
        if parts.netloc not in ("", "localhost"):
            raise SourceError(f"{path}: write file:///path, with three slashes")
        path = unquote(parts.path)
    elif colon:
        path = _uri(path)
    if "://" not in path and not os.path.isabs(path):
        raise SourceError(f"{path}: a path begins with /")
    return Source(
        path=path,
        name=asked.get("name", ""),
        columns=asked.get("columns", {}),
        hparams=asked.get("hparams", {}),
        alone=asked.get("alone", False),
        place=asked.get("place", False),
        credentials=asked.get("credentials") or {},
        known={path: KnownRun(**each) for path, each in asked.get("known", {}).items()},
    )


def _uri(text: str) -> str:
    from tbhub.storage.errors import BadName
    from tbhub.storage.uri import parse

    try:
        return str(parse(text))
    except BadName as error:
        raise SourceError(str(error)) from None


def _make_sources(watched: _Watched, wanted: list[Source]) -> None:
    """Makes the sources of a board these; what stays is not touched."""
    board = watched.board
    there = {_place(each): each for each in board.sources}
    asked = {_place(each): each for each in wanted}
    for place, source in there.items():
        if place not in asked:
            board.remove(source)
    for place, source in asked.items():
        if watched.is_over:
            return
        if place not in there:
            board.add(source)
        elif there[place] != source:  # more has become known of the run
            board.update(there[place], source)


def _place(source: Source) -> tuple[str, str, bool]:
    return source.path, source.name, source.alone


async def _first_data(board: Board) -> None:
    """Waits a moment for runs that are being read, so that few boards wait for what is there."""
    for _ in range(_MOMENTS):
        done, total = board.loading
        if done >= total or board.has_data:
            return
        await asyncio.sleep(_MOMENT)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _message(value: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _json(status: int, value: dict[str, Any]) -> Response:
    body = orjson.dumps(value)
    headers: Headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    return Response(status, headers, body)
