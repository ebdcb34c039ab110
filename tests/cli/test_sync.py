"""``tbhub sync`` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.test_cli import run
from support.records import frame
from tbhub.publisher.spool import Spool, all_spools, make_spool

NAME = "events.out.tfevents.1.host"


@pytest.fixture(autouse=True)
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    monkeypatch.setenv("TBHUB_SPOOL_DIR", str(tmp_path / "spool"))
    made = make_spool(str(tmp_path / "place"))
    (made.directory / NAME).write_bytes(frame(b"x" * 1000) * 5)
    return made


def test_what_waits_is_listed(tmp_path: Path) -> None:
    done = run("sync", "--list")
    assert done.returncode == 1
    assert f"waiting    {tmp_path}/place: 1 file, 5.1 kB" in done.stdout
    assert done.stderr == ""
    assert not (tmp_path / "place").exists()


def test_what_waits_is_published(tmp_path: Path) -> None:
    done = run("sync")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"published  {tmp_path}/place" in done.stdout
    assert (tmp_path / "place" / NAME).read_bytes() == frame(b"x" * 1000) * 5
    assert all_spools() == []
    done = run("sync")
    assert (done.returncode, done.stdout) == (0, "nothing is waiting to be published\n")


def test_what_is_left_and_why(spool: Spool, tmp_path: Path) -> None:
    (tmp_path / "place").write_text("a file where a directory would have to be")
    done = run("sync", "--json", "--wait", "1")
    assert (done.returncode, done.stderr) == (1, "")
    (found,) = json.loads(done.stdout)
    assert found["uri"] == str(tmp_path / "place")
    assert "a file is where a directory would have to be" in "".join(found["refused"])
    done = run("sync", "--wait", "1")
    assert done.returncode == 1
    assert "cannot be published" in done.stdout
    assert spool.directory.exists()


def test_what_another_process_publishes(spool: Spool) -> None:
    with spool.taken():
        done = run("sync")
    assert done.returncode == 1
    assert "being published by another process" in done.stdout


def test_a_time_that_is_none() -> None:
    done = run("sync", "--wait", "soon")
    assert done.returncode == 2
    assert "'soon' is no time" in done.stderr
