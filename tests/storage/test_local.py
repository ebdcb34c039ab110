"""This machine's files: like a dictionary, and gentle with what else is there."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tbhub.storage.errors import BadName, Conflict, NotFound, StoreError
from tbhub.storage.local import LocalStore
from tbhub.storage.open import open_store
from tbhub.storage.source import FileSource

PARTS = st.sampled_from(["a", "b", "a b", "ü", "%2f", "#", "a..b", "\n"])
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
DATA = st.binary(max_size=20)


class LikeADictionary(RuleBasedStateMachine):
    """Random operations on a store and on a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.store = LocalStore(self.directory.name)
        self.model: dict[str, bytes] = {}
        self.versions: dict[str, str] = {}
        self.old: set[str] = {"0-0-0"}

    def teardown(self) -> None:
        self.directory.cleanup()

    def fits(self, path: str) -> bool:
        """A file system holds no file where a directory is, nor the other way round."""
        return not any(
            known.startswith(f"{path}/") or path.startswith(f"{known}/") for known in self.model
        )

    def keep(self, path: str, data: bytes, version: str) -> None:
        if path in self.versions:
            self.old.add(self.versions[path])
        assert version not in self.old
        self.model[path], self.versions[path] = data, version

    @rule(path=PATHS, data=DATA)
    def put(self, path: str, data: bytes) -> None:
        if self.fits(path):
            self.keep(path, data, self.store.put(path, data))
        else:
            with pytest.raises(BadName):
                self.store.put(path, data)

    @rule(path=PATHS, data=DATA)
    def put_if_absent(self, path: str, data: bytes) -> None:
        if not self.fits(path):
            with pytest.raises(BadName):
                self.store.put_if_absent(path, data)
        elif path in self.model:
            with pytest.raises(Conflict):
                self.store.put_if_absent(path, data)
        else:
            self.keep(path, data, self.store.put_if_absent(path, data))

    @rule(path=PATHS, data=DATA, stale=st.booleans())
    def put_if_unchanged(self, path: str, data: bytes, stale: bool) -> None:
        if not self.fits(path):
            return
        if stale or path not in self.model:
            with pytest.raises(Conflict):
                self.store.put_if_unchanged(path, data, min(self.old))
        else:
            version = self.store.put_if_unchanged(path, data, self.versions[path])
            self.keep(path, data, version)

    @rule(path=PATHS)
    def delete(self, path: str) -> None:
        self.store.delete(path)
        self.model.pop(path, None)

    @rule(path=PATHS)
    def delete_below(self, path: str) -> None:
        gone = [known for known in self.model if known.startswith(f"{path}/")]
        assert self.store.delete_below(path) == len(gone)
        for known in gone:
            del self.model[known]

    @rule(path=PATHS, offset=st.integers(0, 25), size=st.none() | st.integers(0, 25))
    def read(self, path: str, offset: int, size: int | None) -> None:
        if path not in self.model:
            with pytest.raises(NotFound):
                self.store.read(path, offset, size)
            return
        end = None if size is None else offset + size
        assert self.store.read(path, offset, size) == self.model[path][offset:end]

    @rule(path=PATHS)
    def list_below(self, path: str) -> None:
        listed = {entry.path for entry in self.store.list(path)}
        assert listed == {known for known in self.model if known.startswith(f"{path}/")}

    @invariant()
    def is_the_same(self) -> None:
        listed = {entry.path: (entry.size, entry.version) for entry in self.store.list("")}
        assert listed == {
            path: (len(data), self.versions[path]) for path, data in self.model.items()
        }


TestLikeADictionary = LikeADictionary.TestCase
TestLikeADictionary.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


def test_a_plain_path_and_a_file_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/a%20b").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for uri in ("runs", "./runs/", f"file://{tmp_path}/runs", "~/runs"):
        store, path = open_store(uri)
        assert store.read(f"{path}/a%20b") == b"x"
        assert [entry.size for entry in store.list(path)] == [1]


