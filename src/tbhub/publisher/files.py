"""Which files of a directory are to be published.

Links to directories are not followed, and links to files only where they lead to a file of the same
directory: whoever can write there cannot have other files of this machine published.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tbhub.publisher.plan import Look, is_checkpoint, is_left_out


def files_below(
    directory: Path, include_checkpoints: bool, include_hidden: bool = False
) -> Iterator[tuple[str, Look]]:
    """Paths from the directory on, with slashes, and what each file is now."""
    top = os.path.realpath(directory)
    waiting = [(top, "")]
    while waiting:
        place, before = waiting.pop()
        try:
            with os.scandir(place) as found:
                children = list(found)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        for child in children:
            if is_left_out(child.name, include_hidden):
                continue
            path = f"{before}{child.name}"
            try:
                if child.is_dir(follow_symlinks=False):
                    waiting.append((child.path, f"{path}/"))
                    continue
                if child.is_symlink() and not _is_inside(child.path, top):
                    continue
                status = child.stat()
            except OSError:  # gone meanwhile
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            if include_checkpoints or not is_checkpoint(path):
                yield path, look_of(status)


def look_of(status: os.stat_result) -> Look:
    """What the system tells of a file."""
    return Look(status.st_size, status.st_mtime_ns, status.st_ino)


def _is_inside(path: str, top: str) -> bool:
    return os.path.commonpath([os.path.realpath(path), top]) == top
