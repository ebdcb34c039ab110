"""tensorboardX's record files and the factories that open them."""

from __future__ import annotations

import os
import re
from typing import Any

from tbhub import _kernel
from tbhub.writer.record_writer import (
    RecordWriter,
    _factories,
    find_factory,
    register_writer_factory,
)

__all__ = [
    "REGISTERED_FACTORIES",
    "RecordWriter",
    "directory_check",
    "make_valid_tf_name",
    "masked_crc32c",
    "open_file",
    "register_writer_factory",
    "u32",
]

REGISTERED_FACTORIES = _factories
"""Factories by prefix; the one registry every tbhub writer looks into."""

_VALID_START = re.compile(r"[A-Za-z0-9.]")
_VALID_PART = re.compile(r"[A-Za-z0-9_.\-/]+")


def directory_check(path: str) -> Any:
    """Makes sure that a log directory can be written to."""
    factory = find_factory(path)
    return os.makedirs(path, exist_ok=True) if factory is None else factory.directory_check(path)


def open_file(path: str) -> Any:
    """Opens a file for writing, through the factory of its prefix if there is one."""
    factory = find_factory(path)
    return open(path, "wb") if factory is None else factory.open(path)


def masked_crc32c(data: bytes) -> int:
    """The checksum of a record, as event files store it."""
    return _kernel.masked_crc32c(data)


def u32(x: int) -> int:
    """The low 32 bits of a number."""
    return x & 0xFFFFFFFF


def make_valid_tf_name(name: str) -> str:
    """A name TensorFlow accepts for an operation."""
    start = "" if _VALID_START.match(name) else "."
    return "_".join(_VALID_PART.findall(start + name))
