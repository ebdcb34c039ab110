"""How far a file has what can be published: an event file whole records, a log any bytes.

A writer may be killed in the middle of one, and a reader sees half of what is on its way: nothing
behind the last whole record is published. The kernel finds it, by checksums, and its way back to
the framing after damage; a damaged place between good records is published as it is.
"""

from __future__ import annotations

import os
import struct

from tbhub._kernel import Decoder, masked_crc32c

_PIECE = 8 << 20
_HEADER, _FOOTER = 12, 4  # bytes around the data of a record
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


def is_torn_record(descriptor: int, end: int, size: int) -> bool:
    """Whether what follows the last whole record, up to the end of the file, is a part of one.

    That is what a writer leaves that was killed, and nobody can read it. Anything else may be
    worth something to its writer, e.g. a file that is only called like an event file.
    """
    header = os.pread(descriptor, _HEADER, end)
    if len(header) < _HEADER:
        return True
    length, crc = struct.unpack("<QI", header)
    is_header = bool(masked_crc32c(header[:8]) == crc)
    return is_header and end + _HEADER + length + _FOOTER > size
