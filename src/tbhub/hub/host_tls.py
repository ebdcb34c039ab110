"""TLS from the hub to its hosts: a host is who shows the certificate it registered with.

No authority and no name is asked. Whoever shows a certificate has to have its key, or there is no
connection; and what it shows is compared before the first byte of a request is sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ssl

import aiohttp

from tbhub.boards.host_address import HostAddress

OTHER_CERTIFICATE = "shows another certificate than the one it registered with, and is not asked"


def context() -> ssl.SSLContext:
    """For connections that are then checked with `is_host`."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


def is_host(transport: asyncio.BaseTransport, fingerprint: bytes) -> bool:
    """Whether at the other end of a connection is who has the certificate."""
    shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True) or b""
    return hmac.compare_digest(hashlib.sha256(shown).digest(), fingerprint)


def for_aiohttp(address: HostAddress) -> aiohttp.Fingerprint | bool:
    """The `ssl` of a request, by which aiohttp does the same."""
    return True if address.fingerprint is None else aiohttp.Fingerprint(address.fingerprint)
