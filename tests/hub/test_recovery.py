"""A killed backend: its boards return under the same addresses, and open pages by themselves."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from support.browser import Page, browser, page
from support.conducted import log
from support.hub import HubProcess, eventually

__all__ = ["browser", "page"]


def backend_of(hub: HubProcess, host: str) -> psutil.Process:
    """Return the process that serves boards, not the shell around it."""
    shell = int((hub.home / "hosts" / f"{host}.pid").read_text())
    (backend,) = psutil.Process(shell).children()
    return backend


def kill_backend(hub: HubProcess, host: str) -> None:
    os.kill(backend_of(hub, host).pid, signal.SIGKILL)


@contextmanager
def stopped(process: psutil.Process) -> Iterator[None]:
    """Let a process hang."""
    process.suspend()
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            process.resume()


def test_an_open_page_recovers_when_its_backend_is_killed(tmp_path: Path, page: Page) -> None:
    log(tmp_path / "runs" / "first", 1, 2)
    with HubProcess(tmp_path / "home", auth="none") as hub:
        board = hub.create_board(uris=[str(tmp_path / "runs")])
        address = f"{hub.url}/boards/{board['id'][:8]}/"
        page.page.goto(address)
        page.page.get_by_text("first").first.wait_for()
        page.page.evaluate("window.sameDocument = true")
        kill_backend(hub, board["host"])
        # A request in the gap waits for the next backend, for some seconds.
        path = f"/boards/{board['id'][:8]}/data/runs"
        answer = hub.ask("GET", path)
        assert answer.is_success or "retry-after" in answer.headers, answer.text
        eventually(lambda: hub.ask("GET", path).is_success)
        assert hub.json("GET", path) == ["first"]
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


def test_a_hung_backend_is_reported_and_replaced(tmp_path: Path) -> None:
    log(tmp_path / "runs", 1)
    with HubProcess(tmp_path / "home", host_hung_after=12) as hub:
        board = hub.create_board(uris=[str(tmp_path / "runs")])
        path = f"/api/v1/boards/{board['id']}"
        with stopped(backend_of(hub, board["host"])):
            # Within its host's silence, before the hub has stopped the host.
            said = eventually(lambda: hub.json("GET", path)["message"], "nothing is said of it")
            assert re.fullmatch(r"Host local-1 has not answered for \d+ s\.", said)
            assert hub.json("GET", path)["state"] == "RUNNING"
            (host,) = hub.json("GET", "/api/v1/hosts")
            assert host["message"].startswith("Host local-1 has not answered for")
            (finding,) = [
                each
                for each in hub.json("GET", f"{path}/doctor")["findings"]
                if each["subject"] == "host"
            ]
            assert "host local-1 does not answer: nothing came within 5 s" in finding["text"]

            def is_back() -> dict[str, Any] | None:
                found: dict[str, Any] = hub.json("GET", path)
                return found if (found["state"], found["host"]) == ("RUNNING", "local-2") else None

            again = eventually(is_back, "the board did not come back")
        assert (again["message"], again["url"]) == ("", board["url"])
        lines = [each["text"] for each in hub.json("GET", f"{path}/logs")["lines"]]
        (ended,) = [each for each in lines if each.startswith("Host local-1")]
        assert re.fullmatch(
            r"Host local-1 hung: it was ended after it had not answered for \d+ s\."
            r" The board restarts by itself\.",
            ended,
        )


def test_a_backend_that_is_slow_for_a_moment_is_kept(tmp_path: Path) -> None:
    log(tmp_path / "runs", 1)
    with HubProcess(tmp_path / "home", host_hung_after=15) as hub:
        board = hub.create_board(uris=[str(tmp_path / "runs")])
        path = f"/api/v1/boards/{board['id']}"
        with stopped(backend_of(hub, board["host"])):
            eventually(lambda: hub.json("GET", path)["message"], "nothing is said of it")
        eventually(lambda: not hub.json("GET", path)["message"], "it is still said")
        found = hub.json("GET", path)
        assert (found["state"], found["host"]) == ("RUNNING", board["host"])


def test_a_suspension_of_the_hub_does_not_count_as_silence(tmp_path: Path) -> None:
    log(tmp_path / "runs", 1)
    with HubProcess(tmp_path / "home", host_hung_after=5) as hub:
        board = hub.create_board(uris=[str(tmp_path / "runs")])
        path = f"/api/v1/boards/{board['id']}"
        backend = backend_of(hub, board["host"])
        with stopped(psutil.Process(hub.pid)), stopped(backend):
            time.sleep(7)  # longer than a host may be silent
        assert hub.json("GET", path)["host"] == board["host"]
        assert backend.is_running()
