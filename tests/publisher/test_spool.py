"""The spool: what waits is found again, published by one process at a time, and then removed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from storage.conftest import Place
from support.records import frame
from tbhub.publisher.agent import start_agent
from tbhub.publisher.publisher import Backlog
from tbhub.publisher.spool import (
    Spool,
    SpoolError,
    SpoolTakenError,
    all_spools,
    find_spool,
    make_spool,
    publish_now,
    remove_published,
)

NAME = "events.out.tfevents.1.host"
PATIENCE = 60


def elsewhere(spool: Spool, does: str) -> subprocess.Popen[str]:
    """Another process that has done something with the spool, and lives on."""
    code = f"""
import sys, time
from pathlib import Path
from tbhub.publisher.spool import find_spool
spool = find_spool(Path(sys.argv[1]))
{does}
print("done", flush=True)
time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(spool.path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    return process


def test_what_waits_is_found_again(spool_root: Path, tmp_path: Path) -> None:
    assert all_spools() == []
    first = make_spool("s3://bucket/run one")
    second = make_spool("gs://bucket", tmp_path / "own", rank=2, exclude=["*.ckpt"])
    assert {spool.path for spool in all_spools()} == {first.path, second.path}
    assert all(find_spool(spool.path) == spool for spool in (first, second))
    assert first.directory == first.path / "files"
    assert first.is_own
    assert second.directory == tmp_path / "own"
    assert not second.is_own
    for path in (spool_root, first.path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    (spool_root / "rubbish").mkdir()
    (first.path / "target.json").write_text("{")
    assert all_spools() == [second]


def test_what_is_left_is_told_without_asking_the_store(tmp_path: Path) -> None:
    spool = make_spool(str(tmp_path / "place"))
    assert spool.backlog() == Backlog()
    record = frame(b"x" * 100)
    (spool.directory / NAME).write_bytes(record * 3 + record[:50])
    (spool.directory / "notes.txt").write_bytes(b"12345")
    assert spool.backlog() == Backlog(2, 3 * len(record) + 5)
    assert not remove_published(spool)
    reports: list[Backlog] = []
    left = publish_now(spool, report=lambda _, left: reports.append(left))
    assert left == reports[-1] == Backlog()
    assert spool.backlog() == Backlog()  # what is torn is not waited for
    assert (tmp_path / "place" / NAME).read_bytes() == record * 3
    assert remove_published(spool)
    assert not spool.path.exists()


def test_files_of_the_users_own_are_left_alone(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "notes.txt").write_bytes(b"mine")
    spool = make_spool(str(tmp_path / "place"), own)
    assert publish_now(spool) == Backlog()
    assert remove_published(spool)
    assert (own / "notes.txt").read_bytes() == b"mine"
    assert (tmp_path / "place/notes.txt").read_bytes() == b"mine"


def test_only_what_is_published_as_it_is_now_is_deleted(tmp_path: Path) -> None:
    spool = make_spool(str(tmp_path / "place"), exclude=["*.ckpt"])
    published, changed, left_out = (
        spool.directory / name for name in ("a.pt", "sub/b.pt", "sub/c.ckpt")
    )
    changed.parent.mkdir()
    for file in (published, changed, left_out):
        file.write_bytes(b"first")
    assert publish_now(spool) == Backlog()
    changed.write_bytes(b"second")
    (spool.directory / "DONE").touch()
    assert not remove_published(spool)
    assert changed.read_bytes() == b"second"
    assert (spool.directory / "DONE").exists()
    assert publish_now(spool) == Backlog()
    assert not remove_published(spool)
    assert [file for file in spool.directory.rglob("*") if file.is_file()] == [left_out]
    assert (tmp_path / "place/sub/b.pt").read_bytes() == b"second"
    assert (tmp_path / "place/DONE").exists()
    left_out.unlink()
    assert remove_published(spool)


def test_a_file_that_another_process_has_open_is_not_deleted(tmp_path: Path) -> None:
    """The process may be none of the run's: it does not hold the spool."""
    spool = make_spool(str(tmp_path / "place"))
    (spool.directory / "a.bin").write_bytes(b"first")
    other = elsewhere(spool, "opened = (spool.directory / 'a.bin').open('a')")
    assert publish_now(spool) == Backlog()
    (spool.directory / "link.bin").symlink_to(spool.directory / "a.bin")
    assert spool.open_files() == ["a.bin"]
    assert not remove_published(spool)
    (spool.directory / "link.bin").unlink()
    assert (spool.directory / "a.bin").read_bytes() == b"first"
    other.kill()
    other.communicate(timeout=PATIENCE)
    assert spool.open_files() == []
    assert remove_published(spool)


def test_a_change_that_keeps_size_and_modification_time_is_published(tmp_path: Path) -> None:
    """So `cp -p` and `tar` change a file over which they write."""
    spool = make_spool(str(tmp_path / "place"))
    file = spool.directory / "best.pt"
    for content in (b"first", b"later"):
        file.write_bytes(content)
        os.utime(file, (1_700_000_000, 1_700_000_000))
        assert not remove_published(spool)
        assert publish_now(spool) == Backlog()
        assert (tmp_path / "place/best.pt").read_bytes() == content
    assert remove_published(spool)


def test_a_restored_file_that_is_excluded_is_not_called_unpublished(tmp_path: Path) -> None:
    spool = make_spool(str(tmp_path / "store"))
    file = spool.directory / "last.ckpt"
    file.write_bytes(b"state")
    assert publish_now(spool) == Backlog()
    excluding = replace(spool, exclude=("*.ckpt",))
    assert excluding.left_out() == []
    file.write_bytes(b"newer")
    assert [each.path for each in excluding.left_out()] == ["last.ckpt"]
    assert not remove_published(excluding)
    file.write_bytes(b"state")
    assert publish_now(spool) == Backlog()
    assert remove_published(excluding)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    spool = make_spool(str(tmp_path / "place"))
    other = elsewhere(spool, "kept = spool.taken(); kept.__enter__()")
    with pytest.raises(SpoolTakenError, match="another process"):
        publish_now(spool)
    assert not remove_published(spool)
    other.kill()
    other.communicate()
    assert publish_now(spool) == Backlog()


def test_nothing_is_removed_while_someone_may_write(tmp_path: Path) -> None:
    spool = make_spool(str(tmp_path / "place"))
    other = elsewhere(spool, "spool.hold()")
    assert publish_now(spool) == Backlog()
    assert not remove_published(spool)
    other.kill()
    other.communicate()
    assert remove_published(spool)


def test_a_spool_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TBHUB_SPOOL_DIR", str(tmp_path / "file"))
    with pytest.raises(SpoolError, match="set TBHUB_SPOOL_DIR"):
        make_spool("s3://bucket/run")


def test_credentials_are_kept_nowhere(s3: Callable[..., Place], tmp_path: Path) -> None:
    place = s3()
    spool = make_spool(place.uri, given=True)
    publishing = start_agent(spool, place.credentials)
    (spool.directory / NAME).write_bytes(frame(b"x"))
    assert publishing.flush(PATIENCE) == Backlog()
    for file in spool.path.rglob("*"):
        assert not file.is_file() or b"top-secret" not in file.read_bytes()
    (spool.directory / "more.txt").write_bytes(b"x")
    assert publishing.close(PATIENCE) == Backlog()
    assert not spool.path.exists()
    store, path = place.open()
    names = {entry.path.removeprefix(f"{path}/") for entry in store.list(path)}
    assert names == {f"{NAME}.000001", "more.txt"}


def test_an_agent_says_what_it_leaves(s3: Callable[..., Place]) -> None:
    place = s3(secret_access_key="wrong")
    spool = make_spool(place.uri, given=True)
    (spool.directory / NAME).write_bytes(frame(b"x"))
    left = start_agent(spool, place.credentials).close(1)
    assert left.files == 1
    assert "cannot list s3://" in left.problem or "cannot write s3://" in left.problem
    assert "1 file with 17 bytes is left for `tbhub sync`" in spool.last_words()
    assert "wrong" not in (spool.path / "log").read_text().replace("wrong,", "")
