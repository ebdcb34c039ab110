"""A board of ours over a log directory, asked like TensorBoard's own application (support.stock)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tbhub.boards.board import BoardOptions, Source
from tbhub.boards.host import Host
from tbhub.series.follower import Follower
from werkzeug.test import EnvironBuilder

Answer = tuple[int, str, bytes]


class Ours:
    """One board, fully loaded; requests go through the whole host but for the sockets."""

    def __init__(self, logdir: Path, options: BoardOptions | None = None, **more: Any) -> None:
        self.follower = Follower(use_cache=False, **more)
        self.host = Host(self.follower)
        self.board = self.host.create("one", options or BoardOptions(samples=10**9))
        self.board.add(Source(str(logdir)))
        assert self.follower.wait_until_loaded(60)

    def close(self) -> None:
        self.host.close()
        self.follower.close()

    def get(self, path: str, **query: Any) -> Answer:
        return self.request("GET", path, query=query)

    def post(self, path: str, form: Any) -> Answer:
        return self.request("POST", path, form=form)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Any = None,
        form: Any = None,
        headers: Any = (),
        board: str = "one",
    ) -> Answer:
        if isinstance(form, str):
            builder = EnvironBuilder(method=method, data=form, content_type="application/json")
        elif form is not None:
            builder = EnvironBuilder(method=method, data=form, content_type="multipart/form-data")
        else:
            builder = EnvironBuilder(method=method)
        environ = builder.get_environ()
        body = environ["wsgi.input"].read()
        sent = [(b"content-type", environ.get("CONTENT_TYPE", "").encode()), *headers]
        scope = {
            "type": "http",
            "method": method,
            "path": f"/b/{board}{path}",
            "query_string": urlencode(query or {}, doseq=True).encode(),
            "http_version": "1.1",
            "headers": sent,
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 1),
        }
        return asyncio.run(self._call(scope, body))

    async def _call(self, scope: dict[str, Any], body: bytes) -> Answer:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.host(scope, receive, send)
        headers = dict(sent[0]["headers"])
        content = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], headers.get(b"content-type", b"").decode(), content
