"""What a hub keeps, behind a proxy that fails: what was acknowledged is there once, in order."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from storage.conftest import QUICK, Place
from support.fault_proxy import (
    Fault,
    FaultProxy,
    Half,
    LostAnswer,
    LostRequest,
    Silent,
    Slow,
    Status,
    fault_proxy,
)
from support.hub import HubProcess
from tbhub.storage.errors import (
    BadCredentials,
    BadName,
    Fenced,
    NotFound,
    StoreError,
    Throttled,
    Unreachable,
    WrongOffset,
)
from tbhub.storage.open import open_store
from tbhub.storage.source import FileSource, SourceStoppedError
from tbhub.storage.store import AppendingStore, Patience

PATIENT = Patience(timeout=2, connect_timeout=2, retries=20, first_pause=0.01, longest_pause=0.05)
FAULTS = [Status(503), Status(500), Slow(0.1), Half(), LostRequest(), LostAnswer()]
Behind = tuple[AppendingStore, str]


@pytest.fixture
def faulty(hub: HubProcess) -> Iterator[FaultProxy]:
    with fault_proxy("127.0.0.1", urlsplit(hub.url).port or 0) as made:
        yield made


@pytest.fixture
def behind(faulty: FaultProxy, kept: Callable[..., Place]) -> Iterator[Behind]:
    store, path = kept(url=faulty.url).open(PATIENT)
    assert isinstance(store, AppendingStore)
    yield store, path
    store.close()


@pytest.mark.parametrize("fault", [None, LostRequest(), LostAnswer()], ids=str)
def test_interrupted_upload_resumes_behind_the_last_part(
    faulty: FaultProxy,
    kept: Callable[..., Place],
    hub: HubProcess,
    tmp_path: Path,
    fault: Fault | None,
) -> None:
    store, path = kept(url=faulty.url).open(replace(PATIENT, timeout=60))  # for parts of 8 MiB
    file = tmp_path / "model.pt"
    file.write_bytes(random.Random(0).randbytes(24 << 20))
    read: list[int] = []

    def stop(size: int) -> None:
        if len(read) == 2:
            raise SourceStoppedError
        read.append(size)

    if fault is not None:
        faulty.add(fault, every=3)
    with FileSource(file, on_read=stop) as source, pytest.raises(SourceStoppedError):
        store.put(f"{path}/model.pt", source)
    with pytest.raises(NotFound):
        store.read(f"{path}/model.pt")  # nothing is seen of it before it is complete
    before = store.meter.reading().bytes_written
    file = file.rename(tmp_path / "renamed.pt")
    with FileSource(file) as source:
        store.put(f"{path}/model.pt", source)
    assert store.meter.reading().bytes_written - before == (24 - 8) << 20
    assert store.read(f"{path}/model.pt") == file.read_bytes()
    run = path.partition("/")[0]
    staged = hub.home / "files" / ".tbhub-incoming"
    assert [each.name for each in staged.iterdir() if each.name.startswith(f"{run}-")] == []
    store.close()


def test_upload_of_a_fenced_attempt_is_refused(
    hub: HubProcess, kept: Callable[..., Place], tmp_path: Path
) -> None:
    store, path = kept().open()
    run = path.partition("/")[0]
    hub.json("POST", "/api/v1/runs", json={"resume": run, "force": True})
    file = tmp_path / "model.pt"
    file.write_bytes(bytes(9 << 20))
    with FileSource(file) as source, pytest.raises(Fenced):
        store.put(f"{path}/model.pt", source)
    store.close()


def test_an_object_grows(kept: Callable[..., Place]) -> None:
    store, path = kept().open()
    assert isinstance(store, AppendingStore)
    assert store.append(f"{path}/a", 0, b"") == 0
    assert store.append(f"{path}/a", 0, b"hello") == 5
    assert store.append(f"{path}/a", 5, b" world") == 11
    assert store.append(f"{path}/a", 0, b"hello") == 11  # again
    assert store.append(f"{path}/a", 6, b"world!") == 12  # some of it again
    assert store.read(f"{path}/a") == b"hello world!"
    for offset, data in ((13, b"x"), (0, b"x"), (6, b"World!!")):
        with pytest.raises(WrongOffset) as raised:
            store.append(f"{path}/a", offset, data)
        assert raised.value.size == 12
    assert store.read(f"{path}/a") == b"hello world!"
    large = os.urandom(20 << 20)
    assert store.append(f"{path}/large", 0, large) == len(large)
    assert store.read(f"{path}/large") == large
    store.close()


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_that_passes_is_not_noticed(
    behind: Behind, faulty: FaultProxy, fault: Fault
) -> None:
    store, path = behind
    expected = b""
    for number in range(10):
        faulty.heal()
        faulty.add(fault, times=1 + number % 3)
        piece = os.urandom(random.Random(number).randrange(100_000))
        assert store.append(f"{path}/a", len(expected), piece) == len(expected) + len(piece)
        expected += piece
    faulty.heal()
    assert store.read(f"{path}/a") == expected
    faulty.add(fault, times=1)
    version = store.put_if_absent(f"{path}/b", b"once")
    faulty.add(fault, times=1)
    store.put_if_unchanged(f"{path}/b", b"twice", version)
    assert store.read(f"{path}/b") == b"twice"


def test_many_workers_lose_nothing(behind: Behind, faulty: FaultProxy) -> None:
    store, path = behind
    faulty.add(LostAnswer(), methods={"PUT"}, every=5)
    faulty.add(LostRequest(), methods={"PUT"}, every=7)

    def work(number: int) -> bytes:
        chance = random.Random(number)
        written = b""
        for _ in range(30):
            piece = chance.randbytes(chance.randrange(1, 5000))
            assert store.append(f"{path}/{number}", len(written), piece) >= len(written)
            written += piece
        return written

    with ThreadPoolExecutor(8) as threads:
        expected = list(threads.map(work, range(8)))
    faulty.heal()
    assert [store.read(f"{path}/{number}") for number in range(8)] == expected


def test_what_is_wrong_has_a_name(
    hub: HubProcess, kept: Callable[..., Place], faulty: FaultProxy
) -> None:
    def ask(place: Place) -> None:
        store, path = place.open(QUICK)
        assert isinstance(store, AppendingStore)
        try:
            store.append(f"{path}/a", 0, b"x")
        finally:
            store.close()

    with pytest.raises(BadCredentials, match="token") as refused:
        ask(kept(token="tbh_wrong"))
    assert "tbh_wrong" not in str(refused.value)
    with pytest.raises(NotFound):
        ask(Place("hub", "hub://runs/123456", kept().credentials))
    with pytest.raises(Unreachable, match="is it running"):
        ask(kept(url="http://127.0.0.1:1"))
    faulty.add(Status(503), every=1)
    with pytest.raises(Throttled):
        ask(kept(url=faulty.url))
    faulty.heal()
    faulty.add(Silent(), every=1)
    with pytest.raises(StoreError):
        ask(kept(url=faulty.url))
    place = kept()
    number = place.uri.split("/")[3]
    hub.json("POST", "/api/v1/runs", json={"resume": number, "force": True})
    with pytest.raises(Fenced, match="attempt 2 goes on with run"):
        ask(place)
    ask(Place("hub", place.uri, {**place.credentials, "attempt": "2"}))


def test_settings_come_from_the_environment(
    hub: HubProcess, kept: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = kept()
    with pytest.raises(BadCredentials, match="TBHUB_URL"):
        open_store(place.uri)
    for name in ("url", "token", "attempt"):
        monkeypatch.setenv(f"TBHUB_{name.upper()}", place.credentials[name])
    store, path = open_store(place.uri)
    store.put(f"{path}/a", b"here")
    assert store.read(f"{path}/a") == b"here"
    store.close()
    for bad in ("hub://runs", "hub://runs/x", "hub://runs/0", "hub://boards/1", "hub://runs/1x"):
        with pytest.raises(BadName):
            open_store(bad)
