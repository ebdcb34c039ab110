"""Where a server listens. Apart from the server: the address is known before that is loaded."""

from __future__ import annotations

import errno
import socket

from tbhub.errors import TbhubError

DEFAULT_PORT = 6006
ALL = ""
"""The address that means all of this machine's."""
_PORTS_TRIED = 100


class ListenError(TbhubError, OSError):
    """The address that was wanted cannot be had."""


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket; without a port the default one or the next that is free.

    Raises:
        ListenError: The port given is taken, or the address is not this machine's.
    """
    wanted = [port] if port is not None else [*range(DEFAULT_PORT, DEFAULT_PORT + _PORTS_TRIED), 0]
    for each in wanted:
        try:
            return _bind(host, each)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                reason = error.strerror or str(error)
                raise ListenError(f"cannot listen on {host} port {each}: {reason}") from error
    where = "this machine" if host == ALL else host
    text = f"port {port} of {where} is in use; leave --port out to take the next free one"
    raise ListenError(text)


def _bind(host: str, port: int) -> socket.socket:
    if host == ALL:
        try:
            return _bind_one("::", port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
            return _bind_one("0.0.0.0", port)  # a machine without IPv6
    return _bind_one(host, port)


def _bind_one(host: str, port: int) -> socket.socket:
    wanted = socket.AF_INET if host == "localhost" else socket.AF_UNSPEC
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, wanted, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    server = socket.socket(family, kind, protocol)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(address)
        server.listen(128)
    except BaseException:
        server.close()
        raise
    return server
