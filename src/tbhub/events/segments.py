"""Segments: how a file that grows is kept where nothing can be appended to.

The bytes of ``events.out.tfevents.1700000000.host`` stand, one after the other, in the objects
``….host.000001``, ``….host.000002``, … Each ends with a whole record. Once there is a segment
n + 1, segment n never changes again; the last one may be replaced by a longer one that begins
alike. So a reader needs a listing to know what is new, and reads new bytes only. A reader that
knows nothing of this finds ordinary event files that follow one another. Logs (``console.log``) are
kept alike, cut anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tbhub.events.names import is_event_file, is_log

MAX_SEGMENTS = 999_999

_SEGMENT = re.compile(r"(.+)\.(\d{6})", re.DOTALL)


def segment_name(name: str, number: int) -> str:
    """What the n-th segment of a file is called, from 1 on."""
    if not 1 <= number <= MAX_SEGMENTS:
        raise ValueError(f"there is no segment {number}")
    return f"{name}.{number:06d}"


def split_segment(name: str) -> tuple[str, int] | None:
    """The file and the number that the name of a segment tells; None for any other name."""
    found = _SEGMENT.fullmatch(name)
    if found is None or found[2] == "000000":
        return None
    if not is_event_file(found[1]) and not is_log(found[1]):
        return None
    return found[1], int(found[2])


def group_segments(names: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Files by name, each with the names it is kept under, in order.

    Segments count from 1 without a gap: what lies behind one is not to be read yet, as a listing
    may show a later segment before an earlier one. Without a first segment they are files like
    others, whose names end alike by chance.
    """
    plain: list[str] = []
    numbers: dict[str, set[int]] = {}
    for name in names:
        split = split_segment(name)
        if split is None:
            plain.append(name)
        else:
            numbers.setdefault(split[0], set()).add(split[1])
    files: dict[str, tuple[str, ...]] = {}
    for base, found in numbers.items():
        if 1 in found and base not in plain:
            last = next(number for number in range(1, len(found) + 2) if number not in found)
            files[base] = tuple(segment_name(base, number) for number in range(1, last))
        else:
            plain += [segment_name(base, number) for number in found]
    files.update((name, (name,)) for name in plain)
    return dict(sorted(files.items()))
