"""What the proxies in front of a hub say of a request, believed of trusted ones only."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from tbhub.boards.wsgi import Scope

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Forwarded:
    """Proxies that are trusted, by address or network."""

    def __init__(self, trusted: Sequence[str]) -> None:
        self._trusted: list[_Network] = [
            ipaddress.ip_network(each, strict=False) for each in trusted
        ]

    def _trusts(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._trusted)

    def apply(self, scope: Scope) -> Scope:
        """The request as the client sent it to the first proxy."""
        client = scope.get("client")
        if not self._trusted or client is None or not self._trusts(client[0]):
            return scope
        headers = scope["headers"]
        changed: dict[str, Any] = {}
        scheme = _last(headers, b"x-forwarded-proto").lower()
        if scheme in ("http", "https"):
            changed["scheme"] = scheme.replace("http", "ws") if _is_websocket(scope) else scheme
        if address := self._client(headers):
            changed["client"] = (address, 0)
        if host := _last(headers, b"x-forwarded-host"):
            kept = [(name, value) for name, value in headers if name != b"host"]
            changed["headers"] = [*kept, (b"host", host.encode("latin-1"))]
        return {**scope, **changed}

    def _client(self, headers: list[tuple[bytes, bytes]]) -> str:
        """The last address that is not a trusted proxy's: what is before it anybody may say."""
        told = ",".join(
            value.decode("latin-1") for name, value in headers if name == b"x-forwarded-for"
        )
        for each in reversed(told.split(",")):
            address = each.strip()
            if address and not self._trusts(address):
                return address
        return ""


def _is_websocket(scope: Scope) -> bool:
    return bool(scope["type"] == "websocket")


def _last(headers: list[tuple[bytes, bytes]], wanted: bytes) -> str:
    for name, value in reversed(headers):
        if name == wanted:
            return value.decode("latin-1").rpartition(",")[2].strip()
    return ""
