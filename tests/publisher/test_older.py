"""Files that were in a user's directory before a run are not the run's."""

from __future__ import annotations

import os
from pathlib import Path

from support.records import frame
from tbhub import SummaryWriter
from tbhub.publisher.older import Older, find_older
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
    assert set(find_older(tmp_path, first_start=1000.0).files) == {"notes.txt"}
    assert find_older(tmp_path / "missing").files == {}


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
