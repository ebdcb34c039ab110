"""Files that were in a user's directory before a run are not the run's."""

from __future__ import annotations

import os
from pathlib import Path

from support.records import frame
from tbhub import SummaryWriter
from tbhub.publisher.older import Older, begin_session, find_foreign, find_older
from tbhub.publisher.plan import Look
from tbhub.publisher.spool import make_spool, publish_now

NAME = "events.out.tfevents.1.host"


def test_only_event_files_stay_foreign_when_they_change() -> None:
    before, after = Look(1, 1, 1), Look(2, 2, 1)
    older = Older({NAME: before, "train.log": before})
    assert older.covers(NAME, before)
    assert older.covers(NAME, after)
    assert older.covers("train.log", before)
    assert not older.covers("train.log", after)
    assert not older.covers("new.txt", before)


def test_files_begun_after_the_first_start_are_the_runs_own(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 1, 1)
    (tmp_path / "notes.txt").write_text("old")
    os.utime(tmp_path / "notes.txt", (1, 1))
    assert len(find_older(tmp_path).files) == 2
    assert set(find_foreign(tmp_path, ["mine"], 1000.0).files) == {"notes.txt"}
    assert find_foreign(tmp_path / "missing", ["mine"], 0.0).files == {}


def test_files_begun_while_another_run_used_the_directory_are_foreign(tmp_path: Path) -> None:
    begin_session(tmp_path, ["mine", "hub#1"])
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 1, 1)
    (own,) = (path.name for path in tmp_path.glob("*tfevents*"))
    (tmp_path / "last.pt").write_text("mine")
    begin_session(tmp_path, ["other", "hub#2"])
    for name, moment in (("last.pt", 1e11), ("early.txt", 1.0)):
        (tmp_path / name).write_text("other")
        os.utime(tmp_path / name, (moment, moment))
    assert set(find_foreign(tmp_path, ["hub#1"], 0.0).files) == {"last.pt"}
    assert set(find_foreign(tmp_path, ["hub#1"], 1000.0).files) == {"last.pt", "early.txt"}
    assert set(find_foreign(tmp_path, ["hub#2"], 0.0).files) == {own}
    assert find_foreign(tmp_path, ["hub#2"], 0.0, lambda path, _: path == own).files == {}
    begin_session(tmp_path, ["mine", "hub#1"])
    assert find_foreign(tmp_path, ["hub#1"], 0.0).files == {}


def test_older_files_are_neither_published_nor_waited_for(tmp_path: Path) -> None:
    directory, target = tmp_path / "own", tmp_path / "target"
    directory.mkdir()
    (directory / NAME).write_bytes(frame(b"old"))
    (directory / "old.txt").write_text("old")
    spool = make_spool(str(target), directory)
    spool.leave_out(find_older(directory))
    assert spool.backlog().files == 0
    (directory / "new.txt").write_text("new")
    with (directory / NAME).open("ab") as file:
        file.write(frame(b"more"))
    assert spool.backlog().files == 1
    assert publish_now(spool).files == 0
    assert sorted(file.name for file in target.rglob("*")) == ["new.txt"]


def test_files_of_a_later_run_are_not_published_as_those_of_an_ended_one(tmp_path: Path) -> None:
    directory, target = tmp_path / "own", tmp_path / "target"
    directory.mkdir()
    spool = make_spool(str(target), directory)
    (directory / "mine.txt").write_text("mine")
    publisher, store = spool.open(None)
    spool.freeze(find_older(directory).files)  # while it is published
    (directory / "other.txt").write_text("other")
    assert publisher.publish().files == 0
    store.close()
    spool.freeze(find_older(directory).files)  # a third run
    assert spool.backlog().files == 0
    assert sorted(file.name for file in target.rglob("*")) == ["mine.txt"]
    spool.thaw()
    assert spool.backlog().files == 1
