"""What the tags of a run are, in TensorBoard's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
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


@dataclass(frozen=True, eq=False)
class RunIndex:
    """The tags of a run by what they are; the same object as long as they are the same."""

    scalars: Mapping[str, About] = field(default_factory=dict)
    others: Mapping[str, Entry] = field(default_factory=dict)
    plugins: frozenset[str] = frozenset()

    @cached_property
    def described(self) -> Mapping[str, About]:
        """The scalars that have a description."""
        return {tag: about for tag, about in self.scalars.items() if about.description}
