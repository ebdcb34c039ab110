"""Stores whose objects can grow: an append is done once, however often it is asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbhub.storage.errors import BadName, NoPermission, WrongOffset
from tbhub.storage.local import LocalStore
from tbhub.storage.store import AppendingStore


@pytest.fixture(params=[False, True], ids=["plain", "durable"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AppendingStore]:
    made = LocalStore(tmp_path, durable=request.param)
    assert isinstance(made, AppendingStore)
    yield made
    made.close()


def test_an_object_is_made_and_grows(store: AppendingStore) -> None:
    assert store.append("new/run/events", 0, b"one") == 3
    first = store.stat("new/run/events").version
    assert store.append("new/run/events", 3, b"two") == 6
    assert store.read("new/run/events") == b"onetwo"
    assert store.stat("new/run/events").version != first
    assert store.append("empty", 0, b"") == 0
    assert store.read("empty") == b""


def test_an_append_may_be_repeated(store: AppendingStore) -> None:
    store.append("a", 0, b"0123")
    before = store.meter.reading().bytes_written
    assert store.append("a", 0, b"0123") == 4
    assert store.append("a", 1, b"12") == 4
    assert store.meter.reading().bytes_written == before
    assert store.append("a", 2, b"2345") == 6
    assert store.read("a") == b"012345"


def test_a_gap_or_other_bytes_change_nothing(store: AppendingStore) -> None:
    store.append("a", 0, b"0123")
    for offset, data in [(5, b"5"), (100, b""), (3, b"x"), (0, b"0x23456"), (2, b"2x")]:
        with pytest.raises(WrongOffset, match="cannot write") as raised:
            store.append("a", offset, data)
        assert raised.value.size == 4
    with pytest.raises(WrongOffset) as raised:
        store.append("none", 1, b"x")
    assert raised.value.size == 0
    assert store.read("a") == b"0123"
    with pytest.raises(ValueError, match="before"):
        store.append("a", -1, b"x")


@given(
    data=st.binary(max_size=50),
    asked=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=20),
)
def test_what_is_there_is_always_a_beginning(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, asked: list[tuple[int, int]]
) -> None:
    store = LocalStore(tmp_path_factory.mktemp("grown"))
    size = 0
    for begin, end in asked:
        begin = min(begin, len(data))
        if begin > size:
            with pytest.raises(WrongOffset):
                store.append("a", begin, data[begin:end])
        else:
            size = store.append("a", begin, data[begin:end])
            assert store.read("a") == data[:size]
    assert store.append("a", 0, data) == len(data)
    assert store.read("a") == data


def test_appenders_take_turns(store: AppendingStore) -> None:
    pieces = [os.urandom(1000) for _ in range(40)]
    together = threading.Barrier(4)

    def append(_: int) -> None:
        together.wait()
        for number, piece in enumerate(pieces):
            store.append("a", number * 1000, piece)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(4)))
    assert store.read("a") == b"".join(pieces)


def test_an_object_that_is_replaced_meanwhile(store: AppendingStore) -> None:
    done = threading.Event()

    def replace() -> None:
        while not done.is_set():
            store.put("a", b"")
            store.delete("a")

    with ThreadPoolExecutor(1) as threads:
        replacing = threads.submit(replace)
        for _ in range(200):
            assert store.append("a", 0, b"x") == 1
        done.set()
        replacing.result()


def test_names_and_permissions(store: AppendingStore, tmp_path: Path) -> None:
    store.append("a", 0, b"x")
    with pytest.raises(BadName, match="directory"):
        store.append("a/b", 0, b"x")
    for name in ("../a", ".tbhub-put-1", "a//b"):
        with pytest.raises(BadName):
            store.append(name, 0, b"x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(BadName, match="directory"):
        store.append("full", 0, b"x")
    if os.geteuid() != 0:
        (tmp_path / "a").chmod(0o400)
        with pytest.raises(NoPermission):
            store.append("a", 1, b"x")
