"""What is wrong with an event file: every damaged place, with its offset and kind."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from tbhub import _kernel


@dataclass(frozen=True)
class Damage:
    """One damaged place in a file."""

    offset: int
    size: int
    kind: str  # bad length crc, bad data crc, truncated, garbage, not an event


@dataclass(frozen=True)
class Report:
    """What a check has found out about one file."""

    path: str
    size: int = 0
    good_events: int = 0
    saved_events: int = 0  # behind a bad length, but proven good; repair keeps them
    damages: list[Damage] = field(default_factory=list)  # the first ten thousand
    damage_counts: dict[str, int] = field(default_factory=dict)
    error: str = ""  # why the file could not be read, or is not an event file

    @property
    def is_good(self) -> bool:
        """Whether the file could be read and nothing in it is damaged."""
        return not self.error and not self.damage_counts

    def as_dict(self) -> dict[str, Any]:
        """The report in JSON's types."""
        return {
            "path": self.path,
            "good": self.is_good,
            "size": self.size,
            "good_events": self.good_events,
            "saved_events": self.saved_events,
            "damaged": sum(self.damage_counts.values()),
            "damage_counts": self.damage_counts,
            "damages": [vars(damage) for damage in self.damages],
            "error": self.error or None,
        }


def check(path: str | os.PathLike[str]) -> Report:
    """Reads a file to its end and reports; errors of the file system are part of the report."""
    name = os.fspath(path)
    try:
        found = _kernel.inspect(name)
    except OSError as error:
        return Report(name, error=error.strerror or str(error))
    return report_from(name, found)


def report_from(name: str, found: dict[str, Any]) -> Report:
    """A report from what the kernel answers."""
    events = found["good_events"] + found["saved_events"]
    return Report(
        path=name,
        size=found["size"],
        good_events=found["good_events"],
        saved_events=found["saved_events"],
        damages=[Damage(*span) for span in found["damages"]],
        damage_counts=found["counts"],
        error="not an event file: it holds no event" if found["size"] and not events else "",
    )
