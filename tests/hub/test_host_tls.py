"""A hub whose hosts serve TLS: everything passes, and nobody stands between the two unseen."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import sqlite3
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import psutil
import pytest
from aiohttp import web

from support.conducted import running
from support.hub import PATIENCE, HubProcess, eventually
from tbhub import SummaryWriter
from tbhub.boards.host_address import HostAddress
from tbhub.boards.host_certificate import make_certificate
from tbhub.hub.host_link import HostImpostorError, HostLink
from tbhub.hub.proxy import HostGoneError, Proxy, Target
from tbhub.hub.upstream import ImpostorError, Upstream, UpstreamError

from .test_server import certificate

RUNS, POINTS = 10, 2500
NOT_ITS_OWN = "shows another certificate than the one it registered with"


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("tls") / "runs"
    for number in range(RUNS):
        with SummaryWriter(where / f"run {number}") as writer:
            for step in range(POINTS):
                writer.add_scalar("loss", step / 3 + number, step, walltime=1e9 + step / 7)
    return where


@pytest.fixture(scope="module", params=["http", "https"])
def hub(request: pytest.FixtureRequest, logdir: Path) -> Iterator[HubProcess]:
    """Two hubs: one hands large answers over, the other's pass through it and are TLS both ways."""
    own: dict[str, object] = {}
    if request.param == "https":
        own["tls_cert"], own["tls_key"] = certificate(logdir.parent)
    home = logdir.parent / request.param
    with HubProcess(home, logdirs=logdir, host_tls=True, **own) as hub:
        hub.wait_for_runs(RUNS)
        yield hub


@pytest.fixture(scope="module")
def board(hub: HubProcess) -> str:
    return str(hub.create_board(runs="all", options={"samples": POINTS})["id"])


def root(board: str) -> str:
    return f"/boards/{board[:8]}/"


def host_of(hub: HubProcess) -> tuple[HostAddress, str]:
    """Where its host is, and the secret."""
    with closing(sqlite3.connect(hub.home / "hub.db")) as database:
        found = database.execute("select address, secret from hosts where state = 'running'")
        address, secret = found.fetchone()
    return HostAddress.parse(address), secret


def host_pid(hub: HubProcess) -> int:
    line = next(line for line in hub.log.splitlines()[::-1] if ", process " in line)
    return int(line.rpartition("process ")[2])


# --- everything passes


def test_a_board_is_served(hub: HubProcess, board: str) -> None:
    with hub.client() as client:
        assert client.get(root(board)).headers["content-type"].startswith("text/html")
        assert client.get(f"{root(board)}data/runs").json()[0] == "run 0"
    (host,) = hub.json("GET", "/api/v1/status")["hosts"]
    assert host["address"].startswith("https://")


def test_large_answers_come_whole(hub: HubProcess, board: str) -> None:
    asked = {"requests": json.dumps([{"plugin": "scalars", "tag": "loss"}] * 13)}
    with hub.client() as client:
        for _ in range(3):
            found = client.post(f"{root(board)}data/plugin/timeseries/timeSeries", data=asked)
            assert len(found.content) > 7_000_000
            series = json.loads(found.content)
            assert [len(each["runToSeries"]) for each in series] == [RUNS] * 13
            assert len(series[12]["runToSeries"]["run 7"]) == POINTS


def test_points_of_runs_are_read(hub: HubProcess) -> None:
    runs = [each["id"] for each in hub.json("GET", "/api/v1/runs")["runs"]]
    found = hub.json("POST", "/api/v1/series/tags", json={"runs": runs})
    assert "loss" in json.dumps(found)


def test_news_come_as_they_happen(hub: HubProcess, board: str, logdir: Path) -> None:
    with hub.client() as client, client.stream("GET", f"{root(board)}tbhub/events") as stream:
        news = (line for line in stream.iter_lines() if line.startswith("data: "))
        first = next(news)
        assert json.loads(first.removeprefix("data: "))["runs"] == RUNS
        with SummaryWriter(logdir / "run 0") as writer:
            writer.add_scalar(f"of {hub.home.name}", 1.0, 0)
        assert next(news) != first


def test_who_knows_no_tls_and_no_secret_is_told_nothing(hub: HubProcess, board: str) -> None:
    address, secret = host_of(hub)
    where = urlsplit(address.url).netloc
    plain = http.client.HTTPConnection(where, timeout=PATIENCE)
    plain.request("GET", "/healthz")
    with pytest.raises((http.client.HTTPException, OSError)):
        plain.getresponse()
    plain.close()
    unchecked = ssl._create_unverified_context()
    for shown, status in (("", 401), (secret, 200)):
        secure = http.client.HTTPSConnection(where, timeout=PATIENCE, context=unchecked)
        headers = {"Authorization": f"Bearer {shown}"}
        secure.request("GET", f"/b/{board}/data/runs", headers=headers)
        assert secure.getresponse().status == status
        secure.close()


def test_no_host_registers_without_tls(hub: HubProcess) -> None:
    new = {"host": "local-1", "token": "x", "address": "http://10.0.0.7:80", "pid": 1}
    answer = hub.ask("POST", "/internal/hosts/register", json=new)
    assert answer.status_code == 422
    assert "http://10.0.0.7:80 is without TLS" in answer.text


def test_the_key_is_in_no_file(hub: HubProcess, board: str) -> None:
    for path in (hub.home / "hosts").iterdir():
        if path.is_file():
            assert b"PRIVATE KEY" not in path.read_bytes()
    opened = Path(f"/proc/{host_pid(hub)}/fd")
    assert not any("memfd:" in str(each.readlink()) for each in opened.iterdir())


