"""Text from elsewhere, as a terminal may be shown it, and times and sizes as people say them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

# Control characters move cursors and change titles; marks of direction make text read otherwise.
_UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([smhdw]?)", re.ASCII)


def plain(text: object) -> str:
    """Text in which nothing is for the terminal: what would be is written as an escape."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def is_text(word: str) -> bool:
    """Whether a word of a command line is UTF-8; other bytes are no name of anything."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def width(text: str) -> int:
    """The columns a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def duration(text: str) -> float:
    """The seconds of ``90``, ``90s``, ``15m``, ``2h``, ``3d``, ``1w`` and of ``1h30m``.

    Raises:
        ValueError: It is none.
    """
    compact = text.strip().lower()
    if not re.fullmatch(rf"(?:{_DURATION.pattern}\s*)+", compact, re.ASCII):
        raise ValueError(f"{text!r} is no time: write 90, 15m, 2h, 1h30m or 3d")
    return sum(float(number) * _UNITS[unit or "s"] for number, unit in _DURATION.findall(compact))


def moment(text: str, now: datetime | None = None) -> datetime:
    """A time: ``2026-11-16``, ``2026-11-16T10:00``, ``10:00`` of today, or ``2h`` ago.

    Without a zone it is this machine's.

    Raises:
        ValueError: It is none.
    """
    now = (now or datetime.now(UTC)).astimezone()
    if re.fullmatch(r"\d?\d:\d\d(:\d\d)?", text.strip()):
        text = f"{now:%Y-%m-%d}T{text.strip():0>5}"
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            return now - timedelta(seconds=duration(text))
        except (ValueError, OverflowError):
            raise ValueError(
                f"{text!r} is no time: write 2026-11-16T10:00, 10:00 or 2h (ago)"
            ) from None
    return found if found.tzinfo else found.astimezone()


def span(seconds: float) -> str:
    """A length of time, roughly: ``45s``, ``12m``, ``3h``, ``5d``."""
    seconds = max(0.0, seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size * (2 if unit == "d" else 1):
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def clock(when: datetime | None) -> str:
    """A time on this machine's clock."""
    return f"{when.astimezone():%Y-%m-%d %H:%M}" if when else ""


def size(number: int) -> str:
    """Bytes, roughly."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def count(number: int, noun: str) -> str:
    """``1 run``, ``1,200 runs``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
