"""The files of a directory: which are published, and which are left out, and why.

Links to files are followed only where they lead to a file of the same directory: whoever can write
there cannot have other files of this machine published. A link to a directory inside
(``latest -> checkpoint-10``) is published as a small file ``latest.tbhub-link`` that holds where it
leads to; `tbhub.publisher.restorer` makes a link of it again.

Of these nothing would be lost, and they are not listed at all: empty directories, links to nothing
inside or to a directory that is excluded, sockets and pipes, what NFS keeps of deleted files
(``.nfs…``), files that our own stores were writing when killed, and the pieces of an interrupted
restore. A file that a restore has renamed because it is another run's is never published.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tbhub.events.names import is_event_file
from tbhub.publisher.exclusion import excluding, is_of_other_run
from tbhub.publisher.plan import Look, Openness

STAGING = ".tbhub-restore"
"""The directory of files that are being restored; their names begin with the same."""
IGNORED = (".nfs", ".tbhub-put-", ".tbhub-copy-", STAGING)
LINK = ".tbhub-link"
"""Ends the name that a link to a directory is published under."""
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
            elif not _reason(path, target, exclude) and (
                link := _link_to_directory(directory, path, status)
            ):
                yield Found(f"{path}{LINK}", link.look)


def files_below(directory: Path, exclude: Sequence[str] = ()) -> Iterator[tuple[str, Look]]:
    """Yield the files that are to be published: paths and what each is now."""
    return ((path, look) for path, look, reason in all_files(directory, exclude) if not reason)


class Link(NamedTuple):
    """A link to a directory inside the published one.

    Attributes:
        text: Where it leads to, from its own directory on.
        look: What it is now, as a file with this text.
    """

    text: bytes
    look: Look


def read_link(directory: Path, path: str) -> Link | None:
    """Return the link that is published as `path`; None if `path` is that of a file, or of nothing.

    Raises:
        OSError: It cannot be read.
    """
    if not path.endswith(LINK) or os.path.lexists(directory / path):
        return None
    top = os.path.realpath(directory)
    link = os.path.join(top, path.removesuffix(LINK))
    if not os.path.islink(link) or _inside(link, top) is None:
        return None
    status = os.lstat(link)
    text = os.fsencode(os.path.relpath(os.path.realpath(link), os.path.dirname(link)))
    return Link(text, Look(len(text), *look_of(status)[1:]))


def _link_to_directory(directory: Path, path: str, target: os.stat_result) -> Link | None:
    """Return a link that is published as such; None for sockets, pipes, and what is gone."""
    if not stat.S_ISDIR(target.st_mode) or is_event_file(path):
        return None
    try:
        return read_link(directory, f"{path}{LINK}")
    except OSError:
        return None


def look_of(status: os.stat_result) -> Look:
    """What the system tells of a file."""
    return Look(status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


def openness_of(file: Path) -> Openness:
    """Return whether a process has a file open for writing, or mapped.

    The kernel grants a read lease on a closed file only, which is given back at once. It does so
    for local file systems, and for files of the same user. A process that opens the file for
    writing in between waits until then; the signal that the kernel sends to us is ignored.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return Openness.UNKNOWN
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # ignored by default, unlike SIGIO
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return Openness.OPEN if error.errno == errno.EAGAIN else Openness.UNKNOWN
    finally:
        os.close(descriptor)
    return Openness.CLOSED


def _reason(path: str, target: str, exclude: Sequence[str]) -> str:
    if any(part.startswith(_RESERVED) for part in path.split("/")):
        return f"names that begin with {_RESERVED} are reserved"
    if is_of_other_run(path) or is_of_other_run(target):
        return "a file of another run"
    pattern = excluding(path, exclude) or excluding(target, exclude)
    return f"excluded by {pattern!r}" if pattern else ""


def _inside(link: str, top: str) -> str | None:
    """Return the path of a link's target below a directory; None if it is elsewhere."""
    target = os.path.realpath(link)
    if os.path.commonpath([target, top]) != top:
        return None
    return os.path.relpath(target, top).replace(os.sep, "/")
