"""``tbhub sync`` as a person runs it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from cli.test_cli import run
from support.records import frame
from tbhub.publisher.spool import Spool, all_spools, make_spool, redirect

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


@pytest.mark.parametrize("wait", ["0", "1"])
def test_what_a_silent_store_has_not_taken_still_waits(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, wait: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
        redirect(spool, "s3://bucket/place")
        done = run("sync", "--wait", wait)
    assert done.returncode == 1
    assert "waiting    s3://bucket/place: 1 file, 5.1 kB" in done.stdout
    assert "published" not in done.stdout.replace("to be published", "")
    assert (spool.directory / NAME).exists()


def test_an_empty_name_discards_nothing(spool: Spool) -> None:
    done = run("sync", "--discard", "", "--yes")
    assert done.returncode == 2
    assert "is a variable not set?" in done.stderr
    assert (spool.directory / NAME).exists()
