"""A reverse proxy that ends TLS, as nginx in front of a hub does.

It passes paths on as they are, streams both ways, sets `X-Forwarded-For`, `-Proto` and `-Host`, and
talks to the hub under the hub's own address.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_HOP_BY_HOP = {"connection", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """Write a self-signed certificate for localhost; return the certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, private = directory / "proxy.pem", directory / "proxy.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, private


@contextmanager
def tls_proxy(directory: Path, port: int, upstream: str, **headers: str) -> Iterator[str]:
    """Run a proxy on a port in front of `upstream` and yield its address.

    Args:
        directory: Where its certificate is written.
        upstream: The hub's own address, `http://host:port`.
        headers: What it adds to every answer, with `_` for `-`.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*make_certificate(directory))
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with aiohttp.ClientSession(
            auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
        ) as session:
            server = web.Server(lambda request: _forward(session, upstream, request, headers))
            runner = web.ServerRunner(server)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
            started.set()
            await stop.wait()
            for connection in server.connections:
                if connection.transport is not None:
                    connection.transport.abort()  # closing waits for the browser
            await runner.cleanup()
            await asyncio.sleep(0)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert started.wait(30), "the proxy did not start"
        yield f"https://localhost:{port}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


async def _forward(
    session: aiohttp.ClientSession,
    upstream: str,
    request: web.BaseRequest,
    added: Mapping[str, str],
) -> web.StreamResponse:
    headers = [(name, value) for name, value in request.headers.items() if not _is_hop(name)]
    headers += [
        ("X-Forwarded-For", request.remote or ""),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", request.headers["host"]),
    ]
    async with session.request(
        request.method,
        f"{upstream}{request.raw_path}",
        headers=headers,
        data=request.content if request.body_exists else None,
        allow_redirects=False,
    ) as answer:
        response = web.StreamResponse(status=answer.status)
        for name, value in answer.headers.items():
            if not _is_hop(name):
                response.headers.add(name, value)
        for name, value in added.items():
            response.headers.add(name.replace("_", "-"), value)
        await response.prepare(request)
        with suppress(ConnectionError):  # the browser has what it wants
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
        return response


def _is_hop(name: str) -> bool:
    return name.lower() in _HOP_BY_HOP
