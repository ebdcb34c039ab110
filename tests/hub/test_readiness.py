"""RUNNING means that a board answers; what cannot be read or imported is told with the reason."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from sqlalchemy import select

from support.conducted import ADMIN, Catalog, Conducted, log, running
from support.hub import HubProcess, eventually
from tbhub.database.engine import Database
from tbhub.database.tables import hosts


def shadowed(directory: Path) -> str:
    """A PYTHONPATH on which TensorBoard cannot be imported: what it needs is another version."""
    directory.mkdir()
    text = """raise ImportError("cannot import name 'Request'")\n"""
    (directory / "werkzeug.py").write_text(text)
    return str(directory)


def test_a_board_whose_tensorboard_cannot_be_imported_fails_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(tmp_path / "runs" / "a", 1)
    monkeypatch.setenv("PYTHONPATH", shadowed(tmp_path / "shadow"))
    with HubProcess(tmp_path / "home") as hub:
        board = hub.json("POST", "/api/v1/boards", json={"uris": [str(tmp_path / "runs")]})
        failed = hub.wait_for(board["id"], "FAILED", "RUNNING", "WAITING")
        assert (failed["state"], failed["reason"]) == ("FAILED", "START_FAILED")
        assert "ImportError: cannot import name 'Request'" in failed["message"]
        lines = hub.json("GET", f"/api/v1/boards/{board['id']}/logs")["lines"]
        assert "ImportError" in lines[-1]["text"]
        page = hub.ask("GET", f"/boards/{board['id'][:8]}/", headers={"accept": "text/html"})
        assert (page.status_code, "ImportError" in page.text) == (410, True)
        found = hub.json("GET", "/api/v1/doctor")["findings"]
        assert [each["level"] for each in found if each["subject"] == "tensorboard"] == ["error"]
        # Once it is repaired, the same backend serves the board.
        os.rename(tmp_path / "shadow", tmp_path / "gone")

        def is_running() -> bool:  # an import that was under way may still fail
            hub.json("POST", f"/api/v1/boards/{board['id']}/start")
            return str(hub.wait_for(board["id"], "FAILED", "RUNNING")["state"]) == "RUNNING"

        eventually(is_running)


def broken(directory: Path, text: str) -> str:
    """A PYTHONPATH on which TensorBoard itself is broken, its page included."""
    (directory / "tensorboard").mkdir(parents=True)
    (directory / "tensorboard" / "__init__.py").write_text(f"raise ImportError({text!r})\n")
    return str(directory)


@running
async def test_a_backend_without_tensorboards_page_fails_the_board_with_the_reason(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Catalog(database)
    log(tmp_path / "runs" / "a", 1)
    monkeypatch.setenv("PYTHONPATH", broken(tmp_path / "broken", "libfoo.so.7 is missing"))
    async with Conducted(database, tmp_path / "home") as hub:
        failed = await hub.create(ADMIN, uris=[str(tmp_path / "runs")])
        assert (failed.state, failed.reason) == ("FAILED", "START_FAILED")
        assert "ImportError: libfoo.so.7 is missing" in failed.message
        assert [host.id for host in hub.conductor.hosts()] == ["local-1"]


@pytest.mark.parametrize("own", [False, True])
@running
async def test_a_backend_that_ends_after_it_has_registered_fails_the_board_with_the_reason(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    Catalog(database)
    log(tmp_path / "runs" / "a", 1)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "uvloop.py").write_text(  # imported while it registers
        "import threading\n"
        "[each.join() for each in threading.enumerate() if each is not threading.main_thread()]\n"
        "raise ImportError('libfoo.so.7 is missing')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    settings = {"boards_per_host": 1, "min_hosts": 0} if own else {}
    async with Conducted(database, tmp_path / "home", **settings) as hub:
        failed = await hub.create(ADMIN, uris=[str(tmp_path / "runs")])
        assert (failed.state, failed.reason) == ("FAILED", "START_FAILED")
        assert "ImportError: libfoo.so.7 is missing" in failed.message
        with database.read() as connection:
            tried = connection.execute(select(hosts.c.id)).scalars().all()
        assert len(tried) <= 4


def test_doctor_asks_the_backend_what_it_sees(tmp_path: Path) -> None:
    log(tmp_path / "runs" / "a", 1)
    with HubProcess(tmp_path / "home") as hub:
        places = [str(tmp_path / "runs"), str(tmp_path / "later")]
        board = hub.create_board(uris=places)
        found = hub.json("GET", f"/api/v1/boards/{board['id']}/doctor")["findings"]
        said = {each["subject"]: each["text"] for each in found}
        assert "TensorBoard 2." in said["tensorboard"]
        assert f"{places[0]}: 1 run in 1 event file" in said["source"]
        assert f"{places[1]} is not there" in said["location missing"]
        hosts = hub.json("GET", "/api/v1/doctor")["findings"]
        assert [each["level"] for each in hosts] == ["ok"]


def test_a_board_that_waits_says_what_for(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with HubProcess(tmp_path / "home") as hub:
        missing = hub.create_board(uris=[str(tmp_path / "later")])
        assert (missing["state"], missing["problem"]) == ("WAITING", "")
        assert missing["message"] == (
            f"Waiting for {tmp_path}/later, which does not exist where the board is served."
        )
        empty = hub.create_board(uris=[str(tmp_path / "empty")])
        assert empty["message"] == "Waiting for data: nothing has been logged there."
        log(tmp_path / "later", 1)
        assert hub.wait_for(missing["id"], "RUNNING")["message"] == ""


def test_a_board_whose_data_is_deleted_waits_and_says_what_for(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    log(runs / "a", 1)
    with HubProcess(tmp_path / "home") as hub:
        board = hub.create_board(uris=[str(runs)])
        assert hub.wait_for(board["id"], "RUNNING")["message"] == ""
        shutil.rmtree(runs / "a")
        waits = hub.wait_for(board["id"], "WAITING")
        assert (waits["message"], waits["runs"]) == (
            "Waiting for data: nothing has been logged there.",
            0,
        )
        log(runs / "a", 1)
        hub.wait_for(board["id"], "RUNNING")
        shutil.rmtree(runs)
        gone = f"Waiting for {runs}, which does not exist where the board is served."
        assert hub.wait_for(board["id"], "WAITING")["message"] == gone
        lines = hub.json("GET", f"/api/v1/boards/{board['id']}/logs")["lines"]
        assert [line["text"] for line in lines][-4:] == [
            "is running",
            "there is no data any more. Waiting for data: nothing has been logged there.",
            "data is there; is running",
            f"there is no data any more. {gone}",
        ]
