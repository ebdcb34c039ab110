"""Serves a host over HTTP: uvicorn on a socket, and an orderly end."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import threading
from contextlib import suppress
from typing import Protocol

import uvicorn

from tbhub.boards.host import Host
from tbhub.boards.wsgi import Receive, Scope, Send


class Served(Protocol):
    """An application with streams that end when it is closed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...
    def close(self) -> None: ...


def serve(host: Host, server: socket.socket) -> None:
    """Serves until interrupted; being told to end (SIGTERM) is as good."""
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(host, server))


async def _serve(host: Host, server: socket.socket) -> None:
    if threading.current_thread() is threading.main_thread():
        # uvicorn takes them over, and sends the one that ended it once more.
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.default_int_handler)
    await make_server(host).serve(sockets=[server])


def make_server(application: Served, tls: ssl.SSLContext | None = None) -> uvicorn.Server:
    """The server of a host, about to be run; with `tls` it speaks nothing else."""
    config = uvicorn.Config(
        application,
        http="httptools",
        loop="asyncio",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )
    config.load()
    config.ssl = tls
    return _Server(config, application)


class _Server(uvicorn.Server):
    """Ends the streams of open pages first: they would never end by themselves."""

    def __init__(self, config: uvicorn.Config, application: Served) -> None:
        super().__init__(config)
        self._application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._application.close()
        await super().shutdown(sockets)
