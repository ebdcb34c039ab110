"""The shell around all pages: navigation, themes, languages, the palette, the keyboard."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.browser import Page
from support.hub import HubProcess, eventually
from support.pages import ROOT, serious, shoot
from tbhub.hub.app import make_api

pytestmark = pytest.mark.browser
BUILT = ROOT / "src/tbhub/hub/web"
MOST = 150_000


def test_the_first_page_is_light(go: Callable[..., Any], page: Page) -> None:
    seen: list[str] = []
    page.page.on("request", lambda request: seen.append(request.url))
    go().wait_for_selector("[role=row].run")
    loaded = {url.partition("/assets/")[2] for url in seen if "/assets/" in url}
    size = sum((BUILT / "assets" / f"{name}.gz").stat().st_size for name in loaded)
    assert 0 < size < MOST
    assert not [url for url in seen if not url.startswith("http://127.0.0.1")]


def test_pages_are_reached_by_links_keys_and_addresses(go: Callable[..., Any]) -> None:
    page = go("/settings")
    page.locator("nav.rail").get_by_role("link", name="Boards").click()
    assert page.url.endswith("/boards")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_selector("[role=grid]")
    page.go_back()
    assert page.url.endswith("/boards")
    page.goto(page.url.replace("/boards", "/board/nothing/more"))
    page.get_by_text("There is no page at this address").wait_for()


def test_an_address_of_nothing_leads_home(go: Callable[..., Any], page: Page) -> None:
    shown = go("/nonsense")
    shown.get_by_role("link", name="All runs").click()
    shown.wait_for_selector("[role=grid]")
    page.problems.clear()  # the hub has said that there is nothing


def test_titles_stand_in_one_place(go: Callable[..., Any]) -> None:
    page = go("/")
    places = set()
    for path in ("/", "/compare", "/boards", "/settings"):
        page.locator(f"nav.rail a.entry[href$='{path}']").click()
        title = {"/": "Runs"}.get(path, path[1:].capitalize())
        heading = page.get_by_role("heading", name=title, exact=True)
        box = eventually(heading.bounding_box)  # none while the page replaces it
        places.add((box["x"], round(box["y"] + box["height"] / 2)))
    assert len(places) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_system_decides_until_a_theme_is_chosen(
    hub: HubProcess, browser: Any, scheme: str
) -> None:
    made = Page(browser, color_scheme=scheme)
    page = made.page
    page.goto(f"{hub.url}/?token={hub.token}")
    page.wait_for_selector("[role=row].run")
    ground = "getComputedStyle(document.body).backgroundColor"
    of_system = page.evaluate(ground)
    shoot(page, f"runs-{scheme}")
    page.locator("nav.rail button").last.click()
    page.get_by_role("menuitemcheckbox", name="Dark" if scheme == "light" else "Light").click()
    assert page.evaluate(ground) != of_system
    page.reload()
    page.wait_for_selector("[role=row].run")
    assert page.evaluate(ground) != of_system
    made.context.close()
    assert made.problems == []


def test_the_page_speaks_chinese(go: Callable[..., Any]) -> None:
    page = go()
    page.wait_for_selector("[role=row].run")
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").fill("中文")
    page.get_by_role("option", name="中文").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="运行").wait_for()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    shoot(page, "runs-chinese")
    page.reload()
    page.get_by_role("heading", name="运行").wait_for()


def test_the_palette_finds_runs_and_the_help_shows_keys(go: Callable[..., Any]) -> None:
    page = go("/boards")
    page.wait_for_selector("h1")
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").fill("trial042")
    page.get_by_role("option").filter(has_text="trial042").click()
    page.wait_for_url("**/runs/*")
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("Keyboard shortcuts").wait_for()
    shoot(page, "help")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/", "[role=row].run"),
        ("/?group=hparams.lr", "[role=row].group"),
        ("/compare?q=where path~trial00", "[data-lines='10']"),
        ("/compare?q=where path~trial00&part=parallel", "svg[data-kept='10']"),
        ("/compare?q=where path~trial00&part=scatter", "svg[data-dots='10']"),
        ("/boards", "main .card"),
        ("/settings", "section table, section dl"),
    ],
)
def test_axe_finds_nothing_serious(
    go: Callable[..., Any], path: str, shown: str, scheme: str
) -> None:
    page = go("/settings")
    page.emulate_media(color_scheme=scheme)
    page.goto(page.url.partition("/settings")[0] + path)
    page.wait_for_selector(shown)
    assert serious(page) == []


def test_who_opens_the_palette_types_at_once(go: Callable[..., Any]) -> None:
    page = go()
    page.wait_for_selector("[role=row].run")
    loaded = "performance.getEntriesByType('resource').some(each => /Palette-.*js/.test(each.name))"
    eventually(lambda: page.evaluate(loaded), "the palette was not fetched")
    page.keyboard.press("Control+k")
    page.keyboard.type("trial042")
    page.get_by_role("option").filter(has_text="trial042").wait_for()


def test_types_are_those_of_the_hub(tmp_path: Path) -> None:
    """`scripts/web-types` writes what is committed."""
    schema = tmp_path / "openapi.json"
    schema.write_text(json.dumps(make_api(None).openapi(), sort_keys=True))
    made = tmp_path / "schema.d.ts"
    command = [ROOT / "web/node_modules/.bin/openapi-typescript", schema, "--output", made]
    subprocess.run(command, check=True, capture_output=True)
    kept = (ROOT / "web/src/api/schema.d.ts").read_text()
    assert made.read_text() == kept, "the API has changed: run scripts/web-types"
