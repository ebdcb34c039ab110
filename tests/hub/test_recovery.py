"""A killed backend: its boards return under the same addresses, and open pages by themselves."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil

from support.browser import Page, browser, page
from support.conducted import log
from support.hub import HubProcess, eventually

__all__ = ["browser", "page"]


def kill_backend(hub: HubProcess, host: str) -> None:
    """Kills the process that serves boards, not the shell around it."""
    shell = int((hub.home / "hosts" / f"{host}.pid").read_text())
    (backend,) = psutil.Process(shell).children()
    os.kill(backend.pid, signal.SIGKILL)


def test_an_open_page_recovers_when_its_backend_is_killed(tmp_path: Path, page: Page) -> None:
    log(tmp_path / "runs" / "first", 1, 2)
    with HubProcess(tmp_path / "home", auth="none") as hub:
        board = hub.create_board(uris=[str(tmp_path / "runs")])
        address = f"{hub.url}/boards/{board['id'][:8]}/"
        page.page.goto(address)
        page.page.get_by_text("first").first.wait_for()
        page.page.evaluate("window.sameDocument = true")
        kill_backend(hub, board["host"])
        # A request in the gap waits for the next backend.
        assert hub.json("GET", f"/boards/{board['id'][:8]}/data/runs") == ["first"]
        again = hub.wait_for(board["id"], "RUNNING", "FAILED")
        assert (again["state"], again["url"]) == ("RUNNING", board["url"])
        assert again["host"] != board["host"]
        log(tmp_path / "runs" / "second", 3)
        page.page.get_by_text("second").first.wait_for()
        assert page.page.evaluate("window.sameDocument")  # nobody has reloaded it
        page.page.goto("about:blank")  # before the hub ends
        page.problems = [each for each in page.problems if not _is_of_the_gap(each)]


def _is_of_the_gap(problem: str) -> bool:
    """What a browser notes of connections that broke off or had to be made again."""
    return any(part in problem for part in ("503", "ERR_INCOMPLETE_CHUNKED", "Failed to load"))


def test_fourteen_boards_return_after_one_kill(tmp_path: Path) -> None:
    for number in range(14):
        log(tmp_path / "runs" / f"{number}", 1)
    with HubProcess(tmp_path / "home") as hub:
        boards = {}
        for number in range(14):
            made = hub.create_board(uris=[str(tmp_path / "runs" / f"{number}")])
            boards[made["id"]] = made
        kill_backend(hub, "local-1")

        def are_back() -> list[dict[str, Any]]:
            found = hub.json("GET", "/api/v1/boards?limit=100")["boards"]
            assert not [each for each in found if each["state"] == "FAILED"]
            back = [each["state"] == "RUNNING" and each["host"] == "local-2" for each in found]
            return found if all(back) else []

        found: list[dict[str, Any]] = eventually(are_back, "boards are missing")
        assert {each["id"]: each["url"] for each in found} == {
            each["id"]: each["url"] for each in boards.values()
        }
