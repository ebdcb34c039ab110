"""What the tags of a run are, in TensorBoard's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class About:
    """What a tag says of itself."""

    content: bytes = b""
    description: str = ""
    display_name: str = ""


@dataclass(frozen=True)
class Entry:
    """A tag that is not a scalar."""

    plugin: str
    data_class: int
    about: About
    metadata: Any = None  # SummaryMetadata of the first value, as it was logged


@dataclass(frozen=True)
class RunIndex:
    """The tags of a run by what they are."""

    scalars: Mapping[str, About] = field(default_factory=dict)
    others: Mapping[str, Entry] = field(default_factory=dict)
    plugins: frozenset[str] = frozenset()
