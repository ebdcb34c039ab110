"""The hub's web page in a real browser: visits that remember what went wrong, pictures, axe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.hub import HubProcess
from tbhub import SummaryWriter

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build" / "screenshots"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
RUNS = 300
"""How many runs the hub of the runs page knows."""
SIZES = {"phone": (360, 740), "normal": (1280, 800), "wide": (2560, 1200)}


def shoot(page: Any, name: str) -> None:
    """Keeps what is seen of a page, as build output."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png")


def serious(page: Any) -> list[str]:
    """What axe finds on a page that is serious; frames of TensorBoard are not ours."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {iframes: false})")
    return [
        f"{each['id']}: {node['html'][:160]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


class Visit:
    """Somebody who looks at a hub. At the end nothing may have gone wrong that was not expected."""

    def __init__(self, browser: Any, hub: HubProcess, token: str, theme: str, size: str) -> None:
        width, height = SIZES[size]
        self.hub = hub
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            locale="en-GB",
            reduced_motion="reduce",
            permissions=["clipboard-read", "clipboard-write"],
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.problems: list[str] = []
        self.expected: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("console", self._console)
        self.page.on("request", self._request)
        self.page.goto(f"{hub.url}/login?token={token}")

    def _console(self, message: Any) -> None:
        if message.type == "error" and not any(part in message.text for part in self.expected):
            self.problems.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.hub.url, "data:", "blob:", "about:")):
            self.problems.append(f"asks elsewhere: {request.url}")

    def open(self, path: str) -> Any:
        """Goes to an address of the page."""
        self.page.goto(f"{self.hub.url}{path}")
        return self.page

    def picture(self, name: str) -> None:
        """Keeps what is seen, as build output."""
        shoot(self.page, name)

    def axe(self) -> list[str]:
        """What axe finds that is serious; frames of TensorBoard are not ours."""
        return serious(self.page)

    def close(self) -> None:
        self.context.close()
        assert self.problems == [], self.problems


Open = Callable[..., Visit]


@pytest.fixture
def visit(browser: Any) -> Iterator[Open]:
    """Visits, which end with the test."""
    made: list[Visit] = []

    def start(
        hub: HubProcess, token: str | None = None, theme: str = "light", size: str = "normal"
    ) -> Visit:
        made.append(Visit(browser, hub, token or hub.token, theme, size))
        return made[-1]

    yield start
    for each in made:
        each.close()


def log_runs(root: Path, *names: str) -> None:
    """Short runs with a curve each."""
    for at, name in enumerate(names):
        with SummaryWriter(root / name) as writer:
            for step in range(20):
                writer.add_scalar("loss", 1 / (step + 1 + at), step)
