"""An event file that is larger than anybody wants to have in memory.

`TBHUB_LARGE_BYTES` says how large; without it, as large as a test may take time for.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from storage.conftest import no_environment
from support.hub import HubProcess
from support.records import frame

SIZE = int(os.environ.get("TBHUB_LARGE_BYTES", 300 << 20))
NAME = "events.out.tfevents.1700000000.host"
MOST = 400 << 20  # bytes of memory, whatever the size
PATIENCE = 900

PUBLISH = """
import sys, time
from pathlib import Path
from tbhub.publisher.publisher import Backlog, Publisher
from tbhub.storage.open import open_store
directory, uri, url, token = sys.argv[1:]
store, prefix = open_store(uri, {"url": url, "token": token, "attempt": "1"} if url else None)
begun = time.monotonic()
publishing = Publisher(Path(directory), store, prefix, state=Path(directory).with_name("state"))
assert publishing.close(PATIENCE) == Backlog(), publishing.backlog
seconds = time.monotonic() - begun
print(Path("/proc/self/status").read_text(), seconds)
""".replace("PATIENCE", str(PATIENCE))

READ = """
import sys
from pathlib import Path
import tbhub
run = tbhub.load(sys.argv[1])["."]
print(Path("/proc/self/status").read_text(), len(run.scalars["loss"].steps))
"""

__all__ = ["no_environment"]


def peak(status: str) -> int:
    """The most memory a process has had, in bytes."""
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def python(code: str, *arguments: object) -> tuple[int, float]:
    """The most memory a program has had, and the number it says."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return peak(done.stdout), float(done.stdout.split()[-1])


def write_large(directory: Path) -> int:
    """Scalars between large things of other kinds; how many of them."""
    from tbhub._kernel import Sink

    file = directory / NAME
    large = frame(os.urandom(1 << 20))
    points = 0
    with file.open("wb") as opened:
        while opened.tell() < SIZE:
            sink = Sink(None)
            first = sink.take()  # the record every file begins with
            opened.write(b"" if points else first)
            for _ in range(100):
                sink.add_scalar("loss", float(points), points, 1.0)
                points += 1
            opened.write(sink.take() + large * 8)
    return points


def digest(file: Path) -> bytes:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()


@pytest.mark.usefixtures("no_environment")
def test_it_goes_through_a_hub_in_pieces(tmp_path: Path) -> None:
    directory = tmp_path / "files"
    directory.mkdir()
    points = write_large(directory)
    with HubProcess(tmp_path / "home") as hub:
        target = hub.json("POST", "/api/v1/runs", json={})["target"]
        memory, seconds = python(PUBLISH, directory, target, hub.url, hub.token)
        there = peak(Path(f"/proc/{hub.pid}/status").read_text())
        print(f"{SIZE} bytes in {seconds:.1f} s, {memory} bytes here, {there} in the hub")
        assert memory < MOST
        assert there < MOST
        stored = hub.home / "files" / "1"
        assert digest(stored / NAME) == digest(directory / NAME)
        memory, found = python(READ, stored)
        print(f"read with {memory} bytes")
        assert memory < MOST
        assert found == points
