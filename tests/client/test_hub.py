"""Clients and servers that fail in every way a server can: real sockets on both ends."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest

from tbhub import AsyncHub, Hub, HubUnreachable
from tbhub.api.problems import NotAuthenticated, NotFound, Unavailable
from tbhub.client import hub as hub_module
from tbhub.client import logins


class Scripted(ThreadingHTTPServer):
    """A server that does one thing after the other; remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: list[tuple[int, bytes]] = []
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/base"

    def will(self, status: int, body: Any) -> None:
        """Answers so, next; 0: breaks off."""
        self.script.append((status, body if isinstance(body, bytes) else json.dumps(body).encode()))


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.seen.append((self.command, self.path, dict(self.headers.items()), body))
        status, answer = self.server.script.pop(0)
        if status == 0:
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + answer)
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


VERSION = {"version": "9"}
BOARD = {
    "id": "x",
    "name": "a",
    "owner": "me",
    "state": "RUNNING",
    "selector": "all",
    "url": "http://a",
    "created": "2026-11-16T10:00:00Z",
    "active": "2026-11-16T10:00:00Z",
}
ENDED = {**BOARD, "state": "STOPPED", "ended": "2026-11-16T10:00:00Z"}
LINES = [
    {"id": n, "time": "2026-11-16T10:00:00Z", "level": "info", "text": f"line {n}"}
    for n in (1, 2, 3)
]


def ndjson(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def test_requests_to_a_hub_are_not_in_the_log_of_the_program(
    server: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(2):
        server.will(404, {"error": {"code": "not_found", "message": "no"}})
    with Hub(server.url, "t") as hub, pytest.raises(HubUnreachable):
        hub.run(1)
    assert caplog.records == []
    httpx2.get(server.url.replace("/base", "/other"), trust_env=False)
    assert "/other" in caplog.text


def test_a_call_goes_below_the_hubs_path_with_its_token(server: Scripted) -> None:
    server.will(200, VERSION)
    with Hub(server.url + "/", "tbh_x") as hub:
        assert hub.version() == VERSION
    method, path, headers, _ = server.seen[0]
    assert (method, path) == ("GET", "/base/api/v1/version")
    assert headers["authorization"] == "Bearer tbh_x"


def test_async_is_the_same(server: Scripted) -> None:
    server.will(200, VERSION)
    server.will(404, NotFound("no board x").to_json())

    async def ask() -> None:
        async with AsyncHub(server.url, "tbh_x") as hub:
            assert await hub.version() == VERSION
            with pytest.raises(NotFound, match="no board x"):
                await hub.board("x")

    asyncio.run(ask())
    assert server.seen[0][2]["authorization"] == "Bearer tbh_x"


@pytest.mark.parametrize(
    ("variables", "named", "hint"),
    [
        ({"TBHUB_TOKEN": "tbh_bad"}, "environment variable TBHUB_TOKEN", "set TBHUB_TOKEN"),
        ({"TBHUB_URL": "{url}?token=tbh_bad"}, "environment variable TBHUB_URL", "set TBHUB_URL"),
        ({"TBHUB_URL": "{url}"}, "logins.json", "`tbhub login {url}`"),
    ],
)
def test_rejected_token_is_named_by_its_origin(
    server: Scripted,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    named: str,
    hint: str,
) -> None:
    logins.remember(logins.StoredLogin(server.url, "tbh_bad", "ada"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(url=server.url))
    for _ in range(2):
        server.will(401, NotAuthenticated("The token is unknown.").to_json())

    async def ask() -> None:
        async with AsyncHub() as hub:
            await hub.me()

    with Hub() as hub, pytest.raises(NotAuthenticated) as raised:
        hub.me()
    with pytest.raises(NotAuthenticated) as raised_async:
        asyncio.run(ask())
    for error in (raised.value, raised_async.value):
        assert named in str(error)
        assert f"hint: {hint.format(url=server.url)}" in str(error).replace(
            "log in again with ", ""
        )
        assert "tbh_bad" not in str(error)


def test_wrong_password_is_not_blamed_on_a_token(server: Scripted) -> None:
    server.will(401, NotAuthenticated("The name or the password is wrong.").to_json())
    with Hub(server.url, "tbh_x") as hub, pytest.raises(NotAuthenticated, match="password is wron"):
        hub.login("ada", "wrong")


def test_a_question_survives_a_server_that_breaks_off(server: Scripted) -> None:
    server.will(0, b"{")
    server.will(503, Unavailable("the database is busy").to_json())
    server.will(200, VERSION)
    with Hub(server.url) as hub:
        assert hub.version() == VERSION


def test_a_change_is_not_sent_twice(server: Scripted) -> None:
    server.will(0, b"{")
    with Hub(server.url) as hub, pytest.raises(HubUnreachable, match="broke off"):
        hub.kill_board("x")
    assert len(server.seen) == 1


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Hub(url) as hub, pytest.raises(HubUnreachable, match="no hub answers at"):
            hub.version()


def test_somebody_who_never_answers() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Hub(url, timeout=0.2) as hub, pytest.raises(HubUnreachable, match="in time"):
            hub.kill_board("x")


def test_somebody_who_does_not_speak_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def speak() -> None:
            for _ in range(4):
                connection, _ = other.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"SSH-2.0-OpenSSH_9.0\r\n")

        thread = threading.Thread(target=speak)
        thread.start()
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        with Hub(url) as hub, pytest.raises(HubUnreachable):
            hub.version()
        thread.join()


def test_a_proxy_of_the_world_is_none_for_this_machine(
    server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    server.will(200, VERSION)
    with Hub(server.url) as hub:
        assert hub.version() == VERSION


def test_logs_are_followed_past_a_restart(
    server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "_AGAIN", 0.01)
    server.will(0, ndjson(LINES[0]))
    server.will(503, b"restarting")
    server.will(200, b"\n" + ndjson(LINES[1]))
    server.will(200, BOARD)
    server.will(200, ndjson(LINES[2]))
    server.will(200, ENDED)
    with Hub(server.url) as hub:
        assert [line.id for line in hub.follow_logs("x", tail=5)] == [1, 2, 3]
    assert [path.partition("?")[2] for _, path, _, _ in server.seen if "logs" in path] == [
        "tail=5&follow=true",
        "after=1&follow=true",
        "after=1&follow=true",
        "after=2&follow=true",
    ]


def test_logs_are_followed_by_coroutines(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "_AGAIN", 0.01)
    server.will(0, ndjson(LINES[0]))
    server.will(200, ndjson(LINES[1]))
    server.will(404, NotFound("no board x").to_json())

    async def follow() -> list[int]:
        async with AsyncHub(server.url) as hub:
            return [line.id async for line in hub.follow_logs("x")]

    assert asyncio.run(follow()) == [1, 2]


def test_logs_of_a_board_that_is_not_there(server: Scripted) -> None:
    server.will(404, NotFound("no board x").to_json())
    with Hub(server.url) as hub, pytest.raises(NotFound, match="no board x"):
        list(hub.follow_logs("x"))
