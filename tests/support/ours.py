"""Boards of ours over log directories, asked like TensorBoard's own application (support.stock)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from werkzeug.test import EnvironBuilder

from tbhub.boards.board import Board, BoardOptions, Source
from tbhub.boards.host import Host
from tbhub.series.follower import Follower

Answer = tuple[int, str, bytes]
T = TypeVar("T")
Headers = Iterable[tuple[bytes, bytes]]

PATIENCE = 60


class Ours:
    """A host and its board "one", fully loaded; requests pass all of it but the sockets.

    ``single``: the board stands at the root, as ``tbhub view`` shows it, instead of ``/b/one/``.
    """

    def __init__(
        self,
        logdir: Path | str | None = None,
        options: BoardOptions | None = None,
        *,
        single: bool = False,
    ) -> None:
        self.follower = Follower(use_cache=False)
        self.host = Host(self.follower, single="one" if single else None)
        self._single = single
        self._runner = asyncio.Runner()
        sources = [] if logdir is None else [Source(str(logdir))]
        self.board = self.create("one", *sources, options=options)

    def __enter__(self) -> Ours:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(self, name: str, *sources: Source, options: BoardOptions | None = None) -> Board:
        """Another board."""
        board = self.host.create(name, options or BoardOptions(samples=10**9))
        for source in sources:
            board.add(source)
        assert self.follower.wait_until_loaded(PATIENCE)
        return board

    def look(self) -> None:
        """Sees what has changed by now."""
        assert self.follower.look(PATIENCE)

    headers: dict[bytes, bytes]  # of the last answer

    def close(self) -> None:
        self.host.close()
        self.follower.close()
        self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs something in the loop that all requests are answered in."""
        return self._runner.run(work)

    def get(self, path: str, /, **query: Any) -> Answer:
        return self.request("GET", path, query=query)

    def post(self, path: str, form: Any, /) -> Answer:
        return self.request("POST", path, form=form)

    def json(self, path: str, /, **query: Any) -> Any:
        """The JSON of an answer that must be one."""
        status, content_type, body = self.get(path, **query)
        assert (status, content_type) == (200, "application/json"), (path, query, status, body)
        return json.loads(body)

    def series(self, tag: str, **more: Any) -> dict[str, list[dict[str, Any]]]:
        """The points of a tag by run, as the Time Series dashboard is told."""
        wanted = json.dumps([{"plugin": "scalars", "tag": tag, **more}])
        status, _, body = self.post("/data/plugin/timeseries/timeSeries", {"requests": wanted})
        assert status == 200, body
        (answer,) = json.loads(body)
        found: dict[str, list[dict[str, Any]]] = answer["runToSeries"]
        return found

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Any = None,
        form: Any = None,
        headers: Headers = (),
        board: str = "one",
    ) -> Answer:
        """Any request; a query in bytes is sent as it is, and so is a body."""
        content_type = ""
        body = b""
        if isinstance(form, bytes):
            body = form
        elif isinstance(form, str):
            content_type, body = "application/json", form.encode()
        elif form is not None:
            builder = EnvironBuilder(method=method, data=form, content_type="multipart/form-data")
            environ = builder.get_environ()
            with environ["wsgi.input"] as sent_form:
                content_type, body = environ["CONTENT_TYPE"], sent_form.read()
        sent = [(b"content-type", content_type.encode())] if content_type else []
        if not isinstance(query, bytes):
            query = urlencode(query or {}, doseq=True).encode()
        scope = {
            "type": "http",
            "method": method,
            "path": path if self._single else f"/b/{board}{path}",
            "query_string": query,
            "http_version": "1.1",
            "headers": [*sent, *headers],
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 1),
        }
        status, self.headers, content = self.run(call(self.host, scope, body))
        return status, self.headers.get(b"content-type", b"").decode(), content


async def call(
    app: Any, scope: dict[str, Any], *chunks: bytes
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body of an ASGI application's answer."""
    sent: list[dict[str, Any]] = []
    waiting = [
        {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}
        for number, chunk in enumerate(chunks, 1)
    ]

    async def receive() -> dict[str, Any]:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), content
