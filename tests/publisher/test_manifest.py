"""A checkpoint directory that is partly published is known to be, from its first file on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.conftest import no_environment
from support.hub import HubProcess
from support.memory_buckets import Bucket
from tbhub.publisher import manifest as manifests
from tbhub.publisher.checkpoints import checkpoint_files
from tbhub.publisher.manifest import (
    MANIFEST,
    Entries,
    ManifestWriter,
    NewerFormatError,
    decode,
    encode,
    missing_files,
    updated,
)
from tbhub.publisher.publisher import Publisher
from tbhub.publisher.restorer import Restorer
from tbhub.publisher.spool import make_spool
from tbhub.storage.errors import NoPermission, Unreachable
from tbhub.storage.open import open_store
from tbhub.storage.source import FileSource
from tbhub.storage.store import Store

__all__ = ["no_environment"]

PLACE = f"p/{MANIFEST}"
LATER = 1000.0  # seconds

# Is killed when it is about to upload the last file of a checkpoint directory.
CUT_OFF = """
import os, signal, sys
from pathlib import Path
from tbhub.publisher.spool import find_spool
publisher, store = find_spool(Path(sys.argv[1])).open()
put = store.put
def broken(path, data):
    if path.endswith("/state"):
        os.kill(os.getpid(), signal.SIGKILL)
    return put(path, data)
