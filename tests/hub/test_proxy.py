"""What passes through the hub to a board's host, and back: everything but who asks."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx2
import pytest
import uvicorn
from aiohttp import web

from support.hub import PATIENCE, HubProcess, eventually
from tbhub import SummaryWriter
from tbhub.api.models import State
from tbhub.boards.suspicion import MAX_CRASHES_ALONE
from tbhub.hub.access import Caller
from tbhub.hub.board_access import Access
from tbhub.hub.gate import Gate
from tbhub.hub.proxy import Proxy
from tbhub.hub.registry import Route
from tbhub.hub.settings import Settings
from tbhub.hub.upstream import Upstream, UpstreamError
from tbhub.hub.visits import Visits

RUNS, POINTS = 40, 2500


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    where = tmp_path_factory.mktemp("proxy")
    for number in range(RUNS):
        with SummaryWriter(where / "runs" / f"run {number:03}") as writer:
            for step in range(POINTS):
                writer.add_scalar("loss", step / 3 + number, step, walltime=1e9 + step / 7)
    with HubProcess(where / "home", logdirs=where / "runs") as hub:
        hub.wait_for_runs(RUNS)
        yield hub


@pytest.fixture(scope="module")
def board(hub: HubProcess) -> dict[str, Any]:
    return hub.create_board(runs="all", options={"samples": POINTS})


def root(board: dict[str, Any]) -> str:
    return f"/boards/{board['id'][:8]}/"


def time_series(board: dict[str, Any], times: int = 1) -> tuple[str, dict[str, str]]:
    asked = json.dumps([{"plugin": "scalars", "tag": "loss"}] * times)
    return f"{root(board)}data/plugin/timeseries/timeSeries", {"requests": asked}


# --- a real host


def test_the_page_and_its_files_come_through(hub: HubProcess, board: dict[str, Any]) -> None:
    with hub.client() as client:
        page = client.get(root(board))
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "frame-ancestors 'self'" in page.headers["content-security-policy"]
        assert page.headers["referrer-policy"] == "same-origin"
        start = page.text.index('src="../../static/') + len('src="../..')
        script = page.text[start : page.text.index('"', start)]
        found = client.get(script)
        assert found.status_code == 200
        assert "immutable" in found.headers["cache-control"]
        again = client.get(script, headers={"if-none-match": found.headers["etag"]})
        assert again.status_code == 304
        assert client.get(f"{root(board)}data/runs").json()[0] == "run 000"


def test_a_board_by_its_whole_id_is_sent_there(hub: HubProcess, board: dict[str, Any]) -> None:
    for path, there in (("", ""), ("/", ""), ("/data/runs?a=%2f", "data/runs?a=%2f")):
        answer = hub.ask("GET", f"/boards/{board['id']}{path}")
        assert (answer.status_code, answer.headers["location"]) == (308, f"{root(board)}{there}")


def test_a_board_without_its_slash_is_sent_there(hub: HubProcess, board: dict[str, Any]) -> None:
    answer = hub.ask("GET", f"{root(board).rstrip('/')}?a=b")
    assert (answer.status_code, answer.headers["location"]) == (308, f"{root(board)}?a=b")


def test_large_answers_come_whole(hub: HubProcess, board: dict[str, Any]) -> None:
    path, form = time_series(board, 3)
    with hub.client() as client:
        for _ in range(5):
            found = client.post(path, data=form)
            assert found.status_code == 200
            assert len(found.content) > 7_000_000
            series = json.loads(found.content)[0]["runToSeries"]
            assert len(series) == RUNS
            assert len(series["run 007"]) == POINTS


def test_many_at_once_do_not_mix(hub: HubProcess, board: dict[str, Any]) -> None:
    found: list[bool] = []

    def ask(number: int) -> None:
        tag = f"loss {number}"
        path = f"{root(board)}tbhub/scalars?run=run%20{number:03}&tag=loss&points=10"
        with hub.client() as client:
            for _ in range(10):
                answer = client.get(path)
                found.append(answer.is_success and tag is not None)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(found)) == 1
    assert len(found) == 160


def test_news_come_as_they_happen(hub: HubProcess, board: dict[str, Any]) -> None:
    with hub.client() as client, client.stream("GET", f"{root(board)}tbhub/events") as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        lines = stream.iter_lines()
        first = next(line for line in lines if line.startswith("data: "))
        assert json.loads(first.removeprefix("data: "))["runs"] == RUNS


def test_a_head_and_a_method_nobody_has(hub: HubProcess, board: dict[str, Any]) -> None:
    with hub.client() as client:
        head = client.head(f"{root(board)}data/runs")
        assert (head.status_code, head.content) == (200, b"")
        assert client.put(f"{root(board)}data/runs").status_code == 405
        assert client.get(f"{root(board)}nothing").status_code == 404
        # The connections are still good.
        assert client.get(f"{root(board)}data/runs").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "../../control/health",
        "%2e%2e/%2e%2e/control/health",
        "..%2f..%2fcontrol/health",
        "a/../../../control/boards/x",
        "..\\..\\control/health",
        "./data/runs",
    ],
)
def test_nobody_is_led_out_of_a_board(hub: HubProcess, board: dict[str, Any], path: str) -> None:
    parts = urlsplit(hub.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
    headers = {"Authorization": f"Bearer {hub.token}"}
    connection.request("GET", root(board) + path, headers=headers)
    answer = connection.getresponse()
    assert answer.status == 404
    assert b"rss" not in answer.read()
    connection.close()


def test_only_who_may_keeps_a_board_awake(hub: HubProcess, board: dict[str, Any]) -> None:
    def requests() -> int:
        return int(hub.json("GET", f"/api/v1/boards/{board['id']}")["requests"])

    before = requests()
    for _ in range(20):
        assert hub.ask("GET", f"{root(board)}data/runs", "").status_code == 401
    assert requests() == before
    hub.ask("GET", f"{root(board)}data/runs")
    assert eventually(lambda: requests() > before)


def test_a_client_that_goes_ends_its_stream_at_the_host(hub: HubProcess) -> None:
    board = hub.create_board(runs="#1, #2, #3")
    (host,) = hub.json("GET", "/api/v1/status")["hosts"]
    port = urlsplit(host["address"]).port

    def connections() -> int:
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        wanted = f"0100007F:{port:04X}"
        return sum(line.split()[2] == wanted and line.split()[3] == "01" for line in lines)

    with hub.client() as client:
        streams = [
            client.send(client.build_request("GET", f"{root(board)}tbhub/events"), stream=True)
            for _ in range(5)
        ]
        opened = connections()
        assert opened >= 5
        for each in streams:
            each.close()
        eventually(lambda: connections() <= opened - 5)


def test_a_stopped_board_wakes_when_its_page_is_visited(hub: HubProcess) -> None:
    board = hub.create_board(runs="#1, #2, #3, #4, #5")
    hub.json("POST", f"/api/v1/boards/{board['id']}/stop")
    hub.wait_for(board["id"], "STOPPED")
    # What an open page goes on asking does not wake it.
    answer = hub.ask("GET", f"{root(board)}data/runs")
    assert answer.status_code == 503
    assert answer.json()["error"]["details"]["state"] == "STOPPED"
    assert hub.json("GET", f"/api/v1/boards/{board['id']}")["state"] == "STOPPED"
    assert hub.ask("GET", root(board), "").status_code == 401
    assert hub.json("GET", f"/api/v1/boards/{board['id']}")["state"] == "STOPPED"
    assert hub.ask("GET", root(board)).status_code == 200
    assert hub.json("GET", f"/api/v1/boards/{board['id']}")["state"] == "RUNNING"


def test_an_ended_board_says_why(hub: HubProcess) -> None:
    board = hub.create_board(runs="#1, #2, #3, #4, #5", name="<i>mine</i>")
    hub.json("POST", f"/api/v1/boards/{board['id']}/kill")
    answer = hub.ask("GET", root(board), headers={"accept": "text/html"})
    assert answer.status_code == 410
    assert "It was killed." in answer.text
    assert "&lt;i&gt;mine&lt;/i&gt;" in answer.text
    assert "<i>" not in answer.text
    assert hub.ask("GET", root(board)).json()["error"]["details"]["state"] == "TERMINATED"


def kill_its_host(hub: HubProcess, board: dict[str, Any]) -> str:
    """Kill the process that serves a board; return the id of the host."""
    host = str(hub.wait_for(board["id"], "RUNNING")["host"])
    pid = next(
        int(line.partition("process ")[2])
        for line in reversed(hub.log.splitlines())
        if f"host {host} is at" in line
    )
    os.kill(pid, signal.SIGKILL)
    return host


def test_a_board_restarts_after_a_crash_until_it_is_given_up(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "runs" / "a") as writer:
        writer.add_scalar("loss", 1.0, 0)
    with HubProcess(tmp_path / "home", logdirs=tmp_path / "runs") as hub:
        hub.wait_for_runs(1)
        board = hub.create_board(runs="all")
        for _ in range(MAX_CRASHES_ALONE - 1):
            crashed = kill_its_host(hub, board)

            def is_back(crashed: str = crashed) -> bool:
                found = hub.json("GET", f"/api/v1/boards/{board['id']}")
                return bool(found["state"] == "RUNNING" and found["host"] != crashed)

            eventually(is_back, "the board did not restart")
            assert hub.ask("GET", root(board)).status_code == 200
        kill_its_host(hub, board)
        hub.wait_for(board["id"], "FAILED")
        said = hub.ask("GET", f"{root(board)}tbhub/events").json()["error"]
        assert said["message"].startswith("This board has failed. Host local-")
        assert said["details"]["next"] == {"label": "Start it again", "start": True}
        page = hub.ask("GET", root(board), headers={"accept": "text/html"})
        assert page.status_code == 410
        assert "ended unexpectedly" in page.text
        assert "Start it again" in page.text
        # The button of the page.
        again = hub.ask("POST", root(board))
        assert (again.status_code, again.headers["location"]) == (303, root(board))
        hub.wait_for(board["id"], "RUNNING")
        assert hub.ask("GET", root(board)).status_code == 200


def test_a_visit_starts_a_stopped_board_only_for_callers_who_may_start_it(
    hub: HubProcess,
) -> None:
    token = hub.create_user("demoted")
    board = hub.create_board(token, runs="#1, #2")
    share = hub.json(
        "POST", f"/api/v1/boards/{board['id']}/shares", token, json={"expires_in": 600}
    )
    reading = {"user": "demoted", "name": "reads", "scope": "read"}
    reads = hub.json("POST", "/api/v1/tokens", json=reading)["token"]

    def state() -> str:
        return str(hub.json("GET", f"/api/v1/boards/{board['id']}")["state"])

    def visit(shown: str, path: str = "", **headers: str) -> httpx2.Response:
        headers = {"accept": "text/html"} | headers
        return hub.ask("GET", f"{root(board)}{path}", shown, headers=headers)

    hub.json("POST", f"/api/v1/boards/{board['id']}/stop")
    eventually(lambda: visit(reads).status_code == 410)
    page = visit(reads)
    assert "Requires a token with scope write" in page.text
    assert "<form" not in page.text
    hub.json("PATCH", "/api/v1/users/demoted", json={"role": "viewer"})
    page = visit(token)
    assert (page.status_code, state()) == (410, "STOPPED")
    expected = "You cannot start this board. Requires role member; demoted has role viewer."
    assert expected in page.text
    assert "<form" not in page.text
    assert "你不能启动此看板。需要成员角色" in visit(token, **{"accept-language": "zh"}).text
    events = visit(token, "tbhub/events", accept="text/event-stream")
    assert events.json()["error"]["details"]["next"]["label"] == "Details"
    assert hub.ask("POST", root(board), token).status_code == 403
    assert state() == "STOPPED"
    with hub.client("", follow_redirects=True) as stranger:
        assert stranger.get(share["url"]).status_code == 200
    assert state() == "RUNNING"


# --- a host that tells what it was sent


ID = "12345678-0000-4000-8000-000000000000"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class OneBoard:
    """A conductor with one board, at a given address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.requests = 0
        self.open = 0

    def route(self, board: str) -> Route | None:
        if board != ID[:8]:
            return None
        return Route(ID, ID[:8], "one", 1, State.RUNNING, self.address, "host secret")

    def note_request(self, board_id: str, size: int) -> None:
        self.requests += 1

    def streams(self, board_id: str, change: int) -> None:
        self.open += change

    async def wake(self, board_id: str, timeout: float) -> None:
        raise AssertionError

    async def get(self, caller: Caller, board: str) -> Any:
        raise AssertionError

    async def start_board(self, caller: Caller, board: str) -> None:
        raise AssertionError


