"""The bridge from an ASGI server to TensorBoard's WSGI application."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from tbhub.boards.wsgi import Response, call, read_body

Environ = dict[str, Any]


class Echo:
    """Remembers how it was called, and answers what it was told to."""

    def __init__(self, *headers: tuple[str, str], status: str = "200 OK") -> None:
        self.headers = [("Content-Type", "text/plain"), *headers]
        self.status = status
        self.environ: Environ = {}
        self.closed = False

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        self.environ = environ
        start_response(self.status, self.headers)
        return self

    def __iter__(self) -> Any:
        yield b"one "
        yield b"two"

    def close(self) -> None:
        self.closed = True


def ask(app: Any, body: bytes = b"", **scope: Any) -> Response:
    made = {
        "type": "http",
        "method": "GET",
        "query_string": b"",
        "http_version": "1.1",
        "headers": [],
        "server": ("example.org", 8080),
        **scope,
    }
    return call(app, made, body, "/b/one", "/data/runs", {"HTTP_BOARD": "one"})


def test_a_request_as_wsgi_has_it() -> None:
    app = Echo()
    response = ask(
        app,
        b"body",
        method="POST",
        query_string=b"a=%2F&b=\xe4",
        scheme="https",
        headers=[(b"content-type", b"text/x"), (b"x-one", b"1"), (b"host", b"example.org")],
    )
    environ = app.environ
    assert environ["REQUEST_METHOD"] == "POST"
    assert environ["SCRIPT_NAME"] == "/b/one"
    assert environ["PATH_INFO"] == "/data/runs"
    assert environ["QUERY_STRING"] == "a=%2F&b=\xe4"
    assert environ["SERVER_NAME"] == "example.org"
    assert environ["SERVER_PORT"] == "8080"
    assert environ["SERVER_PROTOCOL"] == "HTTP/1.1"
    assert environ["CONTENT_TYPE"] == "text/x"
    assert environ["CONTENT_LENGTH"] == "4"
    assert environ["HTTP_X_ONE"] == "1"
    assert environ["HTTP_HOST"] == "example.org"
    assert environ["wsgi.url_scheme"] == "https"
    assert environ["wsgi.input"].read() == b"body"
    assert response == Response(200, [(b"content-type", b"text/plain")], b"one two")
    assert app.closed


def test_headers_sent_twice_are_one_list() -> None:
    app = Echo()
    ask(app, headers=[(b"x-one", b"1"), (b"X-One", b"2"), (b"accept", b"a")])
    assert app.environ["HTTP_X_ONE"] == "1,2"


def test_headers_answered_twice_stay_two() -> None:
    response = ask(Echo(("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")))
    assert response.headers[1:] == [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]


@pytest.mark.parametrize(
    "name",
    [b"script-name", b"script_name", b"path-info", b"request-method", b"wsgi.input", b"board"],
)
def test_no_header_sets_what_the_server_says(name: bytes) -> None:
    app, plain = Echo(), Echo()
    ask(plain)
    ask(app, headers=[(name, b"x"), (b"http_" + name, b"x"), (b"HTTP-BOARD", b"x")])
    for key in ("SCRIPT_NAME", "PATH_INFO", "REQUEST_METHOD", "HTTP_BOARD", "wsgi.version"):
        assert app.environ[key] == plain.environ[key]
    assert app.environ["wsgi.input"].read() == b""


def test_what_the_server_has_dealt_with_is_not_passed_on() -> None:
    app = Echo()
    headers = [
        (b"content-length", b"999"),
        (b"transfer-encoding", b"chunked"),
        (b"content-encoding", b"gzip"),
        (b"accept-encoding", b"gzip"),
    ]
    ask(app, b"body", headers=headers)
    assert app.environ["CONTENT_LENGTH"] == "4"
    assert not [key for key in app.environ if "ENCODING" in key]


@pytest.mark.parametrize("path", ["/läufe/🙂", "/a b", "/", "/\udcff"])
def test_paths_are_bytes_in_disguise(path: str) -> None:
    app = Echo()
    scope = {
        "method": "GET",
        "query_string": b"",
        "http_version": "1.1",
        "headers": [],
        "server": None,
    }
    call(app, scope, b"", "/ä", path, {})
    encoded = app.environ["PATH_INFO"].encode("latin-1")
    assert encoded.decode("utf-8", "surrogateescape") == path
    assert app.environ["SCRIPT_NAME"].encode("latin-1").decode() == "/ä"


def test_a_status_of_any_kind() -> None:
    assert ask(Echo(status="404 Not Found")).status == 404
    assert ask(Echo(status="299")).status == 299


def test_an_application_that_raises_is_closed() -> None:
    class Bad(Echo):
        def __iter__(self) -> Any:
            yield b"one"
            raise ValueError("in the middle")

    app = Bad()
    with pytest.raises(ValueError, match="in the middle"):
        ask(app)
    assert app.closed


def test_the_last_start_counts() -> None:
    def app(environ: Environ, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        start_response("500 Oops", [("X", "1")], (None, None, None))
        return [b"oops"]

    assert ask(app) == Response(500, [(b"x", b"1")], b"oops")


def test_a_response_is_sent_whole() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(Response(201, [(b"a", b"b")], b"body").send(send))
    assert sent == [
        {"type": "http.response.start", "status": 201, "headers": [(b"a", b"b")]},
        {"type": "http.response.body", "body": b"body"},
    ]


def body_of(*messages: dict[str, Any], limit: int = 10) -> bytes | None:
    waiting = list(messages)

    async def receive() -> dict[str, Any]:
        return waiting.pop(0)

    return asyncio.run(read_body(receive, limit))


def test_a_body_in_pieces() -> None:
    pieces = [{"type": "http.request", "body": b"abc", "more_body": True}] * 3
    last = {"type": "http.request", "body": b"d"}
    assert body_of(*pieces, last) == b"abcabcabcd"
    assert body_of({"type": "http.request"}) == b""
    assert body_of(*pieces, {"type": "http.request", "body": b"de"}) is None
    # What is too large is not read to its end.
    assert body_of(*pieces, {**pieces[0]}, limit=11) is None


def test_a_client_that_goes_while_it_sends() -> None:
    piece = {"type": "http.request", "body": b"abc", "more_body": True}
    assert body_of(piece, {"type": "http.disconnect"}) is None
