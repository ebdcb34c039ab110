"""Where a hub reaches a host, and what the host proves itself by. Pure.

As it is told and kept, in one text: ``http://10.0.0.7:4711``, or where the host serves TLS
``https://10.0.0.7:4711#sha256=…``, behind it the fingerprint of the certificate it shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from tbhub.errors import TbhubError

_FORM = re.compile(r"(http://[^#/?\s]+|(https://[^#/?\s]+)#sha256=([0-9a-f]{64}))", re.ASCII)


class AddressError(TbhubError, ValueError):
    """What is told is no address of a host."""


@dataclass(frozen=True)
class HostAddress:
    """An address, taken apart.

    Attributes:
        url: Without a slash at its end.
        fingerprint: The sha256 of the only certificate that is the host's; none without TLS.
    """

    url: str
    fingerprint: bytes | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """The parts of an address as it was told.

        Raises:
            AddressError: It is none; TLS without a fingerprint would prove nothing.
        """
        found = _FORM.fullmatch(text)
        if found is None:
            wanted = "http://name:port or https://name:port#sha256=…"
            raise AddressError(f"a host's address is {wanted}, not {text!r}")
        plain, secure, digits = found.groups()
        return cls(plain) if secure is None else cls(secure, bytes.fromhex(digits))

    def __str__(self) -> str:
        if self.fingerprint is None:
            return self.url
        return f"{self.url}#sha256={self.fingerprint.hex()}"
