"""A WSGI application called from an ASGI server: one request, one answer, in a thread."""

from __future__ import annotations

import io
import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

# What the server has dealt with or will: the application gets and gives plain bytes.
_OURS = {"CONTENT_LENGTH", "TRANSFER_ENCODING", "CONTENT_ENCODING", "ACCEPT_ENCODING"}


@dataclass(frozen=True)
class Response:
    """A whole answer."""

    status: int
    headers: Headers
    body: bytes

    async def send(self, send: Send) -> None:
        """Sends it."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


def call(
    application: Callable[..., Iterable[bytes]],
    scope: Scope,
    body: bytes,
    root: str,
    path: str,
    extra: dict[str, str],
) -> Response:
    """Calls an application with a request; `root` is what stands before `path` in its address.

    `extra` are entries of the environment that a client cannot set.
    """
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]:
        started.append((status, headers))
        return lambda _: None

    environ = _environ(scope, body, root, path)
    environ.update(extra)
    chunks = application(environ, start_response)
    try:
        content = b"".join(chunks)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
    status, headers = started[-1]
    encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return Response(int(status.split(" ", 1)[0]), encoded, content)


def _environ(scope: Scope, body: bytes, root: str, path: str) -> dict[str, Any]:
    server = scope.get("server") or ("localhost", 80)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": _wsgi_text(root),
        "PATH_INFO": _wsgi_text(path),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        key = name.decode("latin-1").upper().replace("-", "_")
        text = value.decode("latin-1")
        if key == "CONTENT_TYPE":
            environ["CONTENT_TYPE"] = text
        elif key not in _OURS:
            key = f"HTTP_{key}"
            environ[key] = f"{environ[key]},{text}" if key in environ else text
    return environ


def _wsgi_text(text: str) -> str:
    """WSGI passes the bytes of a path as if they were Latin-1."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """The body of a request; None if it is larger than the limit."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            return None
        chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)