def test_links_are_not_followed_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_bytes(b"keep")
    store = LocalStore(tmp_path)
    store.put("runs/a", b"a")
    (tmp_path / "runs/link").symlink_to(outside)
    (tmp_path / "runs/loop").symlink_to(tmp_path / "runs")
    (tmp_path / "runs/nowhere").symlink_to(tmp_path / "none")
    assert [entry.path for entry in store.list("runs")] == ["runs/a"]
    store.delete_below("runs")
    assert (outside / "keep").read_bytes() == b"keep"
    assert not (tmp_path / "runs").exists()
    (tmp_path / "runs").symlink_to(outside)
    with pytest.raises(StoreError, match="link"):
        store.delete_below("runs")
    assert (outside / "keep").exists()


def test_deleting_a_file_leaves_directories_alone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a/b/c", b"")
    store.delete("a/b/c")
    store.delete("a/b")  # a directory is no object
    assert (tmp_path / "a/b").is_dir()
    store.put("a", b"now a file")
    assert store.read("a") == b"now a file"


def test_a_put_that_was_cut_off_is_not_seen(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a/b", b"whole")
    (tmp_path / "a/.tbhub-put-0123").write_bytes(b"ha")
    assert [entry.path for entry in store.list("a")] == ["a/b"]
    with pytest.raises(BadName, match="ours"):
        store.put("a/.tbhub-put-0123", b"")
    assert store.delete_below("a") == 1
    assert not (tmp_path / "a").exists()


def test_large_put_deletes_what_killed_processes_left(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "place")
    (tmp_path / "place").mkdir()
    names = [".tbhub-put-old", ".tbhub-put-new", ".tbhub-put-locked"]
    old, new, locked = (tmp_path / "place" / name for name in names)
    for each in (old, new, locked):
        each.write_bytes(b"half")
    for each in (old, locked):
        os.utime(each, (0, 0))
    large = tmp_path / "large"
    large.write_bytes(bytes(8 << 20))
    with locked.open() as held, FileSource(large) as source:
        fcntl.flock(held, fcntl.LOCK_EX)  # its process is alive
        store.put("model.pt", source)
    assert set(os.listdir(tmp_path / "place")) == {new.name, locked.name, "model.pt"}


@pytest.mark.parametrize("durable", [False, True])
def test_a_put_leaves_nothing_else_behind(tmp_path: Path, durable: bool) -> None:
    store = LocalStore(tmp_path, durable=durable)
    store.put("x/y/z/a", b"1")
    with pytest.raises(Conflict):
        store.put_if_absent("x/y/z/a", b"2")
    with pytest.raises(Conflict):
        store.put_if_unchanged("x/y/z/a", b"2", "old")
    assert os.listdir(tmp_path / "x/y/z") == ["a"]


def test_puts_and_deletions_in_the_same_directory(tmp_path: Path) -> None:
    """A directory may vanish between any two calls of a put."""
    store = LocalStore(tmp_path)
    done = threading.Event()

    def sweep() -> None:
        while not done.is_set():
            store.delete_below("d")

    with ThreadPoolExecutor(1) as threads:
        sweeping = threads.submit(sweep)
        try:
            for number in range(50):
                store.put(f"d/e/{number % 3}", b"x")
        finally:
            done.set()
        sweeping.result()


@pytest.mark.root
def test_a_full_disk_and_a_long_name(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with pytest.raises(BadName, match="too long"):
        store.put("x" * 300, b"")
    disk = tmp_path / "disk"
    disk.mkdir()
    assert os.system(f"mount -t tmpfs -o size=64k tmpfs {disk}") == 0
    try:
        store = LocalStore(disk)
        store.put("a", b"x" * 1000)
        with pytest.raises(StoreError, match=r"cannot write .*/a: No space left"):
            store.put("a", b"x" * 100_000)
        assert store.read("a") == b"x" * 1000
        assert os.listdir(disk) == ["a"]
    finally:
        os.system(f"umount {disk}")
