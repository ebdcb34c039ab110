"""Records into a file or, through a registered factory, into anything that can be written to.

A factory serves every log directory whose address starts with its prefix (``s3``, ``gs``, …). It
has two methods, as in tensorboardX: ``open(path)``, which returns an object with ``write(bytes)``,
``flush()`` and ``close()``, and ``directory_check(path)``, called before anything is opened.
"""

from __future__ import annotations

import os
import struct
from typing import Any, BinaryIO, Protocol, cast

from tbhub._kernel import masked_crc32c


class RecordStream(Protocol):
    """What a factory opens."""

    def write(self, data: bytes, /) -> Any: ...
    def flush(self) -> Any: ...
    def close(self) -> Any: ...


class WriterFactory(Protocol):
    """What can be registered for a prefix."""

    def open(self, path: str, /) -> RecordStream: ...
    def directory_check(self, path: str, /) -> Any: ...


_factories: dict[str, WriterFactory] = {}


def register_writer_factory(prefix: str, factory: WriterFactory) -> None:
    """Lets ``factory`` open everything below ``<prefix>://``."""
    if ":" in prefix:
        raise ValueError(f"a prefix cannot contain a colon: {prefix!r}")
    _factories[prefix] = factory


def find_factory(path: str) -> WriterFactory | None:
    """The factory that serves a path, or None where it is an ordinary file path."""
    prefix, separator, _ = path.partition("://")
    if not separator:
        return None
    factory = _factories.get(prefix)
    if factory is None:
        raise _unknown(path)
    return factory


def find_place(logdir: str) -> WriterFactory | str:
    """Where a log directory's files go: to a factory, or to a directory of this machine.

    That of a URI without a factory is published there as it grows.
    """
    prefix, separator, _ = logdir.partition("://")
    if not separator:
        return logdir
    if prefix in _factories:
        return _factories[prefix]
    from tbhub.publisher.remote_logdir import local_directory
    from tbhub.storage.uri import FILE, parse, schemes

    if prefix.lower() not in schemes():
        raise _unknown(logdir)
    place = parse(logdir)
    return place.path if place.scheme == FILE else local_directory(logdir)


def _unknown(path: str) -> ValueError:
    prefix = path.partition("://")[0]
    known = ", ".join(sorted(_factories)) or "none"
    return ValueError(
        f"cannot write to {path!r}: no writer is registered for {prefix}:// (registered: "
        f"{known}); log to a local directory, or call tbhub.register_writer_factory first"
    )


class RecordWriter:
    """Frames records and hands them on; it does not buffer beyond what the file does."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        factory = find_factory(self.path)
        self._stream: RecordStream = (
            factory.open(self.path) if factory else cast(BinaryIO, open(self.path, "wb"))  # noqa: SIM115
        )

    def write(self, data: bytes) -> None:
        """Writes one record around ``data``."""
        header = struct.pack("<Q", len(data))
        self._stream.write(
            b"".join(
                (
                    header,
                    struct.pack("<I", masked_crc32c(header)),
                    data,
                    struct.pack("<I", masked_crc32c(data)),
                )
            )
        )

    def flush(self) -> None:
        """Hands what was written to the operating system or the store."""
        self._stream.flush()

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        self._stream.close()
