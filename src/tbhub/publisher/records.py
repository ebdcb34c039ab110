"""How far a file has what can be published: an event file whole records, a log any bytes.

A writer may be killed in the middle of one, and a reader sees half of what is on its way: nothing
behind the last whole record is published. The kernel finds it, by checksums, and its way back to
the framing after damage; a damaged place between good records is published as it is.
"""

from __future__ import annotations

import os

from tbhub._kernel import Decoder

_PIECE = 8 << 20
_VERSION = 2  # of the file format; decides nothing about where records end


def log_end(descriptor: int, start: int, limit: int) -> int:
    """The same as `whole_end` of a file that may be cut anywhere."""
    return max(start, min(os.fstat(descriptor).st_size, limit))


def whole_end(descriptor: int, start: int, limit: int) -> int:
    """Where the last whole record behind `start` and before `limit` ends; `start` if none does.

    `start` is the end of a record. Where the first record goes beyond the limit it is taken, with
    what was read together with its end.
    """
    decoder = Decoder(start, _VERSION, 0)
    position = end = start
    while position < limit or end == start:
        wanted = min(_PIECE, limit - position) if position < limit else _PIECE
        data = os.pread(descriptor, wanted, position)
        decoder.feed(data)
        position += len(data)
        end = decoder.offset - decoder.pending
        if len(data) < wanted:  # the end of the file, as it is now
            break
    return end


def boundary_before(descriptor: int, limit: int, start: int = 0) -> int:
    """The end of the last record that ends at or before `limit`; `start` is the end of one."""
    end = start
    while end < limit:
        further = whole_end(descriptor, end, min(end + _PIECE, limit))
        if not end < further <= limit:
            break
        end = further
    return end
