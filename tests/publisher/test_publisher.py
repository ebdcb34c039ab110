"""A directory and a real store behind a proxy that fails: all arrives, once and in order."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage.conftest import QUICK, Place
from support.fault_proxy import (
    Fault,
    FaultProxy,
    Half,
    LostAnswer,
    LostRequest,
    Slow,
    Status,
)
from support.memory_buckets import Bucket, StaleBucket
from support.oracle import read_scalars
from support.records import frame
from tbhub import SummaryWriter
from tbhub.events.segments import group_segments
from tbhub.publisher import publisher as engine
from tbhub.publisher.publisher import Backlog, Publisher
from tbhub.storage.local import LocalStore
from tbhub.storage.source import FileSource
from tbhub.storage.store import Store

NAME = "events.out.tfevents.1.host"
RECORDS = [frame(b"%06d" % number * 100) for number in range(1000)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    return made


def publisher(directory: Path, store: Store, prefix: str = "p", **changed: object) -> Publisher:
    state = directory.parent / "state.json"
    return Publisher(directory, store, prefix, state=state, interval=0.05, **changed)  # type: ignore[arg-type]


def add(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as opened:
        opened.write(data)


def files_of(store: Store, prefix: str) -> dict[str, bytes]:
    """What a reader finds: files by name, those in segments put together."""
    names = [entry.path for entry in store.list(prefix)]
    return {
        name[len(prefix) + 1 :]: b"".join(map(store.read, parts))
        for name, parts in group_segments(names).items()
    }


def local_files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


Behind = tuple[Store, str]


@pytest.fixture
def behind(proxy: FaultProxy, s3: Callable[..., Place]) -> Iterator[Behind]:
    store, path = s3(endpoint=proxy.url).open(QUICK)
    yield store, path
    store.close()


@pytest.mark.parametrize(
    ("fault", "every"),
    [
        *((LostRequest(), 5), (LostAnswer(), 5), (LostAnswer(), 2), (Status(503), 2)),
        *((Half(), 3), (Slow(0.05), 2), (Status(500, "InternalError"), 3)),
    ],
    ids=str,
)
def test_a_store_that_stumbles(
    directory: Path, behind: Behind, proxy: FaultProxy, fault: Fault, every: int
) -> None:
    store, path = behind
    proxy.add(fault, every=every)
    publishing = publisher(directory, store, path)
    publishing.start()
    for number in range(0, 1000, 50):
        add(directory / "run" / NAME, b"".join(RECORDS[number : number + 50]))
        add(directory / f"assets/{number}.txt", b"%d" % number)
        time.sleep(0.02)
    assert publishing.close(60) == Backlog()
    proxy.heal()
    assert files_of(store, path) == local_files(directory)


def test_a_store_that_is_down_and_comes_back(
    directory: Path, behind: Behind, proxy: FaultProxy
) -> None:
    store, path = behind
    publishing = publisher(directory, store, path)
    add(directory / NAME, b"".join(RECORDS[:300]))
    assert publishing.publish() == Backlog()
    proxy.refuse()
    add(directory / NAME, b"".join(RECORDS[300:600]))
    left = publishing.publish()
    assert (left.files, left.bytes) == (1, sum(map(len, RECORDS[300:600])))
    assert "cannot write s3://" in left.problem
    publishing.start()
    time.sleep(0.3)
    assert publishing.backlog.files == 1
    proxy.heal()
    assert publishing.close(60) == Backlog()
    assert files_of(store, path) == local_files(directory)


def test_credentials_that_expire_are_told_of_and_tried_again(
    directory: Path, behind: Behind, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_SLOW_PAUSE", 0.05)
    store, path = behind
    proxy.add(Status(400, "ExpiredToken"), methods={"PUT"})
    add(directory / NAME, RECORDS[0])
    publishing = publisher(directory, store, path)
    left = publishing.publish()
    assert left.files == 1
    assert "expired" in left.problem
    assert publishing.close(0.5).files == 1
    proxy.heal()
    assert publishing.close(60) == Backlog()
    assert files_of(store, path) == local_files(directory)


def test_only_the_last_short_segment_is_sent_again(directory: Path) -> None:
    bucket = Bucket()
    publishing = publisher(directory, bucket)
    for record in RECORDS:
        add(directory / NAME, record)
        publishing.publish()
    sizes = [len(data) for data in bucket.objects.values()]
    assert all(4 << 10 <= size < (4 << 10) + len(RECORDS[0]) for size in sizes[:-1])
    done = publishing.progress
    assert done.logged == sum(map(len, RECORDS))
    assert done.requests == len(RECORDS) + 1  # one listing
    before = bucket.meter.reading()
    assert publishing.publish() == Backlog()
    assert bucket.meter.reading() == before  # nothing new, nothing asked


def test_stock_tensorboard_reads_the_segments(directory: Path, tmp_path: Path) -> None:
    bucket = Bucket()
    publishing = publisher(directory, bucket)
    with SummaryWriter(directory) as writer:
        for step in range(30_000):
            writer.add_scalar("loss", float(step), step)
            if step % 1000 == 0:
                writer.flush()
                publishing.publish()
    publishing.close()
    for path, data in bucket.objects.items():
        add(tmp_path / "found" / path, data)
    assert len(bucket.objects) > 5
    points = read_scalars(tmp_path / "found/p")["loss"]
    assert points == [(step, float(step)) for step in range(30_000)]


@pytest.mark.parametrize("grows", [False, True])
def test_a_file_that_is_replaced_or_truncated(directory: Path, tmp_path: Path, grows: bool) -> None:
    store: Store = LocalStore(tmp_path / "store") if grows else Bucket()
    first, second, third = (b"".join(RECORDS[n : n + 200]) for n in (0, 200, 400))
    file = directory / NAME
    file.write_bytes(first)
    publishing = publisher(directory, store)
    publishing.publish()
    os.truncate(file, 0)
    publishing.publish()
    file.write_bytes(second)  # the same inode, and as long
    publishing.publish()
    (directory / "new").write_bytes(third)
    (directory / "new").replace(file)
    assert publisher(directory, store).close() == Backlog()
    (directory / "copy").write_bytes(third + RECORDS[0])
    (directory / "copy").replace(file)  # another inode, but the same file
    (tmp_path / "state.json").unlink()
    assert publisher(directory, store).close() == Backlog()
    found = files_of(store, "p")
    expected = {first, second, third + RECORDS[0]}
    assert found[NAME] == first
    assert set(found.values()) == expected
    assert all(name.startswith(NAME) for name in found)


def test_another_writer_of_the_same_name_is_not_overwritten(directory: Path) -> None:
    bucket = Bucket()
    bucket.objects[f"p/{NAME}.000001"] = theirs = RECORDS[7]
    add(directory / NAME, RECORDS[0])
    publishing = publisher(directory, bucket)
    assert publishing.close() == Backlog()
    assert files_of(bucket, "p") == {NAME: theirs, f"{NAME}.again1": RECORDS[0]}


def test_a_listing_that_is_old(directory: Path, tmp_path: Path) -> None:
    bucket = StaleBucket()
    file = directory / NAME
    add(file, b"".join(RECORDS[:300]))
    publisher(directory, bucket).publish()
    bucket.listed = {}
    add(file, b"".join(RECORDS[300:600]))
    publisher(directory, bucket).publish()
    (tmp_path / "state.json").unlink()
    add(file, b"".join(RECORDS[600:900]))
    assert publisher(directory, bucket).close() == Backlog()
    stored = b"".join(bucket.objects[path] for path in sorted(bucket.objects))
    assert stored == file.read_bytes()


def test_an_object_that_was_overwritten_late_is_mended(directory: Path) -> None:
    bucket = Bucket()
    file = directory / NAME
    add(file, b"".join(RECORDS[:50]))
    publishing = publisher(directory, bucket)
    publishing.publish()
    early = dict(bucket.objects)
    add(file, b"".join(RECORDS[50:300]))
    publishing.publish()
    bucket.objects.update(early)  # a request that had been given up, and got through now
    add(file, b"".join(RECORDS[300:600]))
    assert publishing.close() == Backlog()
    assert files_of(bucket, "p") == {NAME: file.read_bytes()}


def test_large_file_rewritten_while_it_is_uploaded(directory: Path, tmp_path: Path) -> None:
    file = directory / "last.ckpt"
    seen = []

    class Watching(LocalStore):
        def put(self, path: str, data: bytes | FileSource) -> str:
            if len(seen) < 3:  # its program rewrites it meanwhile
                file.write_bytes(bytes([len(seen)]) * (5 << 20))
            try:
                return super().put(path, data)
            finally:
                there = tmp_path / "place" / path
                seen.append(set(there.read_bytes()) if there.exists() else set())

    file.write_bytes(b"x" * (5 << 20))
    publishing = publisher(directory, Watching(tmp_path / "place"))
    assert publishing.close(60) == Backlog()
    assert len(seen) >= 4
    assert seen == [*[set()] * (len(seen) - 1), {2}]  # never a part, nor parts of two versions


def test_a_large_version_does_not_replace_a_small_one_that_came_after_it(
    directory: Path, tmp_path: Path
) -> None:
    let_through = threading.Event()

    class Slow(LocalStore):
        def put(self, path: str, data: bytes | FileSource) -> str:
            assert len(data.read_all() if isinstance(data, FileSource) else data) < 100 or (
                let_through.wait(60)
            )
            return super().put(path, data)

    file = directory / "last.ckpt"
    file.write_bytes(bytes(2 << 20))
    publishing = publisher(directory, Slow(tmp_path / "place"))
    assert publishing.publish() == Backlog(1, 2 << 20)
    (directory / "last.ckpt.tmp").write_bytes(b"small")
    (directory / "last.ckpt.tmp").replace(file)
    publishing.publish()
    let_through.set()
    assert publishing.close(60) == Backlog()
    assert (tmp_path / "place/p/last.ckpt").read_bytes() == b"small"


def test_metrics_pass_a_large_file(directory: Path, tmp_path: Path) -> None:
    let_through = threading.Event()

    class Slow(LocalStore):
        def put(self, path: str, data: bytes | FileSource) -> str:
            assert let_through.wait(60)
            return super().put(path, data)

    (directory / "model.pt").write_bytes(bytes(2 << 20))
    place = tmp_path / "place" / "p"
    publishing = publisher(directory, Slow(tmp_path / "place"))
    for number in range(3):
        add(directory / NAME, RECORDS[number])
        assert publishing.publish() == Backlog(1, 2 << 20)
        assert (place / NAME).read_bytes() == b"".join(RECORDS[: number + 1])
    let_through.set()
    assert publishing.close(60) == Backlog()
    assert (place / "model.pt").stat().st_size == 2 << 20


def test_unfinished_names_are_published_at_the_end(directory: Path, tmp_path: Path) -> None:
    for name in (".model.pt.x1", "model.pt.tmp", "tmp.tmp/model.pt", "model.pt"):
        add(directory / name, b"x")
    publishing = publisher(directory, LocalStore(tmp_path / "place"))
    assert publishing.publish() == Backlog()
    place = tmp_path / "place" / "p"
    assert local_files(place) == {"model.pt": b"x"}
    (directory / "model.pt.tmp").unlink()
    assert publishing.close(60) == Backlog()
    assert local_files(place) == dict.fromkeys(
        [".model.pt.x1", "tmp.tmp/model.pt", "model.pt"], b"x"
    )


def test_ranks_do_not_meet(directory: Path) -> None:
    bucket = Bucket()
    add(directory / NAME, RECORDS[0])
    for rank in range(3):
        (directory.parent / "state.json").unlink(missing_ok=True)
        publisher(directory, bucket, rank=rank).close()
    names = {"p/" + NAME, "p/rank1/" + NAME, "p/rank2/" + NAME}
    assert set(bucket.objects) == {f"{name}.000001" for name in names}


def test_names_that_no_bucket_holds_stop_nobody(directory: Path, behind: Behind) -> None:
    store, path = behind
    for name in ("a\\b.txt", "tab\t.txt", f"back\\slash.{NAME}", "bad\udcff.txt"):
        add(directory / os.fsdecode(os.fsencode(name)), RECORDS[0])
    for name in ("a b.txt", "ü/日本.txt", "100%.txt", "q?x#y.txt"):
        add(directory / name, b"good")
    publishing = publisher(directory, store, path)
    left = publishing.close(60)
    assert (left.files, left.problem) == (0, "")
    assert len(left.refused) == 4
    assert all("cannot hold" in each for each in left.refused)
    assert set(files_of(store, path)) == {"a b.txt", "ü/日本.txt", "100%.txt", "q?x#y.txt"}


def test_a_file_that_keeps_changing_is_sent_now_and_then(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.plan, "PACE", 0.4)
    bucket = Bucket()
    publishing = publisher(directory, bucket)
    publishing.start()
    begun = time.monotonic()
    while len(bucket.puts) < 2 and time.monotonic() < begun + 30:
        add(directory / "table.csv", b"line\n")
        time.sleep(0.01)
    took = time.monotonic() - begun
    assert 2 <= len(bucket.puts) <= 2 + took / 0.4
    assert publishing.close() == Backlog()
    assert bucket.objects["p/table.csv"] == (directory / "table.csv").read_bytes()


@pytest.mark.parametrize("grows", [False, True])
def test_of_a_log_only_what_is_new_is_sent(directory: Path, tmp_path: Path, grows: bool) -> None:
    store: Store = LocalStore(tmp_path / "store") if grows else Bucket()
    log = directory / "console.log"
    publishing = publisher(directory, store)
    for number in range(200):
        add(log, b"%05d\n" % number * 1000)
        publishing.publish()
    assert publishing.progress.sent == log.stat().st_size == 1_200_000
    (tmp_path / "state.json").unlink()
    add(log, b"half a line")
    assert publisher(directory, store).close() == Backlog()
    assert files_of(store, "p") == local_files(directory)
    log.write_bytes(b"another attempt\n")
    assert publisher(directory, store).close() == Backlog()
    assert files_of(store, "p")["console.log.again1"] == b"another attempt\n"


@pytest.mark.parametrize("grows", [False, True])
def test_a_log_that_is_replaced_time_and_again_is_sent_whole(
    directory: Path, tmp_path: Path, grows: bool
) -> None:
    store: Store = LocalStore(tmp_path / "store") if grows else Bucket()
    publishing = publisher(directory, store)
    for number in range(20):
        (directory / "state.log").write_bytes(b"%d is how far it is" % number)
        assert publishing.publish() == Backlog()
    names = {entry.path for entry in store.list("p")}
    assert len(names) == (10 if grows else 11)
    assert store.read("p/state.log") == b"19 is how far it is"


def test_twenty_thousand_files(directory: Path) -> None:
    for number in range(20_000):
        place = directory / str(number % 100)
        place.mkdir(exist_ok=True)
        (place / f"{number}.txt").write_bytes(b"%d" % number)
    bucket = Bucket()
    threads = threading.active_count()
    publishing = publisher(directory, bucket)
    assert publishing.publish() == Backlog()
    assert threading.active_count() == threads
    assert files_of(bucket, "p") == local_files(directory)
    assert publisher(directory, bucket).publish() == Backlog()
    assert len(bucket.puts) == 20_000
