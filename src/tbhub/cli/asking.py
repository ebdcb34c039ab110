"""What commands ask: the hub, and the person in front of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tbhub.cli.text import count, size

if TYPE_CHECKING:
    from tbhub.api.models import Board, Deleted
    from tbhub.client.hub import Hub

Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]


class Refused(Exception):  # noqa: N818
    """Somebody said no."""


def connect() -> Hub:
    """The hub that ``TBHUB_URL``, ``tbhub login`` or this machine's home names."""
    from tbhub.client.hub import Hub

    return Hub()


def find(hub: Hub, board: str) -> Board:
    """A board by its id, a unique prefix of that, or its name."""
    from tbhub.client.find import find_board

    return hub.do(find_board(board))


def selector(words: Iterable[str] | None) -> str:
    """Words of a command line as one selector; paths are those of this directory.

    A word that names a directory here is one path, whatever is in its name.
    """
    from tbhub.catalog.selection import looks_like_path, quote
    from tbhub.client.paths import absolute, absolute_paths

    found = []
    for word in words or ():
        path = os.path.expanduser(word)
        if "://" not in word and looks_like_path(word) and os.path.exists(path):
            found.append(quote(absolute(path)))
        else:
            found.append(word)
    return absolute_paths(" ".join(found))


def confirm(question: str, yes: bool) -> None:
    """Asks before something that cannot be undone.

    Raises:
        Refused: The answer is not yes.
        ValueError: There is nobody to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ValueError(f"{question} There is no terminal to answer on: say --yes")
    if not typer.confirm(question, err=True):
        raise Refused


def in_words(deleted: Deleted) -> str:
    """How much a deletion removes."""
    parts = []
    if deleted.experiments:
        parts.append(count(deleted.experiments, "experiment"))
    parts.append(count(deleted.runs, "run"))
    if deleted.files:
        parts.append(f"{count(deleted.files, 'file')} ({size(deleted.bytes)})")
    return ", ".join(parts)


def read_secret(prompt: str, from_stdin: bool, option: str, *, twice: bool = False) -> str:
    """A password or token: typed unseen, or a line of standard input; never an argument.

    Raises:
        ValueError: There is none.
    """
    if from_stdin:
        secret = sys.stdin.readline().rstrip("\r\n")
    elif not sys.stdin.isatty():
        raise ValueError(f"there is no terminal to ask for the {prompt.lower()} on: give {option}")
    else:
        import getpass

        secret = getpass.getpass(f"{prompt}: ", sys.stderr)
        if twice and getpass.getpass("Once more: ", sys.stderr) != secret:
            raise ValueError("the two are not the same; nothing was changed")
    if not secret:
        raise ValueError(f"the {prompt.lower()} is empty")
    return secret


def has_display() -> bool:
    """Whether a browser has somewhere to be shown; one in the terminal would take it over."""
    return sys.platform != "linux" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )


def open_browser(url: str, token: str | None = None, home: Path | None = None) -> None:
    """Shows an address in a browser, if there is a display.

    A token goes by a file that only its owner can read: others see the arguments of processes.
    """
    if not has_display():
        return
    import webbrowser

    if token and home:
        url = _redirection(url, token, home).as_uri()
    webbrowser.open(url)


def _redirection(url: str, token: str, home: Path) -> Path:
    """A page that sends the browser on, logged in."""
    import json
    from urllib.parse import quote

    path = home / "open.html"
    with_token = json.dumps(f"{url}?token={quote(token, safe='')}").replace("<", "\\u003c")
    page = f"<!doctype html><title>tbhub</title><script>location.replace({with_token})</script>\n"
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(number, "w") as file:
        file.write(page)
    return path
