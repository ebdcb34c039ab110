"""Checkpoints are published as soon as their program has closed all of their files."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
import threading
import time
from io import BufferedWriter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.conftest import no_environment
from support.live import eventually
from support.memory_buckets import Bucket
from support.records import frame
from tbhub.publisher import checkpoints, plan
from tbhub.publisher.checkpoints import checkpoint_directory, checkpoint_files
from tbhub.publisher.files import openness_of
from tbhub.publisher.manifest import MANIFEST
from tbhub.publisher.plan import Look, Openness
from tbhub.publisher.publisher import Backlog, Publisher
from tbhub.storage.errors import Unreachable
from tbhub.storage.source import FileSource
from tbhub.storage.store import WRITE

__all__ = ["no_environment"]

PATIENCE = 60.0
HOUR = 3600.0  # so that no file is left alone for long enough
BEFORE = time.time_ns() - 60 * 10**9


def looks(**modified: int) -> dict[str, Look]:
    """Files by their paths, in which ``__`` stands for a slash and ``_`` for a hyphen."""
    return {
        name.replace("__", "/").replace("_", "-"): Look(1, when, number)
        for number, (name, when) in enumerate(modified.items())
    }


def write(file: Path, data: bytes = b"x", seconds: int = 0) -> None:
    """Write a file and close it, so many seconds after `BEFORE`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    os.utime(file, ns=(BEFORE, BEFORE + seconds * 10**9))


def unfinished(files: dict[str, Look]) -> set[str]:
    return checkpoints.unfinished(checkpoint_files(files), files)


def newest_files(files: dict[str, Look]) -> dict[str, set[str]]:
    return checkpoints.newest_files(checkpoint_files(files), files)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    return made


def publisher(directory: Path, store: Bucket) -> Publisher:
    state = directory.parent / "state.json"
    return Publisher(directory, store, "p", state=state, interval=HOUR, with_manifest=True)


def published(store: Bucket) -> set[str]:
    return {entry.path.removeprefix("p/") for entry in store.list("p")} - {MANIFEST}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, set()),
        ({"model.pt": 1}, set()),
        ({"checkpoint_1__a": 1, "checkpoint_1__b": 2}, {"checkpoint-1"}),
        ({"checkpoint_1__a": 1, "checkpoint_1__b": 2, "checkpoint_2__a": 3}, {"checkpoint-2"}),
        # both are written at the same time
        (
            {"checkpoint_1__a": 1, "checkpoint_2__a": 2, "checkpoint_1__b": 3},
            {"checkpoint-1", "checkpoint-2"},
        ),
        # of another kind
        ({"checkpoint_1__a": 1, "epoch_1__a": 2}, {"checkpoint-1", "epoch-1"}),
        ({"out__checkpoint_1__a": 1, "checkpoint_2__a": 2}, {"out/checkpoint-1", "checkpoint-2"}),
        # event files and logs tell nothing
        ({"checkpoint_1__a": 1, "checkpoint_2__events.out.tfevents.1": 2}, {"checkpoint-1"}),
    ],
)
def test_unfinished_checkpoints(files: dict[str, int], expected: set[str]) -> None:
    assert unfinished(looks(**files)) == expected


@given(
    st.dictionaries(
        st.tuples(st.integers(1, 5), st.sampled_from("abc")).map("checkpoint-{0[0]}/{0[1]}".format),
        st.integers(0, 20),
    )
)
def test_the_checkpoint_that_was_changed_last_is_unfinished(modified: dict[str, int]) -> None:
    files = {path: Look(1, when, 0) for path, when in modified.items()}
    latest = max(modified.values(), default=0)
    last = {checkpoint_directory(path) for path, when in modified.items() if when == latest}
    assert last <= unfinished(files)
    assert set(map(checkpoint_directory, newest_files(files))) == {
        checkpoint_directory(path) for path in files
    }


def test_newest_file_of_each_checkpoint() -> None:
    files = looks(model=9, checkpoint_1__a=2, checkpoint_1__sub__b=1, step_2__a=5)
    assert newest_files(files) == {"checkpoint-1/a": {"checkpoint-1/sub/b"}, "step-2/a": set()}


