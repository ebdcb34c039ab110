"""Addresses of hosts, as they are told and kept."""

from __future__ import annotations

import pytest

from tbhub.boards.host_address import AddressError, HostAddress

DIGITS = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "url", "fingerprint"),
    [
        ("http://10.0.0.7:4711", "http://10.0.0.7:4711", None),
        ("http://[fd00::7]:80", "http://[fd00::7]:80", None),
        (f"https://node7:80#sha256={DIGITS}", "https://node7:80", bytes.fromhex(DIGITS)),
    ],
)
def test_an_address_is_taken_apart_and_put_together(
    text: str, url: str, fingerprint: bytes | None
) -> None:
    found = HostAddress.parse(text)
    assert (found.url, found.fingerprint) == (url, fingerprint)
    assert str(found) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node7:80",
        "ftp://node7",
        "http://",
        "http://node7:80/",
        "http://node7:80/control",
        f"http://node7:80#sha256={DIGITS}",
        "https://node7:80",
        "https://node7:80#sha256=",
        f"https://node7:80#sha256={DIGITS[1:]}",
        f"https://node7:80#sha256={DIGITS}0",
        f"https://node7:80#sha256={DIGITS}\n",
        f"https://node7:80#md5={DIGITS}",
    ],
)
def test_what_proves_nothing_is_no_address(text: str) -> None:
    with pytest.raises(AddressError, match="a host's address is"):
        HostAddress.parse(text)