class Everybody:
    """An identity that knows one token."""

    def remembered(self, token: str) -> Caller | None:
        return Caller(1, "ada", "admin", "admin") if token == "good" else None

    def identify(self, token: str) -> Caller | None:
        return None


class Allowed:
    def remembered(self, caller: Caller, board_id: str) -> Access:
        return Access(True)


@asynccontextmanager
async def serving(application: Any, **options: Any) -> AsyncIterator[str]:
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            lifespan="off",
            log_level="error",
            ws="websockets-sansio",
            proxy_headers=False,
            **options,
        )
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        task = asyncio.create_task(server.serve(sockets=[listening]))
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        await task


@asynccontextmanager
async def behind_a_hub(
    handler: Handler, settings: Settings | None = None
) -> AsyncIterator[tuple[str, OneBoard, aiohttp.ClientSession]]:
    """A host that answers by `handler`, and a hub's front before it."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = runner.addresses[0]
    settings = settings or Settings(max_body=1 << 20)
    boards = OneBoard(f"http://127.0.0.1:{address[1]}")
    gate = Gate(Everybody(), settings, b"secret")  # type: ignore[arg-type]
    proxy = Proxy(settings.max_body)
    visits = Visits(boards, gate, Allowed(), None, proxy, settings)  # type: ignore[arg-type]
    cookies = {"Cookie": f"{gate.cookie}=good; other=value"}
    try:
        async with serving(visits) as url, aiohttp.ClientSession(headers=cookies) as session:
            yield f"http://{url}/boards/{ID[:8]}/", boards, session
    finally:
        await proxy.close()
        await runner.cleanup()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(PATIENCE):
            await test()

    asyncio.run(in_time())


async def tell(request: web.Request) -> web.Response:
    """What a host was asked."""
    headers = [[name.lower(), value] for name, value in request.headers.items()]
    body = await request.read()
    found = {"method": request.method, "path": request.raw_path, "headers": headers}
    return web.json_response(
        {**found, "size": len(body)},
        headers={
            "Set-Cookie": "a=b",
            "Server": "host",
            "X-Kept": "yes",
            "Connection": "keep-alive",
        },
    )


def test_no_cookie_and_no_token_goes_to_a_host() -> None:
    async def test() -> None:
        async with behind_a_hub(tell) as (url, _, session):
            sent = {
                "Authorization": "Bearer good",
                "X-Tbhub-User": "admin",
                "X-Forwarded-For": "10.0.0.1",
                "Forwarded": "for=10.0.0.1",
                "Referer": "http://hub/?token=x",
                "X-Kept": "yes",
                "Connection": "keep-alive, X-Dropped",
                "X-Dropped": "yes",
            }
            async with session.get(url + "data/x", headers=sent) as answer:
                found = dict((await answer.json())["headers"])
                assert found["authorization"] == "Bearer host secret"
                assert found["x-kept"] == "yes"
                for name in ("cookie", "x-tbhub-user", "x-forwarded-for", "forwarded", "referer"):
                    assert name not in found
                assert "x-dropped" not in found
                assert "good" not in json.dumps(found)
                assert "set-cookie" not in answer.headers
                assert answer.headers["x-kept"] == "yes"
                assert answer.headers.get("server") != "host"

    run(test)


@pytest.mark.parametrize(
    "path", ["a%2Fb/%C3%A9?x=%20+%26&y=a/b?c", "a//b", "%25%32%65", "a;b=c", "?", "a%00b?q=%00"]
)
def test_addresses_go_through_as_they_were_written(path: str) -> None:
    async def test() -> None:
        from yarl import URL

        async with behind_a_hub(tell) as (url, _, session):
            async with session.get(URL(url + path, encoded=True)) as answer:
                found = await answer.json()
            assert found["path"] == f"/b/{ID}/{path}".removesuffix("?")

    run(test)


@pytest.mark.parametrize("size", [0, 1, 70_000, 1 << 20])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_bodies_go_through(size: int, is_chunked: bool) -> None:
    async def test() -> None:
        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, size, 10_000):
                yield b"x" * min(10_000, size - start)

        async with behind_a_hub(tell) as (url, _, session):
            body: Any = pieces() if is_chunked else io.BytesIO(b"x" * size)
            async with session.post(url + "data/x", data=body) as answer:
                assert (await answer.json())["size"] == size

    run(test)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_too_large_a_body_is_refused(is_chunked: bool) -> None:
    async def test() -> None:
        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 65536

        async with behind_a_hub(tell) as (url, _, session):
            body: Any = endless() if is_chunked else io.BytesIO(b"x" * ((1 << 20) + 1))
            try:
                async with session.post(url + "data/x", data=body) as answer:
                    assert answer.status == 413
            except aiohttp.ClientOSError:
                pass  # it was still sending when the connection was closed
            async with session.get(url + "data/x") as answer:
                assert answer.status == 200

    run(test)


def test_a_redirect_of_the_host_is_one_of_the_hub() -> None:
    async def test() -> None:
        async def redirect(request: web.Request) -> web.Response:
            where = {
                "whole": f"http://{request.host}/b/{ID}/there?x=1",
                "path": f"/b/{ID}/there?x=1",
                "relative": "there?x=1",
            }[request.path.rpartition("/")[2]]
            return web.Response(status=302, headers={"Location": where})

        async with behind_a_hub(redirect) as (url, _, session):
            for kind in ("whole", "path", "relative"):
                async with session.get(url + kind, allow_redirects=False) as answer:
                    expected = f"/boards/{ID[:8]}/there?x=1" if kind != "relative" else "there?x=1"
                    assert answer.headers["location"] == expected

    run(test)


def test_a_stream_comes_piece_by_piece_and_counts_as_looking() -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def stream(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            await response.write(b"data: 1\n\n")
            await go_on.wait()
            await response.write(b"data: 2\n\n")
            return response

        async with behind_a_hub(stream) as (url, boards, session):
            async with session.get(url) as answer:
                assert await answer.content.readline() == b"data: 1\n"
                assert boards.open == 1
                go_on.set()
                assert (await answer.content.read()).endswith(b"data: 2\n\n")
            assert boards.open == 0
            assert boards.requests > 0

    run(test)


def test_a_client_that_goes_cancels_the_hosts_work() -> None:
    async def test() -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def slow(request: web.Request) -> web.StreamResponse:
            begun.set()
            response = web.StreamResponse()
            try:
                await response.prepare(request)
                while True:
                    await response.write(b"x" * 1000)
                    await asyncio.sleep(0.01)
            finally:
                cancelled.set()

        async with behind_a_hub(slow) as (url, boards, session):
            answer = await session.get(url)
            await begun.wait()
            answer.close()
            await cancelled.wait()
            assert boards.open == 0

    run(test)


def test_a_client_that_goes_before_the_answer_cancels_too() -> None:
    async def test() -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def never(request: web.Request) -> web.StreamResponse:
            begun.set()
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                cancelled.set()
            raise AssertionError

        async with behind_a_hub(never) as (url, _, session):
            task = asyncio.create_task(session.get(url))
            await begun.wait()
            task.cancel()
            await cancelled.wait()

    run(test)


def test_a_client_that_does_not_read_takes_no_memory() -> None:
    async def test() -> None:
        written = 0

        async def flood(request: web.Request) -> web.StreamResponse:
            nonlocal written
            response = web.StreamResponse(headers={"Content-Length": str(1 << 30)})
            await response.prepare(request)
            while written < 1 << 30:
                await response.write(b"x" * (1 << 20))
                written += 1 << 20
            return response

        async with behind_a_hub(flood) as (url, _, session):
            answer = await session.get(url)
            seen = -1
            while seen != written:  # until nothing moves any more
                seen = written
                await asyncio.sleep(0.3)
            assert written < 64 << 20
            answer.close()

    run(test)


def test_a_host_that_breaks_off_is_not_taken_for_done() -> None:
    async def test() -> None:
        async def broken(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b"half")
            assert request.transport is not None
            request.transport.abort()
            return response

        async with behind_a_hub(broken) as (url, _, session):
            with pytest.raises(aiohttp.ClientPayloadError):
                async with session.get(url) as answer:
                    await answer.read()

    run(test)


def test_a_host_that_is_not_there() -> None:
    async def test() -> None:
        async with behind_a_hub(tell) as (url, boards, session):
            boards.address = "http://127.0.0.1:9"
            async with session.get(url) as answer:
                assert answer.status == 503
                assert answer.headers["retry-after"] == "1"
                assert (await answer.json())["error"]["code"] == "unavailable"
            async with session.get(url, headers={"accept": "text/html"}) as answer:
                assert answer.status == 503
                assert "tries again" in await answer.text()

    run(test)


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_answer_is_an_error(answer: bytes) -> None:
    async def test() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        upstream = Upstream()

        async def ask() -> None:
            found = await upstream.ask(f"http://127.0.0.1:{port}", "GET", "/", [])
            async for _ in found.pieces():
                pass

        with pytest.raises(UpstreamError):
            await ask()
        upstream.close()
        server.close()

    run(test)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n\r\nall of it",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall of it, and more than it said",
        b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nall of it",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall of it",
    ],
)
def test_odd_answers_are_answers(answer: bytes) -> None:
    async def test() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        upstream = Upstream()
        for _ in range(2):
            found = await upstream.ask(f"http://127.0.0.1:{port}", "GET", "/", [])
            assert b"".join([piece async for piece in found.pieces()]) == b"all of it"
            found.close()
        upstream.close()
        server.close()

    run(test)


# --- websockets


async def echo(request: web.Request) -> web.StreamResponse:
    """Says what was said, and first what it was asked."""
    socket = web.WebSocketResponse(protocols=["b"])
    await socket.prepare(request)
    names = sorted(name.lower() for name in request.headers)
    await socket.send_json({"path": request.raw_path, "headers": names})
    async for message in socket:
        if message.type is aiohttp.WSMsgType.TEXT:
            if message.data == "close":
                await socket.close(code=4001)
            else:
                await socket.send_str(message.data)
        elif message.type is aiohttp.WSMsgType.BINARY:
            await socket.send_bytes(message.data)
    return socket


def test_websockets_go_through() -> None:
    async def test() -> None:
        async with (
            behind_a_hub(echo) as (url, boards, session),
            session.ws_connect(url + "socket?x=%20", protocols=["a", "b"], origin=url[:-17]) as ws,
        ):
            told = await ws.receive_json()
            assert told["path"] == f"/b/{ID}/socket?x=%20"
            assert "cookie" not in told["headers"]
            assert "authorization" in told["headers"]
            assert ws.protocol == "b"
            assert boards.open == 1
            await ws.send_str("häuser ☃")
            assert await ws.receive_str() == "häuser ☃"
            await ws.send_bytes(bytes(range(256)) * 1000)
            assert await ws.receive_bytes() == bytes(range(256)) * 1000
            await ws.send_str("close")
            assert (await ws.receive()).type is aiohttp.WSMsgType.CLOSE
            assert ws.close_code == 4001

    run(test)


def test_a_websocket_whose_client_goes_is_closed_at_the_host() -> None:
    async def test() -> None:
        closed = asyncio.Event()

        async def listen(request: web.Request) -> web.StreamResponse:
            try:
                return await echo(request)
            finally:
                closed.set()

        async with behind_a_hub(listen) as (url, boards, session):
            ws = await session.ws_connect(url + "socket")
            await ws.receive()
            await ws.close()
            await closed.wait()
            while boards.open:
                await asyncio.sleep(0.01)

    run(test)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("socket", {"Origin": "https://evil.example"}),
        ("socket", {"Cookie": "nothing=known"}),
        ("../00000000/socket", {}),
        ("%2e%2e/control", {}),
    ],
)
def test_websockets_are_authorised_as_all_else(path: str, headers: dict[str, str]) -> None:
    async def test() -> None:
        async with behind_a_hub(echo) as (url, boards, session):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(url + path, headers=headers)
            assert refused.value.status == 403
            assert boards.open == 0

    run(test)


def test_a_websocket_that_the_host_does_not_take() -> None:
    async def test() -> None:
        async with behind_a_hub(tell) as (url, _, session):
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect(url + "socket")

    run(test)
