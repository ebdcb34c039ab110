"""Event files that Python programs of a command report, each with a descriptor to copy it from.

The other end is `hook/sitecustomize.py`. A descriptor that was sent stays open in the kernel until
it is received: neither the end of the program nor the deletion of the file loses anything.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

_NAME = "reports"
_PREFIX = "tbhub-opened-"
_ABANDONED_SECONDS = 60.0  # after which a directory without a listener is one of a killed process
_MEMORY = "/dev/shm"  # where the file system of temporary files has no sockets
_BACKLOG = 4096  # reports that wait to be received
_MAX_BYTES = 1 << 16
_MAX_DESCRIPTORS = 4
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Reported:
    """One report.

    Attributes:
        process: The process that reports; 0 if it has no number here.
        path: The event file.
        is_written: Whether the process writes to it; otherwise it deletes it.
        descriptor: The file, opened for reading, which the receiver has to close; None if it was
            not there yet.
    """

    process: int
    path: str
    is_written: bool
    descriptor: int | None


def listen() -> tuple[str, socket.socket]:
    """Make a socket that receives reports. Return its address, a path, and the socket."""
    try:
        return _listen(tempfile.gettempdir())
    except OSError:
        return _listen(_MEMORY)


def _listen(parent: str) -> tuple[str, socket.socket]:
    _delete_abandoned(parent)
    place = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    directory = os.open(place, os.O_RDONLY | os.O_CLOEXEC)  # an address is 107 characters at most
    try:
        listener.bind(f"/proc/self/fd/{directory}/{_NAME}")
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        shutil.rmtree(place, ignore_errors=True)
        raise
    finally:
        os.close(directory)
    return os.path.join(place, _NAME), listener


def _delete_abandoned(parent: str) -> None:
    """Delete directories of this user whose listeners were killed."""
    with os.scandir(parent) as entries:
        places = [each for each in entries if each.name.startswith(_PREFIX)]
    for place in places:
        with suppress(OSError):
            status = place.stat(follow_symlinks=False)
            is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            is_old = time.time() - status.st_mtime > _ABANDONED_SECONDS
            if is_ours and is_old and not _has_listener(place.path):
                shutil.rmtree(place.path, ignore_errors=True)


def _has_listener(place: str) -> bool:
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.setblocking(False)
            connection.connect(f"/proc/self/fd/{directory}/{_NAME}")
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    except OSError:  # too many reports wait
        return True
    finally:
        os.close(directory)
    return True


def delete(address: str) -> None:
    """Delete what `listen` has made."""
    shutil.rmtree(os.path.dirname(address), ignore_errors=True)


class Reports:
    """Receives reports. Used by one thread.

    Args:
        listener: The descriptor of the socket; it is closed by `close`.
    """

    def __init__(self, listener: int) -> None:
        self._listener = socket.socket(fileno=listener)
        self._listener.setblocking(False)
        self._connections: list[socket.socket] = []

    def read(self) -> Iterator[Reported]:
        """Return what was reported since the last time."""
        self._accept()
        connections, self._connections = self._connections, []
        for connection in connections:
            try:
                found = _received(connection)
            except BlockingIOError:
                self._connections.append(connection)  # the program is about to send it
                continue
            connection.close()
            if found is not None:
                yield found

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setblocking(False)
                self._connections.append(connection)

    def close(self) -> None:
        """Receive no more."""
        for each in (self._listener, *self._connections):
            each.close()


def _received(connection: socket.socket) -> Reported | None:
    try:
        message, descriptors, _, _ = socket.recv_fds(
            connection, _MAX_BYTES, _MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
        )
        sender = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except BlockingIOError:
        raise
    except OSError:
        return None
    kept = descriptors[0] if descriptors else None
    for descriptor in descriptors[1:]:
        os.close(descriptor)
    path = os.fsdecode(message[1:])
    is_good = message[:1] in (b"w", b"r") and os.path.isabs(path)
    if kept is not None and not (is_good and stat.S_ISREG(os.fstat(kept).st_mode)):
        os.close(kept)
        return None
    process = _CREDENTIALS.unpack(sender)[0]
    return Reported(process, path, message[:1] == b"w", kept) if is_good else None
