"""The compare page in a real browser, over real runs of a real hub."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from support.browser import Page
from support.hub import HubProcess, eventually
from tbhub import SummaryWriter

SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
PAGE = Path(__file__).parents[2] / "src" / "tbhub" / "hub" / "web" / "index.html"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the page is not built: make web")
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("compare")
    for number, (rate, seed) in enumerate([(r, s) for r in (0.001, 0.01, 0.1) for s in (1, 2)]):
        with SummaryWriter(where / "runs" / f"lr{rate:g}-s{seed}") as writer:
            writer.add_hparams({"lr": rate, "seed": seed}, {}, run_name=".")
            for step in range(5000):
                value = math.exp(-step * rate / 20) + 0.02 * math.sin(step * (number + 1))
                if number == 0 and step in (2000, 2001):
                    value = float("nan")
                if number == 1 and step == 3333:
                    value = 50.0
                writer.add_scalar("train/loss", value, step, walltime=1e9 + step)
                if step % 50 == 0:
                    writer.add_scalar("eval/accuracy", 1 - value, step, walltime=1e9 + step)
                    writer.add_scalar("samples", 32.0 * step, step, walltime=1e9 + step)
            writer.add_scalar("best/loss", 0.1 * number, 0)
            for step in (0, 100):
                writer.add_image("grid", np.full((3, 8, 8), 20 * number + step, np.uint8), step)
    return where


@pytest.fixture(scope="module")
def hub(where: Path) -> Iterator[HubProcess]:
    with HubProcess(where / "home", auth="none", logdirs=where / "runs") as hub:
        hub.wait_for_runs(6)
        yield hub


@pytest.fixture
def opened(hub: HubProcess, browser: Any) -> Iterator[Open]:
    """Opens the page with some of its address; nothing may go wrong on it."""
    made: list[Page] = []

    def open_page(size: tuple[int, int] = (1400, 900), scheme: str = "light", **query: str) -> Any:
        page = Page(browser, color_scheme=scheme)
        made.append(page)
        page.page.set_viewport_size({"width": size[0], "height": size[1]})
        known = [run for run in hub.wait_for_runs(6) if run["path"].startswith("lr")]
        ids = ",".join(str(run["id"]) for run in known)
        page.page.goto(f"{hub.url}/compare?{urlencode({'runs': ids} | query)}")
        return page.page

    yield open_page
    for each in made:
        each.context.close()
        assert each.problems == []


def lines(page: Any, tag: str, number: int) -> Any:
    """A chart, when it has drawn so many lines."""
    page.wait_for_selector(f"[data-tag='{tag}'] [data-lines='{number}']")
    return page.locator(f"[data-tag='{tag}']")


def number_of(hub: HubProcess, path: str) -> str:
    """The number of a run that the hub is about to find."""
    asked = f"/api/v1/runs?select=where+path={path}"
    (found,) = eventually(lambda: hub.json("GET", asked)["runs"], "the run was not found")
    return str(found["id"])


def hover(page: Any, chart: Any, across: float = 0.5) -> None:
    box = chart.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * across, box["y"] + box["height"] * 0.4)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1400, 900), (360, 740)])
def test_every_tag_has_a_chart_with_all_runs(
    opened: Open, size: tuple[int, int], scheme: str
) -> None:
    page = opened(size, scheme)
    lines(page, "samples", 6)
    headings = page.locator("h2.section").all_inner_texts()
    # What has but one point comes last, whatever its name is.
    assert [text.split()[0] for text in headings] == ["Metrics", "eval", "train", "best"]
    page.locator("[data-tag='train/loss']").scroll_into_view_if_needed()
    lines(page, "train/loss", 6)
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"compare-{size[0]}-{scheme}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_the_legend_at_the_cursor_is_sorted(opened: Open) -> None:
    page = opened(tags="accuracy")
    chart = lines(page, "eval/accuracy", 6)
    hover(page, chart, 0.2)
    page.wait_for_selector(".tip .row >> nth=5")
    rows = page.locator(".tip .row .value").all_inner_texts()
    values = [float(text.replace("−", "-")) for text in rows]
    assert values == sorted(values, reverse=True)
    assert page.locator(".tip .near").count() == 1
    names = set(page.locator(".tip .name").all_inner_texts())
    assert names == {f"lr{rate}-s{seed}" for rate in ("0.001", "0.01", "0.1") for seed in (1, 2)}


def test_filters_are_expressions_and_stand_in_the_address(opened: Open) -> None:
    page = opened()
    lines(page, "samples", 6)
    page.get_by_label("Metrics (regex)").fill("^(eval|train)/")
    page.wait_for_selector("[data-tag='samples']", state="detached")
    page.get_by_label("Runs (regex)").fill("s1$")
    lines(page, "eval/accuracy", 3)
    assert "names=s1" in page.url
    page.reload()
    lines(page, "eval/accuracy", 3)
    page.get_by_label("Metrics (regex)").fill("(")
    assert page.get_by_label("Metrics (regex)").get_attribute("aria-invalid") == "true"
    page.get_by_text("no regular expression yet").wait_for()
    lines(page, "samples", 3)  # until it is one, all are shown


def test_smoothing_axes_and_clipping_redraw(opened: Open) -> None:
    page = opened(tags="loss")
    lines(page, "train/loss", 6)

    seen: set[str] = set()

    def is_new() -> bool:
        canvas = "document.querySelector('[data-tag=\"train/loss\"] canvas')"
        picture = page.evaluate(f"{canvas}?.toDataURL() ?? ''")
        known = picture in seen | {""}
        seen.add(picture)
        return not known

    eventually(is_new)
    page.get_by_label("Smoothing", exact=True).fill("0.95")
    eventually(is_new)
    for name in ("Clip outliers", "log y", "log x"):
        page.get_by_role("button", name=name).click()
        eventually(is_new, f"{name} draws nothing new")
    page.get_by_role("button", name="log x").click()
    for x in ("relative", "wall", "tag:samples"):
        page.get_by_label("Horizontal axis").select_option(x)
        lines(page, "train/loss", 6)
        eventually(is_new, f"{x} draws nothing new")
    assert "x=tag%3Asamples" in page.url


def test_groups_are_drawn_as_bands(opened: Open) -> None:
    page = opened(tags="accuracy")
    lines(page, "eval/accuracy", 6)
    page.get_by_role("button", name="Group").click()
    page.get_by_label("All except seed").check()
    chart = lines(page, "eval/accuracy", 3)
    page.keyboard.press("Escape")
    legend = page.get_by_role("list", name="Colours").get_by_role("listitem")
    assert sorted(legend.all_inner_texts()) == ["lr=0.001", "lr=0.01", "lr=0.1"]
    hover(page, chart, 0.3)
    page.wait_for_selector(".tip .row >> nth=2")
    assert set(page.locator(".tip .name").all_inner_texts()) == {
        "lr=0.001 (2)",
        "lr=0.01 (2)",
        "lr=0.1 (2)",
    }


def test_zooming_asks_for_every_point(opened: Open) -> None:
    page = opened(tags="loss")
    chart = lines(page, "train/loss", 6)
    box = chart.locator(".u-over").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.60, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.64, y, steps=3)
    with page.expect_request(lambda request: request.url.endswith("/api/v1/series")) as asked:
        page.mouse.up()
    body = asked.value.post_data_json
    assert 2900 < body["min"] < 3100 < body["max"] < 3300
    page.get_by_role("button", name="Reset zoom").click()  # no other chart is zoomed
    page.wait_for_selector("text=Reset zoom", state="detached")


def test_a_chart_fills_the_window_and_is_exported(opened: Open) -> None:
    page = opened(tags="loss")
    chart = lines(page, "train/loss", 6)
    chart.get_by_role("button", name="Fill the window").click()
    cover = page.get_by_role("dialog", name="train/loss")
    page.wait_for_selector(".cover [data-lines='6']")
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg "), ("CSV", b"step,run,value")):
        cover.get_by_role("button", name="Export").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=kind).click()
        assert download.value.suggested_filename == f"train_loss.{kind.lower()}"
        assert Path(download.value.path()).read_bytes().startswith(start)
    page.keyboard.press("Escape")
    page.wait_for_selector(".cover", state="detached")


def test_new_points_appear_by_themselves(opened: Open, where: Path, hub: HubProcess) -> None:
    writer = SummaryWriter(where / "runs" / "live")
    writer.add_scalar("live", 1.0, 0)
    writer.flush()
    known = {run["path"]: run["id"] for run in hub.wait_for_runs(7)}
    page = opened(runs=str(known["live"]))
    chart = lines(page, "live", 1)
    for step in range(1, 5):
        writer.add_scalar("live", 10.0 * step, step)
    writer.flush()
    page.wait_for_selector("[data-tag='live'] [data-last='4']")
    hover(page, chart, 0.99)
    page.wait_for_selector(".tip .row")
    assert page.locator(".tip .raw").inner_text() == "40"
    writer.add_scalar("another", 1.0, 0)
    writer.flush()
    lines(page, "another", 1)
    writer.close()


def test_images_stand_side_by_side_at_one_step(opened: Open) -> None:
    page = opened(part="images")
    page.wait_for_selector("figure >> nth=5")
    assert page.locator("output").inner_text() == "100"
    loaded = "[...document.images].every(each => each.complete && each.naturalWidth === 8)"
    eventually(lambda: page.evaluate(loaded))
    page.get_by_label("Step").fill("0")
    assert page.locator("output").inner_text() == "0"
    eventually(lambda: page.evaluate(loaded))


def test_hyperparameters_against_metrics(opened: Open) -> None:
    page = opened(part="parallel", colour="hparams.lr")
    page.wait_for_selector("svg[data-kept='6']")
    grip = page.locator(".grip").first.bounding_box()
    page.mouse.move(grip["x"] + 14, grip["y"] + grip["height"] - 2)
    page.mouse.down()
    page.mouse.move(grip["x"] + 14, grip["y"] + grip["height"] * 0.8, steps=3)
    page.mouse.up()
    page.wait_for_selector("svg[data-kept='2']")
    page.get_by_role("radio", name="Scatter").check()
    page.wait_for_selector("svg[data-dots='6']")


def test_a_view_is_kept_under_a_name(opened: Open) -> None:
    page = opened(tags="loss", smooth="0.9")
    lines(page, "train/loss", 6)
    page.get_by_role("button", name="Views").click()
    page.get_by_label("Name of this view").fill("mine")
    page.get_by_role("button", name="Save").click()
    page.keyboard.press("Escape")
    page.get_by_label("Metrics (regex)").fill("")
    lines(page, "samples", 6)
    page.get_by_role("button", name="Views").click()
    page.get_by_role("button", name="mine", exact=True).click()
    page.wait_for_selector("[data-tag='samples']", state="detached")
    assert "smooth=0.9" in page.url


def test_runs_by_a_selector_and_none_at_all(opened: Open) -> None:
    page = opened(runs="", q="where lr < 0.05")
    lines(page, "samples", 4)
    page = opened(runs="")
    page.wait_for_selector("text=Choose runs")


def test_a_run_that_is_gone_leaves_the_others(opened: Open, hub: HubProcess) -> None:
    known = [run["id"] for run in hub.wait_for_runs(6) if run["path"].startswith("lr")]
    page = opened(runs=f"{known[0]},{known[1]},99999", tags="samples")
    lines(page, "samples", 2)
    page.get_by_text("Run 99999 is not there any more.").wait_for()
    page = opened(runs="99998,99999")
    page.get_by_text("Runs 99998, 99999 are not there any more.").wait_for()
    page.get_by_role("link", name="Choose runs").wait_for()


def test_a_name_hides_and_shows_its_line(opened: Open) -> None:
    page = opened(tags="samples|accuracy")
    lines(page, "samples", 6)
    name = page.get_by_role("list", name="Colours").get_by_role("button", name="lr0.01-s1")
    colour = "each => getComputedStyle(each.querySelector('.swatch')).backgroundColor"
    before = name.evaluate(colour)
    name.click()
    lines(page, "samples", 5)
    lines(page, "eval/accuracy", 5)
    assert name.get_attribute("aria-pressed") == "false"
    assert "hide=" in page.url
    page.reload()
    lines(page, "samples", 5)
    page.get_by_role("button", name="Show all").click()
    lines(page, "samples", 6)
    assert "hide=" not in page.url
    assert name.evaluate(colour) == before


def test_many_runs_are_named_in_a_list(tmp_path: Path, browser: Any) -> None:
    for number in range(30):
        with SummaryWriter(tmp_path / "runs" / f"trial{number:02}") as writer:
            writer.add_scalar("a/loss", number, 0)
            writer.add_scalar("a/loss", number, 1)
            writer.add_scalar("b/loss", number, 0)
            writer.add_scalar("b/loss", number, 1)
    with HubProcess(tmp_path / "home", auth="none", logdirs=tmp_path / "runs") as hub:
        ids = ",".join(str(run["id"]) for run in hub.wait_for_runs(30))
        made = Page(browser)
        page = made.page
        page.goto(f"{hub.url}/compare?runs={ids}")
        lines(page, "a/loss", 30)
        # Sections of one chart stand side by side.
        tops = [box.bounding_box()["y"] for box in page.locator("[data-tag]").all()]
        assert len(tops) == 2
        assert tops[0] == tops[1]
        names = page.get_by_role("list", name="Colours")
        assert names.count() == 0
        page.get_by_role("button", name="Runs and colours").click()
        assert names.get_by_role("listitem").count() == 30
        page.get_by_role("button", name="Hide all").click()
        page.wait_for_selector("[data-tag='a/loss'] [data-lines='0']")
        names.get_by_role("button", name="trial07").click()
        lines(page, "a/loss", 1)
        hover(page, page.locator("[data-tag='a/loss']"), 0.99)
        page.wait_for_selector(".tip .row")
        assert page.locator(".tip .name").all_inner_texts() == ["trial07"]
        made.context.close()
        assert made.problems == []


def test_what_is_not_finite_is_marked_as_long_as_it_lasts(
    opened: Open, where: Path, hub: HubProcess
) -> None:
    with SummaryWriter(where / "runs" / "late") as writer:
        for step in range(1000):
            writer.add_scalar("nan", 1.0 if step >= 600 else math.nan, step)
    run = number_of(hub, "late")
    page = opened(runs=run, smooth="0")
    lines(page, "nan", 1)
    # Coloured columns in the lowest part of the field: that is where the marks are.
    script = """() => {
        const canvas = document.querySelector("[data-tag=nan] canvas");
        const over = document.querySelector("[data-tag=nan] .u-over");
        const ratio = devicePixelRatio;
        const width = over.clientWidth * ratio, height = 10 * ratio;
        const top = (over.offsetTop + over.clientHeight - 11) * ratio;
        const context = canvas.getContext("2d");
        const { data } = context.getImageData(over.offsetLeft * ratio, top, width, height);
        const found = new Set();
        for (let at = 0; at < data.length; at += 4) {
            const parts = [data[at], data[at + 1], data[at + 2]];
            const isGrey = Math.max(...parts) - Math.min(...parts) < 40;
            const across = ((at / 4) % width) / width;
            if (data[at + 3] > 200 && !isGrey) found.add(Math.floor(20 * across));
        }
        return [...found].sort((one, other) => one - other);
    }"""
    # Twelve of twenty parts, into the next of which the last mark may reach.
    eventually(lambda: page.evaluate(script)[:12] == list(range(12)), "marks are missing")
    assert max(page.evaluate(script)) <= 12


def test_runs_without_numbers_lead_to_their_images(
    opened: Open, where: Path, hub: HubProcess
) -> None:
    with SummaryWriter(where / "runs" / "pictures") as writer:
        writer.add_image("grid", np.zeros((3, 8, 8), np.uint8), 1)
        writer.add_text("note", "text", 1)
    run = number_of(hub, "pictures")
    page = opened(runs=run)
    page.get_by_text("No scalars").wait_for()
    page.get_by_role("button", name="Images").click()
    page.wait_for_selector("figure img")


def test_moments_are_dates_of_twenty_four_hours(opened: Open) -> None:
    page = opened(tags="samples", x="wall")
    chart = lines(page, "samples", 6)
    hover(page, chart)
    page.wait_for_selector(".tip .at")
    assert page.locator(".tip .at").first.inner_text().startswith("2001-09-09 ")


def test_the_tools_fit_a_row(opened: Open) -> None:
    page = opened((1280, 800))
    lines(page, "samples", 6)
    tools = page.locator(".tools").first.bounding_box()
    assert tools["height"] < 40
