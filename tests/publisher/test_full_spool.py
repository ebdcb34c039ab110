"""A state that cannot be saved is an error like one of the store: reported, and retried later."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.hub import eventually
from support.memory_buckets import Bucket
from support.records import frame
from tbhub.publisher import publisher as engine
from tbhub.publisher.__main__ import Watched
from tbhub.publisher.bulk import BULK
from tbhub.publisher.plan import Look
from tbhub.publisher.publisher import Backlog, Publisher
from tbhub.publisher.spool import Spool, SpoolError, all_spools, check_spool, make_spool
from tbhub.publisher.state import State, StateError

NAME = "run/events.out.tfevents.1.host"
PATIENCE = 30.0


class Disk:
    """The disk of the state; the test says when it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = True
        self.refusals = 0
        write_text = Path.write_text

        def write(path: Path, data: str) -> int:
            if self.is_full and path.name == ".state.json.tmp":
                self.refusals += 1
                write_text(path, data[:10])  # a part of it goes out
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write_text(path, data)

        monkeypatch.setattr(Path, "write_text", write)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    monkeypatch.setattr(engine, "_SLOW_PAUSE", 0.2)
    return Disk(monkeypatch)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    (made / "model.bin").write_bytes(b"model")
    return made


def publisher(directory: Path, bucket: Bucket) -> Publisher:
    state = directory.parent / "state.json"
    return Publisher(directory, bucket, "p", state=state, interval=0.05)


