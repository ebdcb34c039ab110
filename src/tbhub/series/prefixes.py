"""Which prefixes are listed so that everything that is wanted is seen, with few requests.

A listing goes through everything below its prefix and costs a request for a thousand objects. So
what lies below something else that is listed costs nothing, and many neighbours are cheaper to list
by what they lie in, unless there is too much else. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tbhub.series.objects import is_below

_TOGETHER = 4  # neighbours, from which on one listing is tried


def plan(wanted: Collection[str], too_wide: Collection[str]) -> dict[str, int | None]:
    """The prefixes to list, each with the requests it may take to be worth it; None: any.

    Args:
        wanted: What has to be seen.
        too_wide: What has been found to take too many requests, or may not be listed.
    """
    limits: dict[str, int | None] = dict.fromkeys(_topmost(wanted))
    while True:
        neighbours: dict[str, list[str]] = {}
        for prefix in limits:
            if prefix:
                neighbours.setdefault(prefix.rpartition("/")[0], []).append(prefix)
        above = {
            parent: sum(limits[each] or 1 for each in below)
            for parent, below in neighbours.items()
            if len(below) >= _TOGETHER and parent not in too_wide
        }
        if not above:
            return limits
        limits.update(above)
        limits = {prefix: limits[prefix] for prefix in _topmost(limits)}


def _topmost(prefixes: Iterable[str]) -> list[str]:
    """Without those that lie below another."""
    found: list[str] = []
    for prefix in sorted(set(prefixes), key=lambda each: each.split("/") if each else []):
        if not found or not is_below(prefix, found[-1]):
            found.append(prefix)
    return found
