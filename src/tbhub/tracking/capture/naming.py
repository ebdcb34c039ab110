"""What directories with adopted event files are called inside a run; pure.

A name must be the same in every run of a script, or their metrics could not be compared: the first
directory is the run's top, whatever time or number its own name has. A directory below it keeps its
path, any other is called by its last name. A directory called like a stage (``logs/train``) is one
of several: its parent is the top.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import count

_STAGES = frozenset(
    {"train", "training", "test", "testing", "eval", "evaluation", "val", "valid", "validation"}
)


class Names:
    """Names that are given once and never change.

    Args:
        named: Directories that the user has named; each is a top of its own.
        places: Directories in which all that is found belongs together.
    """

    def __init__(self, named: Sequence[str] = (), places: Sequence[str] = ()) -> None:
        self._places = places
        self._tops: dict[str, str] = {}  # what a directory is called, and all below it by that
        self._names: dict[str, str] = {}
        for each in dict.fromkeys(named):
            self._tops[each] = "" if len(set(named)) == 1 else self._last_names(each)

    def add(self, directories: Iterable[str]) -> None:
        """Name directories that were found at the same time, the first first."""
        new = [each for each in dict.fromkeys(directories) if each not in self._names]
        if new and not self._tops:
            self._tops[self._common_top(new)] = ""
        for directory in new:
            top = self._top_of(directory)
            if top is None:
                top = _top(directory)
                self._tops[top] = self._last_names(top)
            below = os.path.relpath(directory, top)
            parts = (part for part in (self._tops[top], below) if part not in ("", "."))
            self._names[directory] = self._unused("/".join(parts))

    def name_of(self, directory: str) -> str:
        """Return what a directory is called below the run's: empty if it is the run's top."""
        return self._names[directory]

    def has(self, directory: str) -> bool:
        """Return whether a directory has a name."""
        return directory in self._names

    def _top_of(self, directory: str) -> str | None:
        found = [top for top in self._tops if is_below(directory, top)]
        return max(found, key=len, default=None)

    def _common_top(self, directories: Sequence[str]) -> str:
        """Return the directory that all are below; of those that share no place, the first's."""
        common = os.path.commonpath(directories)
        if len(directories) > 1 and any(is_below(common, place) for place in self._places):
            return common if common not in directories else _top(common)
        return _top(directories[0])

    def _last_names(self, directory: str) -> str:
        """Return the last name of a directory, or as many as tell it apart from others."""
        parts = [part for part in directory.split(os.sep) if part] or ["root"]
        taken = {*self._tops.values(), *self._names.values()}
        names = ("/".join(parts[-length:]) for length in range(1, len(parts) + 1))
        return next((name for name in names if name not in taken), parts[-1])

    def _unused(self, name: str) -> str:
        taken = set(self._names.values())
        if name not in taken:
            return name
        numbered = (f"{name or 'run'}-{number}" for number in count(2))
        return next(each for each in numbered if each not in taken)


def is_below(path: str, directory: str) -> bool:
    """Return whether a path is a directory itself, or below it."""
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _top(directory: str) -> str:
    is_stage = os.path.basename(directory).lower() in _STAGES
    return os.path.dirname(directory) if is_stage else directory
