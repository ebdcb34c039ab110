"""The hub on a socket: uvicorn on uvloop, TLS if wanted, and an orderly end.

The address is bound and the home taken before anything is started, so that whoever comes second is
told at once. When it ends, streams are ended first: they would never end by themselves.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import uvicorn
import uvloop

from tbhub.api.problems import Unavailable
from tbhub.boards.sockets import ListenError, listen
from tbhub.database.engine import NO_DRIVER
from tbhub.errors import TbhubError
from tbhub.hub.app import create_app
from tbhub.hub.handover import WireProtocol
from tbhub.hub.hub import Hub
from tbhub.hub.logging import configure
from tbhub.hub.settings import DEFAULT_PORT, Settings

if TYPE_CHECKING:
    from tbhub.hub.lease import Lease

_GRACE = 3  # seconds requests have to be answered when the hub ends
_BACKLOG = 2048
LOST = 75  # exit code: to be started again, it will stand by
_KEPT: set[asyncio.Task[None]] = set()  # a task that nobody holds may vanish

logger = logging.getLogger("tbhub.hub")


class TlsError(TbhubError, OSError):
    """The certificate or its key cannot be used."""


def run(settings: Settings, on_ready: Callable[[Hub], None] | None = None) -> None:
    """Runs a hub until it is interrupted or told to end (SIGINT, SIGTERM).

    `on_ready` is called once, in the hub's thread, when it answers: `Hub.url` is its address,
    `Hub.open_url` the one to open in a browser. It must not take long.

    Raises:
        ListenError: The port is taken, or the address is not this machine's.
        HomeTakenError: Another hub runs on the home; names its process and address.
        HomeError: The home cannot be used.
        TlsError: The certificate or its key cannot be used.
        Unavailable: The database cannot be used.
    """
    gc.disable()  # nothing goes while everything is put together; see _settle
    configure(settings)
    with suppress(KeyboardInterrupt):
        uvloop.run(serve(settings, on_ready))


async def serve(settings: Settings, on_ready: Callable[[Hub], None] | None = None) -> None:
    """The same in a running event loop."""
    _check_tls(settings)
    with _listen(settings) as server:
        if settings.replicas:
            await _lead(settings, server)
        hub = Hub(settings, url=_url(settings, server))
        serving = _Server(_config(hub, settings), hub)
        try:
            await hub.start()
        except BaseException:
            await hub.stop()
            raise
        serving.on_ready = on_ready
        _take_signals()
        await serving.serve(sockets=[server])


async def _lead(settings: Settings, server: socket.socket) -> None:
    """Returns when this hub is to lead; the process ends when another may."""
    try:
        from tbhub.hub.lease import Lease
        from tbhub.hub.standby import stand_by
    except ModuleNotFoundError as error:
        raise Unavailable(NO_DRIVER) from error
    lease = Lease(settings.database_url, settings.replica_address or _address(settings, server))
    await stand_by(lease, server)
    logger.info("this hub leads")
    watching = asyncio.create_task(_end_without(lease))
    _KEPT.add(watching)


async def _end_without(lease: Lease) -> None:
    """Ends this process as a crash would when another hub may lead: what it does by itself must not
    go on, and the one that leads finds everything again."""
    await lease.until_lost()
    logger.critical("the lease on the database is lost; another hub may lead: this one ends")
    logging.shutdown()
    os._exit(LOST)


class _Server(uvicorn.Server):
    """A server that says when it is there, and ends what would not end by itself."""

    on_ready: Callable[[Hub], None] | None = None

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            _settle()
            logger.info("the hub is at %s", self._hub.url)
            if self.on_ready is not None:
                self.on_ready(self._hub)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logger.info("the hub ends")
        self._hub.bus.close()
        self._hub.visits.close()
        self._hub.series.close()
        await super().shutdown(sockets)
        await self._hub.stop()


def _settle() -> None:
    """Lets the garbage collector work, and spares it what is there to the end: looking through
    that took longer than most requests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    gc.enable()


def _config(hub: Hub, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(hub),
        http=WireProtocol,
        ws="websockets-sansio",
        ws_max_size=settings.max_body,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_GRACE,
        backlog=_BACKLOG,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )


def _listen(settings: Settings) -> socket.socket:
    try:
        return listen(settings.host, settings.port)
    except ListenError as error:
        if "in use" not in str(error):
            raise
        advice = "a hub may be running there already"
        other = settings.port + 1 if settings.port < 65535 else DEFAULT_PORT
        text = f"port {settings.port} of {settings.host} is in use: {advice}; or take --port"
        raise ListenError(f"{text} {other}") from None


def _url(settings: Settings, server: socket.socket) -> str:
    """Where the hub is reached from this machine."""
    scheme = "http" if settings.tls_cert is None else "https"
    return f"{scheme}://{_at(settings, server, '127.0.0.1')}{settings.base_path}"


def _address(settings: Settings, server: socket.socket) -> str:
    """Where the hub is reached from other machines."""
    return _at(settings, server, socket.gethostname())


def _at(settings: Settings, server: socket.socket, anywhere: str) -> str:
    """Host and port; `anywhere` stands for a host that listens on all addresses."""
    host = anywhere if settings.host in ("", "0.0.0.0", "::") else settings.host
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{server.getsockname()[1]}"


def _check_tls(settings: Settings) -> None:
    """Says what is wrong with a certificate before anything is started."""
    if settings.tls_cert is None or settings.tls_key is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key)
    except OSError as error:
        raise TlsError(
            f"cannot use {settings.tls_cert} with {settings.tls_key}: {error.strerror or error}"
        ) from error


def _take_signals() -> None:
    """uvicorn takes them over, and sends the one that ended it once more."""
    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.default_int_handler)


def main() -> None:
    """``python -m tbhub.hub``: a hub with settings from the environment alone.

    When it answers it prints its address and its process in one line of JSON.
    """

    def tell(hub: Hub) -> None:
        print(json.dumps({"url": hub.url, "pid": os.getpid()}), flush=True)

    try:
        run(Settings.load(), tell)
    except TbhubError as error:
        sys.exit(f"tbhub: {error}")
