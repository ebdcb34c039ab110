"""What is wrong with a selector, and where; and quotes, which all its parts share."""

from __future__ import annotations

from tbhub.errors import TbhubError

MAX_NUMBER = 2**62
"""No experiment, run or job has a greater one."""

_SHOWN = 72


class SelectorError(TbhubError, ValueError):
    """A selector that cannot be understood.

    Attributes:
        text: The whole selector.
        position: Where in it, counted from 0.
        hint: What to write instead.
    """

    def __init__(self, text: str, position: int, problem: str, hint: str) -> None:
        self.text = text
        self.position = position
        self.hint = hint
        start = max(0, position - _SHOWN // 2) if len(text) > _SHOWN else 0
        shown = text[start : start + _SHOWN]
        shown = ("…" if start else "") + shown + ("…" if start + _SHOWN < len(text) else "")
        super().__init__(f"selector {shown!r}, column {position + 1}: {problem}; {hint}")

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickle, (self.text, self.position, self.hint, self.args[0])


def _unpickle(text: str, position: int, hint: str, message: str) -> SelectorError:
    error = SelectorError(text, position, "", hint)
    error.args = (message,)
    return error


def quoted(text: str, start: int) -> tuple[str, int]:
    """The text in quotes that open at a place, and where it is over."""
    mark = text[start]
    chars = []
    at = start + 1
    while at < len(text) and text[at] != mark:
        if text[at] == "\\" and text[at + 1 : at + 2] in ("\\", '"', "'"):
            at += 1
        chars.append(text[at])
        at += 1
    if at >= len(text):
        raise SelectorError(text, start, "a quote is not closed", f"close it with {mark}")
    return "".join(chars), at + 1
