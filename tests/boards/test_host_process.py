"""The process of a host: it registers, serves whoever has the secret, and does not outstay."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from support.conducted import PATIENCE, log, running
from tbhub.boards.host_address import HostAddress
from tbhub.boards.host_process import Config, in_url

COMMAND = [sys.executable, "-m", "tbhub.boards.host_process"]
Answer = Callable[[web.Request], Coroutine[Any, Any, web.Response]]


class Hub:
    """Where hosts register, and what they have said."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.url = ""
        self.registered: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._answer = answer

    async def register(self, request: web.Request) -> web.Response:
        if self._answer is not None:
            return await self._answer(request)
        await self.registered.put(await request.json())
        return web.json_response({"secret": "s3cret"})


@asynccontextmanager
async def hub(
    answer: Answer | None = None, context: ssl.SSLContext | None = None
) -> AsyncIterator[Hub]:
    made = Hub(answer)
    application = web.Application()
    application.router.add_post("/sub/internal/hosts/register", made.register)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    scheme = "http" if context is None else "https"
    made.url = f"{scheme}://127.0.0.1:{runner.addresses[0][1]}/sub"
    try:
        yield made
    finally:
        await runner.cleanup()


@asynccontextmanager
async def host(url: str, tmp_path: Path, **more: str) -> AsyncIterator[subprocess.Popen[str]]:
    environment = {
        **os.environ,
        "TBHUB_HOST_ID": "local-1",
        "TBHUB_HOST_TOKEN": "once",
        "TBHUB_HUB_URL": url,
        "TBHUB_CACHE_DIR": str(tmp_path / "cache"),
        **more,
    }
    with subprocess.Popen(COMMAND, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code of a process that ends by itself, and what it has told."""
    _, told = await asyncio.to_thread(process.communicate, None, PATIENCE)
    return process.returncode, told


async def ask(address: str, path: str, method: str = "GET", **more: Any) -> Any:
    headers = {"authorization": "Bearer s3cret"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, address + path, **more) as response,
    ):
        return await response.json()


@running
async def test_it_registers_once_and_serves_boards(tmp_path: Path) -> None:
    async with hub() as here, host(here.url, tmp_path) as process:
        asked = await here.registered.get()
        assert (asked["host"], asked["token"], asked["pid"]) == ("local-1", "once", process.pid)
        address = asked["address"]
        body = {"sources": [{"path": str(log(tmp_path / "a", 1)), "name": "a"}], "options": {}}
        state = await ask(address, "/control/boards/one", "PUT", json=body)
        assert state["has_data"]
        assert await ask(address, "/b/one/data/runs") == ["a"]
        async with aiohttp.ClientSession() as session:
            for path in ("/b/one/data/runs", "/control/health", "/"):
                async with session.get(address + path) as response:
                    assert response.status == 401
        process.send_signal(signal.SIGTERM)
        code, told = await ended(process)
        assert code == 128 + signal.SIGTERM
        assert "once" not in told
        assert "s3cret" not in told
        assert "Traceback" not in told


@running
async def test_it_ends_when_the_hub_says_so(tmp_path: Path) -> None:
    async with hub() as here, host(here.url, tmp_path) as process:
        address = (await here.registered.get())["address"]
        await ask(address, "/control/shutdown", "POST")
        assert (await ended(process))[0] == 0


@running
async def test_it_waits_for_a_hub_that_is_away(tmp_path: Path) -> None:
    calls = []

    async def answer(request: web.Request) -> web.Response:
        calls.append(await request.json())
        if len(calls) < 3:
            return web.Response(status=503)
        return web.json_response({"secret": "s3cret"})

    async with hub(answer) as here, host(here.url, tmp_path) as process:
        async with asyncio.timeout(PATIENCE):
            while len(calls) < 3:
                await asyncio.sleep(0.02)
        assert (await ask(calls[-1]["address"], "/control/health"))["pid"] == process.pid


@running
async def test_a_host_that_is_not_wanted_ends(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=401, text="no host is expected")

    async with hub(answer) as here, host(here.url, tmp_path) as process:
        code, told = await ended(process)
        assert code == 3
        assert "not wanted: 401 no host is expected" in told


@running
async def test_without_any_hub_it_ends(tmp_path: Path) -> None:
    async with hub() as here:
        async with host(here.url, tmp_path, TBHUB_HOST_LOST_AFTER="0.5") as process:
            code, told = await ended(process)
            assert code == 0
            assert "no hub was heard of" in told
        url = here.url
    async with host(url, tmp_path, TBHUB_HOST_LOST_AFTER="0.3") as process:
        code, told = await ended(process)
        assert code == 3
        assert "could not be reached" in told


@running
async def test_a_hub_that_listens_keeps_it(tmp_path: Path) -> None:
    async with hub() as here, host(here.url, tmp_path, TBHUB_HOST_LOST_AFTER="0.5") as process:
        address = (await here.registered.get())["address"]
        headers = {"authorization": "Bearer s3cret"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(address + "/control/events") as stream,
        ):
            assert await stream.content.readline() == b'data: {"boards":[]}\n'
            await asyncio.sleep(1.2)
            assert process.poll() is None
        assert (await ended(process))[0] == 0


def certificate(directory: Path) -> tuple[Path, str]:
    """A certificate and its key in a file, and its fingerprint."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hub.example")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = directory / "hub.pem"
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(made.public_bytes(pem) + private)
    return path, made.fingerprint(hashes.SHA256()).hex()


