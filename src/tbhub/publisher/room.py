"""Room for the small records of a spool directory on a full disk.

A spool directory has a file that takes as much room as its records need. When the disk is full,
that file is deleted and the record is written: a run that has filled the disk can be published, and
its files deleted.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

_RESERVE = "reserve"
_RESERVE_BYTES = 64 << 10
_RECORD_BYTES = 16 << 10  # of records that are written one after the other
_FULL = (errno.ENOSPC, errno.EDQUOT)


def reserve_room(directory: Path) -> None:
    """Keep room for records in a directory, if there is any."""
    with suppress(OSError):
        (directory / _RESERVE).write_bytes(os.urandom(_RESERVE_BYTES))  # zeros may take no room


def require_room(directory: Path) -> None:
    """Check that records can be written in a directory; use the room that is kept for them.

    Raises:
        OSError: They cannot be written.
    """
    try:
        with TemporaryFile(dir=directory) as file:
            file.write(bytes(_RECORD_BYTES))
            file.flush()
    except OSError as error:
        if not _has_released(directory, error):
            error.filename = str(directory)
            raise
        require_room(directory)


def write_record(path: Path, text: str) -> None:
    """Replace a record as a whole; use the room that is kept for it if the disk is full.

    Raises:
        OSError: It cannot be written; the record is as it was.
    """
    try:
        _replace(path, text)
    except OSError as error:
        if not _has_released(path.parent, error):
            raise
        _replace(path, text)


def _replace(path: Path, text: str) -> None:
    unfinished = path.with_name(f"{path.name}.tmp")
    try:
        unfinished.write_text(text)
        unfinished.replace(path)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()  # a part of it takes room, too
        error.filename = str(path)
        raise


def _has_released(directory: Path, error: OSError) -> bool:
    """Delete what takes room after an error of a full disk. Return False if there is nothing."""
    if error.errno not in _FULL:
        return False
    try:
        (directory / _RESERVE).unlink()
    except OSError:
        return False
    return True
