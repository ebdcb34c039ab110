"""Warn once about NaN and infinite values, however many tags and writers log them.

A model that diverges logs NaN to every tag: the first value is worth a warning, the others are not.
"""

from __future__ import annotations

from typing import Any

from tbhub.writer.arrays import to_float
from tbhub.writer.event_file import warn

MAX_FLOAT32 = 3.4028235677973366e38  # from here on a float32 is infinite
_warned = False


def warn_non_finite(tag: str, value: Any, step: Any = None, call: str = "add_scalar") -> None:
    """Warn about a value that float32 cannot hold, if it is the first one of this run.

    Args:
        tag: Its tag.
        value: The value.
        step: Its step, if it has one.
        call: The method that was given it.
    """
    global _warned
    if _warned:
        return
    _warned = True  # before anything that lets another thread in
    number = to_float(value, call)
    what = f"{number:g}"
    if MAX_FLOAT32 <= abs(number) < float("inf"):
        what += ", which float32 cannot hold (double_precision=True can)"
    at = "" if step is None else f" at step {step!s:.40}"
    warn(
        f"{call}({tag!r:.80}): got {what}{at}; further values of this kind, of any tag, are "
        "logged without a warning"
    )


def forget_non_finite() -> None:
    """Warn again about the next such value: another run begins in this process."""
    global _warned
    _warned = False
