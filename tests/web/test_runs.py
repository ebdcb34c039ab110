"""The runs page: found, filtered, sorted, grouped, selected, changed; as people do it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.browser import Page
from support.hub import HubProcess, eventually
from support.pages import RUNS, serious, shoot
from support.runs_page import OURS, count, rows
from tbhub import SummaryWriter

pytestmark = pytest.mark.browser


def test_runs_are_filtered_with_completion(go: Callable[..., Any]) -> None:
    page = go()
    rows(page).first.wait_for()
    page.keyboard.press("f")
    page.keyboard.type("opti")
    page.get_by_role("option", name="hparams.optimizer").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.type("= sgd and lr < 0.001")
    page.keyboard.press("Enter")
    eventually(lambda: count(page) == f"{RUNS // 6} runs", "the filter did not apply")
    assert "q=hparams.optimizer" in page.url
    page.reload()
    eventually(lambda: count(page) == f"{RUNS // 6} runs", "the address does not tell the filter")


def test_a_mistake_is_underlined_where_it_is(go: Callable[..., Any], page: Page) -> None:
    shown = go("/?q=lr+%3C+and")
    shown.locator(".mistake").wait_for()
    assert "a value is missing" in shown.get_by_role("alert").inner_text().lower()
    before = shown.locator(".marks span").first.text_content()
    assert before == "lr < "
    shoot(shown, "runs-mistake")
    assert serious(shown) == []
    shown.goto("about:blank")  # which asks no more
    page.problems.clear()  # the hub has refused it


def test_runs_are_searched(go: Callable[..., Any]) -> None:
    page = go()
    rows(page).first.wait_for()
    before = count(page)  # other tests have runs of their own
    page.keyboard.press("/")
    page.keyboard.type("trial04")
    eventually(lambda: count(page) == "10 runs")
    page.locator("input[type=search]").first.fill("no such run")
    page.get_by_text("No runs match").wait_for()
    shoot(page, "runs-none")
    page.get_by_role("button", name="Show all runs").click()
    eventually(lambda: count(page) == before)


def test_runs_are_sorted_and_scrolled_to_the_last(go: Callable[..., Any]) -> None:
    page = go()
    rows(page).first.wait_for()
    page.get_by_role("button", name="score").first.click()
    page.wait_for_url("**sort=-metrics.score.last**")
    eventually(lambda: "trial299" in rows(page).first.inner_text())
    page.locator("[role=grid]").evaluate("grid => grid.scrollTo(0, grid.scrollHeight)")
    page.get_by_text("trial000").wait_for()
    assert rows(page).count() < 80


def test_runs_are_grouped(go: Callable[..., Any]) -> None:
    page = go(OURS)
    rows(page).first.wait_for()
    page.get_by_role("button", name="Group").click()
    page.get_by_role("checkbox", name="optimizer").check()
    page.keyboard.press("Escape")
    groups = page.locator("[role=row].group")
    eventually(lambda: groups.count() == 2)
    eventually(lambda: "0.49" in groups.last.inner_text() or "0.5" in groups.last.inner_text())
    groups.first.click()
    rows(page).first.wait_for()
    shoot(page, "runs-grouped")


def test_runs_are_selected_by_keys_and_ranges(go: Callable[..., Any]) -> None:
    page = go(OURS)
    rows(page).nth(5).wait_for()
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("Shift+J")
    page.get_by_text("3 selected").wait_for()
    boxes = rows(page).get_by_role("checkbox")
    boxes.nth(5).click()
    boxes.nth(9).click(modifiers=["Shift"])
    page.get_by_text("8 selected").wait_for()
    shoot(page, "runs-selected")
    page.get_by_role("button", name=f"Select all {RUNS}").click()
    page.get_by_text(f"{RUNS} selected").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("toolbar").wait_for(state="detached")


def test_selected_runs_are_compared_side_by_side(go: Callable[..., Any]) -> None:
    page = go()
    boxes = rows(page).get_by_role("checkbox")
    boxes.nth(0).click()
    boxes.nth(1).click()
    page.keyboard.press("d")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("row", name="seed").wait_for()
    shoot(page, "runs-differences")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare?runs=*")


def test_many_runs_are_tagged(go: Callable[..., Any], hub: HubProcess) -> None:
    page = go("/?search=trial05")
    eventually(lambda: count(page) == "10 runs")
    page.keyboard.press("Control+a")
    page.get_by_text("10 selected").wait_for()
    page.keyboard.press("t")
    page.get_by_role("dialog").get_by_label("Add").fill("good, kept")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Tagged 10 runs.").wait_for()
    rows(page).first.get_by_text("kept").wait_for()
    assert hub.json("GET", "/api/v1/runs?select=where+tag=kept")["total"] == 10


def test_a_deletion_asks_and_can_be_taken_back(
    go: Callable[..., Any], hub: HubProcess, tmp_path: Path
) -> None:
    with SummaryWriter(tmp_path / "doomed") as writer:
        writer.add_scalar("loss", 1.0, 1)
    hub.json("POST", "/api/v1/runs/found", json={"uri": str(tmp_path)})
    page = go("/?search=doomed")
    eventually(lambda: count(page) == "1 run")
    for is_undone in (True, False):
        rows(page).first.get_by_role("checkbox").click()
        page.get_by_role("toolbar").get_by_role("button", name="More").click()
        page.get_by_role("menuitem", name="Delete…").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete 1 run").click()
        page.get_by_text("Deleting 1 run…").wait_for()
        if is_undone:
            page.get_by_role("button", name="Undo").click()
            page.get_by_text("Deleting 1 run…").wait_for(state="detached")
            assert hub.json("GET", "/api/v1/runs?select=where+path~doomed")["total"] == 1
        else:
            page.get_by_role("button", name="Dismiss").click()
            page.get_by_text("No runs match").wait_for()
    assert hub.json("GET", "/api/v1/runs?select=where+path~doomed")["total"] == 0


def test_columns_are_chosen_moved_and_kept(go: Callable[..., Any]) -> None:
    page = go()
    rows(page).first.wait_for()
    curve = page.locator("svg[aria-label='val/loss'] path")
    curve.first.wait_for()  # who has chosen nothing has a curve
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("button", name="val/loss min").click()
    for is_shown in (False, True):
        page.get_by_role("button", name="Curve of val/loss").click()
        curve.first.wait_for(state="attached" if is_shown else "detached")
    shoot(page, "runs-columns")
    page.keyboard.press("Escape")
    head = page.get_by_role("columnheader")
    head.filter(has_text="min").wait_for()
    page.get_by_role("button", name="Column Status").click()
    page.get_by_role("menuitem", name="Hide").click()
    page.get_by_role("button", name="Column seed").click()
    page.get_by_role("menuitem", name="Pin to the left").click()
    names = [each.strip() for each in head.all_inner_texts() if each.strip()]
    page.reload()
    rows(page).first.wait_for()
    assert [each.strip() for each in head.all_inner_texts() if each.strip()] == names
    assert "Status" not in names
    assert names[:2] == ["Name", "seed"]


def test_new_runs_appear_and_nothing_jumps(
    go: Callable[..., Any], hub: HubProcess, tmp_path: Path
) -> None:
    page = go()
    rows(page).first.wait_for()
    grid = page.locator("[role=grid]")
    grid.evaluate("grid => grid.scrollTo(0, 3200)")
    name = page.locator("#line-110 a").inner_text()
    top = page.get_by_role("link", name=name, exact=True).bounding_box()["y"]
    with SummaryWriter(tmp_path / "fresh") as writer:
        writer.add_scalar("loss", 1.0, 1)
    before = count(page)
    hub.json("POST", "/api/v1/runs/found", json={"uri": str(tmp_path)})
    try:
        eventually(lambda: count(page) != before)
        link = page.get_by_role("link", name=name, exact=True)
        eventually(lambda: abs(link.bounding_box()["y"] - top) < 2, "it has jumped")
        grid.evaluate("grid => grid.scrollTo(0, 0)")
        rows(page).filter(has_text="fresh").wait_for()
    finally:
        page.goto("about:blank")  # or it might ask for points of a run that is no more
        hub.json("DELETE", "/api/v1/runs?select=where+path~fresh")


def test_files_of_a_run_are_in_natural_order(
    go: Callable[..., Any], hub: HubProcess, tmp_path: Path
) -> None:
    with SummaryWriter(tmp_path / "sorted") as writer:
        writer.add_scalar("loss", 1.0, 1)
    for epoch in (10, 12, 5):
        (tmp_path / "sorted" / f"epoch{epoch}.pt").write_bytes(b"x")
    hub.json("POST", "/api/v1/runs/found", json={"uri": str(tmp_path)})
    found = hub.json("GET", "/api/v1/runs?select=where+path~sorted")["runs"]
    try:
        page = go(f"/runs/{found[0]['id']}/files")
        paths = page.locator("td.path")
        paths.get_by_text("epoch12.pt").wait_for()
        names = [each.strip() for each in paths.all_inner_texts() if "epoch" in each]
        assert names == ["epoch5.pt", "epoch10.pt", "epoch12.pt"]
        shoot(page, "run-files-sorted")
    finally:
        page.goto("about:blank")
        hub.json("DELETE", "/api/v1/runs?select=where+path~sorted")


@pytest.mark.parametrize(("width", "height"), [(360, 740), (2560, 1300)])
def test_the_table_is_of_use_at_every_size(go: Callable[..., Any], width: int, height: int) -> None:
    page = go()
    page.set_viewport_size({"width": width, "height": height})
    rows(page).first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    rows(page).first.get_by_role("checkbox").click()
    page.get_by_role("toolbar").wait_for()
    shoot(page, f"runs-{width}")
    assert serious(page) == []


def test_a_hub_that_comes_back_is_found(browser: Any, tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "runs" / "kept") as writer:
        writer.add_scalar("loss", 1.0, 1)
    with HubProcess(tmp_path / "home", logdirs=tmp_path / "runs") as hub:
        hub.wait_for_runs(1)
        made = Page(browser)
        page = made.page
        page.goto(f"{hub.url}/?token={hub.token}")
        rows(page).first.wait_for()
        page.route("**/api/v1/**", lambda route: route.abort())
        page.locator("input[type=search]").first.fill("kept")
        page.locator(".foot").get_by_text("The hub does not answer").wait_for()
        assert rows(page).count() == 1  # what was shown stays
        page.unroute("**/api/v1/**")
        with SummaryWriter(tmp_path / "runs" / "kept too") as writer:
            writer.add_scalar("loss", 1.0, 1)
        eventually(lambda: count(page) == "2 runs", "it was not asked again")
        made.context.close()  # the browser has said that requests have failed


def test_without_runs_the_page_teaches_the_next_command(browser: Any, tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home") as hub:
        made = Page(browser)
        made.page.goto(f"{hub.url}/?token={hub.token}")
        made.page.get_by_text("tbhub run -- python train.py").wait_for()
        shoot(made.page, "runs-empty")
        assert serious(made.page) == []
        made.context.close()
        assert made.problems == []
