"""A real Azure store (Azurite): one for each process of tests, and only if one of them asks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from support.ports import free_port

ACCOUNT = "devstoreaccount1"
CONTAINER = "tests"
# Published by its maker; every Azurite has it.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_PROGRAM = Path(__file__).parents[2] / "build/azurite/node_modules/.bin/azurite-blob"
_PATIENCE = 60


class Azurite:
    """A server with one container, in memory."""

    def __init__(self) -> None:
        if not _PROGRAM.exists():
            pytest.fail("Azurite is not installed: make build/azurite/.ready")
        self.directory = Path(tempfile.mkdtemp(prefix="tbhub-azurite-"))
        self.port = free_port()
        self._log = (self.directory / "log").open("w+")
        # The server ends with the tests even if they are killed.
        self.process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", _PROGRAM, "--silent", "--inMemoryPersistence"),
                *("--blobHost", "127.0.0.1", "--blobPort", str(self.port)),
                *("--skipApiVersionCheck", "--disableTelemetry"),
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            cwd=self.directory,
        )
        self._create_container()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _create_container(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while True:
            headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
            signed = "PUT" + "\n" * 12
            signed += "".join(f"{name}:{value}\n" for name, value in headers.items())
            signed += f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
            digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
            headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
            request = urllib.request.Request(
                f"{self.url}/{CONTAINER}?restype=container", method="PUT", headers=headers
            )
            try:
                with urllib.request.urlopen(request, timeout=5):
                    return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self._log.seek(0)
                    pytest.fail(f"Azurite did not start: {error}\n{self._log.read()}")
                time.sleep(0.05)


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """The server."""
    server = Azurite()
    yield server
    server.close()
