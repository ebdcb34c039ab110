"""The files of a directory: which are published, and which are left out, and why.

Links to directories are not followed, and links to files only where they lead to a file of the same
directory: whoever can write there cannot have other files of this machine published.

Of these nothing would be lost, and they are not listed at all: empty directories, links to a file
or directory inside that is published itself, links to nothing inside, sockets and pipes, what NFS
keeps of deleted files (``.nfs…``), and files that our own stores were writing when killed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tbhub.publisher.exclusion import excluding
from tbhub.publisher.plan import Look

IGNORED = (".nfs", ".tbhub-put-", ".tbhub-copy-")
_RESERVED = ".tbhub-"


class Found(NamedTuple):
    """A file of a directory.

    Attributes:
        path: From the directory on, with slashes.
        look: What it is now.
        left_out: Why it is not published; empty if it is to be.
    """

    path: str
    look: Look
    left_out: str = ""


def all_files(directory: Path, exclude: Sequence[str] = ()) -> Iterator[Found]:
    """Yield everything in a directory that would be lost with it."""
    top = os.path.realpath(directory)
    waiting = [(top, "")]
    while waiting:
        place, before = waiting.pop()
        try:
            with os.scandir(place) as found:
                children = list(found)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield Found(before.rstrip("/") or ".", Look(0, 0, 0), error.strerror or str(error))
            continue
        for child in children:
            if child.name.startswith(IGNORED):
                continue
            path = f"{before}{child.name}"
            try:
                if child.is_dir(follow_symlinks=False):
                    waiting.append((child.path, f"{path}/"))
                    continue
                target = _inside(child.path, top) if child.is_symlink() else path
                if target is None:
                    look = look_of(child.stat(follow_symlinks=False))
                    yield Found(path, look, "a link that leads out of the directory")
                    continue
                status = child.stat()
            except OSError:  # gone meanwhile, or a link to nothing
                continue
            if stat.S_ISREG(status.st_mode):
                yield Found(path, look_of(status), _reason(path, target, exclude))


def files_below(directory: Path, exclude: Sequence[str] = ()) -> Iterator[tuple[str, Look]]:
    """Yield the files that are to be published: paths and what each is now."""
    return ((path, look) for path, look, reason in all_files(directory, exclude) if not reason)


def look_of(status: os.stat_result) -> Look:
    """What the system tells of a file."""
    return Look(status.st_size, status.st_mtime_ns, status.st_ino)


def _reason(path: str, target: str, exclude: Sequence[str]) -> str:
    if any(part.startswith(_RESERVED) for part in path.split("/")):
        return f"names that begin with {_RESERVED} are reserved"
    pattern = excluding(path, exclude) or excluding(target, exclude)
    return f"excluded by {pattern!r}" if pattern else ""


def _inside(link: str, top: str) -> str | None:
    """Return the path of a link's target below a directory; None if it is elsewhere."""
    target = os.path.realpath(link)
    if os.path.commonpath([target, top]) != top:
        return None
    return os.path.relpath(target, top).replace(os.sep, "/")
