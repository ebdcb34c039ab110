"""Files that arrive in parts: each is kept beside the runs' files until it is complete.

A client names an upload itself, so that it can continue one whose answer was lost, or that another
process of its machine has begun. Uploads that are not continued for a week are deleted.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from tbhub.api.problems import WrongOffset
from tbhub.storage import errors
from tbhub.storage.local import LocalStore

_EXPIRY = 7 * 86400.0  # seconds since the last part
_EXPIRE_INTERVAL = 3600.0  # seconds
_MAX_REMEMBERED = 1000  # uploads that were completed


class Uploads:
    """Uploads in progress, below one directory. Methods may be called from any thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._store = LocalStore(directory)
        self._lock = threading.Lock()
        self._expired_at = 0.0
        self._completed: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def new_file(self) -> Path:
        """Return a path for an upload that comes in one piece."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._directory / os.urandom(8).hex()

    def append(self, run: int, upload: str, offset: int, data: bytes) -> int:
        """Write a part to the disk and return how many bytes there are now.

        A part that is there already is not written again.

        Raises:
            WrongOffset: The upload ends elsewhere, or has other bytes there.
        """
        if not offset:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.expire()
        name = _name(run, upload)
        try:
            size = self._store.append(name, offset, data)
        except errors.WrongOffset as error:
            raise WrongOffset(f"the upload has {error.size} bytes", size=error.size) from None
        # Not the directory: an upload that has lost its name in a crash begins anew.
        with (self._directory / name).open("rb") as file:
            os.fdatasync(file.fileno())
        return size

    def complete(self, run: int, upload: str, size: int, store: LocalStore, path: str) -> str:
        """Move an upload that has all its parts to its place in a store; return its version.

        A request that is repeated because its answer was lost gets the same answer.

        Raises:
            WrongOffset: The upload has not all its parts.
        """
        name = _name(run, upload)
        file = self._directory / name
        found = 0
        with suppress(FileNotFoundError):
            found = file.stat().st_size
        if found == size:
            version = store.adopt(path, file)
            with self._lock:
                self._completed[name] = path, version
                if len(self._completed) > _MAX_REMEMBERED:
                    self._completed.popitem(last=False)
            return version
        done_path, version = self._completed.get(name, ("", ""))
        with suppress(errors.NotFound):
            if done_path == path and store.stat(path).version == version:
                return version
        raise WrongOffset(f"the upload has {found} of {size} bytes", size=found)

    def discard(self, run: int, upload: str) -> None:
        """Delete an upload."""
        self._store.delete(_name(run, upload))

    def expire(self) -> None:
        """Delete uploads that were given up; does nothing if that was done within the hour."""
        with self._lock:
            now = time.time()
            if now - self._expired_at < _EXPIRE_INTERVAL:
                return
            self._expired_at = now
        for entry in self._store.list(""):
            if now - entry.modified > _EXPIRY:
                self._store.delete(entry.path)


def _name(run: int, upload: str) -> str:
    return f"{run}-{upload}"
