"""The runs page by keys: those that are a field's or a window's own, the cursor, the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.browser import Page
from support.hub import eventually
from support.pages import RUNS
from support.runs_page import OURS, count, filter_field, rows

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("name", ["Search", "Filter"])
def test_select_all_in_a_field_selects_its_text(go: Callable[..., Any], name: str) -> None:
    page = go(OURS)
    rows(page).first.wait_for()
    field = page.get_by_label(name, exact=True)
    field.fill("trial")
    field.press("Control+a")
    assert field.evaluate("field => field.selectionEnd - field.selectionStart") == len("trial")
    assert page.get_by_role("toolbar").count() == 0


def test_a_window_is_about_the_runs_it_was_opened_for(go: Callable[..., Any]) -> None:
    page = go(OURS)
    rows(page).first.get_by_role("checkbox").click()
    page.get_by_role("toolbar").get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("boards stop showing it.").wait_for()
    page.keyboard.press("Control+a")
    page.keyboard.press("x")
    page.get_by_text("1 selected").wait_for()
    assert dialog.get_by_role("heading").inner_text() == "Delete 1 run?"
    page.keyboard.press("Control+k")  # which is for everywhere
    page.get_by_role("combobox", name="Find a run, a page or a command…").wait_for()


def test_a_button_is_pressed_by_enter(go: Callable[..., Any]) -> None:
    page = go(OURS)
    rows(page).first.wait_for()
    page.get_by_role("button", name="Columns").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Columns").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*")


def test_tab_walks_through_and_writes_nothing(go: Callable[..., Any]) -> None:
    page = go(OURS)
    rows(page).first.wait_for()
    page.get_by_label("Search", exact=True).focus()
    for _ in range(4):
        page.keyboard.press("Tab")
    assert filter_field(page).input_value() == ""
    assert "q=" not in page.url


def test_completion_is_by_what_was_typed_or_picked(go: Callable[..., Any]) -> None:
    page = go(OURS)
    rows(page).first.wait_for()
    field = filter_field(page)
    field.focus()
    page.keyboard.type("opti")
    page.get_by_role("option", name="hparams.optimizer").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.type(" ")  # there is one
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert field.input_value() == "hparams.optimizer = "
    page.keyboard.type("sgd")
    page.keyboard.press("Enter")
    eventually(lambda: count(page) == f"{RUNS // 2} runs")


def test_a_mistake_is_told_when_nobody_types_any_more(go: Callable[..., Any], page: Page) -> None:
    shown = go(OURS)
    rows(shown).first.wait_for()
    field = filter_field(shown)
    field.focus()
    shown.keyboard.type("lr < 0.1 nonsense")
    shown.get_by_role("alert").wait_for()
    assert shown.locator(".mistake").inner_text() == "nonsense"
    assert count(shown) == f"{RUNS} runs"
    for _ in "nonsense":
        shown.keyboard.press("Backspace")
    shown.get_by_role("alert").wait_for(state="detached")
    shown.goto("about:blank")
    page.problems.clear()  # the hub has refused it


def test_home_and_end_move_the_cursor(go: Callable[..., Any]) -> None:
    page = go(f"{OURS}&sort=metrics.score.last")
    rows(page).first.wait_for()
    page.keyboard.press("End")
    page.locator(".cursor").get_by_text("trial299").wait_for()
    page.keyboard.press("Home")
    page.locator(".cursor").get_by_text("trial000").wait_for()


def test_who_comes_back_finds_everything_as_it_was(go: Callable[..., Any]) -> None:
    page = go(f"{OURS}&sort=metrics.score.last")
    rows(page).first.wait_for()
    page.keyboard.press("End")
    page.keyboard.press("k")
    at = page.locator(".cursor").get_by_text("trial298")
    at.wait_for()
    page.keyboard.press("x")
    page.get_by_text("1 selected").wait_for()
    scroll = "document.querySelector('[role=grid]').scrollTop"
    before = page.evaluate(scroll)
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*")
    page.go_back()
    at.wait_for()
    page.get_by_text("1 selected").wait_for()
    assert page.evaluate(scroll) == before > 0
    page.keyboard.press("c")
    page.wait_for_url("**/compare?runs=*")
    page.go_back()
    page.get_by_text("1 selected").wait_for()