def test_a_state_that_cannot_be_saved_stays_as_it_was(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "state.json"
    state = State(path)
    disk.is_full = False
    state.set_whole("a", Look(1, 2, 3))
    state.save()
    before = path.read_bytes()
    disk.is_full = True
    state.set_whole("b", Look(4, 5, 6))
    with pytest.raises(StateError, match=r"state\.json.*No space left on device"):
        state.save()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    disk.is_full = False
    state.save()
    assert set(State(path).whole) == {"a", "b"}


def test_files_are_sent_although_the_state_cannot_be_saved(directory: Path, disk: Disk) -> None:
    bucket = Bucket()
    publishing = publisher(directory, bucket)
    left = publishing.publish()
    assert bucket.objects == {"p/model.bin": b"model"}
    assert (left.files, left.refused) == (0, ())
    assert "No space left on device" in left.problem
    assert publishing.is_stuck
    disk.is_full = False
    assert publishing.publish() == Backlog()
    assert not publishing.is_stuck


def test_publishing_is_done_when_there_is_room(directory: Path, disk: Disk) -> None:
    publishing = publisher(directory, Bucket())
    publishing.start()
    publishing.close(0.5)
    eventually(lambda: "No space left on device" in publishing.backlog.problem)
    assert publishing.is_alive
    assert disk.refusals < 10
    disk.is_full = False
    assert publishing.close(PATIENCE) == Backlog()
    assert publishing.is_done
    assert State(directory.parent / "state.json").whole.keys() == {"model.bin"}


def test_no_file_is_refused_because_the_state_cannot_be_saved(directory: Path, disk: Disk) -> None:
    (directory / "model.bin").unlink()
    file = directory / NAME
    file.parent.mkdir()
    records = b"".join(frame(b"%06d" % number * 100) for number in range(2000))
    file.write_bytes(records)
    bucket = Bucket()
    publishing = publisher(directory, bucket)
    left = publishing.publish()
    assert (left.files, left.refused) == (1, ())  # no second segment before the state is saved
    assert "No space left on device" in left.problem
    disk.is_full = False
    assert publishing.close(PATIENCE) == Backlog()
    assert b"".join(bucket.objects[name] for name in sorted(bucket.objects)) == records


def test_a_large_file_is_done_when_there_is_room(directory: Path, disk: Disk) -> None:
    (directory / "large.bin").write_bytes(bytes(BULK + 1))
    bucket = Bucket()
    publishing = publisher(directory, bucket)
    publishing.close(0.5)
    disk.is_full = False
    assert publishing.close(PATIENCE) == Backlog()
    assert len(bucket.objects["p/large.bin"]) == BULK + 1


def test_an_error_that_a_pass_does_not_expect_is_retried(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_SLOW_PAUSE", 0.2)
    passes: list[float] = []
    files = Publisher._files

    def fail(self: Publisher) -> object:
        passes.append(time.monotonic())
        if len(passes) < 3:
            raise RuntimeError("a fault of ours")
        return files(self)

    monkeypatch.setattr(Publisher, "_files", fail)
    publishing = publisher(directory, Bucket())
    publishing.start()
    eventually(lambda: "a fault of ours" in publishing.backlog.problem)
    assert publishing.is_stuck
    assert publishing.close(PATIENCE) == Backlog()
    assert passes[2] - passes[0] > 0.1  # not at once


@pytest.fixture
def waiting(tmp_path: Path) -> Spool:
    spool = make_spool(f"{tmp_path}/store")
    (spool.directory / "model.bin").write_bytes(b"model")
    return spool


def test_an_agent_waits_for_room_without_a_busy_loop(
    waiting: Spool, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    is_wanted = Spool.is_wanted

    def count(self: Spool) -> bool:
        looks.append(time.monotonic())
        return is_wanted(self)

    monkeypatch.setattr(Spool, "is_wanted", count)
    left = Watched(waiting, None).close(1.5)
    assert len(looks) < 10
    assert left.files == 1  # by what is recorded
    assert "No space left on device" in left.problem
    assert "No space left on device" in waiting.last_words()
    assert (waiting.directory / "model.bin").read_bytes() == b"model"
    disk.is_full = False
    assert Watched(waiting, None).close(PATIENCE) == Backlog()
    assert all_spools() == []


def test_an_agent_does_not_loop_when_publishing_has_stopped(waiting: Spool, disk: Disk) -> None:
    watched = Watched(waiting, None)
    publishing = watched.open()
    assert publishing is not None
    threading.Timer(0.3, publishing.stop).start()
    begun = time.monotonic()
    watched.close(PATIENCE)
    assert time.monotonic() - begun < PATIENCE / 2


@pytest.fixture
def full_spool(spool_root: Path, tmp_path: Path) -> Iterator[Spool]:
    """A spool directory with a file, on a file system without any room."""
    spool_root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tbhub-test", str(spool_root)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount a file system here: {done.stderr.strip()}")
    try:
        check_spool()
        spool = make_spool(f"{tmp_path}/store")
        file = os.open(spool.directory / "a", os.O_WRONLY | os.O_CREAT)
        with suppress(OSError):
            while os.write(file, bytes(4096)):
                pass
        os.close(file)
        yield spool
    finally:
        subprocess.run(["umount", "-l", str(spool_root)], check=True)


@pytest.mark.root
def test_a_spool_without_room_cannot_be_used(full_spool: Spool) -> None:
    with pytest.raises(SpoolError, match="No space left on device"):
        check_spool()


@pytest.mark.root
def test_sigterm_ends_an_agent_that_waits_for_room(full_spool: Spool, tmp_path: Path) -> None:
    told = json.dumps({"spool": str(full_spool.path), "credentials": None})
    agent = subprocess.Popen([sys.executable, "-m", "tbhub.publisher", "1"], stdin=subprocess.PIPE)
    try:
        assert agent.stdin is not None
        agent.stdin.write(told.encode() + b"\n")
        agent.stdin.close()  # the program has ended
        eventually((tmp_path / "store/a").exists)
        time.sleep(1.5)
        before = _cpu_seconds(agent.pid)
        time.sleep(1.0)
        assert _cpu_seconds(agent.pid) - before < 0.2
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(20) == 0
    finally:
        agent.kill()
        agent.wait()
    assert (full_spool.directory / "a").stat().st_size > 0


def _cpu_seconds(process: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
