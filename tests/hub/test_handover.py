"""Large answers that hosts write to the clients of their hub: whole, or seen to be broken off."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import uvloop
from uvicorn.protocols.http.flow_control import FlowControl

from support.hub import PATIENCE, HubProcess, eventually
from tbhub import SummaryWriter
from tbhub.hub.handover import Wire

RUNS, POINTS = 10, 2500
LEAST = 7_000_000  # bytes of an answer; more than the system keeps of what is not read
_TEXT = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("handover") / "runs"
    for number in range(RUNS):
        with SummaryWriter(where / f"run {number}") as writer:
            for step in range(POINTS):
                writer.add_scalar("loss", step / 3 + number, step, walltime=1e9 + step / 7)
    return where


@pytest.fixture(scope="module")
def hub(logdir: Path) -> Iterator[HubProcess]:
    with HubProcess(logdir.parent / "home", logdirs=logdir) as hub:
        hub.wait_for_runs(RUNS)
        yield hub


@pytest.fixture(scope="module")
def board(hub: HubProcess) -> str:
    return create(hub)


def create(hub: HubProcess) -> str:
    """The id of a board that is up."""
    return str(hub.create_board(runs="all", options={"samples": POINTS})["id"])


def path(board: str) -> str:
    return f"/boards/{board[:8]}/data/plugin/timeseries/timeSeries"


def form(times: int = 13) -> bytes:
    asked = json.dumps([{"plugin": "scalars", "tag": "loss"}] * times)
    return urlencode({"requests": asked}).encode()


def head(hub: HubProcess, board: str, body: bytes, version: str = "1.1") -> bytes:
    lines = (
        f"POST {path(board)} HTTP/{version}",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {hub.token}",
        f"Content-Type: {_TEXT}",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*lines, "", "")).encode()


def connect(hub: HubProcess, *, slowly: bool = False) -> socket.socket:
    """A connection; one that takes little at a time if it is to be in the middle for long."""
    parts = urlsplit(hub.url)
    client = socket.socket()
    client.settimeout(PATIENCE)
    if slowly:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((parts.hostname, parts.port))
    return client


def begun(
    hub: HubProcess, board: str, version: str = "1.1", *, slowly: bool = True
) -> tuple[socket.socket, http.client.HTTPResponse]:
    """An answer whose first bytes have come."""
    client = connect(hub, slowly=slowly)
    body = form()
    client.sendall(head(hub, board, body, version) + body)
    answer = http.client.HTTPResponse(client, method="POST")
    answer.begin()
    assert answer.status == 200
    assert int(answer.headers["content-length"]) > LEAST
    assert len(answer.read(1000)) == 1000
    return client, answer


def host_of(hub: HubProcess) -> tuple[str, str, int]:
    """Address, secret and process of the host."""
    with sqlite3.connect(hub.home / "hub.db") as database:
        found = database.execute("select address, secret from hosts where state = 'running'")
        address, secret = found.fetchone()
    database.close()
    pid = next(
        int(line.rpartition("process ")[2])
        for line in reversed(hub.log.splitlines())
        if f"is at {address}, process" in line
    )
    return address, secret, pid


def direct(hub: HubProcess, board: str) -> bytes:
    """The answer of the host itself."""
    address, secret, _ = host_of(hub)
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE)
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": _TEXT}
    below = path(board).removeprefix(f"/boards/{board[:8]}/")
    connection.request("POST", f"/b/{board}/{below}", form(), headers)
    content = connection.getresponse().read()
    connection.close()
    assert len(content) > LEAST
    return content


def asked(hub: HubProcess, board: str, **more: str) -> tuple[http.client.HTTPResponse, bytes]:
    """An answer by way of the hub, and its content."""
    connection = http.client.HTTPConnection(urlsplit(hub.url).netloc, timeout=PATIENCE)
    headers = {"Authorization": f"Bearer {hub.token}", "Content-Type": _TEXT, **more}
    connection.request("POST", path(board), form(), headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def has_read(hub: HubProcess) -> int:
    """How many bytes the hub has read from anywhere."""
    lines = Path(f"/proc/{hub.pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def sockets(pid: int) -> int:
    """How many sockets a process holds."""
    found = 0
    for each in os.listdir(f"/proc/{pid}/fd"):
        try:
            found += os.readlink(f"/proc/{pid}/fd/{each}").startswith("socket:")
        except FileNotFoundError:
            continue
    return found


# --- whole answers


def test_ten_at_once_are_what_the_host_answers(hub: HubProcess, board: str) -> None:
    expected = direct(hub, board)
    before = has_read(hub)
    counted = hub.json("GET", f"/api/v1/boards/{board}")["bytes"]
    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(lambda _: asked(hub, board)[1], range(20)))
    assert all(each == expected for each in found)
    # They did not come through the hub, which counts them all the same.
    assert has_read(hub) - before < len(expected)
    sent = 20 * len(expected)
    eventually(lambda: hub.json("GET", f"/api/v1/boards/{board}")["bytes"] >= counted + sent)


def test_the_head_is_the_hubs(hub: HubProcess, board: str) -> None:
    answer, content = asked(hub, board)
    assert answer.headers["content-length"] == str(len(content))
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
    assert "transfer-encoding" not in answer.headers
    assert "x-tbhub-handover" not in answer.headers


def test_a_connection_is_used_again(hub: HubProcess, board: str) -> None:
    expected = direct(hub, board)
    with hub.client() as client:
        port = None
        for _ in range(5):
            found = client.post(path(board), content=form(), headers={"content-type": _TEXT})
            assert found.content == expected
            assert client.get(f"/boards/{board[:8]}/data/runs").json()[0] == "run 0"
            stream = found.extensions["network_stream"].get_extra_info("client_addr")
            assert port in (None, stream)
            port = stream


def test_requests_that_come_together_are_answered_in_turn(hub: HubProcess, board: str) -> None:
    expected = direct(hub, board)
    body = form()
    request = head(hub, board, body) + body
    with connect(hub) as client, client.makefile("rb") as answers:
        client.sendall(3 * request)
        for _ in range(3):
            assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
            headers = http.client.parse_headers(answers)
            assert answers.read(int(headers["content-length"])) == expected


def test_an_old_client_gets_it_and_the_end(hub: HubProcess, board: str) -> None:
    client, answer = begun(hub, board, "1.0", slowly=False)
    assert answer.read() == direct(hub, board)[1000:]
    assert client.recv(1) == b""
    client.close()


def test_a_slow_reader_gets_it_and_holds_nobody_up(hub: HubProcess, board: str) -> None:
    expected = direct(hub, board)
    client, answer = begun(hub, board)
    assert asked(hub, board)[1] == expected
    assert hub.ask("GET", f"/boards/{board[:8]}/data/runs").status_code == 200
    assert answer.read() == expected[1000:]
    client.close()


# --- broken off


def test_a_client_that_goes_in_the_middle_leaves_nothing(hub: HubProcess, board: str) -> None:
    _, _, pid = host_of(hub)
    asked(hub, board)[1]
    before = eventually(lambda: sockets(pid))
    clients = [begun(hub, board) for _ in range(5)]
    try:
        # Their heads come a moment before the host has their sockets.
        eventually(lambda: sockets(pid) >= before + 5)
    finally:
        for client, answer in clients:
            answer.close()
            client.close()
    # The connections that the hub has opened for them go as well, or are kept for others.
    eventually(lambda: sockets(pid) <= before)
    assert asked(hub, board)[1] == direct(hub, board)


def test_who_may_not_gets_nothing(hub: HubProcess, board: str) -> None:
    for headers in (
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer wrong", "X-Tbhub-Handover": "1"},
    ):
        answer, _ = asked(hub, board, **headers)
        assert answer.status == 401
        assert "x-tbhub-handover" not in answer.headers
    address, _, _ = host_of(hub)
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE)
    below = path(board).removeprefix(f"/boards/{board[:8]}/")
    headers = {"X-Tbhub-Handover": "1", "Content-Type": _TEXT}
    connection.request("POST", f"/b/{board}/{below}", form(), headers)
    refused = connection.getresponse()
    assert (refused.status, refused.headers["x-tbhub-handover"]) == (401, None)
    connection.close()


def test_a_client_cannot_ask_for_it_itself(hub: HubProcess, board: str) -> None:
    answer, content = asked(hub, board, **{"X-Tbhub-Handover": "1"})
    assert "x-tbhub-handover" not in answer.headers
    assert content == direct(hub, board)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_client_is_lent_when_nothing_is_left_to_be_sent(run: Callable[..., None]) -> None:
    class Connection(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport
            self.flow = FlowControl(transport)  # type: ignore[arg-type]
            made.set_result(self)

        def pause_writing(self) -> None:
            self.flow.pause_writing()

        def resume_writing(self) -> None:
            self.flow.resume_writing()

    made: asyncio.Future[Any]

    async def test() -> None:
        nonlocal made
        loop = asyncio.get_running_loop()
        made = loop.create_future()
        server = await loop.create_server(Connection, "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            client.setblocking(False)
            connection = await made
            size = 0
            while not connection.transport.get_write_buffer_size():
                connection.transport.write(b"x" * 1000)
                size += 1000
                await asyncio.sleep(0)
            lent = asyncio.create_task(Wire(connection).drained())
            await asyncio.sleep(0)
            assert not lent.done()
            while size:
                size -= len(await loop.sock_recv(client, 1 << 20))
            assert await lent is not None
            assert connection.transport.get_write_buffer_size() == 0
            connection.transport.abort()
        server.close()

    run(test())


# --- as ever


def test_a_head_has_no_body(hub: HubProcess, board: str) -> None:
    with hub.client() as client:
        answer = client.head(f"/boards/{board[:8]}/data/plugin/timeseries/timeSeries")
        assert answer.content == b""
        assert client.get(f"/boards/{board[:8]}/data/runs").status_code == 200


@pytest.mark.parametrize("who", ["host", "hub"])
def test_a_process_that_dies_in_the_middle_is_seen(logdir: Path, tmp_path: Path, who: str) -> None:
    with HubProcess(tmp_path / "home", logdirs=logdir) as hub:
        hub.wait_for_runs(RUNS)
        board = create(hub)
        expected = direct(hub, board)
        _, _, host = host_of(hub)
        client, answer = begun(hub, board)
        before = has_read(hub)
        if who == "host":
            os.kill(host, signal.SIGKILL)
        else:
            hub.kill()
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)) as broken:
            answer.read()
        if isinstance(broken.value, http.client.IncompleteRead):
            assert expected[1000:].startswith(broken.value.partial)
        client.close()
        if who == "host":
            assert has_read(hub) - before < len(expected)
            # The board restarts on another host.
            eventually(lambda: "host local-2 is at" in hub.log)
            hub.wait_for(board, "RUNNING")
            assert asked(hub, board)[1] == expected
            return
        # The next hub finds the host, and where it takes clients.
        hub.restart()
        hub.wait_for(board, "RUNNING")
        before = has_read(hub)
        assert asked(hub, board)[1] == expected
        assert has_read(hub) - before < len(expected)
        # And if they cannot be handed over any more, answers come as others do.
        (place,) = (hub.home / "hosts").glob("*.sock")
        assert place.stat().st_mode & 0o777 == 0o600
        place.unlink()
        before = has_read(hub)
        for number in range(1, 4):
            assert asked(hub, board)[1] == expected
            assert has_read(hub) - before > number * len(expected)


def test_a_client_that_speaks_tls_gets_it_through_the_hub(logdir: Path, tmp_path: Path) -> None:
    from hub.test_server import certificate

    cert, key = certificate(tmp_path)
    with HubProcess(tmp_path / "home", tls_cert=cert, tls_key=key, logdirs=logdir) as hub:
        hub.wait_for_runs(RUNS)
        board = create(hub)
        with hub.client() as client:
            found: Any = client.post(path(board), content=form(), headers={"content-type": _TEXT})
        assert found.content == direct(hub, board)