def test_another_hub_process_goes_on_with_the_host(hub: HubProcess, board: str) -> None:
    before, pid = host_of(hub), host_pid(hub)
    hub.kill()
    hub.restart()
    hub.wait_for(board, "RUNNING")
    assert "run 0" in hub.json("GET", f"{root(board)}data/runs")
    assert host_of(hub) == before
    assert psutil.pid_exists(pid)


# --- somebody between


class Between:
    """Passes on what comes, by TLS with a certificate of its own, and remembers it."""

    def __init__(self, there: HostAddress) -> None:
        self.heard = b""
        self.callers = 0
        self._there = urlsplit(there.url)
        self._context, self.fingerprint = make_certificate()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self.callers += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with self._context.wrap_socket(client, server_side=True) as secure:
                while data := secure.recv(65536):
                    self.heard += data
        except OSError:
            pass  # who called has gone

    def close(self) -> None:
        self._listening.close()


def test_a_hub_tells_nothing_to_somebody_between(logdir: Path, tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home", logdirs=logdir, host_tls=True) as hub:
        hub.wait_for_runs(RUNS)
        board = str(hub.create_board(runs="#1")["id"])
        address, secret = host_of(hub)
        hub.kill()
        between = Between(address)
        moved = HostAddress(f"https://127.0.0.1:{between.port}", address.fingerprint)
        with closing(sqlite3.connect(hub.home / "hub.db")) as database, database:
            database.execute("update hosts set address = ?", (str(moved),))
        hub.restart()
        eventually(lambda: f"host local-1 {NOT_ITS_OWN}" in hub.log)
        answer = hub.ask("GET", f"{root(board)}data/runs")
        assert answer.status_code == 503
        assert NOT_ITS_OWN in answer.json()["error"]["message"]
        assert between.callers > 1
        assert between.heard == b""
        assert secret not in hub.log
        between.close()


@asynccontextmanager
async def serving(context: ssl.SSLContext, heard: list[str]) -> AsyncIterator[str]:
    """A host that answers everything, and what it was shown; its URL."""

    async def answer(request: web.Request) -> web.StreamResponse:
        heard.append(request.headers["authorization"])
        if request.path.endswith("/socket"):
            ws = web.WebSocketResponse()
            await ws.prepare(request)
            async for message in ws:
                await ws.send_str(message.data)
            return ws
        return web.json_response({"boards": []})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def to_socket(address: HostAddress) -> Target:
    def nothing(_: int) -> None: ...

    return Target(str(address), "s3cret", "/b/x/", "socket", "/boards/x/", nothing, nothing)


async def say(proxy: Proxy, target: Target, text: str) -> list[dict[str, Any]]:
    """What comes back by a websocket."""
    said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    found: list[dict[str, Any]] = []
    said.put_nowait({"type": "websocket.connect"})
    said.put_nowait({"type": "websocket.receive", "text": text})

    async def send(message: dict[str, Any]) -> None:
        found.append(message)
        if message["type"] == "websocket.send":
            said.put_nowait({"type": "websocket.disconnect", "code": 1000})

    scope = {"type": "websocket", "headers": [], "query_string": b"", "client": None}
    await proxy.websocket(scope, said.get, send, target)
    return found


@running
async def test_each_way_to_a_host_knows_its_certificate() -> None:
    context, fingerprint = make_certificate()
    heard: list[str] = []
    upstream, proxy = Upstream(), Proxy(1 << 20)
    async with serving(context, heard) as url, aiohttp.ClientSession() as session:
        its_own, anothers = HostAddress(url, fingerprint), HostAddress(url, b"\x07" * 32)
        headers = [(b"authorization", b"Bearer s3cret")]

        with pytest.raises(ImpostorError, match=f"{url} {NOT_ITS_OWN}"):
            await upstream.ask(str(anothers), "GET", "/", headers)
        with pytest.raises(HostGoneError, match=NOT_ITS_OWN):
            await say(proxy, to_socket(anothers), "hello")
        stranger = HostLink("local-1", session, {}, str(anothers), "s3cret")
        with pytest.raises(HostImpostorError, match=f"host local-1 {NOT_ITS_OWN}"):
            await stranger.health()
        with pytest.raises(HostImpostorError, match=f"host local-1 {NOT_ITS_OWN}"):
            await anext(stranger.news())
        assert heard == []

        for _ in range(2):  # the second on the same connection
            answer = await upstream.ask(str(its_own), "GET", "/", headers)
            assert answer.status == 200
            assert b"".join([piece async for piece in answer.pieces()]) == b'{"boards": []}'
            answer.close()
        there = await say(proxy, to_socket(its_own), "hello")
        assert {"type": "websocket.send", "text": "hello"} in there
        link = HostLink("local-1", session, {}, str(its_own), "s3cret")
        assert await link.health() == {"boards": []}
        # A connection that is open to the host is no other's.
        with pytest.raises(HostImpostorError):
            await stranger.health()
        assert heard == ["Bearer s3cret"] * 4
        upstream.close()
        await proxy.close()


@running
async def test_who_answers_without_tls_is_not_asked() -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(65536))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    upstream, began = Upstream(), time.monotonic()
    with pytest.raises(UpstreamError, match="cannot be reached"):
        await upstream.ask(
            str(HostAddress(f"https://127.0.0.1:{port}", b"\x07" * 32)),
            "GET",
            "/",
            [(b"authorization", b"Bearer s3cret")],
        )
    assert time.monotonic() - began < PATIENCE
    assert heard
    assert b"s3cret" not in b"".join(heard)
    server.close()
