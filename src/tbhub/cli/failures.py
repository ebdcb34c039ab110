"""How errors reach a person: what was wrong, where, what to do next; and an exit code."""

from __future__ import annotations

import re
import sys
from typing import Any

EXIT_CODES = """
| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | the answer is no: something is damaged, or you said no |
| 2 | it could not be carried out |
| 3 | there is no such thing, or several |
| 4 | not allowed, or not logged in |
| 5 | no hub answers |
| 6 | no more boards may run |
| 7 | not in time |
| 130 | interrupted |
"""

_BY_NAME = {
    "NotFound": 3,
    "Ambiguous": 3,
    "NotAuthenticated": 4,
    "Forbidden": 4,
    "HubUnreachable": 5,
    "TensorboardLimitExceeded": 6,
    "WaitTimeout": 7,
}
_LISTED_BY = {
    "board": "tbhub list",
    "experiment": "tbhub experiments",
    "run": "tbhub runs",
    "workspace": "tbhub workspaces",
    "logdir": "tbhub logdirs",
    "user": "tbhub users",
    "token": "tbhub tokens",
    "storage": "tbhub storage",
}


def exit_code(error: Exception) -> int:
    """The code for an error; by the names of its kinds, none of which needs to be imported."""
    return next(
        (_BY_NAME[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _BY_NAME), 2
    )


def tell(error: Exception) -> None:
    """Says on stderr what went wrong."""
    for line in lines_of(error):
        print(line, file=sys.stderr)


def lines_of(error: Exception) -> list[str]:
    """What went wrong, in a line; for some with lines below that say where, which, or how."""
    from tbhub.cli.text import plain

    details: dict[str, Any] = getattr(error, "details", None) or {}
    first, *rest = _text(error).split("\n")
    lines = [f"tbhub: {plain(first)}", *(f"  {plain(line)}" for line in rest if line)]
    if advice := _advice(error, lines[0]):
        lines[0] = f"{lines[0].removesuffix('.')}; {advice}"
    lines += _caret(details, getattr(error, "text", None), getattr(error, "position", None))
    for each in details.get("matches") or details.get("boards") or ():
        lines.append("  " + plain(_entry(each)))
    return lines


def _advice(error: Exception, said: str) -> str:
    """What to do next, where what was said does not say it."""
    if "hint: " in said:
        return ""
    if type(error).__name__ == "NotAuthenticated" and "`tbhub login`" not in said:
        return "`tbhub login` logs you in"
    missing = re.search(r"\bno ([a-z]+)\b", said) if type(error).__name__ == "NotFound" else None
    listed = _LISTED_BY.get(missing[1]) if missing and not re.search("[.;] ", said) else None
    return f"`{listed}` lists those there are" if listed else ""


def _text(error: Exception) -> str:
    from tbhub.errors import TbhubError

    if not isinstance(error, TbhubError | OSError | ValueError):
        return f"a fault of tbhub: {error!r}; TBHUB_DEBUG=1 shows where"
    if isinstance(error, UnicodeEncodeError):
        return "what was given holds bytes that are no text in UTF-8"
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error).strip() or type(error).__name__


def _caret(details: dict[str, Any], text: Any, position: Any) -> list[str]:
    """A selector, and below it a caret at what is wrong with it."""
    from tbhub.cli.text import plain, width

    text = details.get("selector") or details.get("text") or text
    position = details.get("position", position)
    if not isinstance(text, str) or not isinstance(position, int) or "\n" in text:
        return []
    return [f"  {plain(text)}", "  " + " " * width(plain(text[:position])) + "^"]


def _entry(each: Any) -> str:
    """Something that fits, or that holds a place."""
    if not isinstance(each, dict):
        return str(each)
    order = ("id", "name", "owner", "state")
    known = [str(each[name]) for name in order if each.get(name) is not None]
    return "  ".join(known or map(str, each.values()))
