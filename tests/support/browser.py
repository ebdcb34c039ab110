"""Real boards in a real browser."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


class View:
    """A ``tbhub view`` process, loaded."""

    def __init__(self, *arguments: str, directory: Path) -> None:
        command = [str(Path(sys.executable).parent / "tbhub"), "view", *arguments]
        self._log = (directory / "view.log").open("w+")
        self.process = subprocess.Popen(
            [*command, "--port", "0", "--json"],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "TBHUB_CACHE_DIR": str(directory / "cache")},
        )
        assert self.process.stdout is not None
        self.url: str = json.loads(self.process.stdout.readline())["url"]
        self.loaded: int = json.loads(self.process.stdout.readline())["loaded"]

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)
        assert self.process.returncode == 0
        self._log.seek(0)
        assert "Traceback" not in self._log.read()
        self._log.close()


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., View]]:
    """Starts boards, which end with the module."""
    started: list[View] = []

    def start(*arguments: str) -> View:
        started.append(View(*arguments, directory=tmp_path_factory.mktemp("view")))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield chromium
        chromium.close()


class Page:
    """A page that remembers what went wrong on it."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1400, "height": 900}, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.problems: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("console", self._console)
        self.page.on("response", self._response)

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(f"console: {message.text}")

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.problems.append(f"{response.status}: {response.url}")


@pytest.fixture
def page(browser: Any) -> Iterator[Page]:
    """A fresh page; nothing may have gone wrong on it."""
    made = Page(browser)
    yield made
    made.context.close()
    assert made.problems == [], made.problems
