"""What every store does, asked of every kind: this machine's files and real servers."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage.conftest import Place
from tbhub.storage.errors import BadName, Conflict, NotFound
from tbhub.storage.source import FileSource, SourceChangedError
from tbhub.storage.store import Range, Store

# Each would mean something else to a URL, a shell, a file system or XML.
HOSTILE = [
    *(
        "a b",
        " x",
        "x ",
        "ü",
        "日本",
        "😀",
        "e\u0301",
        "\u200b",
        "a..b",
        "...",
        "..a",
        ".hidden",
        "a.",
    ),
    *("%", "%2f", "%2e%2e", "%25", "%00", "#frag", "q?x=1&y=2", "a+b", "a=b", "a&amp;b", "a:b"),
    *("'", '"', "<x>", "[x]", "{x}", "(x)", "a|b", "a^b", "`id`", "$HOME", "~", "~root", "*", "!x"),
    *("@", ",", ";", "x" * 255, "status code: 404", "<Code>NoSuchBucket</Code>", "-rf", "con"),
]


def test_what_is_put_can_be_read_listed_and_deleted(store: Store, path: str) -> None:
    before = time.time()
    version = store.put(f"{path}/a/b", b"hello")
    assert store.read(f"{path}/a/b") == b"hello"
    (entry,) = store.list(path)
    assert entry == store.stat(f"{path}/a/b")
    assert (entry.path, entry.size, entry.version) == (f"{path}/a/b", 5, version)
    assert abs(entry.modified - before) < 60
    store.delete(f"{path}/a/b")
    assert list(store.list(path)) == []
    store.delete(f"{path}/a/b")  # again


def test_a_put_replaces_and_changes_the_version(store: Store, path: str) -> None:
    first = store.put(f"{path}/a", b"one")
    assert store.put(f"{path}/a", b"two!") != first
    assert store.read(f"{path}/a") == b"two!"
    assert store.stat(f"{path}/a").version != first


@pytest.mark.parametrize("data", [b"", b"\0", b"x" * 100_000])
def test_any_bytes(store: Store, path: str, data: bytes) -> None:
    store.put(f"{path}/a", data)
    assert store.read(f"{path}/a") == data
    assert store.stat(f"{path}/a").size == len(data)


def test_ranges(store: Store, path: str) -> None:
    store.put(f"{path}/a", b"0123456789")
    assert store.read(f"{path}/a", 3) == b"3456789"
    assert store.read(f"{path}/a", 3, 4) == b"3456"
    assert store.read(f"{path}/a", 8, 100) == b"89"
    assert store.read(f"{path}/a", 0, 0) == b""
    for behind in (10, 11, 1000):
        assert store.read(f"{path}/a", behind) == b""
        assert store.read(f"{path}/a", behind, 5) == b""
    store.put(f"{path}/empty", b"")
    assert store.read(f"{path}/empty", 0, 5) == b""
    with pytest.raises(ValueError, match="range"):
        store.read(f"{path}/a", -1)


def test_many_reads_come_in_their_order(store: Store, path: str) -> None:
    for number in range(5):
        store.put(f"{path}/{number}", bytes([number]) * 1000)
    ranges = [Range(f"{path}/{number % 5}", number, 10) for number in range(200)]
    read = list(store.read_many(ranges))
    assert read == [bytes([number % 5]) * 10 for number in range(200)]
    with pytest.raises(NotFound):
        list(store.read_many([Range(f"{path}/0"), Range(f"{path}/none")]))
    assert list(store.read_many([])) == []


def test_what_is_not_there(store: Store, path: str) -> None:
    for ask in (store.read, store.stat):
        with pytest.raises(NotFound, match=r"none: .*no such"):
            ask(f"{path}/none")
    with pytest.raises(FileNotFoundError):
        store.read(f"{path}/none", 5, 5)
    assert list(store.list(f"{path}/none")) == []
    assert store.delete_below(f"{path}/none") == 0


def test_a_prefix_ends_at_its_slash(store: Store, path: str) -> None:
    for name in ("1/a", "1/b/c", "10/a", "1.a", "1-/a", "2"):
        store.put(f"{path}/{name}", b"")
    assert {entry.path for entry in store.list(f"{path}/1")} == {f"{path}/1/a", f"{path}/1/b/c"}
    assert list(store.list(f"{path}/2")) == []  # the object itself is not below itself
    assert store.delete_below(f"{path}/1") == 2
    left = {entry.path for entry in store.list(path)}
    assert left == {f"{path}/{name}" for name in ("10/a", "1.a", "1-/a", "2")}


def test_nobody_deletes_a_whole_store(store: Store) -> None:
    with pytest.raises(BadName):
        store.delete_below("")


def test_hostile_names_are_kept_literally(store: Store, path: str) -> None:
    for name in HOSTILE:
        store.put(f"{path}/{name}/{name}", name.encode())
    listed = {entry.path for entry in store.list(path)}
    assert listed == {f"{path}/{name}/{name}" for name in HOSTILE}
    for name in HOSTILE:
        assert store.read(f"{path}/{name}/{name}") == name.encode()
        assert [entry.size for entry in store.list(f"{path}/{name}")] == [len(name.encode())]
        with pytest.raises(NotFound):
            store.read(f"{path}/{name}/none")
    assert store.delete_below(path) == len(HOSTILE)
    assert list(store.list(path)) == []


@pytest.mark.parametrize("name", ["..", "a/../b", "../a", ".", "a//b", "/a", "a/", "a\0b", ""])
def test_names_that_lead_elsewhere_are_refused(store: Store, path: str, name: str) -> None:
    store.put(f"{path}/b", b"keep")
    bad = f"{path}/x/{name}" if name else ""
    for ask in (store.read, store.stat, store.delete, store.delete_below):
        with pytest.raises(BadName):
            ask(bad)
    for put in (store.put, store.put_if_absent):
        with pytest.raises(BadName):
            put(bad, b"")
    assert [entry.path for entry in store.list(path)] == [f"{path}/b"]


def test_put_if_absent(place: Place, store: Store, path: str) -> None:
    if place.kind == "gs":
        pytest.skip("SeaweedFS does not know Google's preconditions")
    version = store.put_if_absent(f"{path}/a", b"first")
    with pytest.raises(Conflict, match="cannot write"):
        store.put_if_absent(f"{path}/a", b"second")
    assert store.read(f"{path}/a") == b"first"
    assert store.stat(f"{path}/a").version == version


def test_one_of_many_is_first(place: Place, store: Store, path: str) -> None:
    if place.kind in ("gs", "oss"):
        pytest.skip("SeaweedFS does not know Google's and OSS's preconditions")
    together = threading.Barrier(8)

    def race(number: int) -> int | None:
        together.wait()
        try:
            store.put_if_absent(f"{path}/lock", str(number).encode())
        except Conflict:
            return None
        return number

    with ThreadPoolExecutor(8) as threads:
        (winner,) = [who for who in threads.map(race, range(8)) if who is not None]
    assert store.read(f"{path}/lock") == str(winner).encode()


def test_put_if_unchanged(place: Place, store: Store, path: str) -> None:
    if place.kind == "gs":
        pytest.skip("SeaweedFS does not tell generations")
    first = store.put(f"{path}/a", b"first")
    second = store.put_if_unchanged(f"{path}/a", b"second", first)
    assert second == store.stat(f"{path}/a").version
    with pytest.raises(Conflict):
        store.put_if_unchanged(f"{path}/a", b"third", first)
    assert store.read(f"{path}/a") == b"second"
    (listed,) = store.list(path)
    store.put_if_unchanged(f"{path}/a", b"third", listed.version)
    store.delete(f"{path}/a")
    with pytest.raises(Conflict):
        store.put_if_unchanged(f"{path}/a", b"fourth", second)
    assert list(store.list(path)) == []


def test_counting_together_loses_nothing(place: Place, store: Store, path: str) -> None:
    if place.kind in ("gs", "oss"):
        pytest.skip("no compare-and-swap there")
    store.put(f"{path}/count", b"0")

    def add(_: int) -> None:
        while True:
            entry = store.stat(f"{path}/count")
            value = store.read(f"{path}/count")
            # Between the two another may have written; then the version is an old one.
            try:
                store.put_if_unchanged(f"{path}/count", b"%d" % (int(value) + 1), entry.version)
            except Conflict:
                continue
            return

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(20)))
    assert store.read(f"{path}/count") == b"20"


def test_large_objects_and_files(store: Store, path: str, tmp_path: Path) -> None:
    data = os.urandom(1 << 20) * 20
    file = tmp_path / "large"
    file.write_bytes(data)
    with FileSource(file) as opened:
        for number, source in enumerate([data, opened]):
            version = store.put(f"{path}/{number}", source)
            assert store.stat(f"{path}/{number}")[1:3] == (len(data), version)
            assert store.read(f"{path}/{number}", 15 << 20) == data[15 << 20 :]
    small = tmp_path / "small"
    small.write_bytes(b"small")
    with FileSource(small) as opened:
        store.put(f"{path}/small", opened)
    assert store.read(f"{path}/small") == b"small"
    assert {entry.path for entry in store.list(path)} == {
        f"{path}/{n}" for n in ("0", "1", "small")
    }


@pytest.mark.parametrize("size", [1 << 20, 20 << 20])
def test_file_changed_while_uploaded_leaves_the_old_object(
    store: Store, path: str, tmp_path: Path, size: int
) -> None:
    store.put(f"{path}/model.pt", b"the version before")
    file = tmp_path / "model.pt"
    file.write_bytes(b"1" * size)
    seen = 0

    def rewrite(part: int) -> None:
        nonlocal seen
        seen += part
        if seen == size:  # before the last part is read
            file.write_bytes(b"2" * size)

    with FileSource(file, on_read=rewrite) as source, pytest.raises(SourceChangedError):
        store.put(f"{path}/model.pt", source)
    assert store.read(f"{path}/model.pt") == b"the version before"
    with FileSource(file) as source:
        store.put(f"{path}/model.pt", source)
    assert store.read(f"{path}/model.pt") == b"2" * size
    assert [entry.path for entry in store.list(path)] == [f"{path}/model.pt"]


def test_more_than_a_page(place: Place, store: Store, path: str) -> None:
    if place.kind == "az":
        pytest.skip("a page of Azure's has 5,000, which takes Azurite a minute")
    names = {f"{path}/{number % 7}/{number:05}" for number in range(1100)}
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: store.put(name, b""), names))
    listed = [entry.path for entry in store.list(path)]
    assert len(listed) == len(names)
    assert set(listed) == names
    assert store.delete_below(path) == len(names)
    assert list(store.list(path)) == []


def test_the_meter_counts(store: Store, path: str) -> None:
    store.put(f"{path}/a", b"12345")
    store.read(f"{path}/a")
    store.read(f"{path}/a", 2, 2)
    list(store.list(path))
    store.delete(f"{path}/a")
    reading = store.meter.reading()
    assert reading.requests == {"write": 1, "read": 2, "list": 1, "delete": 1}
    assert (reading.bytes_read, reading.bytes_written, reading.total) == (7, 5, 5)


def test_readers_see_all_or_nothing(store: Store, path: str) -> None:
    contents = [bytes([number]) * 50_000 for number in range(2)]
    store.put(f"{path}/a", contents[0])
    done = threading.Event()

    def write() -> None:
        for number in range(30):
            store.put(f"{path}/a", contents[number % 2])
        done.set()

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        while not done.is_set() and not writing.done():
            assert store.read(f"{path}/a") in contents
        writing.result()
