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
import importlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import aclosing, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tbhub.boards import answers, charts
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
_MAX_ANSWER_SECONDS = 2.0  # that a deleted board stays for requests under way
_ANSWER_INTERVAL = 0.01
_METHODS = ("GET", "HEAD", "POST")
_BOARD_HEADER = "HTTP_TENSORBOARD_EXPERIMENT_ID"
_PROJECTOR_PAGE = "data/plugin/projector/projector_binary.html"
_DEFAULT_EXPERIMENT = "experiment/defaultExperimentId/"

logger = logging.getLogger("tbhub")


class Host:
    """Boards by their ids, served by one application from one follower."""

    def __init__(self, follower: Follower, *, prefix: str = "", single: str | None = None) -> None:
        """`single`: the id of the one board that has the prefix itself as its address."""
        self.follower = follower
        self._prefix = prefix.rstrip("/")
        self._single = single
        self._boards: dict[str, Board] = {}
        self._answering: Counter[Board] = Counter()  # requests for data under way
        if single is not None:
            _ = self.assets  # `tbhub view` reports at once that there is no TensorBoard
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="tbhub-serve")
        self._fragments = Fragments(min(_MAX_FRAGMENTS, follower.memory.budget // 8))
        self._application: Future[Application] = Future()
        self._importing = threading.Lock()
        self._closing = False

    def _import(self) -> Future[Application]:
        """Begins to import TensorBoard's application, once, when somebody looks at a board."""
        future = self._application  # another one takes its place when the import fails
        if self._importing.acquire(blocking=False):
            threading.Thread(target=self._do_import, name="tbhub-import", daemon=True).start()
        return future

    def _do_import(self) -> None:
        importlib.invalidate_caches()  # after a failure it may have been repaired
        try:
            from tbhub.boards.application import Application

            self._application.set_result(Application(self, self._fragments))
        except BaseException as error:
            failed, self._application = self._application, Future()
            self._importing.release()
            failed.set_exception(error)

    async def ask(self, board_id: str, path: str) -> tuple[int, bytes]:
        """Ask a board what its page would ask; return the status and the body of the answer."""
        status, body = 500, b""

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status, body
            status = message.get("status", status)
            body += message.get("body", b"")

        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "path": f"{self._prefix}/b/{board_id}/{path}",
            "query_string": b"",
            "headers": [],
        }
        await self(scope, receive, send)
        return status, body

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
        """Delete a board once the requests under way are answered. Return whether there was one."""
        board = self._boards.pop(board_id, None)
        if board is None:
            return False
        end = time.monotonic() + _MAX_ANSWER_SECONDS
        while board in self._answering and time.monotonic() < end:
            time.sleep(_ANSWER_INTERVAL)
        board.close()
        board.tell()  # which ends its streams
        if self._application.done():
            self._application.result().forget(board_id)
        return True

    @cached_property
    def assets(self) -> Assets:
        """The files of TensorBoard's page and of ours.

        Raises:
            TbhubError: TensorBoard is not installed, or cannot be imported.
        """
        return Assets()

    @property
    def application(self) -> Application:
        """TensorBoard's application; waits until it is there."""
        return self._import().result()

    def wait_until_imported(self) -> None:
        """Waits for TensorBoard's application if it is being imported, whatever comes of that."""
        if self._importing.locked():
            wait([self._application])

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
                await answers.text(500, "internal error: see the log of tbhub").send(send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if scope["method"] not in _METHODS:
            await answers.text(405, "GET, HEAD or POST").send(send)
            return
        if not path.startswith(self._prefix + "/"):
            here = path == self._prefix and self._single is not None
            response = (
                answers.redirect(path + "/")
                if here
                else answers.text(404, f"not below {self._prefix}/")
            )
            await response.send(send)
            return
        path = path[len(self._prefix) + 1 :]
        if path.startswith("static/"):
            await answers.static_file(self.assets, path.removeprefix("static/"), scope).send(send)
            return
        board_id, root = self._single, self._prefix
        if board_id is None:
            kind, _, rest = path.partition("/")
            board_id, slash, path = rest.partition("/")
            if kind != "b" or board_id not in self._boards:
                await answers.text(404, "no such board").send(send)
                return
            root = f"{self._prefix}/b/{board_id}"
            if not slash:
                await answers.redirect(root + "/").send(send)
                return
        board = self._boards.get(board_id)
        if board is None:
            await answers.text(404, "no such board").send(send)
            return
        await self._of_board(board, root, path, scope, receive, send)

    async def _of_board(
        self, board: Board, root: str, path: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        # The Angular half of the page names an experiment, the other half does not.
        while path.startswith(_DEFAULT_EXPERIMENT):
            path = path.removeprefix(_DEFAULT_EXPERIMENT)
        if scope["method"] == "POST" and not path.startswith("data/"):
            await answers.text(405, "GET or HEAD").send(send)
        elif path in ("", "index.html"):
            await answers.asset(self._page(board), scope, "no-cache").send(send)
        elif path == "tbhub/events":
            await self._stream(board, scope, receive, send)
        elif path == "tbhub/scalars":
            await self._in_thread(_range_query, board, scope, send=send)
        elif path == "data/environment":
            await answers.json(self._environment(board)).send(send)
        elif path == "data/notifications":
            await answers.json({"notifications": []}).send(send)
        elif path.startswith("data/"):
            self._answering[board] += 1
            try:
                await self._tensorboard(board, root, path, scope, receive, send)
            finally:
                self._answering[board] -= 1
                if not self._answering[board]:
                    del self._answering[board]
        else:
            asset = self.assets.find(path)
            response = (
                answers.text(404, "not found")
                if asset is None
                else answers.asset(asset, scope, "no-cache")
            )
            await response.send(send)

    @property
    def _static_root(self) -> str:
        """Where the shared files are, as seen from a board's root."""
        return "static" if self._single is not None else "../../static"

    def _page(self, board: Board) -> Asset:
        self._import()  # the page will want it as soon as its script has been evaluated
        return self.assets.index(
            board=board.id,
            static_root=self._static_root,
            data_version=board.version,
            title=board.title or "TensorBoard",
        )

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
            await answers.text(413, f"a request may have {_MAX_BODY >> 20} MB").send(send)
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
        return None if made is None else compressed(answers.json_bytes(200, made), scope)

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
            page = self.assets.with_fonts(response.body, "../../../" + self._static_root)
            response = Response(200, answers.html_headers(len(page)), page)
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
        def is_over() -> bool:
            return self._closing or self._boards.get(board.id) is not board

        async with aclosing(events(board, is_over)) as stream:
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
    return answers.json_bytes(status, body)
