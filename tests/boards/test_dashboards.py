"""Every dashboard, opened in a real browser, shows what a person would look for."""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from support import every_kind
from support.browser import Page, View

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", params=["tbhub", "torch"])
def board(
    request: pytest.FixtureRequest,
    view: Callable[..., View],
    tmp_path_factory: pytest.TempPathFactory,
) -> View:
    """A board over one of every kind, below a prefix as behind a hub."""
    logs = tmp_path_factory.mktemp("logs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(every_kind, f"write_with_{request.param}")(logs)
    return view(str(logs), "--path_prefix", "/behind/a/proxy")


def opened(page: Page, board: View, dashboard: str) -> Any:
    page.page.goto(f"{board.url}#{dashboard}")
    return page.page


def test_time_series(board: View, page: Page) -> None:
    shown = opened(page, board, "timeseries")
    shown.get_by_role("combobox", name="Filter tags (regex)").fill("^walk$")
    card = shown.locator("scalar-card").filter(has_text="walk").first
    card.wait_for()
    assert coloured_pixels(card.locator("line-chart")) > 300
    names = shown.locator("runs-data-table tb-data-table-content-row").all_inner_texts()
    assert any("läufe/η=0.1 & more" in name for name in names)


# What a chip says of itself; Chromium itself would say SwiftShader here.
CHIP = """(name) => {
  const { getParameter } = WebGL2RenderingContext.prototype;
  WebGL2RenderingContext.prototype.getParameter = function (what) {
    return what === 0x9246 ? name : getParameter.call(this, what);
  };
}"""


@pytest.mark.parametrize(
    ("chip", "canvases"), [("ANGLE (SwiftShader driver)", 0), ("GeForce RTX", 1)]
)
def test_charts_are_drawn_by_the_graphics_card_if_there_is_one(
    board: View, page: Page, chip: str, canvases: int
) -> None:
    page.page.add_init_script(f"({CHIP})({chip!r})")
    shown = opened(page, board, "timeseries")
    shown.get_by_role("combobox", name="Filter tags (regex)").fill("^walk$")
    card = shown.locator("scalar-card").filter(has_text="walk").first
    assert coloured_pixels(card.locator("line-chart")) > 300
    assert card.locator("line-chart .series-view canvas").count() == canvases


def test_the_script_is_compiled_for_the_next_board_once(board: View, page: Page) -> None:
    frames: list[Any] = []
    page.page.on("frameattached", lambda frame: frames.append(frame))
    with page.page.expect_event("framedetached"):
        shown = opened(page, board, "timeseries")
    shown.reload()
    shown.locator("scalar-card").first.wait_for()
    shown.wait_for_timeout(1500)
    assert len(frames) == 1


def test_scalars(board: View, page: Page) -> None:
    shown = opened(page, board, "scalars")
    card = shown.locator("tf-scalar-card").first
    card.locator("vz-line-chart2 svg path.ghost, vz-line-chart2 svg path").first.wait_for(
        state="attached"
    )
    assert shown.locator("tf-category-paginated-view").count() > 5


def test_custom_scalars(board: View, page: Page) -> None:
    shown = opened(page, board, "custom_scalars")
    shown.locator("tf-custom-scalar-margin-chart-card").wait_for()
    shown.get_by_text("bounds").first.wait_for()
    assert shown.locator("tf-custom-scalar-multi-line-chart-card").count() >= 2


def test_images(board: View, page: Page) -> None:
    shown = opened(page, board, "images")
    shown.locator("tf-image-loader img").first.wait_for()
    shown.wait_for_function(loaded("img", "each.naturalWidth > 1"))


def test_audio(board: View, page: Page) -> None:
    shown = opened(page, board, "audio")
    shown.locator("audio").first.wait_for()
    shown.wait_for_function(loaded("audio", "each.duration > 0"))


def test_graphs(board: View, page: Page) -> None:
    shown = opened(page, board, "graphs")
    shown.locator("g.node").first.wait_for()


@pytest.mark.parametrize("dashboard", ["distributions", "histograms"])
def test_distributions(board: View, page: Page, dashboard: str) -> None:
    shown = opened(page, board, dashboard)
    element = f"tf-{dashboard.removesuffix('s')}-loader"
    shown.locator(f"{element} svg path").first.wait_for(state="attached")


def test_text(board: View, page: Page) -> None:
    shown = opened(page, board, "text")
    shown.locator("tf-text-loader table td").first.wait_for()
    shown.locator("tf-text-loader table", has_text="large").first.wait_for()
    assert shown.locator("tf-text-loader script").count() == 0


def test_pr_curves(board: View, page: Page) -> None:
    shown = opened(page, board, "pr_curves")
    shown.locator("tf-pr-curve-card svg path").first.wait_for(state="attached")


def test_hparams(board: View, page: Page) -> None:
    shown = opened(page, board, "hparams")
    table = shown.locator("tf-hparams-table-view vaadin-grid")
    table.wait_for()
    shown.get_by_text("sweep/session0", exact=True).first.wait_for()
    shown.get_by_text("0.050000").first.wait_for()


def test_mesh(board: View, page: Page) -> None:
    # It is drawn all the time, which is slow without a graphics card: a look at it is enough.
    with page.page.expect_response("**/plugin/mesh/data?**") as data:
        shown = opened(page, board, "mesh")
    assert data.value.ok
    canvas = shown.locator("tf-mesh-loader canvas").first
    canvas.wait_for()
    assert canvas.evaluate("canvas => canvas.width * canvas.height") > 10_000


def test_projector(board: View, page: Page) -> None:
    shown = opened(page, board, "projector")
    shown.wait_for_function("() => window.frames.length > 0 && window.frames[0].frames.length > 0")
    inside = shown.frame_locator("main iframe").frame_locator("iframe")
    inside.get_by_text("Points: 6").first.wait_for()
    assert shown.evaluate(FONTS) == "loaded"


# The projector's page names its fonts by absolute paths, which lead nowhere below a prefix.
FONTS = """async () => {
  const inner = window.frames[0].frames[0].document;
  await inner.fonts.ready;
  const failed = [...inner.fonts].filter(font => font.status === 'error');
  return failed.length ? `failed: ${failed.length}` : 'loaded';
}"""


def coloured_pixels(element: Any, wanted: int = 300) -> int:
    """How many pixels of an element are neither grey nor white, once that has been enough."""
    found = 0
    for _ in range(100):
        picture = Image.open(io.BytesIO(element.screenshot())).convert("HSV")
        saturation = np.asarray(picture)[:, :, 1]
        found = int((saturation > 60).sum())
        if found > wanted:
            break
        time.sleep(0.1)
    return found


def loaded(element: str, condition: str) -> str:
    """Whether some element below nested shadow roots fulfils a condition."""
    return f"""() => {{
      const all = root => [...root.querySelectorAll('*')].flatMap(
        each => each.shadowRoot ? [each, ...all(each.shadowRoot)] : [each]);
      return all(document).some(each => each.matches('{element}') && ({condition}));
    }}"""
