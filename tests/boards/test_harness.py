"""The proof of boards is proved: stock against stock is alike, and a lie is found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import every_kind
from support.endpoints import EXPERIMENT, PLUGIN, Request, compare
from support.stock import Answer, Fields, Stock
from tbhub import SummaryWriter

# Files of the page, redirects to it and silenced 404s: no data is behind them.
STATIC = {
    "/",
    "/index.html",
    "/favicon.ico",
    "/___rPc_sWiTcH___",
    "/audio",
    "/events",
    "/graphs",
    "/histograms",
    "/images",
    f"{PLUGIN}/projector/index.js",
    f"{PLUGIN}/projector/projector_binary.html",
    f"{PLUGIN}/projector/projector_binary.js",
}
REDIRECT = "/data/notifications"
BLOBS = {
    f"{PLUGIN}/images/individualImage",
    f"{PLUGIN}/audio/individualAudio",
    f"{PLUGIN}/timeseries/imageData",
}
# Nothing in these answers is compared but that they are answers.
PLACE_ONLY = {"/data/logdir", "/data/window_properties"}

WRITERS = [
    "tbhub",
    "torch",
    "tensorboardX",
    pytest.param("tensorflow", marks=pytest.mark.tensorflow),
]
STOCK_FAILS = {"tensorflow": [f"GET {PLUGIN}/audio/audio?run=media&tag=fewer&sample=1"]}


class Watched:
    """Stock, and which of its routes were asked with what success."""

    def __init__(self, app: Stock) -> None:
        self.app = app
        self.statuses: dict[str, set[int]] = {}
        self.failures: list[str] = []

    def get(self, path: str, /, **query: Any) -> Answer:
        return self._note(Request(path, query), self.app.get(path, **query))

    def post(self, path: str, form: Fields | str, /) -> Answer:
        return self._note(Request(path, form=form), self.app.post(path, form))

    def _note(self, request: Request, answer: Answer) -> Answer:
        self.statuses.setdefault(request.route, set()).add(answer[0])
        if answer[0] >= 500:
            self.failures.append(str(request))
        return answer


class Liar(Watched):
    """Stock whose good answers have every value changed, on some routes."""

    def __init__(self, app: Stock, lies_about: set[str]) -> None:
        super().__init__(app)
        self.lies_about = lies_about

    def _note(self, request: Request, answer: Answer) -> Answer:
        status, content_type, body = super()._note(request, answer)
        if status != 200 or request.route not in self.lies_about:
            return status, content_type, body
        if content_type == "application/json":
            return status, content_type, json.dumps(_changed(json.loads(body))).encode()
        return status, content_type, body + b"1"


def _changed(value: Any) -> Any:
    match value:
        case dict():
            return {key: _changed(item) for key, item in value.items()} or {"more": 1}
        case list():
            return [_changed(item) for item in value] or ["more"]
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
        case _:
            return "something"


def routes(app: Stock) -> set[str]:
    """Where the loaded plugins have data."""
    assert not app.application.prefix_routes
    return set(app.application.exact_routes) - STATIC


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Log directories by the name of their writer, made when first asked for."""

    class Trees(dict[str, Path]):
        def __missing__(self, writer: str) -> Path:
            directory = tmp_path_factory.mktemp(writer)
            getattr(every_kind, f"write_with_{writer}")(directory)
            self[writer] = directory
            return directory

    return Trees()


@pytest.mark.parametrize("writer", WRITERS)
def test_stock_is_as_stock(writer: str, trees: dict[str, Path], tmp_path: Path) -> None:
    copy = shutil.copytree(trees[writer], tmp_path / "copy")
    one, other = Watched(Stock(trees[writer])), Watched(Stock(copy))
    assert compare(one, other) == []
    assert other.failures == STOCK_FAILS.get(writer, [])
    assert one.statuses.keys() == routes(one.app)
    good = {route for route, statuses in one.statuses.items() if 200 in statuses}
    lacking = {f"{PLUGIN}/projector/sprite_image"} if writer == "tensorflow" else set()
    assert good == routes(one.app) - {REDIRECT} - lacking


def test_a_lie_on_any_route_is_found(trees: dict[str, Path]) -> None:
    stock = Stock(trees["tbhub"])
    told = compare(Liar(stock, routes(stock)), stock)
    found = {line.split()[1].partition("?")[0].rstrip(":") for line in told}
    found = {path.removeprefix(EXPERIMENT) for path in found}
    assert found == routes(stock) - BLOBS - PLACE_ONLY - {REDIRECT}


@pytest.mark.parametrize("route", sorted(BLOBS))
def test_a_changed_blob_is_found(route: str, tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("image", np.zeros((3, 4, 4)), 1, 10.0)
        writer.add_audio("audio", np.zeros(100), 1, 8000, 10.0)
    stock = Stock(tmp_path)
    told = compare(Liar(stock, {route}), stock)
    assert any("['length']" in line for line in told)
    assert any("['sha256']" in line for line in told)


def test_one_changed_value_is_told_with_its_place(tmp_path: Path) -> None:
    for name, value in (("ours", 2.5), ("stock", 2.0)):
        with SummaryWriter(tmp_path / name / "train") as writer:
            writer.add_scalar("loss", 1.0, 1, 10.0)
            writer.add_scalar("loss", value, 2, 11.0)
    told = compare(Stock(tmp_path / "ours"), Stock(tmp_path / "stock"))
    asked = f"GET {PLUGIN}/scalars/scalars?run=train&tag=loss"
    assert f"{asked}: $['body'][1][2]: 2.5, stock has 2.0" in told
    asked = f"GET {PLUGIN}/scalars/scalars?run=train&tag=loss&format=csv"
    assert f"{asked}: $['body'][2][2]: '2.5', stock has '2.0'" in told


def test_a_missing_run_and_a_missing_tag_are_told(tmp_path: Path) -> None:
    for name, runs in (("ours", ["one"]), ("stock", ["one", "two"])):
        for run in runs:
            with SummaryWriter(tmp_path / name / run) as writer:
                writer.add_scalar("loss", 1.0, 1, 10.0)
                if name == "ours":
                    writer.add_text("extra", "text", 1, 10.0)
    told = compare(Stock(tmp_path / "ours"), Stock(tmp_path / "stock"))
    assert "GET /data/runs: $['body']: 1 items, stock has 2" in told
    extra = "['extra/text_summary']"
    assert f"GET {PLUGIN}/text/tags: $['body']['one']: {extra}, stock has nothing" in told
