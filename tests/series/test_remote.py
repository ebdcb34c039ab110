"""Runs in a bucket are followed as those of a directory are, with few requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tbhub
from support.buckets import Place
from support.fault_proxy import FaultProxy, Half, Slow, Status
from support.live import PATIENCE, VERSION, append, eventually, loaded, scalar, shown, tensor
from support.stale_store import StaleStore
from tbhub.events.segments import segment_name
from tbhub.series import objects
from tbhub.series.follower import Follower, Root
from tbhub.series.traffic import Traffic
from tbhub.storage.uri import Uri

pytestmark = pytest.mark.usefixtures("no_environment")

FILE = "events.out.tfevents.1700000000.host"
MakePlace = Callable[..., Place]
MakeFollower = Callable[..., Follower]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeFollower]:
    """Makes followers, without a cache unless one is named."""
    made: list[Follower] = []

    def make_follower(cache: Path | None = None) -> Follower:
        made.append(Follower(cache_dir=cache, use_cache=cache is not None))
        return made[-1]

    yield make_follower
    for follower in made:
        follower.close()


def points(tag: str, *steps: int) -> bytes:
    return b"".join(scalar(tag, step, step) for step in steps)


def follow(follower: Follower, place: Place, **more: object) -> Root:
    root = follower.follow(place.uri, credentials=place.credentials, **more)  # type: ignore[arg-type]
    assert follower.wait_until_loaded(PATIENCE)
    return root


def steps_of(root: Root) -> dict[str, dict[str, list[int]]]:
    return {
        name: {tag: found[0] for tag, found in shown(log.view).items()}
        for name, log in root.runs.items()
    }


def test_runs_below_a_prefix_are_those_of_the_same_directory(
    tmp_path: Path, s3: MakePlace, make: MakeFollower
) -> None:
    for run in (".", "a", "a/train", "ünï code/x y"):
        directory = tmp_path / run
        directory.mkdir(parents=True, exist_ok=True)
        (directory / FILE).write_bytes(VERSION + points("a", 1, 2, 3))
        (directory / f"{FILE}.later").write_bytes(VERSION + points("a", 2, 3, 4))
    (tmp_path / "notes.txt").write_text("no events")
    place = s3()
    place.upload(tmp_path)
    root = follow(make(), place)
    assert {name: shown(log.view) for name, log in root.runs.items()} == loaded(tmp_path)
    assert root.problems == {}


def test_segments_are_one_file(tmp_path: Path, s3: MakePlace, make: MakeFollower) -> None:
    """A step that goes back within a file is kept, between two files it begins anew."""
    data = [VERSION + points("a", 1, 2, 3), points("a", 2, 3), points("a", 1)]
    for number, part in enumerate(data, 1):
        append(tmp_path / segment_name(FILE, number), part)
    place = s3()
    place.upload(tmp_path)
    expected = {".": {"a": [1, 2, 3, 2, 3, 1]}}
    assert steps_of(follow(make(), place)) == expected
    local = make().follow(str(tmp_path))
    eventually(lambda: steps_of(local) == expected)
    assert tbhub.load(tmp_path)["."].scalars["a"].steps.tolist() == [1, 2, 3, 2, 3, 1]


def test_only_new_bytes_are_read(s3: MakePlace, make: MakeFollower) -> None:
    place = s3()
    store, prefix = place.open()
    first = VERSION + points("a", *range(100))
    store.put(f"{prefix}/run/{segment_name(FILE, 1)}", first)
    follower, traffic = make(), Traffic()
    root = follow(follower, place, traffic=traffic)
    assert steps_of(root) == {"run": {"a": [*range(100)]}}
    before = traffic.bytes_read
    assert before == len(first)

    grown = first + points("a", 100)
    store.put(f"{prefix}/run/{segment_name(FILE, 1)}", grown)
    eventually(lambda: steps_of(root) == {"run": {"a": [*range(101)]}})
    second = points("a", 101)
    store.put(f"{prefix}/run/{segment_name(FILE, 2)}", second)
    eventually(lambda: steps_of(root) == {"run": {"a": [*range(102)]}})
    assert traffic.bytes_read - before <= len(grown) - len(first) + len(second) + 2 * 64
    assert root.runs["run"].view.contents[0].events == 103


def test_where_nothing_changes_there_are_only_listings(
    s3: MakePlace, make: MakeFollower, proxy: FaultProxy
) -> None:
    place = s3(endpoint=proxy.url)
    store, prefix = place.open()
    for run in range(20):
        store.put(f"{prefix}/run{run}/{FILE}", VERSION + points("a", run))
    follower = make()
    root = follow(follower, place)
    assert len(root.runs) == 20
    proxy.forget()
    for _ in range(3):
        assert follower.look(PATIENCE)
    assert all("list-type=2" in request.target for request in proxy.requests)


def test_many_runs_by_themselves_are_listed_by_what_they_lie_in(
    s3: MakePlace, make: MakeFollower, proxy: FaultProxy
) -> None:
    place = s3(endpoint=proxy.url)
    store, prefix = place.open()
    for run in range(30):
        store.put(f"{prefix}/run{run}/{FILE}", VERSION + points("a", run))
        store.put(f"{prefix}/run{run}/other/{FILE}", VERSION + points("a", run))
    follower = make()
    proxy.forget()
    roots = [
        follower.follow(f"{place.uri}/run{run}", alone=True, credentials=place.credentials)
        for run in range(30)
    ]
    assert follower.wait_until_loaded(PATIENCE)
    assert [steps_of(root) for root in roots] == [{".": {"a": [run]}} for run in range(30)]
    assert sum("list-type=2" in request.target for request in proxy.requests) <= 2
    for root in roots[1:]:
        follower.unfollow(root)
    store.put(f"{prefix}/run0/{FILE}", VERSION + points("a", 0, 1))
    eventually(lambda: steps_of(roots[0]) == {".": {"a": [0, 1]}})


def test_neighbours_among_too_many_others_are_listed_one_by_one(
    make: MakeFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = use_double(monkeypatch)
    for number in range(5000):
        store.put(f"all/other{number}/{FILE}", b"")
    for run in range(4):
        store.put(f"all/run{run}/{FILE}", VERSION + points("a", run))
    follower = make()
    roots = [follower.follow(f"s3://double/all/run{run}") for run in range(4)]
    assert follower.wait_until_loaded(PATIENCE)
    assert [steps_of(root) for root in roots] == [{".": {"a": [run]}} for run in range(4)]


def use_double(monkeypatch: pytest.MonkeyPatch) -> StaleStore:
    """Has every store that is opened be this one."""
    store = StaleStore()

    def open_double(uri: Uri, *_: object, **__: object) -> tuple[StaleStore, str]:
        return store, uri.path

    monkeypatch.setattr("tbhub.storage.open.open_store", open_double)
    return store


@pytest.mark.parametrize("grown", [True, False])
def test_an_object_that_is_replaced_by_another_is_read_anew(
    grown: bool, s3: MakePlace, make: MakeFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "GRACE_SECONDS", 0.0)
    place = s3()
    store, prefix = place.open()
    store.put(f"{prefix}/{FILE}", VERSION + points("a", *range(10)))
    follower = make()
    root = follow(follower, place)
    other = [*range(50, 70)] if grown else [50]
    store.put(f"{prefix}/{FILE}", VERSION + points("b", *other))
    eventually(lambda: steps_of(root) == {".": {"b": other}})


def test_a_run_that_is_deleted_vanishes(
    s3: MakePlace, make: MakeFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "GRACE_SECONDS", 0.0)
    place = s3()
    store, prefix = place.open()
    for run in "ab":
        store.put(f"{prefix}/{run}/{FILE}", VERSION + points("a", 1))
    root = follow(make(), place)
    store.delete_below(f"{prefix}/a")
    eventually(lambda: list(root.runs) == ["b"])


def test_a_stale_listing_takes_nothing_back(
    make: MakeFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = use_double(monkeypatch)
    store.put(f"r/{FILE}", VERSION + points("a", 1))
    store.become_stale()
    store.become_fresh()
    follower = make()
    root = follower.follow("s3://double/r")
    assert follower.wait_until_loaded(PATIENCE)
    store.become_stale()
    old = dict(store.objects)
    store.become_fresh()
    store.put(f"r/{FILE}", VERSION + points("a", 1, 2))
    store.put(f"r/more/{FILE}", VERSION + points("a", 3))
    assert follower.look(PATIENCE)
    now = {".": {"a": [1, 2]}, "more": {"a": [3]}}
    assert steps_of(root) == now
    reads = store.meter.reading().requests["read"]
    fresh, store.objects = store.objects, old
    store.become_stale()
    store.objects = fresh
    assert follower.look(PATIENCE)
    assert follower.look(PATIENCE)
    assert steps_of(root) == now
    store.become_fresh()
    assert follower.look(PATIENCE)
    assert steps_of(root) == now
    assert store.meter.reading().requests["read"] == reads


def test_reopening_from_the_cache_reads_nothing(
    tmp_path: Path, s3: MakePlace, make: MakeFollower
) -> None:
    for run in range(20):
        directory = tmp_path / "logs" / f"run{run}"
        directory.mkdir(parents=True)
        (directory / FILE).write_bytes(VERSION + points("a", run) + tensor("t", 1, b"x", "text"))
    place = s3()
    place.upload(tmp_path / "logs")
    first = make(tmp_path / "cache")
    before = steps_of(follow(first, place))
    for log in list(first._logs.values()):
        log.store()  # as it does by itself as soon as nobody waits
    again, traffic = make(tmp_path / "cache"), Traffic()
    root = follow(again, place, traffic=traffic)
    assert steps_of(root) == before
    assert (traffic.requests, traffic.bytes_read) == (1, 0)

    store, prefix = place.open()
    data = VERSION + points("a", 0) + tensor("t", 1, b"x", "text") + points("a", 7)
    store.put(f"{prefix}/run0/{FILE}", data)
    third, traffic = make(tmp_path / "cache"), Traffic()
    root = follow(third, place, traffic=traffic)
    assert steps_of(root) == {**before, "run0": {"a": [0, 7]}}
    assert traffic.requests == 2
    assert traffic.bytes_read < len(data)
    (blob,) = root.runs["run0"].view.blobs("t")
    assert b"x" in blob.read()


def test_values_that_are_no_scalars_are_read_when_asked_for(
    s3: MakePlace, make: MakeFollower
) -> None:
    place = s3()
    store, prefix = place.open()
    texts = [tensor("text", step, f"text {step}".encode(), "text") for step in range(50)]
    for number in (0, 1):
        data = b"".join(texts[25 * number : 25 * (number + 1)])
        name = segment_name(FILE, number + 1)
        store.put(f"{prefix}/{name}", data if number else VERSION + data)
    traffic = Traffic()
    root = follow(make(), place, traffic=traffic)
    before = traffic.requests
    blobs = root.runs["."].view.blobs("text")
    assert [f"text {blob.step}".encode() in blob.read() for blob in blobs] == [True] * 50
    assert traffic.requests == before + 2


@pytest.mark.parametrize(
    "fault", [Status(503), Half(), Slow(0.5)], ids=["throttled", "half", "slow"]
)
def test_a_store_that_fails_now_and_then(
    fault: Status | Half | Slow, s3: MakePlace, make: MakeFollower, proxy: FaultProxy
) -> None:
    place = s3(endpoint=proxy.url)
    store, prefix = place.open()
    for run in range(10):
        store.put(f"{prefix}/run{run}/{FILE}", VERSION + points("a", run))
    proxy.add(fault, methods={"GET"}, every=3)
    root = follow(make(), place)
    eventually(lambda: steps_of(root) == {f"run{run}": {"a": [run]} for run in range(10)})


def test_a_store_that_is_gone_is_told_of_and_comes_back(
    s3: MakePlace, make: MakeFollower, proxy: FaultProxy, tmp_path: Path
) -> None:
    place = s3(endpoint=proxy.url)
    store, prefix = place.open()
    store.put(f"{prefix}/run/{FILE}", VERSION + points("a", 1))
    follower = make()
    told: list[str] = []
    root = follower.follow(
        place.uri,
        lambda: told.extend(root.problems.values()),
        credentials=place.credentials,
    )
    eventually(lambda: steps_of(root) == {"run": {"a": [1]}})
    proxy.refuse()
    local = follower.follow(str(tmp_path))
    eventually(lambda: bool(root.problems))
    assert list(root.problems) == [place.uri]
    assert steps_of(root) == {"run": {"a": [1]}}  # what was read stays
    (tmp_path / FILE).write_bytes(VERSION + points("a", 5))
    eventually(lambda: steps_of(local) == {".": {"a": [5]}})
    proxy.heal()
    store.put(f"{prefix}/run/{FILE}", VERSION + points("a", 1, 2))
    eventually(lambda: root.problems == {} and steps_of(root) == {"run": {"a": [1, 2]}})
    assert told


@pytest.mark.parametrize("wrong", ["secret", "bucket", "listing", "settings"])
def test_what_is_wrong_with_a_place_is_told(wrong: str, s3: MakePlace, make: MakeFollower) -> None:
    place = s3("lists-not" if wrong == "listing" else "everything")
    uri, credentials = place.uri, dict(place.credentials)
    if wrong == "secret":
        credentials["secret_access_key"] = "no-such-secret"
    elif wrong == "bucket":
        uri = "s3://no-such-bucket/x"
    elif wrong == "settings":
        credentials["colour"] = "red"
    follower = make()
    root = follower.follow(uri, credentials=credentials)
    assert follower.wait_until_loaded(PATIENCE)
    (reason,) = root.problems.values()
    assert reason
    assert "no-such-secret" not in reason


def test_an_event_file_by_itself(s3: MakePlace, make: MakeFollower) -> None:
    place = s3()
    store, prefix = place.open()
    store.put(f"{prefix}/{segment_name(FILE, 1)}", VERSION + points("a", 1))
    store.put(f"{prefix}/{FILE}.other", VERSION + points("b", 1))
    follower = make()
    root = follower.follow(f"{place.uri}/{FILE}", credentials=place.credentials)
    eventually(lambda: steps_of(root) == {".": {"a": [1]}})


def test_azure(azure_place: Place, make: MakeFollower) -> None:
    store, prefix = azure_place.open()
    store.put(f"{prefix}/run/{segment_name(FILE, 1)}", VERSION + points("a", 1))
    root = follow(make(), azure_place)
    assert steps_of(root) == {"run": {"a": [1]}}
    store.put(f"{prefix}/run/{segment_name(FILE, 1)}", VERSION + points("a", 1, 2))
    store.put(f"{prefix}/run/{segment_name(FILE, 2)}", points("a", 3))
    eventually(lambda: steps_of(root) == {"run": {"a": [1, 2, 3]}})


def test_load_reads_a_bucket(
    tmp_path: Path, s3: MakePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / FILE).write_bytes(VERSION + points("a", 1, 2))
    place = s3()
    place.upload(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", place.credentials["endpoint"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", place.credentials["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", place.credentials["secret_access_key"])
    assert loaded(place.uri) == loaded(tmp_path)


def test_an_allowance_puts_listings_off(
    make: MakeFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = use_double(monkeypatch)
    store.put(f"r/{FILE}", VERSION + points("a", 1))
    follower, traffic = make(), Traffic(requests_per_minute=1)
    root = follower.follow("s3://double/r", traffic=traffic)
    assert follower.wait_until_loaded(PATIENCE)
    assert steps_of(root) == {".": {"a": [1]}}
    assert traffic.requests == 2
    assert traffic.free_at > time.monotonic() + 100
