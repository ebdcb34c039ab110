"""tensorboardX's CRC-32C, computed by the native kernel."""

from __future__ import annotations

from collections.abc import Iterable

from tbhub import _kernel

__all__ = ["CRC_INIT", "CRC_TABLE", "crc32c", "crc_finalize", "crc_update"]

CRC_INIT = 0

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


CRC_TABLE = tuple(map(_table_entry, range(256)))


def crc32c(data: Iterable[int]) -> int:
    """The checksum of some bytes."""
    return _kernel.crc32c(bytes(data))


def crc_update(crc: int, data: Iterable[int]) -> int:
    """The checksum of what ``crc`` is the checksum of, followed by some more bytes."""
    return _kernel.crc32c(bytes(data), crc)


def crc_finalize(crc: int) -> int:
    """The checksum in 32 bits."""
    return crc & 0xFFFFFFFF
