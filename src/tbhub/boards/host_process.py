"""The process of a host: ``python -m tbhub.boards.host_process``.

Everything it must know comes by environment, where no other user can read it:

    TBHUB_HOST_ID         its name
    TBHUB_HOST_TOKEN      shown once to the hub, which answers with the secret it will use
    TBHUB_HUB_URL         where the hub is
    TBHUB_HUB_CERT        sha256 of the hub's own certificate, where it has one
    TBHUB_HOST_BIND       the address to listen on, 127.0.0.1 unless given; `auto`: the one of this
                          machine by which it reaches the hub
    TBHUB_HOST_PORT       the port to listen on, any unless given
    TBHUB_HOST_CONNECT    the address the hub reaches it by, where that is another; `name:port`
                          where the port is, too
    TBHUB_HOST_TLS        1: it serves TLS and nothing else, with a certificate that it makes
    TBHUB_HOST_HANDOVER   where a hub on the same machine hands clients over
    TBHUB_HOST_MEMORY     bytes of points kept in memory
    TBHUB_HOST_LOST_AFTER seconds without a hub after which it ends by itself

It outlives its hub: boards stay up while a hub is replaced, and the next one finds it again.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import hmac
import http.client
import json
import logging
import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import MutableMapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from socket import SOCK_DGRAM, getaddrinfo, socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tbhub.boards.host_address import HostAddress
from tbhub.boards.sockets import listen
from tbhub.errors import TbhubError

if TYPE_CHECKING:
    from tbhub.boards.control import Control
    from tbhub.boards.handover import Handovers
    from tbhub.boards.host import Host

LOST_AFTER = 600.0
AUTO = "auto"
_PATIENCE = 10.0  # seconds for one attempt to register
_LONGEST_PAUSE = 5.0
_CALM = 0.1  # seconds in which the first board comes, where one is waited for
_REFUSED = 3  # the exit code of a host that the hub does not want

logger = logging.getLogger("tbhub.host")


class RefusedError(TbhubError):
    """The hub does not know this host, or not any more."""


@dataclass(frozen=True)
class Config:
    """What a host is told."""

    host: str
    token: str
    hub: str
    certificate: str = ""
    bind: str = "127.0.0.1"
    port: int = 0
    connect: str = ""
    tls: bool = False
    handover: str = ""
    memory: int | None = None
    lost_after: float = LOST_AFTER

    @classmethod
    def take(cls, environment: MutableMapping[str, str]) -> Config:
        """Takes the configuration out of an environment; the token is not left behind in it."""
        memory = environment.get("TBHUB_HOST_MEMORY")
        return cls(
            host=environment["TBHUB_HOST_ID"],
            token=environment.pop("TBHUB_HOST_TOKEN"),
            hub=environment["TBHUB_HUB_URL"].rstrip("/"),
            certificate=environment.get("TBHUB_HUB_CERT", ""),
            bind=environment.get("TBHUB_HOST_BIND") or "127.0.0.1",
            port=int(environment.get("TBHUB_HOST_PORT") or 0),
            connect=environment.get("TBHUB_HOST_CONNECT", ""),
            tls=environment.get("TBHUB_HOST_TLS") == "1",
            handover=environment.get("TBHUB_HOST_HANDOVER", ""),
            memory=int(memory) if memory else None,
            lost_after=float(environment.get("TBHUB_HOST_LOST_AFTER") or LOST_AFTER),
        )


def start_logging() -> None:
    """Log to standard error, whose last lines are shown to the users of all boards here.

    Of libraries only warnings: the requests that they log name files of other boards.
    """
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("tbhub").setLevel(logging.INFO)


def main() -> None:
    """Serves until told to end, or until no hub has been heard of for long."""
    start_logging()
    try:
        config = Config.take(os.environ)
    except KeyError as error:
        sys.exit(f"a host is started by a hub, which sets its environment: {error} is missing")
    if os.getpid() == 1:  # of a container, where a signal does nothing by default
        signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    bind = _towards(config.hub) if config.bind == AUTO else config.bind
    server = listen(bind, config.port)
    tls, fingerprint = _certificate() if config.tls else (None, None)
    scheme = "https" if config.tls else "http"
    url = f"{scheme}://{in_url(config.connect or bind, server.getsockname()[1])}"
    address = str(HostAddress(url, fingerprint))
    secret: Future[str] = Future()
    # While all else is imported; who connects meanwhile waits.
    threading.Thread(target=_register, args=(config, address, secret), daemon=True).start()

    import uvloop

    from tbhub.boards.host import Host
    from tbhub.series.follower import Follower

    follower = Follower(budget=config.memory)
    host = Host(follower)
    try:
        code = uvloop.run(_serve(config, host, server, tls, secret))
    finally:
        follower.close()
    logger.info("host %s ends", config.host)
    sys.exit(code)


async def _serve(
    config: Config,
    host: Host,
    server: socket,
    tls: ssl.SSLContext | None,
    secret: Future[str],
) -> int:
    from tbhub.boards.control import Control
    from tbhub.boards.server import make_server

    def end() -> None:
        serving.should_exit = True

    control = Control(host, config.host, shutdown=end)
    serving = make_server(control, tls)
    try:
        control.secret = await asyncio.wrap_future(secret)
    except RefusedError as error:
        logger.error("host %s is not wanted: %s", config.host, error)
        return _REFUSED
    logger.info("host %s is registered with %s", config.host, config.hub)
    # uvicorn takes them over, and sends the one that ended it once more.
    received: list[int] = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: received.append(number))
    watching = asyncio.create_task(_until_lost(control, config.lost_after))
    watching.add_done_callback(lambda _: end())
    control.handovers = _handovers(config.handover)
    warming = threading.Thread(target=_warm_up, args=(host,), name="tbhub-warm", daemon=True)
    asyncio.get_running_loop().call_later(_CALM, warming.start)
    try:
        await serving.serve(sockets=[server])
    finally:
        if control.handovers is not None:
            control.handovers.close()
    watching.cancel()
    return 128 + received[0] if received else 0  # as if it did not catch the signal


def _certificate() -> tuple[ssl.SSLContext, bytes]:
    from tbhub.boards.host_certificate import make_certificate

    return make_certificate()


def _handovers(path: str) -> Handovers | None:
    from tbhub.boards.handover import Handovers

    if not path:
        return None
    try:
        return Handovers(path)
    except OSError as error:  # the path may be too long for a socket
        logger.info("large answers go through the hub: %s: %s", path, error)
        return None


async def _until_lost(control: Control, lost_after: float) -> None:
    """Waits until no hub has been heard of for long."""
    control.heard = time.monotonic()
    while True:
        left = lost_after if control.streams else control.heard + lost_after - time.monotonic()
        if left <= 0:
            logger.warning("no hub was heard of for %g s", lost_after)
            return
        await asyncio.sleep(left)


def _warm_up(host: Host) -> None:
    """Imports TensorBoard before somebody waits for it; what is there by then is there to stay."""
    with suppress(Exception):  # which is told when a page is asked for
        host.application  # noqa: B018 - waits for it
    gc.collect()
    gc.freeze()


# --- registering


def _register(config: Config, address: str, secret: Future[str]) -> None:
    """Tries until the hub has answered; it may be away for a while."""
    deadline = time.monotonic() + config.lost_after
    pause = 0.05
    while True:
        try:
            secret.set_result(_register_once(config, address))
            return
        except RefusedError as error:
            secret.set_exception(error)
            return
        except (OSError, http.client.HTTPException, ValueError) as error:
            if time.monotonic() > deadline:
                text = f"{config.hub} could not be reached: {error}"
                secret.set_exception(RefusedError(text))
                return
            logger.warning("cannot register with %s: %s", config.hub, error)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _register_once(config: Config, address: str) -> str:
    parts = urlsplit(config.hub)
    connection = _connect(config, parts.scheme, parts.hostname or "", parts.port)
    body = {
        "host": config.host,
        "token": config.token,
        "address": address,
        "pid": os.getpid(),
    }
    try:
        connection.request(
            "POST",
            f"{parts.path}/internal/hosts/register",
            json.dumps(body),
            {"content-type": "application/json"},
        )
        response = connection.getresponse()
        answer = response.read(65536)
    finally:
        connection.close()
    if response.status == 200:
        return str(json.loads(answer)["secret"])
    text = f"{response.status} {answer[:200].decode('utf-8', 'replace')}"
    if 400 <= response.status < 500 and response.status != 429:
        raise RefusedError(text)
    raise ValueError(text)


def _connect(
    config: Config, scheme: str, name: str, port: int | None
) -> http.client.HTTPConnection:
    if scheme != "https":
        return http.client.HTTPConnection(name, port, timeout=_PATIENCE)
    context = ssl.create_default_context()
    if config.certificate:
        # The hub's own certificate, whatever name it is for: known by its fingerprint.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection(name, port, timeout=_PATIENCE, context=context)
    if config.certificate:
        connection.connect()
        shown = connection.sock.getpeercert(binary_form=True) or b""
        if not hmac.compare_digest(hashlib.sha256(shown).hexdigest(), config.certificate):
            connection.close()
            raise RefusedError(f"{config.hub} shows another certificate than its own")
    return connection


def _towards(hub: str) -> str:
    """The address of this machine that packets to the hub go out from; none is sent."""
    parts = urlsplit(hub)
    try:
        family, kind, _, _, there = getaddrinfo(parts.hostname, 9, type=SOCK_DGRAM)[0]
        with socket(family, kind) as probe:
            probe.connect(there)
            return str(probe.getsockname()[0])
    except OSError as error:
        sys.exit(f"{hub} cannot be reached from this machine: {error}")


def in_url(address: str, port: int) -> str:
    """An address as it stands in a URL; one that has a port already keeps it."""
    if address.count(":") == 1 or "]:" in address:
        return address
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


if __name__ == "__main__":
    main()