def test_openness_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    assert openness_of(file) is Openness.UNKNOWN
    with file.open("wb") as opened:
        opened.write(b"x" * 8192)
        opened.flush()
        assert openness_of(file) is Openness.OPEN
    assert openness_of(file) is Openness.CLOSED
    with file.open("rb"):
        assert openness_of(file) is Openness.CLOSED
    with file.open("r+b") as opened:
        mapped = mmap.mmap(opened.fileno(), 0)
    assert openness_of(file) is Openness.OPEN
    mapped.close()
    assert openness_of(file) is Openness.CLOSED
    os.mkfifo(tmp_path / "pipe")
    assert openness_of(tmp_path / "pipe") is not Openness.CLOSED


def test_file_that_another_process_writes_to_is_open(tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    code = "import sys; file = open(sys.argv[1], 'wb'); print(flush=True); sys.stdin.read()"
    writer = subprocess.Popen(
        [sys.executable, "-c", code, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    writer.stdout.readline()
    assert openness_of(file) is Openness.OPEN
    writer.communicate(timeout=60)
    assert openness_of(file) is Openness.CLOSED


def test_file_is_published_once_it_is_closed(directory: Path) -> None:
    store = Bucket()
    publishing = publisher(directory, store)
    with (directory / "model.pt").open("wb") as opened:
        opened.write(b"half")
        opened.flush()
        os.utime(directory / "model.pt", ns=(BEFORE, BEFORE))
        publishing.advance()
        assert published(store) == set()
        opened.write(b" and half")
    write(directory / "model.pt", b"half and half", 1)
    publishing.advance()
    assert store.read("p/model.pt") == b"half and half"


def test_file_that_was_just_closed_may_be_opened_again(directory: Path) -> None:
    store = Bucket()
    file = directory / "model.pt"
    file.write_bytes(b"x")
    ahead = time.time_ns() + 60 * 10**9
    os.utime(file, ns=(ahead, ahead))
    publisher(directory, store).advance()
    assert published(store) == set()


def test_checkpoint_is_published_when_the_next_one_is_begun(directory: Path) -> None:
    store = Bucket()
    publishing = publisher(directory, store)
    write(directory / "checkpoint-1/model.pt")
    write(directory / "checkpoint-1/state.json", seconds=1)
    publishing.advance()
    assert published(store) == {"checkpoint-1/model.pt"}
    write(directory / "checkpoint-2/model.pt", seconds=2)
    publishing.advance()
    assert published(store) == {"checkpoint-1/model.pt", "checkpoint-1/state.json"}


def test_files_of_an_unfinished_checkpoint_do_not_wait_for_it(directory: Path) -> None:
    """But for the newest one, which completes it for a restore."""
    store = Bucket()
    publishing = publisher(directory, store)
    for seconds, name in enumerate("abc"):
        write(directory / "checkpoint-1" / name, seconds=seconds)
    publishing.advance()
    assert published(store) == {"checkpoint-1/a", "checkpoint-1/b"}


def test_file_that_is_replaced_while_it_is_uploaded_is_published_as_it_was(
    directory: Path,
) -> None:
    file = directory / "last.pt"

    class Slow(Bucket):
        """A store so slow that the file is replaced during the upload."""

        def put(self, path: str, data: bytes | FileSource) -> str:
            if path == "p/last.pt" and file.read_bytes() == b"first":
                write(directory / "last.pt.tmp", b"second", 1)
                (directory / "last.pt.tmp").replace(file)
            return super().put(path, data)

    store = Slow()
    write(file, b"first")
    publishing = publisher(directory, store)
    left = publishing.advance()
    assert (store.read("p/last.pt"), left.files) == (b"first", 1)
    publishing.publish()
    assert store.read("p/last.pt") == b"second"


def test_large_file_that_was_changed_during_its_upload_is_tried_again_later(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = directory / "last.pt"

    class Slow(Bucket):
        """A store so slow that the program writes to the file during the first upload."""

        def put(self, path: str, data: bytes | FileSource) -> str:
            if file.stat().st_mtime_ns == BEFORE:
                write(file, b"2" * (2 << 20), 1)
            return super().put(path, data)

    store = Slow()
    write(file, b"1" * (2 << 20))
    publishing = publisher(directory, store)
    monkeypatch.setattr(plan, "PACE", 0.05)

    def is_published() -> bool:
        publishing.advance()
        return published(store) == {"last.pt"}

    eventually(is_published)
    assert store.read("p/last.pt") == b"2" * (2 << 20)


def test_file_that_is_opened_again_before_its_upload_waits(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It seemed complete when the directory was looked at."""
    store = Bucket()
    file = directory / "model.pt"
    write(file, b"first")
    publishing = publisher(directory, store)
    list_objects = publishing._list  # comes between the look and the uploads
    left_open: list[BufferedWriter] = []

    def truncate() -> None:
        list_objects()
        opened = file.open("wb")
        opened.write(b"sec")
        opened.flush()
        left_open.append(opened)

    monkeypatch.setattr(publishing, "_list", truncate)
    publishing.advance()
    assert published(store) == set()
    left_open[0].write(b"ond")
    left_open[0].close()
    write(file, b"second", 1)
    publishing.advance()
    assert store.read("p/model.pt") == b"second"


def test_half_a_version_of_a_rewritten_file_is_never_published(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program has it open nearly all the time."""
    monkeypatch.setattr(plan, "PACE", 0.2)
    store = Bucket()
    file = directory / "last.pt"
    write(file, b"0123456789")
    publishing = publisher(directory, store)
    publishing.advance()
    for version in range(1, 4):
        whole = b"%d" % version * 10
        with file.open("wb") as opened:
            for byte in whole:
                opened.write(bytes([byte]))
                opened.flush()
                publishing.advance()
                time.sleep(0.05)
                publishing.advance()
                assert store.read("p/last.pt") in {b"0123456789", *(b"%d" % n * 10 for n in (1, 2))}
        write(file, whole, version)
        publishing.advance()
    assert store.read("p/last.pt") == b"3" * 10


def test_file_that_is_only_added_to_is_published_while_it_is_open(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PACE", 0.1)
    store = Bucket()
    publishing = publisher(directory, store)
    with (directory / "results.csv").open("wb") as opened:

        def is_published() -> bool:
            opened.write(b"row\n")
            opened.flush()
            publishing.advance()
            return published(store) == {"results.csv"}

        eventually(is_published)


def test_file_that_is_deleted_while_it_is_uploaded_is_published(directory: Path) -> None:
    file = directory / "last.pt"

    class Slow(Bucket):
        def put(self, path: str, data: bytes | FileSource) -> str:
            file.unlink()
            return super().put(path, data)

    store = Slow()
    write(file, b"first")
    publishing = publisher(directory, store)
    publishing.advance()
    assert store.read("p/last.pt") == b"first"
    assert publishing.advance() == Backlog()


@pytest.mark.parametrize("size", [1, 2 << 20])
def test_checkpoints_that_are_deleted_before_all_of_them_is_sent_are_published(
    directory: Path, size: int
) -> None:
    """Their program keeps the last two, and saves another one during each upload."""
    names = {"model.pt", "optimizer.pt", "state.json"}
    saving = threading.Lock()
    saved = 0

    def save() -> None:
        nonlocal saved
        with saving:
            saved += 1
            for seconds, name in enumerate(sorted(names)):
                data = b"%d" % (saved % 10) * size
                write(directory / f"checkpoint-{saved}" / name, data, 10 * saved + seconds)
            shutil.rmtree(directory / f"checkpoint-{saved - 2}", ignore_errors=True)

    class Slow(Bucket):
        def put(self, path: str, data: bytes | FileSource) -> str:
            if "checkpoint" in path:
                save()
            return super().put(path, data)

    store = Slow()
    publishing = publisher(directory, store)
    save()
    save()

    def complete() -> list[str]:
        found = checkpoint_files(published(store))
        return [each for each, stored in found.items() if stored == names]

    def is_published() -> bool:
        publishing.advance()
        return bool(complete())

    eventually(is_published)
    number = complete()[0].removeprefix("checkpoint-")
    for name in names:
        assert store.read(f"p/checkpoint-{number}/{name}") == number[-1].encode() * size
    publishing.stop(PATIENCE)


def test_checkpoint_that_is_changed_while_it_is_held_is_published_as_it_is_then(
    directory: Path,
) -> None:
    class Slow(Bucket):
        def put(self, path: str, data: bytes | FileSource) -> str:
            if path.endswith("a") and data.size == 1:  # type: ignore[union-attr]
                write(directory / "checkpoint-1/a", b"more", 3)
            return super().put(path, data)

    store = Slow()
    publishing = publisher(directory, store)
    for seconds, name in enumerate("abc"):
        write(directory / "checkpoint-1" / name, seconds=seconds)
    write(directory / "checkpoint-2/a", b"other", seconds=5)
    eventually(lambda: not publishing.publish().files)
    assert store.read("p/checkpoint-1/a") == b"more"
    assert published(store) == {f"checkpoint-1/{name}" for name in "abc"} | {"checkpoint-2/a"}


def test_points_logged_before_a_checkpoint_are_published_before_it(directory: Path) -> None:
    """Also points that would wait for more, because a segment was sent a moment ago."""
    store = Bucket()
    publishing = publisher(directory, store)
    log = directory / "events.out.tfevents.1.host"
    log.write_bytes(frame(b"first"))
    publishing.advance()
    with log.open("ab") as opened:
        opened.write(frame(b"second"))
    publishing.advance()
    assert store.puts.count(f"p/{log.name}.000001") == 1  # waits for more
    write(directory / "model.pt")
    publishing.advance()
    assert store.puts[-2:] == [f"p/{log.name}.000001", "p/model.pt"]
    assert store.read(f"p/{log.name}.000001") == log.read_bytes()


def test_large_checkpoint_does_not_change_the_pace_of_points_while_it_is_uploaded(
    directory: Path,
) -> None:
    uploading = threading.Event()

    class Slow(Bucket):
        """A store that takes long for large files."""

        def put(self, path: str, data: bytes | FileSource) -> str:
            if path == "p/model.pt":
                assert uploading.wait(60)
            return super().put(path, data)

    store = Slow()
    publishing = publisher(directory, store)
    log = directory / "events.out.tfevents.1.host"
    log.write_bytes(frame(b"first"))
    write(directory / "model.pt", b"x" * (2 << 20))
    for _ in range(3):
        with log.open("ab") as opened:
            opened.write(frame(b"more"))
        publishing.advance()
    assert len(store.puts) == 1
    uploading.set()
    eventually(lambda: published(store) == {f"{log.name}.000001", "model.pt"})


@pytest.mark.parametrize("size", [1, 2 << 20])
def test_checkpoint_that_is_replaced_while_points_are_sent_waits_for_its_own(
    directory: Path, size: int
) -> None:
    log = directory / "events.out.tfevents.1.host"

    def save(version: int) -> None:
        with log.open("ab") as opened:
            opened.write(frame(b"%d" % version))
        write(directory / "last.pt.tmp", b"%d" % version * size, version)
        (directory / "last.pt.tmp").replace(directory / "last.pt")

    class Slow(Bucket):
        """A store so slow that the next checkpoint is saved while points are sent."""

        def put(self, path: str, data: bytes | FileSource) -> str:
            version = super().put(path, data)
            if "tfevents" in path and len(self.puts) == 1:
                save(2)
            return version

    store = Slow()
    publishing = publisher(directory, store)
    save(1)

    def is_published() -> bool:
        publishing.advance()
        return "last.pt" in published(store)

    eventually(is_published)
    assert store.read("p/last.pt") == b"2" * size
    assert store.puts[-1] == "p/last.pt"
    assert store.read(f"p/{log.name}.000001") == log.read_bytes()


def test_checkpoint_waits_for_points_that_could_not_be_published(directory: Path) -> None:
    class Refusing(Bucket):
        """A store that is away when the event file is sent."""

        is_away = True

        def put(self, path: str, data: bytes | FileSource) -> str:
            if self.is_away and "tfevents" in path:
                raise Unreachable(WRITE, path, "the store is away")
            return super().put(path, data)

    store = Refusing()
    publishing = publisher(directory, store)
    (directory / "events.out.tfevents.1.host").write_bytes(frame(b"point"))
    write(directory / "model.pt")
    assert publishing.advance().files == 2
    assert published(store) == set()
    store.is_away = False
    assert publishing.advance() == Backlog()
    assert store.puts == ["p/events.out.tfevents.1.host.000001", "p/model.pt"]
