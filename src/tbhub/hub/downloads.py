"""A file of a run as it was when it was asked for, although others may replace it meanwhile.

A file of this machine is opened once, and all pieces come from the same descriptor. An object is
read by its name, again and again: before the last piece goes out it has to be what it was, and what
has been mixed is never whole.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO

from tbhub.hub.shipping import Shipped
from tbhub.storage.errors import NotFound
from tbhub.storage.joined import PlainStore, Readable, readable
from tbhub.storage.store import Entry, Patience

if TYPE_CHECKING:
    from tbhub.hub.files import Facts
    from tbhub.hub.hub import Hub


def open_files(hub: Hub, run: int, facts: Facts, patience: Patience) -> tuple[Readable, str]:
    """The files of a run, wherever they are, and where they are in there."""
    kept = hub.files.view(run, facts)
    if kept is not None:
        return kept
    store, top = hub.connections.open(facts.location, {facts.workspace_id}, patience=patience)
    return readable(store), top


class Download:
    """One file that is read piece by piece. Raises `StoreError` wherever that cannot be."""

    def __init__(self, store: Readable, name: str) -> None:
        self._store = store
        self._name = name
        self._file: BinaryIO | None = None
        self.entry: Entry
        if isinstance(store, PlainStore | Shipped):
            try:
                self.entry, self._file = store.local.open_file(name)
                return
            except NotFound:
                if isinstance(store, PlainStore):
                    raise
        self.entry = store.stat(name)

    def read(self, begin: int, size: int) -> bytes:
        """Bytes of it; fewer only where it has become shorter."""
        if self._file is None:
            return self._store.read(self._name, begin, size)
        pieces = []
        while size and (data := os.pread(self._file.fileno(), size, begin)):
            pieces.append(data)
            begin, size = begin + len(data), size - len(data)
        return b"".join(pieces)

    def is_same(self) -> bool:
        """Whether all that was read is of the file as it was at first."""
        return self._file is not None or self._store.is_same(self._name, self.entry.version)

    def close(self) -> None:
        """Lets go of it, and of its store."""
        if self._file is not None:
            self._file.close()
        self._store.close()
