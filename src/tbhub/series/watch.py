"""Which directories have changed, from the kernel (inotify).

A watcher that cannot watch a directory says so, and whoever uses it looks there from time to time:
network file systems tell nothing of what other machines write, and the kernel bounds the number of
watches.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_OVERFLOW, _IGNORED, _ONLYDIR = 0x4000, 0x8000, 0x01000000
_GROWN = _MODIFY | _CLOSE_WRITE
_WANTED = _GROWN | _ATTRIB | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_EVENT = struct.Struct("iIII")

# Of other machines, or of the one this machine runs in.
_REMOTE = (
    *("nfs", "cifs", "smb", "9p", "ceph", "gluster", "lustre", "beegfs", "gpfs", "afs", "fuse"),
    *("virtiofs", "vboxsf", "prl_fs", "gfs2", "ocfs2", "orangefs", "pvfs2", "wekafs"),
)


@dataclass
class Changes:
    """Directories something has happened in since the last look."""

    grown: set[str] = field(default_factory=set)  # a file in it was written to
    listed: set[str] = field(default_factory=set)  # something in it came, went or was renamed
    lost: bool = False  # more happened than the kernel could tell: look everywhere


class Watcher:
    """Watches directories; `add` and `wake` may be called from any thread."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._inotify = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._paths: dict[int, set[str]] = {}  # one inode may have several paths
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()
        # Of wake and close, which do not wait for a file system; handlers of signals may call them.
        self._waking = threading.RLock()
        self._closed = False
        self._remote: dict[int, bool] = {}  # by device

    def add(self, directory: str) -> bool:
        """Watches a directory, also if it does already; False if changes will not be told."""
        with self._lock:
            if self._closed or self._inotify < 0 or self._is_remote(directory):
                return False
            number = self._libc.inotify_add_watch(
                self._inotify, os.fsencode(directory), _WANTED | _ONLYDIR
            )
            if number < 0:
                return False
            if self._numbers.get(directory, number) != number:
                self._drop(directory)  # another directory under the same name
            self._paths.setdefault(number, set()).add(directory)
            self._numbers[directory] = number
            return True

    def _is_remote(self, directory: str) -> bool:
        try:
            device = os.stat(directory).st_dev
        except OSError:
            return False
        if device not in self._remote:
            self._remote[device] = is_remote(directory)
        return self._remote[device]

    def remove(self, directory: str) -> None:
        """Watches a directory no longer."""
        with self._lock:
            if not self._closed:
                self._drop(directory)

    def _drop(self, directory: str) -> None:
        number = self._numbers.pop(directory, None)
        if number is None:
            return
        paths = self._paths[number]
        paths.discard(directory)
        if not paths:
            del self._paths[number]
            self._libc.inotify_rm_watch(self._inotify, number)

    def wait(self, timeout: float | None) -> Changes:
        """Waits for changes, for wake() or for some seconds."""
        waited_for = [self._wake_read]
        if self._inotify >= 0:
            waited_for.append(self._inotify)
        poll = select.poll()  # and not select(), which ends at descriptor 1023
        for descriptor in waited_for:
            poll.register(descriptor, select.POLLIN)
        poll.poll(None if timeout is None else timeout * 1000)
        with suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        changes = Changes()
        if self._inotify >= 0:
            with suppress(BlockingIOError):
                while True:
                    self._take(os.read(self._inotify, 1 << 16), changes)
        return changes

    def _take(self, data: bytes, changes: Changes) -> None:
        at = 0
        with self._lock:
            while at < len(data):
                number, mask, _, name_size = _EVENT.unpack_from(data, at)
                at += _EVENT.size + name_size
                if mask & _OVERFLOW:
                    changes.lost = True
                    continue
                paths = self._paths.get(number, ())
                if mask & _GROWN:
                    changes.grown.update(paths)
                else:
                    changes.listed.update(paths)
                if mask & _IGNORED:  # the directory is gone, and the watch with it
                    for path in self._paths.pop(number, ()):
                        self._numbers.pop(path, None)

    def wake(self) -> None:
        """Ends a wait, if there still is one: the descriptor may be that of another file since."""
        with self._waking, suppress(OSError):
            if not self._closed:
                os.write(self._wake_write, b"x")

    def close(self) -> None:
        """Gives the descriptors back; nobody may be waiting."""
        with self._lock, self._waking:
            if self._closed:
                return
            self._closed = True
            for descriptor in (self._inotify, self._wake_read, self._wake_write):
                if descriptor >= 0:
                    os.close(descriptor)


def is_remote(directory: str) -> bool:
    """Whether others may write to a directory without this machine's kernel knowing."""
    try:
        mounts = Path("/proc/self/mounts").read_bytes()
    except OSError:
        return False
    kind = file_system_of(os.fsencode(os.path.realpath(directory)), mounts)
    return kind.startswith(_REMOTE)


def file_system_of(path: bytes, mounts: bytes) -> str:
    """The kind of file system a path is on, by the lines of /proc/self/mounts."""
    best, kind = b"", b""
    for line in mounts.splitlines():
        _, place, found, *_ = line.split(b" ", 3)
        place = re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), place)
        # A later mount hides an earlier one at the same place.
        if len(place) >= len(best) and (path + b"/").startswith(place.rstrip(b"/") + b"/"):
            best, kind = place, found
    return kind.decode(errors="replace")
