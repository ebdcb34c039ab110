"""A host: the ASGI application that serves boards.

    <prefix>/b/<id>/            the page of a board
    <prefix>/b/<id>/data/…      what the page asks for
    <prefix>/b/<id>/tbhub/events
    <prefix>/static/<version>/… what is alike for all boards, cached by browsers for ever

`tbhub view` shows one board, which then has the prefix itself as its address. The page is there at
once; TensorBoard's application is imported behind it, while the browser is busy with the script.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from tbhub.boards import charts
from tbhub.boards.assets import Asset, Assets
from tbhub.boards.board import Board, BoardOptions
from tbhub.boards.charts import Fragments
from tbhub.boards.compression import compressed
from tbhub.boards.live import events
from tbhub.boards.wsgi import (
    Headers,
    Message,
    Receive,
    Response,
    Scope,
    Send,
    call,
    read_body,
)
from tbhub.series.follower import Follower

if TYPE_CHECKING:
    from tbhub.boards.application import Application

_MAX_BODY = 64 << 20
_MAX_FRAGMENTS = 128 << 20  # bytes of answers that are kept
_THREADS = 16
_MOMENT, _MOMENTS = 0.02, 50
_METHODS = ("GET", "HEAD", "POST")
_BOARD_HEADER = "HTTP_TENSORBOARD_EXPERIMENT_ID"
_PROJECTOR_PAGE = "data/plugin/projector/projector_binary.html"
_DEFAULT_EXPERIMENT = "experiment/defaultExperimentId/"

# TensorBoard's own policy for its page, plus nothing.
_POLICY = (
    "default-src 'self';font-src 'self' data:;frame-src 'self' https://ui.perfetto.dev;"
    "img-src 'self' data: blob:;object-src 'none';"
    "style-src 'self' https://www.gstatic.com data: 'unsafe-inline';"
    "connect-src 'self';script-src 'self' 'unsafe-eval'"
)

logger = logging.getLogger("tbhub")


class Host:
    """Boards by their ids, served by one application from one follower."""

    def __init__(self, follower: Follower, *, prefix: str = "", single: str | None = None) -> None:
        """`single`: the id of the one board that has the prefix itself as its address."""
        self.follower = follower
        self._prefix = prefix.rstrip("/")
        self._single = single
        self._boards: dict[str, Board] = {}
        self._assets = Assets()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="tbhub-serve")
        self._fragments = Fragments(min(_MAX_FRAGMENTS, follower.memory.budget // 8))
        self._application: Future[Application] = Future()
        self._importing = threading.Lock()
        self._closing = False

    def _import(self) -> Future[Application]:
        """Begins to import TensorBoard's application, once, when somebody looks at a board."""
        if self._importing.acquire(blocking=False):
            threading.Thread(target=self._do_import, name="tbhub-import", daemon=True).start()
        return self._application

    def _do_import(self) -> None:
        try:
            from tbhub.boards.application import Application

            self._application.set_result(Application(self, self._fragments))
        except BaseException as error:
            self._application.set_exception(error)

    # --- boards

    def create(self, board_id: str, options: BoardOptions | None = None) -> Board:
        """A new, empty board."""
        board = Board(board_id, self.follower, options or BoardOptions())
        self.show(board)
        return board

    def show(self, board: Board) -> None:
        """Serves a board from now on."""
        if board.id in self._boards:
            raise ValueError(f"there is a board {board.id} already")
        self._boards[board.id] = board

    def get(self, board_id: str) -> Board | None:
        """The board of an id."""
        return self._boards.get(board_id)

    def delete(self, board_id: str) -> bool:
        """A board is no more; False if there was none."""
        board = self._boards.pop(board_id, None)
        if board is None:
            return False
        board.close()
        if self._application.done():
            self._application.result().forget(board_id)
        return True

    @property
    def application(self) -> Application:
        """TensorBoard's application; waits until it is there."""
        return self._import().result()

    def close(self) -> None:
        """Ends streams and threads."""
        self._closing = True
        for board in self._boards.values():
            board.tell()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            return
        started = False

        async def note_and_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._answer(scope, receive, note_and_send)
        except Exception:
            logger.exception("%s %r failed", scope["method"], scope["path"])
            if not started:
                await _text(500, "internal error: see the log of tbhub").send(send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if scope["method"] not in _METHODS:
            await _text(405, "GET, HEAD or POST").send(send)
            return
        if not path.startswith(self._prefix + "/"):
            here = path == self._prefix and self._single is not None
            response = _redirect(path + "/") if here else _text(404, f"not below {self._prefix}/")
            await response.send(send)
            return
        path = path[len(self._prefix) + 1 :]
        if path.startswith("static/"):
            await self._static(path.removeprefix("static/"), scope).send(send)
            return
        board_id, root = self._single, self._prefix
        if board_id is None:
            kind, _, rest = path.partition("/")
            board_id, slash, path = rest.partition("/")
            if kind != "b" or board_id not in self._boards:
                await _text(404, "no such board").send(send)
                return
            root = f"{self._prefix}/b/{board_id}"
            if not slash:
                await _redirect(root + "/").send(send)
                return
        board = self._boards.get(board_id)
        if board is None:
            await _text(404, "no such board").send(send)
            return
        await self._of_board(board, root, path, scope, receive, send)

    async def _of_board(
        self, board: Board, root: str, path: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        # The Angular half of the page names an experiment, the other half does not.
        while path.startswith(_DEFAULT_EXPERIMENT):
            path = path.removeprefix(_DEFAULT_EXPERIMENT)
        if scope["method"] == "POST" and not path.startswith("data/"):
            await _text(405, "GET or HEAD").send(send)
        elif path in ("", "index.html"):
            await _asset(self._page(board), scope, "no-cache").send(send)
        elif path == "tbhub/events":
            await self._stream(board, scope, receive, send)
        elif path == "tbhub/scalars":
            await self._in_thread(_range_query, board, scope, send=send)
        elif path == "data/environment":
            await _json(self._environment(board)).send(send)
        elif path == "data/notifications":
            await _json({"notifications": []}).send(send)
        elif path.startswith("data/"):
            await self._tensorboard(board, root, path, scope, receive, send)
        else:
            asset = self._assets.find(path)
            response = (
                _text(404, "not found") if asset is None else _asset(asset, scope, "no-cache")
            )
            await response.send(send)

    @property
    def _static_root(self) -> str:
        """Where the shared files are, as seen from a board's root."""
        return "static" if self._single is not None else "../../static"

    def _page(self, board: Board) -> Asset:
        self._import()  # the page will want it as soon as its script has been evaluated
        return self._assets.index(
            board=board.id,
            static_root=self._static_root,
            data_version=board.version,
            title=board.title or "TensorBoard",
        )

    def _static(self, path: str, scope: Scope) -> Response:
        version, _, path = path.partition("/")
        asset = self._assets.find(path)
        if asset is None:
            return _text(404, "not found")
        known = version == self._assets.version
        return _asset(asset, scope, "public, max-age=31536000, immutable" if known else "no-cache")

    def _environment(self, board: Board) -> dict[str, Any]:
        from tensorboard import version

        return {
            "version": version.VERSION,
            "data_location": board.location,
            "window_title": board.title,
            "experiment_name": "",
            "experiment_description": "",
            "creation_time": 0,
        }

    async def _tensorboard(
        self, board: Board, root: str, path: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        body = await read_body(receive, _MAX_BODY)
        if body is None:
            await _text(413, f"a request may have {_MAX_BODY >> 20} MB").send(send)
            return
        if path == charts.TAGS:
            await _nearly_loaded(board)
        # What is answered is at least this; a page need not ask again for what it has.
        stand = [
            (b"x-tbhub-version", str(board.version).encode()),
            (b"x-tbhub-runs", str(len(board.runs)).encode()),
        ]
        loop = asyncio.get_running_loop()
        response = await loop.run_in_executor(self._pool, self._quickly, board, path, scope, body)
        if response is None:
            application = await asyncio.wrap_future(self._import())
            response = await loop.run_in_executor(
                self._pool, self._slowly, application, board, root, path, scope, body
            )
        response.headers.extend(stand)
        await response.send(send)

    def _quickly(self, board: Board, path: str, scope: Scope, body: bytes) -> Response | None:
        """What needs no TensorBoard."""
        if path not in (charts.RUNS, charts.TAGS, charts.CHARTS) or scope["method"] == "HEAD":
            return None

        def form() -> str | None:
            content_type = dict(scope["headers"]).get(b"content-type", b"").decode("latin-1")
            return charts.field_of(body, content_type, "requests")

        made = charts.answer(board, self._fragments, path, form)
        return None if made is None else compressed(_json_bytes(200, made), scope)

    def _slowly(
        self,
        application: Application,
        board: Board,
        root: str,
        path: str,
        scope: Scope,
        body: bytes,
    ) -> Response:
        from tbhub.boards.provider import current_board

        current_board.set(board.id)
        extra = {_BOARD_HEADER: board.id}
        response = call(application.wsgi, scope, body, root, "/" + path, extra)
        if path == _PROJECTOR_PAGE and response.status == 200:
            page = self._assets.with_fonts(response.body, "../../../" + self._static_root)
            response = Response(200, _html_headers(len(page)), page)
        return compressed(response, scope)

    async def _in_thread(self, work: Callable[..., Response], *arguments: Any, send: Send) -> None:
        loop = asyncio.get_running_loop()
        response = await loop.run_in_executor(self._pool, work, *arguments)
        await response.send(send)

    async def _stream(self, board: Board, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] != "HEAD":
            gone = asyncio.create_task(_until_gone(receive))
            sending = asyncio.create_task(self._send_events(board, send))
            try:
                await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone.cancel()
                sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
        await send({"type": "http.response.body", "body": b""})

    async def _send_events(self, board: Board, send: Send) -> None:
        async with aclosing(events(board, lambda: self._closing)) as stream:
            async for chunk in stream:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _nearly_loaded(board: Board) -> None:
    """Waits a moment for runs that are being read: the page would have to draw everything twice."""
    for _ in range(_MOMENTS):
        done, total = board.loading
        if done >= total:
            return
        await asyncio.sleep(_MOMENT)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _range_query(board: Board, scope: Scope) -> Response:
    """The points of a series between two steps, at any zoom."""
    from tbhub.boards.range_query import answer_range_query

    status, body = answer_range_query(board, scope["query_string"].decode("latin-1"))
    return _json_bytes(status, body)


def _asset(asset: Asset, scope: Scope, caching: str) -> Response:
    headers: Headers = [
        (b"content-type", asset.content_type.encode()),
        (b"cache-control", caching.encode()),
        (b"etag", asset.etag.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"vary", b"accept-encoding"),
    ]
    if asset.content_type.startswith("text/html"):
        headers.append((b"content-security-policy", _POLICY.encode()))
    asked = dict(scope["headers"])
    if asked.get(b"if-none-match") == asset.etag.encode():
        return Response(304, headers, b"")
    body = asset.gzip
    if body is not None and b"gzip" in asked.get(b"accept-encoding", b""):
        headers.append((b"content-encoding", b"gzip"))
    else:
        body = asset.raw()
    headers.append((b"content-length", str(len(body)).encode()))
    return Response(200, headers, b"" if scope["method"] == "HEAD" else body)


def _html_headers(size: int) -> Headers:
    return [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(size).encode()),
        (b"content-security-policy", _POLICY.encode()),
        (b"x-content-type-options", b"nosniff"),
    ]


def _text(status: int, text: str) -> Response:
    headers: Headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"x-content-type-options", b"nosniff"),
    ]
    return Response(status, headers, text.encode())


def _json(value: Any) -> Response:
    return _json_bytes(200, orjson.dumps(value))


def _json_bytes(status: int, body: bytes) -> Response:
    headers: Headers = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-cache"),
        (b"x-content-type-options", b"nosniff"),
        (b"content-length", str(len(body)).encode()),
    ]
    return Response(status, headers, body)


def _redirect(path: str) -> Response:
    # Relative to the host alone: a path that begins with two slashes would name another host.
    return Response(301, [(b"location", ("/" + quote(path.lstrip("/"))).encode())], b"")
