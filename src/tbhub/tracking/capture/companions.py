"""Files beside event files that plugins of TensorBoard show: embeddings and profiles."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tbhub.events.names import is_event_file

_MAX_FILES = 1_000
_MAX_DEPTH = 3
_PROJECTOR = "projector_config.pbtxt"
_PROJECTED = (".tsv", ".bytes", ".png")
_TRACES = (".trace.json", ".trace.json.gz")
_PROFILES = ("plugins", "profile")


def companions_of(directory: str, since: float) -> Iterator[str]:
    """Return the files of plugins in a directory of event files, written from `since` on.

    - ``projector_config.pbtxt`` with tensors, metadata and sprites beside and right below it;
    - ``plugins/profile/`` with all below it;
    - traces of torch's profiler.
    """
    found = _written(directory, since)
    yield from (path for path in found if path.endswith(_TRACES))
    config = os.path.join(directory, _PROJECTOR)
    if config in found:
        yield config
        yield from (path for path in found if path.endswith(_PROJECTED))
        for below in _directories(directory):
            yield from (path for path in _written(below, since) if path.endswith(_PROJECTED))
    yield from _below(os.path.join(directory, *_PROFILES), since, _MAX_DEPTH)


def _below(directory: str, since: float, depth: int) -> Iterator[str]:
    yield from _written(directory, since)
    if depth:
        for each in _directories(directory):
            yield from _below(each, since, depth - 1)


def _written(directory: str, since: float) -> list[str]:
    """Return the regular files of a directory that were written from `since` on."""
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry, _ in zip(entries, range(_MAX_FILES), strict=False):
                if not entry.is_file(follow_symlinks=False) or entry.name.startswith("."):
                    continue
                is_new = entry.stat(follow_symlinks=False).st_mtime >= since
                if is_new and not is_event_file(entry.name):
                    found.append(entry.path)
    except OSError:
        return found
    return sorted(found)


def _directories(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(
                entry.path
                for entry, _ in zip(entries, range(_MAX_FILES), strict=False)
                if entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []
