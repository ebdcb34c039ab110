"""The page of one run: its summary, curves, console, code and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.browser import Page
from support.hub import HubProcess
from support.pages import serious, shoot

pytestmark = pytest.mark.browser


def test_a_run_shows_its_curves_and_what_is_known(go: Callable[..., Any], live_run: int) -> None:
    page = go(f"/runs/{live_run}")
    page.get_by_role("heading", name="live").wait_for()
    page.get_by_role("heading", name="train/loss").wait_for()
    page.wait_for_selector("[data-tag='train/loss'] [data-lines='1']")
    assert "depth" in page.locator("aside").inner_text()
    assert "demo" in page.locator("aside").inner_text()
    shoot(page, "run")
    assert serious(page) == []


def test_the_console_is_live_and_searched(go: Callable[..., Any], live_run: int) -> None:
    page = go(f"/runs/{live_run}/log")
    page.get_by_role("log").get_by_text("waiting").wait_for()
    green = page.get_by_role("log").locator(".green").first
    assert green.inner_text().startswith("epoch ")
    colour = "each => getComputedStyle(each).color"
    assert green.evaluate(colour) != page.get_by_role("log").evaluate(colour)
    page.get_by_label("Search the console").fill("epoch 7")
    page.locator("mark").first.wait_for()
    assert "1 / 1" in page.locator(".tools").inner_text()
    shoot(page, "run-console")
    assert serious(page) == []


def test_code_environment_and_files_are_shown(go: Callable[..., Any], live_run: int) -> None:
    page = go(f"/runs/{live_run}/code")
    diff = page.get_by_role("region", name="Changes since the commit")
    diff.get_by_text("+SLEEP = 600").wait_for()
    lines = diff.locator("span").all()
    assert len(lines) > 5
    tops = [line.bounding_box()["y"] for line in lines]
    assert tops == sorted(set(tops)), "lines stand below each other"
    page.get_by_label("Find a package").fill("numpy")
    page.get_by_text("numpy==").first.wait_for()
    shoot(page, "run-code")
    assert serious(page) == []
    page.get_by_role("link", name="Files").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download console.log").click()
    assert "epoch 0" in download.value.path().read_text()
    shoot(page, "run-files")
    assert serious(page) == []


def test_what_it_used_of_its_machine_is_shown(go: Callable[..., Any], live_run: int) -> None:
    page = go(f"/runs/{live_run}/system")
    page.get_by_role("heading", name="memory_bytes", exact=True).wait_for()
    page.wait_for_selector("[data-tag$='memory_bytes'] [data-lines='1']")
    page.get_by_role("heading", name="cpu_percent", exact=True).wait_for()
    shoot(page, "run-system")
    assert serious(page) == []


def test_a_curve_of_a_run_is_zoomed_and_fills_the_window(
    go: Callable[..., Any], live_run: int
) -> None:
    page = go(f"/runs/{live_run}")
    page.wait_for_selector("[data-tag='train/loss'] [data-lines='1']")
    chart = page.locator("[data-tag='train/loss']")
    box = chart.locator(".u-over").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.2, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, y, steps=3)
    with page.expect_request(lambda request: request.url.endswith("/api/v1/series")) as asked:
        page.mouse.up()
    assert 300 < asked.value.post_data_json["min"] < asked.value.post_data_json["max"] < 900
    chart.get_by_role("button", name="Reset zoom").click()
    chart.get_by_role("button", name="Fill the window").click()
    page.get_by_role("dialog", name="train/loss").locator("[data-lines='1']").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")


def test_a_run_is_renamed_and_noted(go: Callable[..., Any], hub: HubProcess) -> None:
    (run,) = hub.json("GET", "/api/v1/runs?select=where+path~trial017")["runs"]
    page = go(f"/runs/{run['id']}")
    assert "/" not in run["name"]  # what its directory is called
    page.get_by_role("heading", name=run["name"], exact=True).wait_for()
    page.locator("main, body").get_by_text(f"#{run['id']}", exact=True).first.wait_for()
    assert page.title().startswith(run["name"])
    page.keyboard.press("e")
    page.get_by_role("dialog").get_by_label("Name").and_(page.locator(":focus")).wait_for()
    page.get_by_role("dialog").get_by_label("Note").fill("The best so far.")
    page.get_by_role("dialog").get_by_label("Tags").fill("best")
    page.get_by_role("button", name="Save").click()
    page.locator("aside").get_by_text("The best so far.").wait_for()
    assert hub.json("GET", f"/api/v1/runs/{run['id']}")["tags"] == ["best"]


def test_a_run_that_is_not_there_says_so(go: Callable[..., Any], page: Page) -> None:
    shown = go("/runs/999999")
    shown.get_by_text("There is no run 999999").wait_for()
    shoot(shown, "run-missing")
    assert serious(shown) == []
    shown.goto("about:blank")  # which asks no more
    page.problems.clear()  # the hub has said so


def test_addresses_of_runs_that_mean_nothing_lead_home(
    go: Callable[..., Any], page: Page, live_run: int
) -> None:
    shown = go("/runs/abc")
    shown.get_by_text("There is no run abc").wait_for()
    shown.goto(shown.url.partition("/runs/")[0] + f"/runs/{live_run}/nope")
    shown.get_by_text("There is no page at this address").wait_for()
    page.problems.clear()  # the hub has said that there is no run abc
    assert shown.locator("nav [aria-current=page]").count() == 1  # Runs, and no tab
    shown.get_by_role("link", name="All runs").click()
    shown.wait_for_selector("[role=grid]")


@pytest.mark.parametrize(
    ("path", "shown"),
    [("", "[data-lines='1']"), ("/log", "[role=log]"), ("/code", "main li"), ("/files", "td")],
)
def test_the_page_fits_a_telephone(
    go: Callable[..., Any], live_run: int, path: str, shown: str
) -> None:
    page = go(f"/runs/{live_run}{path}")
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_role("heading", name="live").wait_for()
    page.wait_for_selector(shown)
    assert page.evaluate("document.getElementById('main').scrollWidth") <= 360
    shoot(page, f"run-360{path.replace('/', '-')}")


def test_boards_that_show_it_are_named_however_they_were_chosen(
    go: Callable[..., Any], hub: HubProcess
) -> None:
    (run,) = hub.json("GET", "/api/v1/runs?select=where+path~trial021")["runs"]
    (other,) = hub.json("GET", "/api/v1/runs?select=where+path~trial022")["runs"]
    with_it = hub.create_board(runs="where path~trial021", name="by a query")
    hub.create_board(runs=f"trial:{other['id']}", name="of another run")
    found = hub.json("GET", f"/api/v1/boards?run={run['id']}")
    assert [board["id"] for board in found["boards"]] == [with_it["id"]]
    page = go(f"/runs/{run['id']}")
    page.locator("aside").get_by_role("link", name="by a query").wait_for()
    assert "of another run" not in page.locator("aside").inner_text()
    for board in ("by a query", "of another run"):
        hub.json("DELETE", f"/api/v1/boards/{board}")
