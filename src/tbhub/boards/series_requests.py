"""What the hub asks of a host for charts of its own, of any runs.

    POST /series/points   {"runs": […], "query": {…}} → packed series
    POST /series/tags     {"runs": […]}
    POST /series/images   {"runs": […], "tags": […] or null}
    POST /series/image    {"runs": [one], "tag", "step", "wall_time", "sample"} → the image
    POST /series/news     {"runs": […]} → lines of JSON, without end: {"runs": [those with news]}

A run is ``{"id", "path", "alone", "credentials"}``: all that is needed to read it. Each request
says it anew, so that nothing is lost with a host.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

import orjson

from tbhub.api.packed_series import CONTENT_TYPE
from tbhub.boards import answers, series_query
from tbhub.boards.asked_runs import AskedRuns, Wanted
from tbhub.boards.charts import Fragments
from tbhub.boards.compression import compressed
from tbhub.boards.series_query import PointsQuery, Runs, TooManyPointsError
from tbhub.boards.wsgi import Headers, Receive, Response, Scope, Send, read_body
from tbhub.series.follower import Follower

_MAX_BODY = 64 << 20
_MAX_FRAGMENTS = 128 << 20  # bytes of series that are kept
_THREADS = 4
_MOMENT, _MOMENTS = 0.01, 200  # for runs that are being read; the news tell of those that take long
_TOGETHER_SECONDS = 0.1  # news that come within are told together
_PING_SECONDS = 15.0
_SWEEP_SECONDS = 30.0
# What a browser may take an image for; anything else it is not shown.
_IMAGES = {
    b"\x89PNG": b"image/png",
    b"\xff\xd8\xff": b"image/jpeg",
    b"GIF8": b"image/gif",
    b"RIFF": b"image/webp",
}


class SeriesRequests:
    """An ASGI application. Belongs to one event loop."""

    def __init__(self, follower: Follower) -> None:
        self.runs = AskedRuns(follower)
        self._fragments = Fragments(min(_MAX_FRAGMENTS, follower.memory.budget // 8))
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="tbhub-series")
        self._sweeping: asyncio.TimerHandle | None = None
        self._streams: set[asyncio.Event] = set()
        self._closing = False

    def close(self) -> None:
        """Ends streams and threads."""
        self._closing = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for each in self._streams:
            each.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request of the hub's."""
        body = await read_body(receive, _MAX_BODY)
        if body is None:
            await _problem(413, "too many runs are asked for at once").send(send)
            return
        asked = orjson.loads(body)
        wanted = [Wanted(**each) for each in asked["runs"]]
        found = await self._in_thread(self.runs.get, wanted)
        runs = {each.id: run for each, run in zip(wanted, found, strict=True)}
        self._sweep_later()
        kind = scope["path"].removeprefix("/series/")
        if kind == "news":
            await self._stream(runs, receive, send)
            return
        await _nearly_read(runs)
        work = {
            "points": _points,
            "tags": _tags,
            "images": _images,
            "image": _image,
        }.get(kind)
        if work is None:
            await _problem(404, "no such request").send(send)
            return
        make = partial(work, runs, asked, self._fragments)
        made = await self._in_thread(lambda: compressed(make(), scope))
        await made.send(send)

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def _sweep_later(self) -> None:
        if self._sweeping is None and not self._closing:
            loop = asyncio.get_running_loop()
            self._sweeping = loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        self._pool.submit(self.runs.sweep)
        if len(self.runs):
            self._sweep_later()

    # --- news

    async def _stream(self, runs: Runs, receive: Receive, send: Send) -> None:
        headers: Headers = [
            (b"content-type", b"application/x-ndjson"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.create_task(_until_gone(receive))
        sending = asyncio.create_task(self._send_news(runs, send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
        await send({"type": "http.response.body", "body": b""})

    async def _send_news(self, runs: Runs, send: Send) -> None:
        async with aclosing(self._news(runs)) as lines:  # type: ignore[type-var]
            async for line in lines:
                await send({"type": "http.response.body", "body": line, "more_body": True})

    async def _news(self, runs: Runs) -> AsyncIterator[bytes]:
        """The first line names no runs: from now on nothing is missed."""
        loop = asyncio.get_running_loop()
        told = asyncio.Event()
        dirty: set[int] = set()
        self._streams.add(told)

        def note(run_id: int) -> None:
            dirty.add(run_id)
            told.set()

        def listener(run_id: int) -> Callable[[], None]:
            def tell() -> None:
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(note, run_id)

            return tell

        listeners = {run_id: listener(run_id) for run_id in runs}
        for run_id, run in runs.items():
            run.listeners.add(listeners[run_id])
        try:
            yield _line([])
            while not self._closing:
                try:
                    async with asyncio.timeout(_PING_SECONDS):
                        await told.wait()
                except TimeoutError:
                    yield b"\n"
                    continue
                await asyncio.sleep(_TOGETHER_SECONDS)
                told.clear()
                if dirty:
                    ids = sorted(dirty)
                    dirty.clear()
                    yield _line(ids)
        finally:
            self._streams.discard(told)
            for run_id, run in runs.items():
                run.listeners.discard(listeners[run_id])


def _line(ids: list[int]) -> bytes:
    return orjson.dumps({"runs": ids}) + b"\n"


async def _nearly_read(runs: Runs) -> None:
    """Waits a moment for runs that are being read."""
    for _ in range(_MOMENTS):
        if all(run.is_read for run in runs.values()):
            return
        await asyncio.sleep(_MOMENT)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# --- answers, made in threads


def _points(runs: Runs, asked: dict[str, Any], fragments: Fragments) -> Response:
    given = asked["query"]
    if given["tags"] is not None:
        given["tags"] = tuple(given["tags"])
    try:
        body = b"".join(series_query.points(runs, PointsQuery(**given), fragments))
    except TooManyPointsError as error:
        return _problem(413, str(error))
    headers: Headers = [
        (b"content-type", CONTENT_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    return Response(200, headers, body)


def _tags(runs: Runs, asked: dict[str, Any], fragments: Fragments) -> Response:
    return answers.json(series_query.tags(runs))


def _images(runs: Runs, asked: dict[str, Any], fragments: Fragments) -> Response:
    return answers.json(series_query.images(runs, asked["tags"]))


def _image(runs: Runs, asked: dict[str, Any], fragments: Fragments) -> Response:
    (run,) = runs.values()
    try:
        place = (asked["tag"], asked["step"], asked["wall_time"], asked["sample"])
        body = series_query.image(run, *place)
    except (OSError, ValueError) as error:
        return _problem(404, f"the image cannot be read: {error}")
    if body is None:
        return _problem(404, "no such image")
    kinds = (kind for start, kind in _IMAGES.items() if body.startswith(start))
    headers: Headers = [
        (b"content-type", next(kinds, b"application/octet-stream")),
        (b"content-length", str(len(body)).encode()),
    ]
    return Response(200, headers, body)


def _problem(status: int, text: str) -> Response:
    return answers.json_bytes(status, orjson.dumps({"error": text}))
