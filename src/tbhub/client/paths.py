"""Paths that mean the same to the hub, whose current directory is another."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tbhub.errors import TbhubError

if TYPE_CHECKING:
    from tbhub.catalog.selection import Term

# Relative paths have one of these: `./x`, `.`, `~/x`, `x/`, `a/b/c`.
_MAYBE_RELATIVE = re.compile(r"[./~]")
# Quotes, wildcards and prefixes, with which a word is not a relative path: `ws1/exp:mnist`, `a/*`.
_NOT_PATH = re.compile(r".*[\"'*?]|(?:[^/]*/)?(?:exp|trial|job):|[a-z][a-z0-9+.-]*://", re.I | re.S)


def absolute(path: str | os.PathLike[str]) -> str:
    """Return a path from the root on, or a URI, without a slash at its end."""
    text = os.fspath(path)
    if "://" not in text:
        return os.path.abspath(os.path.expanduser(text))
    shorter = text.rstrip("/")
    return text if shorter.endswith(":") else shorter


def is_path_here(word: str) -> bool:
    """Return whether a word with a slash names a directory or an event file that exists."""
    from tbhub.events.names import is_event_file

    if "/" not in word or _NOT_PATH.match(word):
        return False
    return os.path.isdir(word) or (is_event_file(word) and os.path.isfile(word))


def absolute_paths(selector: str) -> str:
    """Return a selector with absolute paths; one without relative paths as it was written.

    ``a/b`` is a path if there is such a directory or event file, whatever else it may name.
    """
    if not _MAYBE_RELATIVE.search(selector):
        return selector
    from tbhub.catalog.selectors import parse

    try:
        selection = parse(selector)
    except TbhubError:
        return selector  # the hub says what is wrong, and where
    placed = replace(selection, terms=tuple(map(_as_path, selection.terms)))
    absolute = placed.absolute(os.getcwd())
    return selector if absolute == selection else str(absolute)


def _as_path(term: Term) -> Term:
    """Return the path that a term names in the current directory; otherwise the term."""
    from tbhub.catalog.selection import Location

    if isinstance(term, Location) or not is_path_here(term.typed):
        return term
    return Location(os.path.abspath(term.typed), typed=term.typed)
