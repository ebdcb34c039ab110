"""Paths that mean the same to the hub, whose current directory is another."""

from __future__ import annotations

import os
import re

from tbhub.errors import TbhubError

# Relative paths have one of these: `./x`, `.`, `~/x`, `x/`, `a/b/c`.
_MAYBE_RELATIVE = re.compile(r"[./~]")


def absolute(path: str | os.PathLike[str]) -> str:
    """A path from the root on; a URI as it is."""
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(os.path.expanduser(text))


def absolute_paths(selector: str) -> str:
    """A selector whose paths begin at the root; one without relative paths as it was written."""
    if not _MAYBE_RELATIVE.search(selector):
        return selector
    from tbhub.catalog.selectors import parse

    try:
        selection = parse(selector)
    except TbhubError:
        return selector  # the hub says what is wrong, and where
    absolute = selection.absolute(os.getcwd())
    return selector if absolute == selection else str(absolute)