store.put = broken
publisher.close(60)
"""


def entries_of(**directories: str) -> Entries:
    """Return entries: ``step_1="a b"`` is a directory with two files."""
    return {directory: frozenset(names.split()) for directory, names in directories.items()}


def write(file: Path, data: bytes = b"x", *, mtime: int = 0) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    os.utime(file, (mtime, mtime))


class FailingBucket(Bucket):
    """Fails to write objects whose names end in some text."""

    def __init__(self, failing: str = "") -> None:
        super().__init__()
        self.failing = failing

    def put(self, path: str, data: bytes | FileSource) -> str:
        if self.failing and path.endswith(self.failing):
            raise Unreachable("write", path, "no answer")
        return super().put(path, data)

    def listed(self) -> Entries:
        return decode(self.objects[PLACE])


def publisher(directory: Path, store: Store, **changed: object) -> Publisher:
    options = {"state": directory.parent / "state.json", "with_manifest": True, **changed}
    return Publisher(directory, store, "p", **options)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- pure


def test_files_that_grow_are_not_listed() -> None:
    paths = ["step_1/a", "step_1/b/c", "step_1/x.log", "step_1/events.out.tfevents.1", "last.pt"]
    assert checkpoint_files(paths) == entries_of(step_1="a b/c")


@pytest.mark.parametrize(
    ("entries", "present", "begun", "deleted", "expected"),
    [
        ({}, {"step_1": "a b"}, {"step_1"}, {}, {"step_1": "a b"}),
        ({}, {"step_1": "a b"}, set(), {}, {}),  # restored, or published by an earlier version
        ({}, {"step_1": "a"}, {"step_1"}, {}, {}),
        ({"step_1": "a b"}, {"step_1": "a b c"}, set(), {}, {"step_1": "a b c"}),
        ({"step_1": "a b"}, {"step_1": "a"}, set(), {}, {"step_1": "a b"}),
        ({"step_1": "a b"}, {"step_1": "a"}, set(), {"step_1": "b"}, {"step_1": "a"}),
        ({"step_1": "a b"}, {}, set(), {}, {"step_1": "a b"}),  # of an earlier attempt
    ],
)
def test_entries_are_updated(
    entries: dict[str, str],
    present: dict[str, str],
    begun: set[str],
    deleted: dict[str, str],
    expected: dict[str, str],
) -> None:
    found = updated(entries_of(**entries), entries_of(**present), begun, entries_of(**deleted))
    assert found == entries_of(**expected)


def test_only_directories_of_which_the_store_has_a_file_lack_files() -> None:
    entries = entries_of(step_1="a b", step_2="a b", step_3="a b")
    stored = ["step_1/a", "step_1/b", "step_2/a", "step_2/x", "step_4/a"]
    assert missing_files(entries, stored) == entries_of(step_2="b")


@given(st.dictionaries(st.text(), st.frozensets(st.text())))
def test_a_manifest_is_read_as_it_was_written(entries: Entries) -> None:
    assert decode(encode(entries)) == entries


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\xff", b"[]", b"{}", b"[" * 100_000, b'{"format": "1", "directories": {}}'),
        *(b'{"format": 1}', b'{"format": 1, "directories": []}'),
        *(b'{"format": 1, "directories": {"a": "b"}}', b'{"format": 1, "directories": {"a": 1}}'),
    ],
    ids=lambda data: repr(data[:40]),
)
def test_a_damaged_manifest_is_rejected(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        decode(data)
    assert not isinstance(raised.value, NewerFormatError)


def test_the_oldest_entries_are_dropped() -> None:
    present = {f"step_{number}": frozenset("ab") for number in range(1500)}
    found = updated({}, present, present, {})
    assert list(found) == [f"step_{number}" for number in range(500, 1500)]
    many = {f"step_{number}": frozenset(map(str, range(3000))) for number in range(5)}
    assert list(updated({}, many, many, {})) == ["step_2", "step_3", "step_4"]


def test_a_directory_that_is_too_large_is_not_listed_and_its_entry_is_dropped() -> None:
    entries = entries_of(step_1="a b", step_2="a b")
    large = {"step_2": frozenset(map(str, range(10_001)))}
    assert updated(entries, large, large, {}) == entries_of(step_1="a b")
    long = {"step_2": frozenset("x" * 400_000 + name for name in "ab")}
    assert updated(entries, long, long, {}) == entries_of(step_1="a b")


def test_the_largest_manifest_can_be_read() -> None:
    names = frozenset(f"{number:05}" + "\U0001f600" * 45 for number in range(9900))
    entries = updated({}, {"step_1": names}, {"step_1"}, {})
    assert len(entries["step_1"]) == 9900
    assert len(encode(entries)) <= manifests.MAX_BYTES


# ---------------------------------------------------------------------- the writer


@given(st.data())
def test_a_cut_off_at_any_upload_shows(data: st.DataObject) -> None:
    """A program writes and deletes files; each pass uploads some of them, and may be the last."""
    bucket = FailingBucket()
    writer = ManifestWriter(bucket, PLACE)
    present: set[str] = set()
    stored: set[str] = set()
    is_listed = False
    for now in range(data.draw(st.integers(1, 8))):
        added = data.draw(st.sets(st.sampled_from("abcdef")))
        present |= added
        if added or is_listed:  # a directory that only loses files may be on its way out
            gone = data.draw(st.sets(st.sampled_from("abcdef"))) - added
            present -= gone
        if not present:
            continue
        paths = {f"step_1/{name}" for name in present}
        begun = {"step_1"} if paths - stored else set()
        writer.observe(checkpoint_files(paths), begun, float(now), has_ended=False)
        uploads = data.draw(st.permutations(sorted(paths - stored)))
        for path in uploads[: data.draw(st.integers(0, len(uploads)))]:
            writer.save()
            stored.add(path)
            listed = bucket.listed() if PLACE in bucket.objects else {}
            is_listed = "step_1" in listed
            assert is_listed or len(present) == 1
            if is_listed and paths - stored:
                assert missing_files(listed, stored)
        writer.save()
    # Whatever has been before: what is all there is complete, once nothing changes.
    paths = {f"step_1/{name}" for name in present}
    if paths:
        for now in (LATER, 2 * LATER):
            writer.observe(checkpoint_files(paths), {"step_1"}, now, has_ended=False)
            writer.save()
        if PLACE in bucket.objects:
            assert missing_files(bucket.listed(), stored | paths) == {}


def observe(writer: ManifestWriter, now: float, has_ended: bool = False, **present: str) -> None:
    writer.observe(entries_of(**present), set(present), now, has_ended=has_ended)
    writer.save()


def test_a_deleted_file_is_not_required_once_the_directory_stays_as_it_is() -> None:
    bucket = FailingBucket()
    writer = ManifestWriter(bucket, PLACE)
    observe(writer, 0, step_1="a b marker")
    observe(writer, 1, step_1="a b")
    assert bucket.listed() == entries_of(step_1="a b marker")
    observe(writer, 2, step_1="a b")
    assert bucket.listed() == entries_of(step_1="a b")
    observe(writer, 3, has_ended=True, step_1="a")
    assert bucket.listed() == entries_of(step_1="a")


def test_a_renamed_file_is_not_required_under_its_old_name() -> None:
    bucket = FailingBucket()
    writer = ManifestWriter(bucket, PLACE)
    observe(writer, 0, step_1="a part")
    observe(writer, 1, step_1="a whole")
    assert bucket.listed() == entries_of(step_1="a whole")


def test_a_directory_that_is_deleted_stays_listed() -> None:
    bucket = FailingBucket()
    writer = ManifestWriter(bucket, PLACE)
    observe(writer, 0, step_1="a b", step_2="a b")
    observe(writer, 1, step_1="a", step_2="a b")
    observe(writer, 2, step_2="a b")
    observe(writer, LATER, step_2="a b")
    assert bucket.listed() == entries_of(step_1="a b", step_2="a b")


def test_files_of_an_earlier_attempt_are_required_until_the_directory_has_settled() -> None:
    bucket = FailingBucket()
    bucket.put(PLACE, encode(entries_of(step_1="a b", step_2="a rank1 rank2")))
    writer = ManifestWriter(bucket, PLACE)
    for now in (0, 1, 2):
        observe(writer, now, step_2="a rank1")
        assert bucket.listed() == entries_of(step_1="a b", step_2="a rank1 rank2")
    observe(writer, LATER, step_2="a rank1")
    assert bucket.listed() == entries_of(step_1="a b", step_2="a rank1")


def test_a_manifest_of_a_newer_version_is_left_alone() -> None:
    bucket = FailingBucket()
    newer = json.dumps({"format": 2, "directories": {}}).encode()
    bucket.put(PLACE, newer)
    observe(ManifestWriter(bucket, PLACE), 0, step_1="a b")
    assert bucket.objects[PLACE] == newer


def test_a_damaged_manifest_is_replaced() -> None:
    bucket = FailingBucket()
    bucket.put(PLACE, b"{")
    observe(ManifestWriter(bucket, PLACE), 0, step_1="a b")
    assert bucket.listed() == entries_of(step_1="a b")


def test_a_manifest_is_written_where_nothing_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket = FailingBucket()

    def refuse(path: str, *_: object) -> bytes:
        raise NoPermission("read", path, "write only")

    monkeypatch.setattr(bucket, "read", refuse)
    observe(ManifestWriter(bucket, PLACE), 0, step_1="a b")
    assert bucket.listed() == entries_of(step_1="a b")


# ---------------------------------------------------------------------- the publisher


def test_the_manifest_is_put_before_the_first_file_and_once(tmp_path: Path) -> None:
    bucket = FailingBucket()
    for number in range(20):
        write(tmp_path / f"files/step_{number % 4}/{number}")
    write(tmp_path / "files/step_0/large", b"x" * (2 << 20))
    left = publisher(tmp_path / "files", bucket).close(60)
    assert (left.files, left.refused) == (0, ())
    assert bucket.puts[0] == PLACE
    assert bucket.puts.count(PLACE) == 1
    assert bucket.listed() == checkpoint_files(
        path.removeprefix("p/") for path in bucket.objects if path != PLACE
    )


def test_nothing_is_read_or_put_without_checkpoint_directories(tmp_path: Path) -> None:
    bucket = FailingBucket()
    write(tmp_path / "files/last.pt")
    write(tmp_path / "files/checkpoints/last.pt")
    publishing = publisher(tmp_path / "files", bucket)
    publishing.publish()
    publishing.publish()
    assert sorted(bucket.puts) == ["p/checkpoints/last.pt", "p/last.pt"]
    assert bucket.meter.reading().requests.get("read", 0) == 0


def test_a_file_that_comes_later_is_listed_before_it_is_due(tmp_path: Path) -> None:
    """The program still writes it when the first file is published."""
    bucket = FailingBucket()
    write(tmp_path / "files/step_1/model")
    publishing = publisher(tmp_path / "files", bucket)
    publishing.publish()
    assert bucket.puts == ["p/step_1/model"]
    write(tmp_path / "files/step_1/state")
    publishing.advance()
    assert bucket.puts == ["p/step_1/model", PLACE]
    assert bucket.listed() == entries_of(step_1="model state")


def test_no_checkpoint_file_is_uploaded_when_the_manifest_cannot_be_put(tmp_path: Path) -> None:
    bucket = FailingBucket(MANIFEST)
    write(tmp_path / "files/step_1/model")
    write(tmp_path / "files/step_1/large", b"x" * (2 << 20))
    publishing = publisher(tmp_path / "files", bucket)
    left = publishing.publish()
    assert (left.files, bucket.puts) == (2, [])
    assert "no answer" in left.problem
    bucket.failing = ""
    assert publishing.close(60).files == 0
    assert bucket.puts[0] == PLACE


def test_excluded_files_are_not_listed(tmp_path: Path) -> None:
    bucket = FailingBucket()
    bucket.put(PLACE, encode(entries_of(step_1="model state optimizer")))
    for name in ("model", "state", "optimizer"):
        write(tmp_path / f"files/step_1/{name}")
        write(tmp_path / f"files/step_2/{name}")
    publisher(tmp_path / "files", bucket, exclude=["opt*"]).publish()
    assert bucket.listed() == entries_of(step_1="model state", step_2="model state")


def test_files_that_cannot_be_published_are_not_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = FailingBucket()
    for name in ("model", "state", "unreadable"):
        write(tmp_path / f"files/step_1/{name}")
    publishing = publisher(tmp_path / "files", bucket)
    source = publishing._source

    def refuse(path: str) -> FileSource:
        if path.endswith("unreadable"):
            raise PermissionError(13, "Permission denied")
        return source(path)

    monkeypatch.setattr(publishing, "_source", refuse)
    assert len(publishing.publish(has_ended=True).refused) == 1
    assert bucket.listed() == entries_of(step_1="model state")
    puts = list(bucket.puts)
    publishing.publish()
    assert bucket.puts == puts


def test_a_late_attempt_leaves_the_manifest_alone(tmp_path: Path) -> None:
    bucket = FailingBucket()
    bucket.put(PLACE, encode(entries_of(step_1="model state")))
    before = bucket.objects[PLACE]
    write(tmp_path / "files/step_2/model")
    write(tmp_path / "files/step_2/state")
    write(tmp_path / f"files/{MANIFEST}", b"restored by an earlier version")
    left = publisher(tmp_path / "files", bucket, late_attempt=1).publish(has_ended=True)
    assert left.files == 0
    assert bucket.objects[PLACE] == before
    assert "p/step_2/state" in bucket.objects


def test_a_local_manifest_is_not_published(tmp_path: Path) -> None:
    bucket = FailingBucket()
    write(tmp_path / f"files/{MANIFEST}", b"restored by an earlier version")
    assert publisher(tmp_path / "files", bucket).publish(has_ended=True).files == 0
    assert bucket.puts == []


def test_a_copy_of_a_published_directory_has_its_manifest(tmp_path: Path) -> None:
    """A hub publishes to its bucket what workers have published to the hub."""
    bucket = FailingBucket()
    listed = encode(entries_of(step_1="model state"))
    write(tmp_path / f"files/{MANIFEST}", listed)
    write(tmp_path / "files/step_1/model")
    write(tmp_path / "files/step_2/model")
    write(tmp_path / "files/step_2/state")
    options = {"with_manifest": False, "include_unfinished": True}
    publisher(tmp_path / "files", bucket, **options).publish()
    assert bucket.objects[PLACE] == listed


# ---------------------------------------------------------------------- killed and restored


def restore(store: Store, prefix: str, top: Path) -> tuple[list[str], tuple[str, ...]]:
    """Restore to an empty machine; return the files there, and the directories left out."""
    directory = top / "files"
    directory.mkdir(parents=True)
    done = Restorer(store, prefix, directory, state=top / "state.json").run()
    files = [path for path in directory.rglob("*") if path.is_file()]
    return sorted(path.relative_to(directory).as_posix() for path in files), done.incomplete


def test_the_first_checkpoint_is_left_out_when_its_publisher_was_killed(tmp_path: Path) -> None:
    uri = str(tmp_path / "store")
    first = make_spool(uri)
    write(first.directory / "last.pt")
    write(first.directory / "checkpoint-20/model.pt", mtime=1)
    write(first.directory / "checkpoint-20/state", mtime=2)
    done = subprocess.run([sys.executable, "-c", CUT_OFF, str(first.path)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    store, prefix = open_store(uri)
    assert (tmp_path / "store/checkpoint-20/model.pt").exists()
    assert not (tmp_path / "store/checkpoint-20/state").exists()
    assert restore(store, prefix, tmp_path / "one") == (["last.pt"], ("checkpoint-20",))

    # The next attempt, on another machine, gets as far as its second checkpoint.
    second = make_spool(uri, tmp_path / "second")
    write(second.directory / "checkpoint-40/model.pt")
    write(second.directory / "checkpoint-40/state")
    publishing, opened = second.open()
    assert publishing.close(60).files == 0
    opened.close()
    whole = ["checkpoint-40/model.pt", "checkpoint-40/state", "last.pt"]
    assert restore(store, prefix, tmp_path / "two") == (whole, ("checkpoint-20",))

    # The first machine publishes what it still has.
    publishing, opened = first.open(late_attempt=1)
    assert publishing.close(60).files == 0
    opened.close()
    whole = ["checkpoint-20/model.pt", "checkpoint-20/state", *whole]
    assert restore(store, prefix, tmp_path / "three") == (whole, ())
    store.close()


def test_a_manifest_that_cannot_be_used_is_ignored(tmp_path: Path) -> None:
    store, prefix = open_store(str(tmp_path / "store"))
    store.put(f"{prefix}/checkpoint-20/model.pt", b"x")
    store.put(f"{prefix}/{MANIFEST}", b'{"format": 2, "directories": {"checkpoint-20": ["x"]}}')
    assert restore(store, prefix, tmp_path / "one") == (["checkpoint-20/model.pt"], ())
    store.put(f"{prefix}/{MANIFEST}", b"{")
    assert restore(store, prefix, tmp_path / "two") == (["checkpoint-20/model.pt"], ())
    store.close()


def test_manifests_of_ranks_are_used(tmp_path: Path) -> None:
    store, prefix = open_store(str(tmp_path / "store"))
    store.put(f"{prefix}/rank1/checkpoint-20/model.pt", b"x")
    store.put(f"{prefix}/rank1/{MANIFEST}", encode({"checkpoint-20": frozenset({"state"})}))
    assert restore(store, prefix, tmp_path / "one") == ([], ("rank1/checkpoint-20",))
    store.close()


@pytest.mark.usefixtures("no_environment")
def test_a_hub_keeps_the_manifest(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home") as hub:
        target = hub.json("POST", "/api/v1/runs", json={})["target"]
        rights = {"url": hub.url, "token": hub.token, "attempt": "1"}
        store, prefix = open_store(target, rights)
        for number, name in enumerate(["model.pt", "state"]):
            write(tmp_path / f"files/checkpoint-20/{name}", mtime=number)
        options = {"state": tmp_path / "state.json", "with_manifest": True}
        publishing = Publisher(tmp_path / "files", store, prefix, **options)  # type: ignore[arg-type]
        assert publishing.close(60).files == 0
        files = ["checkpoint-20/model.pt", "checkpoint-20/state"]
        assert restore(store, prefix, tmp_path / "one") == (files, ())
        store.delete(f"{prefix}/checkpoint-20/state")
        assert restore(store, prefix, tmp_path / "two") == ([], ("checkpoint-20",))
        store.close()
