"""Bytes of objects that are looked at time and again: pictures, histograms, texts.

Values of a dashboard stand close together in their file, so whole blocks are read and the last used
ones kept: a hundred histograms cost a request or two.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from tbhub.series.parted_file import Part

_BLOCK = 1 << 20
_LIMIT = 64 << 20


Read = Callable[[str, int, int], bytes]  # name, offset, size


class Blocks:
    """Blocks of objects by version; may be used from any thread."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, int], bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def read(self, read: Read, part: Part, offset: int, size: int) -> bytes:
        """Bytes of an object, which `read` asks for where they are not kept."""
        first, last = offset // _BLOCK, (offset + size - 1) // _BLOCK
        if last - first > 8:
            return read(part.name, offset, size)
        data = b"".join(self._block(read, part, number) for number in range(first, last + 1))
        return data[offset - first * _BLOCK : offset - first * _BLOCK + size]

    def _block(self, read: Read, part: Part, number: int) -> bytes:
        key = (part.name, part.version, number)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        found = read(part.name, number * _BLOCK, min(_BLOCK, part.size - number * _BLOCK))
        with self._lock:
            if key not in self._kept:
                self._kept[key] = found
                self._bytes += len(found)
            while self._bytes > _LIMIT:
                self._bytes -= len(self._kept.popitem(last=False)[1])
        return found
