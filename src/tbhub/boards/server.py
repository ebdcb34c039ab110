"""Serves a host over HTTP: uvicorn on a socket, and an orderly end."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from contextlib import suppress

import uvicorn

from tbhub.boards.host import Host


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


def make_server(host: Host) -> uvicorn.Server:
    """The server of a host, about to be run."""
    config = uvicorn.Config(
        host,
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
    return _Server(config, host)


class _Server(uvicorn.Server):
    """Ends the streams of open pages first: they would never end by themselves."""

    def __init__(self, config: uvicorn.Config, host: Host) -> None:
        super().__init__(config)
        self._host = host

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._host.close()
        await super().shutdown(sockets)
