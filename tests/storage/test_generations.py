"""Google's store replaces by generation, where ours asks by version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage.conftest import QUICK
from support.fault_proxy import LostAnswer, fault_proxy
from support.generations import generations
from tbhub.storage.errors import Conflict
from tbhub.storage.open import open_store
from tbhub.storage.store import Store


@pytest.fixture
def address() -> Iterator[str]:
    with generations() as made:
        yield made


def google(address: str) -> Store:
    return open_store("gs://box", {"endpoint": address, "token": "t"}, patience=QUICK)[0]


def test_an_unchanged_object_is_replaced(address: str) -> None:
    store = google(address)
    first = store.put("a", b"first")
    second = store.put_if_unchanged("a", b"second", first)
    assert store.stat("a").version == second
    with pytest.raises(Conflict):
        store.put_if_unchanged("a", b"third", first)
    with pytest.raises(Conflict):
        store.put_if_unchanged("none", b"third", first)
    assert store.read("a") == b"second"


def test_one_is_first(address: str) -> None:
    store = google(address)
    store.put_if_absent("a", b"first")
    with pytest.raises(Conflict):
        store.put_if_absent("a", b"second")
    assert store.read("a") == b"first"


def test_an_answer_that_was_lost(address: str) -> None:
    with fault_proxy("127.0.0.1", int(address.rpartition(":")[2])) as proxy:
        store = google(proxy.url)
        proxy.add(LostAnswer(), methods={"PUT"}, times=1)
        version = store.put_if_absent("a", b"first")
        proxy.add(LostAnswer(), methods={"PUT"}, times=1)
        store.put_if_unchanged("a", b"second", version)
        assert store.read("a") == b"second"
