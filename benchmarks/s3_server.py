"""A real S3 server (SeaweedFS) with one bucket, and a proxy in front of it that counts."""

from __future__ import annotations

import json
import re
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.boards import BIN
from benchmarks.measure import SCRATCH, changed_environment

BUCKET = "bench"
KEY, SECRET = "bench-key", "bench-secret"
_GRPC = 10_000  # a second port, so far from the first
_PATIENCE = 60.0
_REQUEST = re.compile(rb"(?:GET|HEAD|PUT|POST|DELETE) /\S* HTTP/1\.1\r\n")


class CountingProxy:
    """Passes everything on, and counts what it is asked."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self.requests = 0
        self.received = 0  # bytes of requests
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Takes no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._upstream))
        except OSError:  # it is about to end
            client.close()
            return
        with client, server:
            last = b""
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for each in ready:
                    try:
                        data = each.recv(1 << 16)
                    except OSError:
                        data = b""
                    if not data:
                        return
                    if each is client:
                        last = self._count(last, data)
                    (server if each is client else client).sendall(data)

    def _count(self, last: bytes, data: bytes) -> bytes:
        seen = last + data
        found = list(_REQUEST.finditer(seen))
        with self._lock:
            self.requests += len(found)
            self.received += len(data)
        return seen[max(found[-1].end() if found else 0, len(seen) - 4096) :]


class S3Server:
    """The server, its proxy, and the environment that leads there."""

    def __init__(self, directory: Path) -> None:
        port, master, volume, self._filer = _free_ports(4)
        identity = {
            "name": "bench",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
        config = directory / "s3.json"
        config.write_text(json.dumps({"identities": [identity]}))
        self.process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", str(BIN / "weed"), "server"),
                *(f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
                *("-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=60"),
                *("-filer", "-s3", f"-s3.port={port}"),
                *("-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.config={config}"),
                *(f"-master.port={master}", f"-volume.port={volume}"),
                f"-filer.port={self._filer}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=directory,
        )
        self._wait(port)
        self.proxy = CountingProxy(port)

    @property
    def environment(self) -> dict[str, str]:
        """For processes that are to find the server."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy.port}",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def close(self) -> None:
        """Ends both."""
        self.proxy.close()
        self.process.kill()
        self.process.wait()

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + _PATIENCE
        filer = f"http://127.0.0.1:{self._filer}/buckets/{BUCKET}/"
        for request in (
            urllib.request.Request(filer, method="POST"),
            urllib.request.Request(f"{filer}.ready", data=b"x", method="PUT"),
            urllib.request.Request(f"http://127.0.0.1:{port}/healthz"),
        ):
            while True:
                try:
                    with urllib.request.urlopen(request, timeout=5):
                        break
                except OSError:
                    if self.process.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError("SeaweedFS did not start") from None
                    time.sleep(0.05)


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            if port + _GRPC > 65535 or port in found:
                continue
            try:
                second.bind(("127.0.0.1", port + _GRPC))
            except OSError:
                continue
            found.append(port)
    return found


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server for the length of a comparison; processes started meanwhile find it."""
    directory = Path(tempfile.mkdtemp(prefix="weed-", dir=SCRATCH))
    server = S3Server(directory)
    try:
        with changed_environment(**server.environment):
            yield server
    finally:
        server.close()
        shutil.rmtree(directory, ignore_errors=True)
