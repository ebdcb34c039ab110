"""What a run that was found is called: its directory's name, with as much of its path as is needed.

A run's *tail* is its location with the last directory first: ``/data/exp8/run82`` has the tail
``run82/exp8/data/``. Runs whose paths end alike have tails that begin alike, so an ordered index
of tails answers both questions there are: which runs does ``exp8/run82`` name, and how much of its
path tells a run from all others.

Everything here is pure; `tbhub.catalog.naming` asks the database.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tbhub.catalog.templates import printable

MAX_NAME = 400
"""Characters of a name; `runs.name` holds no more."""

# Sub-directories that are parts of one training run rather than runs of their own.
STAGES = frozenset({"train", "training", "test", "eval", "val", "valid", "validation", "dev"})

# Directories that frameworks make in every run: without what they lie in they name nothing.
_PARTS = re.compile(
    r"[0-9]+|(?:version|rank|local_rank|worker|node|process)[_-]?[0-9]+"
    r"|lightning_logs|logs?|events?|summar(?:y|ies)|tb|tb_?logs?|tensorboard"
)


_NUMBER = re.compile(r"(?:#|trial:)[0-9]+", re.IGNORECASE)


def is_number(text: str) -> bool:
    """Return whether a text is the number of a run as selectors write it, ``#12``, ``trial:12``."""
    return _NUMBER.fullmatch(text) is not None


def tail_of(location: str) -> str:
    """Return a location's directories, the last one first, each with a slash behind it."""
    path = location.partition("://")[2] if "://" in location else location
    return "".join(f"{part}/" for part in reversed(path.split("/")) if part not in ("", "."))


def tail_of_suffix(path: str) -> str | None:
    """Return what the tails of all runs begin with whose paths end so; None if no path does."""
    parts = [part for part in path.split("/") if part]
    if not parts or ".." in parts:
        return None
    return "".join(f"{part}/" for part in reversed(parts))


def after(prefix: str) -> str:
    """Return the least text that sorts behind everything that begins with a tail's beginning."""
    return f"{prefix[:-1]}0"  # the character behind the slash


def least_parts(tail: str) -> int:
    """Return how many directories a name has at least: ``train`` alone would say nothing."""
    parts = tail.split("/")[:-1]
    for count, part in enumerate(parts, 1):
        if part not in STAGES and _PARTS.fullmatch(part) is None:
            return count
    return len(parts)


def first_parts(tail: str, count: int) -> str:
    """Return the beginning of a tail that has so many directories."""
    return "".join(f"{part}/" for part in tail.split("/")[:-1][:count])


def name_of(tail: str, count: int) -> str:
    """Return a name of so many directories: printable, and of any length."""
    parts = tail.split("/")[:-1][:count]
    return printable("/".join(reversed(parts)))


def parts_needed(tails: Sequence[str]) -> Mapping[str, int]:
    """Return how many directories tell each of these tails from all others.

    Args:
        tails: All that begin alike, each once.
    """
    ordered = sorted(tails)
    shared = [0] * (len(ordered) + 1)  # with the tail before
    for at in range(1, len(ordered)):
        shared[at] = _shared(ordered[at - 1], ordered[at])
    found: dict[str, int] = {}
    for at, tail in enumerate(ordered):
        needed = max(shared[at], shared[at + 1]) + 1
        found[tail] = min(tail.count("/"), max(needed, least_parts(tail)))
    return found


def _shared(one: str, other: str) -> int:
    """How many directories two tails have in common at their beginning."""
    count = 0
    for mine, its in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if mine != its:
            break
        count += 1
    return count
