"""The certificate a host makes: its own, of no file, and never the same."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tbhub.boards.host_certificate import make_certificate


def shown(context: ssl.SSLContext, **limits: ssl.TLSVersion) -> bytes:
    """The certificate that a server shows."""
    there, here = socket.socketpair()

    def serve() -> None:
        with there, suppress(OSError):  # which the other end is told
            context.wrap_socket(there, server_side=True).close()

    thread = threading.Thread(target=serve)
    thread.start()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    for name, value in limits.items():
        setattr(client, name, value)
    try:
        with here, client.wrap_socket(here) as secure:
            return secure.getpeercert(binary_form=True) or b""
    finally:
        thread.join()


def test_what_is_shown_has_the_fingerprint() -> None:
    context, fingerprint = make_certificate()
    assert hashlib.sha256(shown(context)).digest() == fingerprint
    assert make_certificate()[1] != fingerprint


def test_nothing_older_is_spoken() -> None:
    context, _ = make_certificate()
    with pytest.raises(ssl.SSLError):
        shown(context, maximum_version=ssl.TLSVersion.TLSv1_2)


def test_no_key_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    before = set(os.listdir("/proc/self/fd"))
    make_certificate()
    assert set(os.listdir("/proc/self/fd")) == before
    assert not list(tmp_path.iterdir())
