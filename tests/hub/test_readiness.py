"""RUNNING means that a board answers; what cannot be read or imported is told with the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.conducted import log
from support.hub import HubProcess


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
        hub.json("POST", f"/api/v1/boards/{board['id']}/start")
        again = hub.wait_for(board["id"], "FAILED", "RUNNING")
        assert again["state"] == "RUNNING", again["message"]


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
        assert empty["message"] == "Waiting for the first data: nothing has been logged yet."
        log(tmp_path / "later", 1)
        assert hub.wait_for(missing["id"], "RUNNING")["message"] == ""
