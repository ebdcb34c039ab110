"""Open pages of a hub in a browser, logged in; or print a link for a browser elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tbhub.cli.text import plain

if TYPE_CHECKING:
    from tbhub.api.models import Board, LoginLink
    from tbhub.client.hub import Hub

_KEPT_SECONDS = 900.0  # longer than a login link works
_PAGE = "tbhub-open-"
_SNAPS = "/snap/bin/"
_TOOL_TIMEOUT = 3.0  # seconds


def has_display() -> bool:
    """Return whether a graphical browser can be shown; a text browser would take the terminal."""
    return sys.platform != "linux" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )


def open_address(url: str) -> bool:
    """Open an address that holds no secret, if there is a display; return whether it was opened."""
    if not has_display():
        return False
    import webbrowser

    return webbrowser.open(url)


def open_board_page(hub: Hub, board: Board, browser: bool) -> None:
    """Open a board in a browser by a login link of its own; without a browser print the link."""
    from tbhub.errors import TbhubError

    def create() -> LoginLink:
        return hub.login_link(urlsplit(board.url).path)

    try:
        if browser and open_browser(create, hub.connection.home):
            return
        link = create()
    except TbhubError as error:
        print(f"tbhub: no login link could be made: {plain(error)}", file=sys.stderr)
        return
    if link.expires is not None:
        print(
            f"to log in, open within 10 minutes (works once): {plain(link.url)}",
            file=sys.stderr,
            flush=True,
        )


def open_browser(create: Callable[[], LoginLink], directory: Path | None) -> bool:
    """Open the page of a login link, if there is a display; return whether a browser was started.

    A link that logs in goes by a file that only its owner can read: others see the arguments of
    processes.

    Args:
        create: Called only if there is a display.
        directory: For the file; the user's cache directory unless given.
    """
    if not has_display():
        return False
    link = create()
    if link.expires is None:
        return open_address(link.url)
    place = _snap_directory() or directory or _cache_directory()
    return open_address(_private_page(link.url, place).as_uri())


def _snap_directory() -> Path | None:
    """Return a directory of the default browser if that is a snap, which sees no hidden ones."""
    command = os.environ.get("BROWSER", "").partition(os.pathsep)[0].partition(" ")[0]
    if command:
        found = shutil.which(command) or ""
        name = os.path.basename(found) if found.startswith(_SNAPS) else ""
    else:
        name = _default_browser().partition("_")[0]  # firefox_firefox.desktop
    directory = Path.home() / "snap" / name / "common"
    return directory if name and directory.is_dir() else None


def _default_browser() -> str:
    """Return the name of the desktop's browser; empty where there is none."""
    tool = shutil.which("xdg-settings")
    if tool is None:
        return ""
    try:
        done = subprocess.run(
            [tool, "get", "default-web-browser"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TOOL_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip()


def _private_page(url: str, directory: Path) -> Path:
    """Write a page of its own that sends the browser on; delete those whose links have expired."""
    import json

    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in directory.glob(f"{_PAGE}*.html"):
        with suppress(OSError):
            if old.stat().st_mtime < time.time() - _KEPT_SECONDS:
                old.unlink()
    target = json.dumps(url).replace("<", "\\u003c")
    page = f"<!doctype html><title>tbhub</title><script>location.replace({target})</script>\n"
    descriptor, name = tempfile.mkstemp(".html", _PAGE, directory)  # readable by the owner alone
    with os.fdopen(descriptor, "w") as file:
        file.write(page)
    return Path(name)


def _cache_directory() -> Path:
    named = os.environ.get("TBHUB_CACHE_DIR")
    if named:
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "tbhub"
