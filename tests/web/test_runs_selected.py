"""What is done with selected runs: windows that ask, notes and tags, a menu where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.browser import Page
from support.hub import HubProcess, eventually
from support.pages import shoot
from support.runs_page import count, rows

pytestmark = pytest.mark.browser


def select(page: Any, search: str, *, number: int) -> None:
    page.get_by_label("Search", exact=True).fill(search)
    eventually(lambda: count(page) == f"{number} run" + "s" * (number > 1))
    page.get_by_label("Search", exact=True).press("Enter")
    page.keyboard.press("Control+a")
    page.get_by_text(f"{number} selected").wait_for()


def choose(page: Any, name: str) -> None:
    page.get_by_role("toolbar").get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name=name).click()


def notes(hub: HubProcess, search: str) -> list[str]:
    """What is noted of runs, sorted."""
    found = hub.json("GET", f"/api/v1/runs?select=where+path~{search}")["runs"]
    return sorted(each["note"] or "" for each in found)


def test_tags_are_typed_at_once_and_enter_saves(go: Callable[..., Any], hub: HubProcess) -> None:
    page = go()
    select(page, "trial061", number=1)
    page.keyboard.press("t")
    page.get_by_role("dialog").wait_for()
    page.keyboard.type("typed")
    page.keyboard.press("Enter")
    page.get_by_text("Tagged 1 run.").wait_for()
    assert hub.json("GET", "/api/v1/runs?select=where+tag=typed")["total"] == 1


def test_a_note_is_changed_and_taken_back(go: Callable[..., Any], hub: HubProcess) -> None:
    page = go()
    dialog = page.get_by_role("dialog")
    select(page, "trial071", number=1)
    choose(page, "Note")
    dialog.wait_for()
    page.keyboard.type("the best")
    dialog.get_by_role("button", name="Save").click()
    page.get_by_text("Saved the note of 1 run.").wait_for()
    choose(page, "Note")
    assert dialog.get_by_role("textbox").input_value() == "the best"
    assert dialog.get_by_role("button", name="Save").is_disabled()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    select(page, "trial07", number=10)
    choose(page, "Note")
    dialog.get_by_text("This replaces the note that 1 of them has.").wait_for()
    assert dialog.get_by_role("button", name="Save").is_disabled()
    page.keyboard.type("all alike")
    dialog.get_by_role("button", name="Save").click()
    page.get_by_text("Saved the note of 10 runs.").wait_for()
    assert notes(hub, "trial07") == ["all alike"] * 10
    page.get_by_role("button", name="Undo").last.click()
    eventually(lambda: notes(hub, "trial07") == [*[""] * 9, "the best"], "it was not taken back")


def test_the_menu_opens_at_its_button(go: Callable[..., Any]) -> None:
    page = go()
    select(page, "trial08", number=10)
    button = page.get_by_role("toolbar").get_by_role("button", name="More")
    button.click()
    menu = page.get_by_role("menu").bounding_box()
    at = button.bounding_box()
    shoot(page, "runs-menu")
    assert abs(menu["x"] - at["x"]) < 2
    assert abs(menu["y"] + menu["height"] - at["y"]) < 12


def test_who_compares_too_many_is_told(go: Callable[..., Any], page: Page) -> None:
    def more(route: Any) -> None:
        """The hub's answer, as if there were a thousand runs more."""
        answer = route.fetch()
        body = answer.json()
        if "columns=id&" in route.request.url:
            body["columns"]["id"] = list(range(1, 1301))
        route.fulfill(response=answer, json=body | {"total": 1300})

    page.page.route("**/api/v1/runs/table?*", more)
    shown = go("/?search=trial")
    eventually(lambda: count(shown) == "1,300 runs")
    shown.keyboard.press("Control+a")
    shown.get_by_role("button", name="Compare the first 1,000").click()
    shown.get_by_text("Compare shows the first 1,000 of 1,300 selected runs.").wait_for()
    shown.unroute_all(behavior="ignoreErrors")
    shown.goto("about:blank")
    page.problems.clear()  # most of them are not there


def test_a_group_tells_what_it_is(go: Callable[..., Any]) -> None:
    page = go("/?search=trial&group=experiment,hparams.lr,hparams.optimizer,hparams.seed")
    name = page.locator("[role=row].group .text").first
    name.wait_for()
    assert name.evaluate("text => text.scrollWidth <= text.clientWidth")
    shoot(page, "runs-group-names")
    page.get_by_role("grid").evaluate("grid => grid.scrollTo(500, 0)")
    name.wait_for()
    assert rows(page).count() == 0
