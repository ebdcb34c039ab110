"""Checkpoints that are directories of several files: ``checkpoint-10/``, ``step_200/``; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tbhub.events.names import is_event_file, is_log
from tbhub.publisher.plan import Look

_NUMBERED = re.compile(r"(checkpoint|ckpt|(global_)?step|epoch|iter)[^/]*\d[^/]*", re.IGNORECASE)

Checkpoints = dict[str, frozenset[str]]
"""The files of each checkpoint directory, by their paths below it."""


def checkpoint_directory(path: str) -> str | None:
    """Return the directory of a checkpoint that a file is one of several parts of, if it is."""
    parts = path.split("/")
    for depth, name in enumerate(parts[:-1], 1):
        if _NUMBERED.fullmatch(name):
            return "/".join(parts[:depth])
    return None


def checkpoint_files(paths: Iterable[str]) -> Checkpoints:
    """Group files by checkpoint directory; leave out event files and logs, which only grow."""
    found: dict[str, set[str]] = {}
    for path in paths:
        directory = checkpoint_directory(path)
        if directory is not None and not (is_event_file(path) or is_log(path)):
            found.setdefault(directory, set()).add(path[len(directory) + 1 :])
    return {directory: frozenset(names) for directory, names in found.items()}


def newest_files(found: Checkpoints, files: Mapping[str, Look]) -> dict[str, set[str]]:
    """Return the newest file of each checkpoint directory, with the other files of the directory.

    It is sent when the others are published: a checkpoint that lacks it is known to be incomplete.
    """
    newest = {}
    for directory, names in found.items():
        paths = {f"{directory}/{name}" for name in names}
        last = max(paths, key=lambda path: (files[path].mtime_ns, path))
        newest[last] = paths - {last}
    return newest


def unfinished(found: Checkpoints, files: Mapping[str, Look]) -> set[str]:
    """Return the checkpoint directories that a program may still add files to.

    A program writes one checkpoint after the other. So a directory is finished if another one of
    its kind, that is, of the same name but for numbers, was begun after its last change.
    """
    last_change: dict[str, int] = {}
    last_begin: dict[str, int] = {}
    for directory, names in found.items():
        times = [files[f"{directory}/{name}"].mtime_ns for name in names]
        kind = numberless(directory)
        last_change[directory] = max(times)
        last_begin[kind] = max(min(times), last_begin.get(kind, 0))
    return {each for each, when in last_change.items() if when >= last_begin[numberless(each)]}


def numberless(text: str) -> str:
    """Return a name with each number replaced: the same for names that differ by numbers only."""
    return re.sub(r"\d+", "#", text)
