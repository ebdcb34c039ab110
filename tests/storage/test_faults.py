"""A real store behind a proxy that fails: each fault is lived through, or named for what it is."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

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
)
from tbhub.storage.errors import (
    BadCredentials,
    ClockSkew,
    Conflict,
    NoBucket,
    NoPermission,
    StoreError,
    Throttled,
    Timeout,
    Unreachable,
)
from tbhub.storage.open import open_store
from tbhub.storage.store import Patience, Range, Store

Behind = tuple[Store, str]
HASTY = replace(QUICK, timeout=0.5, connect_timeout=0.5)
PASSING = [
    *(Status(503, "SlowDown"), Status(503, "ServiceUnavailable"), Status(500, "InternalError")),
    *(Status(429, "TooManyRequests"), Status(408, "RequestTimeout")),
    *(Slow(0.1), Silent(), Half(), LostRequest(), LostAnswer()),
]
fault = pytest.mark.parametrize("fault", PASSING, ids=str)


@pytest.fixture
def behind(proxy: FaultProxy, s3: Callable[..., Place]) -> Iterator[Behind]:
    """A store that is reached through the proxy, with ten objects in it."""
    store, path = s3(endpoint=proxy.url).open(HASTY)
    for number in range(10):
        store.put(f"{path}/{number}", b"%d" % number * 1000)
    proxy.forget()
    yield store, path
    store.close()


@fault
def test_a_fault_that_passes_is_not_noticed(
    behind: Behind, proxy: FaultProxy, fault: Fault
) -> None:
    store, path = behind

    def each(ask: Callable[[], object]) -> object:
        proxy.heal()
        proxy.add(fault, times=1)
        return ask()

    assert each(lambda: store.read(f"{path}/3", 10, 500)) == b"3" * 500
    assert each(lambda: store.read(f"{path}/4")) == b"4" * 1000
    assert each(lambda: store.stat(f"{path}/5")) == store.stat(f"{path}/5")
    assert each(lambda: len(list(store.list(path)))) == 10
    each(lambda: store.put(f"{path}/new", b"new"))
    assert store.read(f"{path}/new") == b"new"
    version = each(lambda: store.put_if_absent(f"{path}/once", b"once"))
    assert isinstance(version, str)
    each(lambda: store.put_if_unchanged(f"{path}/once", b"twice", version))
    assert store.read(f"{path}/once") == b"twice"
    each(lambda: store.delete(f"{path}/once"))
    assert each(lambda: store.delete_below(path)) == 11
    assert list(store.list(path)) == []


def test_an_upload_that_was_too_slow_for_the_store(behind: Behind, proxy: FaultProxy) -> None:
    store, path = behind
    proxy.add(Status(400, "RequestTimeout"), times=2)
    store.put(f"{path}/new", b"new")
    assert proxy.counts() == {"PUT": 3}


def test_an_answer_that_was_lost_does_not_hide_another_writer(
    behind: Behind, proxy: FaultProxy
) -> None:
    store, path = behind
    store.put_if_absent(f"{path}/lock", b"theirs")
    proxy.add(LostAnswer(), times=1)
    with pytest.raises(Conflict):
        store.put_if_absent(f"{path}/lock", b"ours!!")
    assert store.read(f"{path}/lock") == b"theirs"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Status(503, "SlowDown"), Throttled),
        (Status(503, "ServiceUnavailable"), Unreachable),
        (Silent(), Timeout),
        (LostRequest(), Unreachable),
        (Half(), Unreachable),
    ],
    ids=str,
)
def test_a_fault_that_stays_is_named(
    behind: Behind, proxy: FaultProxy, fault: Fault, kind: type[StoreError]
) -> None:
    store, path = behind
    proxy.add(fault)
    for ask, verb in (
        (lambda: store.read(f"{path}/1"), "read"),
        (lambda: list(store.list(path)), "list"),
        (lambda: store.put(f"{path}/1", b"x"), "write"),
    ):
        if verb == "write" and isinstance(fault, Half):
            continue  # its answer has no body
        with pytest.raises(kind, match=f"^cannot {verb} s3://") as caught:
            ask()
        assert caught.value.passing
    assert proxy.counts()["PUT"] <= 1 + HASTY.retries


def test_a_store_that_does_not_listen(
    behind: Behind, proxy: FaultProxy, s3: Callable[..., Place]
) -> None:
    store, path = behind
    proxy.refuse()
    with pytest.raises(Unreachable, match="is the store up"):
        store.read(f"{path}/1")
    threading.Timer(0.3, proxy.heal).start()
    patient, _ = s3(endpoint=proxy.url).open(Patience(retries=20, first_pause=0.1))
    assert patient.read(f"{path}/1") == b"1" * 1000


def test_patience_ends(proxy: FaultProxy, s3: Callable[..., Place]) -> None:
    proxy.add(Status(503))
    store, path = s3(endpoint=proxy.url).open(
        Patience(timeout=1, retries=1000, first_pause=0.05, longest_pause=0.05, total=0.5)
    )
    with pytest.raises(Throttled):
        store.read(f"{path}/a")
    assert 2 < proxy.counts()["GET"] < 30


def test_a_store_that_loses_every_fifth_upload(proxy: FaultProxy, s3: Callable[..., Place]) -> None:
    store, path = s3(endpoint=proxy.url).open(replace(QUICK, retries=20))
    proxy.add(LostRequest(), methods={"PUT"}, every=5)
    proxy.add(LostAnswer(), methods={"PUT"}, every=7)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: store.put(f"{path}/many/{n}", b"%d" % n), range(100)))
    proxy.heal()
    stored = {entry.path: store.read(entry.path) for entry in store.list(f"{path}/many")}
    assert stored == {f"{path}/many/{n}": b"%d" % n for n in range(100)}


def test_a_large_upload_over_a_bad_line(proxy: FaultProxy, s3: Callable[..., Place]) -> None:
    data = os.urandom(1 << 20) * 25
    proxy.add(Status(503), methods={"PUT"}, every=3)
    store, path = s3(endpoint=proxy.url).open(replace(QUICK, timeout=30))
    store.put(f"{path}/large", data)
    proxy.heal()
    assert store.read(f"{path}/large") == data


def test_a_long_listing_over_a_bad_line(behind: Behind, proxy: FaultProxy) -> None:
    store, path = behind
    names = {f"{path}/long/{number:04}" for number in range(2100)}
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: store.put(name, b""), names))
    for faults in ([Status(503)], [Half()], [LostRequest(), Half()]):
        proxy.heal()
        for number, each in enumerate(faults):
            proxy.add(each, methods={"GET"}, every=2 + number, times=3)
        listed = [entry.path for entry in store.list(f"{path}/long")]
        assert len(listed) == len(names)
        assert set(listed) == names


def test_every_request_is_counted(behind: Behind, proxy: FaultProxy) -> None:
    store, path = behind
    before = store.meter.reading().total
    proxy.add(Status(503), every=3)
    for number in range(10):
        store.read(f"{path}/{number}")
    list(store.read_many(Range(f"{path}/{number}", 0, 10) for number in range(10)))
    store.put(f"{path}/1", b"x")
    store.delete(f"{path}/1")
    proxy.heal()
    list(store.list(path))
    assert store.meter.reading().total - before == len(proxy.requests)


def test_only_so_many_requests_at_a_time(proxy: FaultProxy, s3: Callable[..., Place]) -> None:
    made = s3(endpoint=proxy.url)
    store, path = open_store(made.uri, made.credentials, limit=3)
    store.put(f"{path}/a", b"x" * 1000)
    proxy.add(Slow(0.05))
    with ThreadPoolExecutor(12) as threads:
        list(threads.map(lambda _: store.read(f"{path}/a"), range(12)))
    assert proxy.most_at_once <= 3
    list(store.read_many([Range(f"{path}/a")] * 12))
    assert proxy.most_at_once == 3
    store.close()


def test_wrong_credentials(s3: Callable[..., Place]) -> None:
    for changed in ({"secret_access_key": "hunter2"}, {"access_key_id": "nobody"}):
        store, path = s3(**changed).open()
        for ask in (
            lambda: store.read(f"{path}/a"),  # noqa: B023
            lambda: store.stat(f"{path}/a"),  # noqa: B023
            lambda: list(store.list(path)),  # noqa: B023
            lambda: store.put(f"{path}/a", b""),  # noqa: B023
        ):
            with pytest.raises(BadCredentials, match="check key and secret") as caught:
                ask()
            assert "hunter2" not in str(caught.value)
            assert not caught.value.passing
        assert store.meter.reading().total <= 6  # not tried again


def test_no_such_bucket(s3: Callable[..., Place]) -> None:
    made = s3()
    store, path = open_store("s3://no-such-bucket/p", made.credentials, patience=QUICK)
    with pytest.raises(NoBucket, match="create it"):
        list(store.list(path))
    with pytest.raises(NoBucket):
        store.read(f"{path}/a")
    with pytest.raises(NoBucket):
        store.put(f"{path}/a", b"")


@pytest.mark.parametrize(
    ("who", "denied"),
    [
        ("reads", {"write", "delete"}),
        ("writes", {"read", "list"}),
        ("lists-not", {"list"}),
    ],
)
def test_verbs_that_are_denied(s3: Callable[..., Place], who: str, denied: set[str]) -> None:
    owner, path = s3().open()
    owner.put(f"{path}/a", b"x")
    store, _ = s3(who).open()
    verbs: dict[str, Callable[[], object]] = {
        "read": lambda: store.read(f"{path}/a"),
        "list": lambda: list(store.list(path)),
        "write": lambda: store.put(f"{path}/b", b"x"),
        "delete": lambda: store.delete(f"{path}/a"),
    }
    for verb, ask in verbs.items():
        if verb in denied:
            with pytest.raises(NoPermission, match=f"no permission to {verb}") as caught:
                ask()
            assert caught.value.verb == verb
        else:
            ask()


def test_credentials_that_expire_while_in_use(behind: Behind, proxy: FaultProxy) -> None:
    store, path = behind
    proxy.add(Status(400, "ExpiredToken"))
    begun = time.monotonic()
    with pytest.raises(BadCredentials, match="expired"):
        store.put(f"{path}/1", b"x")
    assert time.monotonic() - begun < 60
    proxy.heal()
    store.put(f"{path}/1", b"x")


def test_a_clock_that_the_store_refuses(behind: Behind, proxy: FaultProxy) -> None:
    store, path = behind
    proxy.add(Status(403, "RequestTimeTooSkewed"))
    with pytest.raises(ClockSkew, match="clock is wrong"):
        store.put(f"{path}/1", b"x")


@pytest.fixture
def panicking() -> Store:
    """A store whose library panics at every request."""
    keys = {"access_key_id": "a", "secret_access_key": "b"}
    # The token is no header: the library takes it, and panics when it makes a request.
    given = {**keys, "session_token": "hunter2\n", "endpoint": "http://127.0.0.1:1"}
    return open_store("s3://bucket/x", given, patience=Patience(retries=1000))[0]


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.stat("x"),
        lambda store: store.read("x"),
        lambda store: list(store.read_many([Range("x"), Range("y")])),
        lambda store: list(store.list("x")),
        lambda store: store.put("x", b""),
        lambda store: store.put("x", bytes(9 << 20)),
        lambda store: store.put_if_absent("x", b""),
        lambda store: store.put_if_unchanged("x", b"", "1"),
        lambda store: store.delete("x"),
        lambda store: store.delete_below("x"),
    ],
)
def test_a_panic_of_the_library_is_a_store_error(
    panicking: Store, ask: Callable[[Store], object]
) -> None:
    with pytest.raises(StoreError, match=r"the storage library failed: .*hint: check") as caught:
        ask(panicking)
    assert not caught.value.passing
    assert caught.value.__context__ is None
    assert panicking.meter.reading().total <= 4  # not repeated
    panicking.close()


def test_a_panic_while_a_store_is_opened_is_a_store_error(
    panicking: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = vars(panicking)["_clients"]
    monkeypatch.setattr("tbhub.storage.open._client", lambda *_, **__: clients.once.head("x"))
    with pytest.raises(StoreError, match="cannot open s3://b/x: the storage library failed"):
        open_store("s3://b/x")


def test_an_interrupt_is_no_store_error(s3: Callable[..., Place]) -> None:
    store, path = s3().open()

    def interrupt(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("obstore.head", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.stat(path)
    store.close()
