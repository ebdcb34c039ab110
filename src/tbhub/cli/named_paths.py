"""``name:path``, as TensorBoard's users write it, and names for paths that have none."""

from __future__ import annotations

import os
import re

# How selectors begin that name no place, with whatever slashes behind.
_SELECTOR = re.compile(r"(?:exp|trial|job):|(?:where|order by|limit)\s", re.IGNORECASE)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_uri(text: str) -> bool:
    """Whether a text names a place in a store."""
    return _URI.match(text) is not None


def name_and_path(text: str) -> tuple[str | None, str]:
    """TensorBoard's ``name:path``, unless there is something of that name; either may be a URI."""
    if is_uri(text):
        return None, text
    name, _, path = text.partition(":")
    if os.path.exists(text) or text.startswith("/") or not (name and path):
        return None, os.path.expanduser(text)
    return name, os.path.expanduser(path)


def is_path(text: str) -> bool:
    """Return whether a text names a path: something that exists, or that looks like one."""
    _, path = name_and_path(text)
    if not text.strip():
        return True  # as an empty variable leaves it; no selector either
    if is_uri(path) or os.path.exists(path):
        return True
    if text.startswith(("'", '"')):
        return False  # a selector: text in quotes is the name of a run
    return ("/" in path or path.startswith((".", "~"))) and not _SELECTOR.match(text)


def may_be_run(text: str) -> bool:
    """Return whether a path that does not exist may be the name of a run: ``exp8/run82``."""
    is_explicit = text.startswith((".", "~", "/")) or text.endswith("/") or is_uri(text)
    return bool(text.strip()) and not is_explicit and not os.path.exists(name_and_path(text)[1])


def without_tensorboard(words: list[str]) -> list[str]:
    """Return the words of ``view tensorboard run343``, as XT has it, without the first."""
    is_xt = words[:1] == ["tensorboard"] and not os.path.exists("tensorboard")
    return words[1:] if is_xt else words


def tell_apart(paths: list[str]) -> list[str]:
    """For each path as many of its last components as tell it from the others."""
    parts = [os.path.abspath(path).strip("/").split("/") for path in paths]
    names = []
    for number, mine in enumerate(parts):
        others = [other for place, other in enumerate(parts) if place != number]
        depth = 1
        while depth < len(mine) and any(other[-depth:] == mine[-depth:] for other in others):
            depth += 1
        names.append("/".join(mine[-depth:]))
    return names
