"""What was published comes back: whole, in order, once, and counts as published."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from publisher.conftest import Place
from tbhub import SummaryWriter
from tbhub.publisher.files import STAGING, all_files
from tbhub.publisher.manifest import MANIFEST, encode
from tbhub.publisher.older import Older
from tbhub.publisher.plan import Look
from tbhub.publisher.publisher import Publisher
from tbhub.publisher.restorer import (
    Progress,
    RestoreError,
    Restorer,
    in_order,
    incomplete_checkpoints,
    is_being_restored,
    unpublished_checkpoints,
)
from tbhub.storage.errors import Unreachable
from tbhub.storage.open import open_store
from tbhub.storage.store import Store


class Machine:
    """A directory that is published, on a machine of its own."""

    def __init__(self, top: Path, store: Store, prefix: str) -> None:
        self.directory = top / "files"
        self.directory.mkdir(parents=True)
        self.state = top / "state.json"
        self.store = store
        self.prefix = prefix

    def write(self, path: str, data: bytes) -> Path:
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file

    def publisher(self, exclude: Sequence[str] = ()) -> Publisher:
        return Publisher(
            self.directory,
            self.store,
            self.prefix,
            state=self.state,
            exclude=exclude,
            with_manifest=True,
        )

    def publish(self, exclude: Sequence[str] = ()) -> int:
        """Publish everything; how many bytes that took."""
        publisher = self.publisher(exclude)
        left = publisher.close(60)
        assert not left.files, left
        return publisher.progress.sent

    def restorer(self, **options: object) -> Restorer:
        return Restorer(self.store, self.prefix, self.directory, state=self.state, **options)  # type: ignore[arg-type]

    def link(self, path: str, target: str | Path) -> None:
        """Let a link lead to a file, as Lightning does with ``last.ckpt``."""
        (self.directory / path).unlink(missing_ok=True)
        (self.directory / path).symlink_to(target)

    def published(self) -> set[str]:
        """Return the paths of what the store has, without the manifest."""
        before = len(self.prefix) + 1
        return {each.path[before:] for each in self.store.list(self.prefix)} - {MANIFEST}

    def files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.directory).as_posix(): path.read_bytes()
            for path in self.directory.rglob("*")
            if path.is_file()
        }


@pytest.fixture(params=["local", "s3"])
def machines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Machine]]:
    """Machines that publish to one place: a directory that grows, and a bucket of segments."""
    if request.param == "local":
        store, prefix = open_store(str(tmp_path / "store"))
    else:
        s3: Callable[..., Place] = request.getfixturevalue("s3")
        store, prefix = s3().open()
    yield lambda name: Machine(tmp_path / name, store, prefix)
    store.close()


def log(machine: Machine, first: int, last: int) -> None:
    with SummaryWriter(machine.directory) as writer:
        for step in range(first, last):
            writer.add_scalar("loss", float(step), step)


def test_another_machine_has_the_same_files(machines: Callable[[str], Machine]) -> None:
    first, second = machines("first"), machines("second")
    log(first, 0, 100)
    first.write("console.log", b"line\n")
    first.write("checkpoint-10/model.bin", os.urandom(9 << 20))
    first.write("empty", b"")
    first.publish()
    done = second.restorer().run()
    assert second.files() == first.files()
    assert (done.files, done.bytes) == (4, sum(map(len, first.files().values())))
    assert second.publish() == 0
    assert second.restorer().run().files == 0
    # Trainers find their last checkpoint by its time.
    names = [entry.path for entry in first.store.list(first.prefix)]
    assert all(".again" not in name for name in names)
    entry = first.store.stat(f"{first.prefix}/checkpoint-10/model.bin")
    restored = second.directory / "checkpoint-10/model.bin"
    assert abs(restored.stat().st_mtime - entry.modified) < 0.01


def test_what_is_changed_after_the_restore_is_published(
    machines: Callable[[str], Machine],
) -> None:
    first, second, third = machines("first"), machines("second"), machines("third")
    first.write("last.pt", b"one")
    first.write("console.log", b"one\n")
    log(first, 0, 5)
    first.publish()
    second.restorer().run()
    second.write("last.pt", b"two")
    with (second.directory / "console.log").open("ab") as file:
        file.write(b"two\n")
    second.publish()
    third.restorer().run()
    assert third.files()["last.pt"] == b"two"
    assert third.files()["console.log"] == b"one\ntwo\n"
    assert len(third.files()) == 3


def test_an_interrupted_restore_continues(machines: Callable[[str], Machine]) -> None:
    first, second = machines("first"), machines("second")
    first.write("large.bin", os.urandom(13 << 20))
    first.publish()
    restorer = second.restorer()

    def interrupt(progress: Progress) -> None:
        if progress.bytes:
            restorer.stop()

    with pytest.raises(RestoreError, match="interrupted"):
        restorer.run(interrupt)
    assert second.directory.joinpath("large.bin").exists() is False
    (staged,) = (second.directory / STAGING).iterdir()
    before = second.store.meter.reading().bytes_read
    had = staged.stat().st_size
    assert 0 < had < 13 << 20
    second.restorer().run()
    assert second.store.meter.reading().bytes_read - before <= (13 << 20) - had
    assert second.files() == first.files()


def test_a_later_attempt_elsewhere_has_the_newer_checkpoint(
    machines: Callable[[str], Machine],
) -> None:
    """The first machine was preempted with something unpublished; then it is its turn again."""
    first, second = machines("first"), machines("second")
    first.write("last.pt", b"one")
    first.write("console.log", b"one\n")
    first.write("same", b"same")
    first.publish()
    second.restorer().run()
    second.write("last.pt", b"two")
    with (second.directory / "console.log").open("ab") as file:
        file.write(b"two\n")
    second.publish()
    first.write("last.pt", b"lost otherwise")
    with (first.directory / "console.log").open("ab") as file:
        file.write(b"lost otherwise\n")
    first.write("alone", b"alone")
    done = first.restorer(is_newest=False, attempt=1).run()
    assert done.renamed == ("console.attempt1.log", "last.pt.attempt1")
    assert first.files() == {
        "last.pt": b"two",
        "last.pt.attempt1": b"lost otherwise",
        "console.log": b"one\ntwo\n",
        "console.attempt1.log": b"one\nlost otherwise\n",
        "same": b"same",
        "alone": b"alone",
    }


def test_what_is_here_alone_is_kept(machines: Callable[[str], Machine]) -> None:
    first = machines("first")
    first.write("last.pt", b"one")
    first.publish()
    first.write("last.pt", b"newer, not published")
    assert first.restorer().run().files == 0
    assert first.files() == {"last.pt": b"newer, not published"}


def test_a_published_link_to_a_file_is_replaced_by_a_newer_checkpoint(
    machines: Callable[[str], Machine],
) -> None:
    first, second = machines("first"), machines("second")
    first.write("epoch2.ckpt", b"2")
    first.link("last.ckpt", "epoch2.ckpt")
    first.publish()
    second.restorer().run()
    second.write("epoch5.ckpt", b"5")
    second.link("last.ckpt", "epoch5.ckpt")
    second.publish()
    done = first.restorer(is_newest=False, attempt=1).run()
    assert (done.renamed, done.kept) == ((), ())
    assert first.files() == {"epoch2.ckpt": b"2", "epoch5.ckpt": b"5", "last.ckpt": b"5"}
    assert first.publish() == 0


def test_a_link_to_a_file_that_was_not_published_is_renamed(
    machines: Callable[[str], Machine],
) -> None:
    first, second = machines("first"), machines("second")
    first.write("epoch2.ckpt", b"2")
    first.link("last.ckpt", "epoch2.ckpt")
    first.publish()
    second.restorer().run()
    second.write("last.ckpt", b"5")
    second.publish()
    first.write("epoch3.ckpt", b"3")
    first.link("last.ckpt", "epoch3.ckpt")
    done = first.restorer(is_newest=False, attempt=1).run()
    assert (done.renamed, done.kept) == (("last.ckpt.attempt1",), ())
    assert os.readlink(first.directory / "last.ckpt.attempt1") == "epoch3.ckpt"
    assert first.files() == {
        "epoch2.ckpt": b"2",
        "epoch3.ckpt": b"3",
        "last.ckpt": b"5",
        "last.ckpt.attempt1": b"3",
    }


def test_a_link_to_a_file_of_the_newest_attempt_stays(machines: Callable[[str], Machine]) -> None:
    first = machines("first")
    first.write("epoch2.ckpt", b"2")
    first.link("last.ckpt", "epoch2.ckpt")
    first.link("gone.ckpt", "epoch2.ckpt")
    first.publish()
    first.write("epoch3.ckpt", b"3")
    first.link("last.ckpt", "epoch3.ckpt")
    first.link("gone.ckpt", "epoch4.ckpt")
    done = first.restorer().run()
    assert (done.renamed, done.kept) == ((), ())
    assert os.readlink(first.directory / "last.ckpt") == "epoch3.ckpt"
    assert (first.directory / "gone.ckpt").read_bytes() == b"2"  # the link led to nothing


def test_a_link_out_of_the_directory_is_renamed_and_not_followed(
    machines: Callable[[str], Machine], tmp_path: Path
) -> None:
    first, second = machines("first"), machines("second")
    second.write("last.ckpt", b"5")
    second.publish()
    outside = tmp_path / "outside.ckpt"
    outside.write_bytes(b"2")
    first.link("last.ckpt", outside)
    done = first.restorer(is_newest=False, attempt=1).run()
    assert (done.renamed, outside.read_bytes()) == (("last.ckpt.attempt1",), b"2")
    assert (first.directory / "last.ckpt").read_bytes() == b"5"
    first.publish()
    assert first.published() == {"last.ckpt"}


@pytest.mark.parametrize("pattern", ["*.ckpt", "a.ckpt", "sub/a.ckpt", "sub/*.ckpt", "sub"])
def test_a_renamed_file_stays_excluded(machines: Callable[[str], Machine], pattern: str) -> None:
    first, second = machines("first"), machines("second")
    first.write("sub/a.ckpt", b"secret")
    first.write("last.pt", b"not published yet")
    second.write("sub/a.ckpt", b"m2")
    second.write("last.pt", b"two")
    second.publish()
    done = first.restorer(is_newest=False, attempt=1).run()
    assert done.renamed == ("last.pt.attempt1", "sub/a.ckpt.attempt1")
    first.publish([pattern])
    assert first.published() == {"last.pt", "last.pt.attempt1", "sub/a.ckpt"}
    reasons = {each.path: each.left_out for each in all_files(first.directory, [pattern])}
    assert reasons["sub/a.ckpt.attempt1"] == f"excluded by {pattern!r}"


@pytest.mark.parametrize("pattern", ["*.log", "secret.log"])
def test_a_renamed_log_stays_excluded(machines: Callable[[str], Machine], pattern: str) -> None:
    first, second = machines("first"), machines("second")
    first.write("secret.log", b"secret\n")
    second.write("secret.log", b"two\n")
    second.publish()
    names = second.published()
    done = first.restorer(is_newest=False, attempt=1).run()
    assert done.renamed == ("secret.attempt1.log",)
    first.publish([pattern])
    assert first.published() == names


def test_a_renamed_file_replaces_no_other(machines: Callable[[str], Machine]) -> None:
    first, second = machines("first"), machines("second")
    first.write("last.pt", b"one")
    first.write("last.pt.attempt1", b"earlier")
    second.write("last.pt", b"two")
    second.publish()
    done = first.restorer(is_newest=False, attempt=1).run()
    assert done.renamed == ("last.pt.attempt1-1",)
    assert first.files()["last.pt.attempt1"] == b"earlier"


def test_a_file_of_another_run_is_renamed_and_not_published(
    machines: Callable[[str], Machine],
) -> None:
    first = machines("first")
    first.write("last.pt", b"first run")
    first.publish()
    other = first.write("last.pt", b"second run").stat()
    older = Older({"last.pt": Look(other.st_size, other.st_mtime_ns, other.st_ino)})
    done = first.restorer(older=older).run()
    assert (done.foreign, done.renamed) == (("last.pt.other-run",), ())
    assert first.files() == {"last.pt": b"first run", "last.pt.other-run": b"second run"}
    assert first.publish() == 0
    assert first.published() == {"last.pt"}


def test_an_interrupted_restore_is_recorded_where_files_are_older(
    machines: Callable[[str], Machine],
) -> None:
    first, second = machines("first"), machines("second")
    second.write("last.pt", os.urandom(9 << 20))
    second.publish()
    restorer = first.restorer(is_newest=False, attempt=1)

    def interrupt(progress: Progress) -> None:
        if progress.bytes:
            restorer.stop()

    with pytest.raises(RestoreError, match="interrupted"):
        restorer.run(interrupt)
    assert is_being_restored(first.state)
    assert list(all_files(first.directory)) == []  # its pieces are not to be published
    first.restorer(is_newest=False, attempt=1).run()
    assert not is_being_restored(first.state)


def test_links_are_not_followed_out_of_the_directory(
    machines: Callable[[str], Machine], tmp_path: Path
) -> None:
    first, second = machines("first"), machines("second")
    first.write("out/file", b"x")
    first.write("link", b"x")
    first.publish()
    outside = tmp_path / "outside"
    outside.mkdir()
    (second.directory / "out").symlink_to(outside)
    (second.directory / "link").symlink_to(outside / "target")
    assert second.restorer().run().kept == ("link", "out/file")
    assert list(outside.iterdir()) == []


def test_links_to_directories_of_the_run_are_restored(
    machines: Callable[[str], Machine],
) -> None:
    first, second = machines("first"), machines("second")
    first.write("checkpoint-10/model.bin", b"ten")
    first.write("checkpoint-20/model.bin", b"twenty")
    (first.directory / "latest").symlink_to("checkpoint-10")
    (first.directory / "best").symlink_to(first.directory / "checkpoint-10")
    (first.directory / "deep/er").mkdir(parents=True)
    (first.directory / "deep/er/last").symlink_to("../../checkpoint-20")
    first.publish()
    (first.directory / "latest").unlink()
    (first.directory / "latest").symlink_to("checkpoint-20")
    first.publish()
    second.restorer().run()
    links = {
        path.relative_to(second.directory).as_posix(): os.readlink(path)
        for path in second.directory.rglob("*")
        if path.is_symlink()
    }
    assert links == {
        "latest": "checkpoint-20",
        "best": "checkpoint-10",
        "deep/er/last": "../../checkpoint-20",
    }
    assert sorted(second.files()) == ["checkpoint-10/model.bin", "checkpoint-20/model.bin"]
    assert second.publish() == 0


@pytest.mark.parametrize(
    "text", ["/etc", "..", "../outside", "a/../../outside", "top/../outside", "a//b", ""]
)
def test_a_link_that_leads_out_of_the_run_is_restored_as_a_file(tmp_path: Path, text: str) -> None:
    store, prefix = open_store(str(tmp_path / "store"))
    store.put(f"{prefix}/bad.tbhub-link", text.encode())
    store.put(f"{prefix}/top.tbhub-link", b".")
    machine = Machine(tmp_path / "machine", store, prefix)
    machine.restorer().run()
    assert machine.files() == {"bad.tbhub-link": text.encode()}
    assert os.readlink(machine.directory / "top") == "."


def test_a_link_is_published_after_what_it_leads_to(machines: Callable[[str], Machine]) -> None:
    first = machines("first")
    first.write("checkpoint-10/model.bin", os.urandom(1 << 20))
    (first.directory / "latest").symlink_to("checkpoint-10")
    published: list[str] = []
    put = first.store.put
    first.store.put = lambda path, data: (published.append(path), put(path, data))[1]  # type: ignore[method-assign]
    first.publish()
    assert [path.rpartition("/")[2] for path in published] == ["model.bin", "latest.tbhub-link"]


def test_what_is_in_the_place_of_a_link_is_kept(machines: Callable[[str], Machine]) -> None:
    first, second = machines("first"), machines("second")
    first.write("checkpoint-10/model.bin", b"ten")
    (first.directory / "latest").symlink_to("checkpoint-10")
    first.publish()
    second.write("latest/mine", b"mine")
    assert second.restorer(is_newest=False).run().kept == ("latest",)
    assert second.files()["latest/mine"] == b"mine"


def test_ranks_restore_what_is_theirs(machines: Callable[[str], Machine]) -> None:
    first, second = machines("first"), machines("second")
    first.write("a", b"0")
    first.write("rank1/a", b"1")
    first.publish()
    second.restorer(without_ranks=True).run()
    assert second.files() == {"a": b"0"}


def test_a_disk_that_is_too_small_is_told_before(
    machines: Callable[[str], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = machines("first"), machines("second")
    first.write("a", b"x" * 1000)
    first.publish()
    usage = shutil.disk_usage(second.directory)._replace(free=999)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(RestoreError, match="takes 1,000 bytes"):
        second.restorer().run()
    assert second.files() == {}


def test_a_store_that_does_not_answer(
    machines: Callable[[str], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = machines("first"), machines("second")
    first.write("a", b"x")
    first.publish()

    def fail(*_: object) -> bytes:
        raise Unreachable("read", "place", "no answer")

    monkeypatch.setattr(second.store, "read", fail)
    with pytest.raises(RestoreError, match="no answer"):
        second.restorer().run()


def test_the_newest_checkpoint_comes_first_and_its_files_together() -> None:
    times = {
        "events.out.tfevents.1": 9.0,
        "console.log": 9.0,
        "checkpoint-1/a": 1.0,
        "checkpoint-1/b": 5.0,
        "old.pt": 2.0,
        "checkpoint-2/a": 3.0,
        "checkpoint-2/b": 6.0,
    }
    expected = ["checkpoint-2/a", "checkpoint-2/b", "checkpoint-1/a", "checkpoint-1/b", "old.pt"]
    assert in_order(times) == [*expected, "console.log", "events.out.tfevents.1"]


@pytest.mark.parametrize(
    ("files", "incomplete"),
    [
        ({"checkpoint-1/a": 1, "checkpoint-1/b": 1, "checkpoint-2/a": 2}, {"checkpoint-2"}),
        ({"checkpoint-1/a": 1, "checkpoint-2/a": 2, "checkpoint-2/b": 2}, set()),
        ({"checkpoint-1/shard-1-of-2": 1, "checkpoint-2/shard-2-of-2": 2}, set()),
        ({"checkpoint-5/training_args.bin": 1}, {"checkpoint-5"}),
        ({"checkpoint-5/optimizer.pt": 1, "checkpoint-5/trainer_state.json": 1}, set()),
        ({"checkpoint-5/model.safetensors": 1, "checkpoint-5/config.json": 1}, set()),
        ({"x/step_1/a": 1, "x/step_1/b": 1, "x/step_2/b": 2, "y/step_3/a": 3}, {"x/step_2"}),
        ({"version_0/a": 1, "version_0/b": 1, "version_1/a": 2}, set()),
        ({"last.pt": 1}, set()),
    ],
)
def test_checkpoints_of_which_files_are_missing(
    files: dict[str, float], incomplete: set[str]
) -> None:
    assert incomplete_checkpoints(files, {}) == incomplete


def test_a_checkpoint_with_the_highest_number_is_judged_though_another_is_newer() -> None:
    """The last file of checkpoint-40 was stored after the first of checkpoint-60."""
    files = {
        **{f"checkpoint-{number}/model.pt": number for number in (9, 20, 40, 60)},
        "checkpoint-9/state": 9,
        "checkpoint-20/state": 20,
        "checkpoint-40/state": 60.0001,
    }
    assert incomplete_checkpoints(files, {}) == {"checkpoint-60"}


def test_a_checkpoint_that_stayed_incomplete_does_not_hide_another() -> None:
    whole = {f"checkpoint-{number}/{name}": number for number in (10, 30) for name in "ab"}
    files = {**whole, "checkpoint-20/a": 20, "checkpoint-40/a": 40}
    assert incomplete_checkpoints(files, {}) == {"checkpoint-40"}
    # Half of the others have it: nothing is known.
    del files["checkpoint-10/b"], files["checkpoint-20/a"]
    assert incomplete_checkpoints(files, {}) == set()


def test_a_manifest_decides_about_every_directory_that_it_lists() -> None:
    files = {
        **{f"checkpoint-{number}/{name}": number for number in (10, 30) for name in "ab"},
        "checkpoint-20/a": 20,
        "checkpoint-40/a": 40,
        "checkpoint-50/a": 50,
    }
    manifest = {
        "checkpoint-10": frozenset("abc"),
        "checkpoint-20": frozenset("ab"),
        "checkpoint-50": frozenset("a"),
        "checkpoint-60": frozenset("ab"),
    }
    assert incomplete_checkpoints(files, manifest) == {"checkpoint-10", "checkpoint-20"}
    # Others are judged by those that are complete.
    del files["checkpoint-50/a"]
    assert incomplete_checkpoints(files, manifest) == {
        "checkpoint-10",
        "checkpoint-20",
        "checkpoint-40",
    }


def test_a_listed_checkpoint_of_which_nothing_was_published_is_named(
    machines: Callable[[str], Machine],
) -> None:
    first, second = machines("first"), machines("second")
    first.write("checkpoint-10/model.bin", b"ten")
    first.write("checkpoint-10/state", b"ten")
    first.publish()
    listed = {f"checkpoint-{number}": frozenset({"model.bin", "state"}) for number in (10, 20)}
    first.store.put(f"{first.prefix}/{MANIFEST}", encode(listed))
    assert second.restorer().run().incomplete == ("checkpoint-20",)
    first.write("checkpoint-20/model.bin", b"twenty")
    first.write("checkpoint-20/state", b"twenty")
    assert first.restorer().run().incomplete == ()  # it is on this machine


def test_an_unpublished_checkpoint_is_named_if_it_comes_after_complete_ones() -> None:
    files = ["checkpoint-20/a", "checkpoint-20/b", "checkpoint-30/a", "other/step_5/a"]
    listed = {f"checkpoint-{number}": frozenset("ab") for number in (9, 10, 20, 30, 100, 110)}
    listed |= {"other/step_4": frozenset("a"), "other/step_7": frozenset()}
    found = unpublished_checkpoints(files, listed, {"checkpoint-30"})
    assert found == {"checkpoint-100", "checkpoint-110"}


def test_a_checkpoint_that_its_program_has_not_finished_is_compared_with_others() -> None:
    files = {f"checkpoint-{number}/{name}": number for number in (10, 20) for name in "abc"}
    files |= {"checkpoint-30/a": 30, "checkpoint-30/b": 30}
    manifest = {f"checkpoint-{number}": frozenset("abc") for number in (10, 20)}
    manifest["checkpoint-30"] = frozenset("ab")
    assert incomplete_checkpoints(files, manifest) == {"checkpoint-30"}
    # A file that has been excluded since is listed no more, though the store has it.
    manifest |= {f"checkpoint-{number}": frozenset("ab") for number in (10, 20)}
    assert incomplete_checkpoints(files, manifest) == set()
    trainer = {"checkpoint-5/optimizer.pt": 1.0}
    assert incomplete_checkpoints(trainer, {"checkpoint-5": frozenset({"optimizer.pt"})})


def test_the_last_file_of_a_checkpoint_is_published_last(
    machines: Callable[[str], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is killed in between leaves a checkpoint that is known to be incomplete."""
    first, second = machines("first"), machines("second")
    for number, name in enumerate(["model.bin", "optimizer.bin", "state.json"]):
        for directory in ("checkpoint-1", "checkpoint-2"):
            file = first.write(f"{directory}/{name}", b"x" * 10)
            os.utime(file, ns=(number, number))
    put = first.store.put

    def broken(path: str, data: bytes | Path) -> str:
        if path.endswith("checkpoint-2/model.bin"):
            raise Unreachable("write", path, "no answer")
        return put(path, data)

    monkeypatch.setattr(first.store, "put", broken)
    first.publisher().publish()
    names = {entry.path.rpartition(first.prefix)[2] for entry in first.store.list(first.prefix)}
    assert "/checkpoint-2/state.json" not in names
    monkeypatch.undo()
    second.restorer().run()
    assert not (second.directory / "checkpoint-2").exists()
    first.publish()
    assert second.restorer().run().incomplete == ()
    assert second.files() == first.files()
