"""Which of many pictures, histograms and texts to show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def evenly(items: Sequence[T], count: int | None) -> Sequence[T]:
    """At most so many, evenly spread, with the first and the last; of one, the last."""
    if count is None or len(items) <= count:
        return items
    if count <= 0:
        return []
    if count == 1:
        return [items[-1]]
    last = len(items) - 1
    return [items[number * last // (count - 1)] for number in range(count)]
