"""A hub that goes away while people look at it, and comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.browser import Page
from support.hub import HubProcess
from support.pages import log_runs, shoot
from support.runs_page import rows

pytestmark = pytest.mark.browser
AWAY = "The hub does not answer; trying again…"


def test_whoever_looks_learns_that_the_hub_is_away_and_back(browser: Any, tmp_path: Path) -> None:
    log_runs(tmp_path / "runs", "one", "two")
    with HubProcess(tmp_path / "home", logdirs=tmp_path / "runs") as hub:
        hub.wait_for_runs(2)
        made = Page(browser)
        page = made.page
        page.goto(f"{hub.url}/?token={hub.token}")
        rows(page).nth(1).wait_for()
        page.evaluate("window.isSame = true")
        hub.settings["port"] = int(hub.url.rpartition(":")[2])
        hub.kill()
        page.get_by_text(AWAY).wait_for()
        shoot(page, "away")
        assert rows(page).count() == 2  # what was shown stays
        moving = "document.getAnimations().filter(each => each.playState === 'running').length"
        assert page.evaluate(moving) == 0  # nobody knows whether they run
        log_runs(tmp_path / "runs", "three")
        hub.restart()
        page.get_by_text(AWAY).wait_for(state="detached")
        rows(page).nth(2).wait_for()
        assert page.evaluate("window.isSame")  # without being loaded anew
        hub.kill()
        page.get_by_text(AWAY).wait_for()
        page.get_by_role("link", name="Boards").click()  # whose part of the page is not here yet
        page.get_by_role("main").get_by_text("The hub does not answer").wait_for()
        hub.restart()
        page.get_by_text(AWAY).wait_for(state="detached")
        page.get_by_role("heading", name="Boards", exact=True).wait_for()
        made.context.close()  # the browser has said that requests have failed


def test_the_log_of_a_board_goes_on_when_the_hub_is_back(browser: Any, tmp_path: Path) -> None:
    log_runs(tmp_path / "runs", "one")
    with HubProcess(tmp_path / "home", logdirs=tmp_path / "runs") as hub:
        hub.wait_for_runs(1)
        board = hub.create_board(runs="all")
        made = Page(browser)
        page = made.page
        page.goto(f"{hub.url}/?token={hub.token}")
        page.get_by_role("link", name="Boards").click()
        page.get_by_role("button", name="Actions").first.click()
        page.get_by_role("menuitem", name="Logs").click()
        log = page.get_by_role("log")
        log.get_by_text("is running").first.wait_for()
        hub.settings["port"] = int(hub.url.rpartition(":")[2])
        hub.kill()
        log.get_by_role("alert").wait_for()
        hub.restart()
        log.get_by_role("alert").wait_for(state="detached")
        hub.json("POST", f"/api/v1/boards/{board['id']}/stop")
        log.get_by_text("stopped", exact=False).first.wait_for()
        assert log.get_by_text("is running", exact=True).count() == 1
        made.context.close()