@running
async def test_a_hub_with_its_own_certificate_is_known_by_it(tmp_path: Path) -> None:
    from tbhub.hub.hosts import _fingerprint

    path, fingerprint = certificate(tmp_path)
    assert _fingerprint(path) == fingerprint
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    async with hub(context=context) as here:
        async with host(here.url, tmp_path, TBHUB_HUB_CERT=fingerprint):
            assert (await here.registered.get())["host"] == "local-1"
        async with host(here.url, tmp_path, TBHUB_HUB_CERT="0" * 64) as process:
            code, told = await ended(process)
            assert code == 3
            assert "another certificate" in told
        assert here.registered.empty()


@running
async def test_with_tls_it_registers_with_its_certificate(tmp_path: Path) -> None:
    async with hub() as here, host(here.url, tmp_path, TBHUB_HOST_TLS="1") as process:
        where = HostAddress.parse((await here.registered.get())["address"])
        assert where.fingerprint is not None
        pinned = aiohttp.Fingerprint(where.fingerprint)
        health = await ask(where.url, "/control/health", ssl=pinned)
        assert health["pid"] == process.pid
        with pytest.raises(aiohttp.ClientError):
            await ask(where.url.replace("https", "http"), "/control/health")
        process.send_signal(signal.SIGTERM)
        code, told = await ended(process)
        assert code == 128 + signal.SIGTERM
        assert "Traceback" not in told


def test_the_token_does_not_stay_in_the_environment() -> None:
    environment = {"TBHUB_HOST_ID": "h", "TBHUB_HOST_TOKEN": "once", "TBHUB_HUB_URL": "http://x/"}
    config = Config.take(environment)
    assert (config.token, config.hub, config.memory) == ("once", "http://x", None)
    assert "once" not in environment.values()


def test_by_hand_it_says_who_starts_it() -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("TBHUB")}
    done = subprocess.run(COMMAND, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("a host is started by a hub")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", "127.0.0.1:777"),
        ("node7:80", "node7:80"),
        ("::1", "[::1]:777"),
        ("[fd00::7]:80", "[fd00::7]:80"),
    ],
)
def test_addresses_stand_in_urls_as_they_must(address: str, expected: str) -> None:
    assert in_url(address, 777) == expected


def test_requests_of_libraries_are_not_logged() -> None:
    """The last lines of the log are shown to the users of all boards of a host."""
    code = """
import logging
from tbhub.boards.host_process import start_logging
start_logging()
logging.getLogger("httpx2").info("GET /api/v1/runs/28/files/secret")
logging.getLogger("httpx2").warning("a warning")
logging.getLogger("tbhub.host").info("of our own")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [line.split(" ", 3)[-1] for line in done.stderr.splitlines()] == [
        "a warning",
        "of our own",
    ]
