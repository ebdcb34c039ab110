"""Which runs lie below a path: every directory with event files is one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from tbhub.events.names import is_event_file


@dataclass
class Tree:
    """The event files of each run, by run name, and the directories that could not be listed."""

    runs: dict[str, list[str]] = field(default_factory=dict)
    unreadable: dict[str, OSError] = field(default_factory=dict)


def find_runs(root: str) -> Tree:
    """Walks a directory as TensorBoard does: links are followed, a run is named by its path.

    Runs come sorted by name and files by theirs, which is the order they were opened in. The
    root itself is the run ``.``. A directory reached twice through links is read once.
    """
    tree = Tree()
    seen: set[tuple[int, int]] = set()
    waiting = [(root, ".")]
    while waiting:
        directory, name = waiting.pop()
        try:
            status = os.stat(directory)
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(directory) as entries:
                files = []
                for entry in entries:
                    if entry.is_dir():
                        below = entry.name if name == "." else f"{name}/{entry.name}"
                        waiting.append((entry.path, below))
                    elif is_event_file(entry.name):
                        files.append(entry.path)
        except OSError as error:
            tree.unreadable[directory] = error
            continue
        if files:
            tree.runs[name] = sorted(files)
    tree.runs = dict(sorted(tree.runs.items()))
    return tree
