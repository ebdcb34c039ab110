"""Clients' sockets, lent to hosts of this machine for the body of a large answer.

See `tbhub.boards.handover` for how the two speak. The head of an answer is the hub's, as always.
When nothing of it is left to be sent the host may have the client's socket, and the hub writes
nothing to it until the exchange with the host is over. Where a client cannot be lent (it speaks
TLS) or a host cannot be reached in this way, answers pass through as others do.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tbhub.boards.handover import Offer
from tbhub.boards.wsgi import Scope

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_EXTENSION = "tbhub.wire"
_METHODS = ("GET", "POST")
_MOMENT = 0.001  # seconds, while too many are on their way to a host


class WireProtocol(HttpToolsProtocol):
    """uvicorn's protocol, whose requests know their wire."""

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        # Not for a websocket; and of requests that came together each has its own.
        is_of_cycle = self.cycle is not None and self.cycle.scope is self.scope
        if is_of_cycle and self.scheme == "http":
            self.scope["extensions"] = {_EXTENSION: {"wire": Wire(self.cycle)}}


class Wire:
    """The way to the client that has sent a request."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    async def drained(self) -> int | None:
        """Waits until nothing is left to be sent; the client's socket, unless it is gone."""
        transport, flow = self._cycle.transport, self._cycle.flow
        if not transport.is_closing():
            transport.set_write_buffer_limits(0)
            await flow.drain()
        if transport.is_closing():
            return None
        transport.set_write_buffer_limits()
        found: int = transport.get_extra_info("socket").fileno()
        return found

    def sent(self, size: int) -> None:
        """So many bytes of the body have been sent by somebody else."""
        self._cycle.expected_content_length -= size


class Handovers:
    """Sends clients' sockets to hosts."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._unreachable: set[str] = set()

    def close(self) -> None:
        """Sends no more."""
        self._socket.close()

    def wire(self, scope: Scope, path: str | None) -> Wire | None:
        """The wire of a request, if it can be lent to the host that listens at `path`."""
        if path is None or path in self._unreachable or scope["method"] not in _METHODS:
            return None
        found: Wire | None = scope.get("extensions", {}).get(_EXTENSION, {}).get("wire")
        return found

    async def lend(self, wire: Wire, path: str | None, offer: Offer) -> int:
        """Lends a client to a host for an answer: for how many bytes; none if it cannot be."""
        while path is not None and (client := await wire.drained()) is not None:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", client))
            try:
                self._socket.sendmsg([offer.ticket], [rights], 0, path)
                return offer.size
            except BlockingIOError:
                await asyncio.sleep(_MOMENT)
            except OSError:
                # It will send the answer by way of us when it has waited enough.
                self._unreachable.add(path)
                break
        return 0
