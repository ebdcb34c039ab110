"""What has been published of a directory, kept in a file beside it.

Written whole and renamed, after the store has acknowledged. It may be behind by one request for
each file, and that is made up for without asking: a request that is repeated sends the same bytes,
or more of them that begin alike. To keep it so, `save` comes before a new segment is begun. Where
the file is missing, or the machine has been restarted and the disk may have an old one, the store's
listing tells (`Publisher`).
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tbhub.errors import TbhubError
from tbhub.publisher.plan import Look

_FORMAT = 1
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_REMEMBERED = 64  # bytes at the beginning, and before the place we have come to


class StateError(TbhubError, OSError):
    """The state cannot be saved: the disk is full, or cannot be written to."""


@dataclass
class Grown:
    """An event file: what it is published as, where its segments end, and what it began with."""

    name: str
    again: int = 0  # how many files of its name there were before
    ends: list[int] = field(default_factory=list)  # one where objects can grow
    head: bytes = b""
    tail: bytes = b""

    @property
    def end(self) -> int:
        """How far it is published."""
        return self.ends[-1] if self.ends else 0

    def remember(self, descriptor: int) -> None:
        """Takes down by what the file can be known again."""
        self.head = os.pread(descriptor, min(_REMEMBERED, self.end), 0)
        self.tail = os.pread(descriptor, min(_REMEMBERED, self.end), self._tail_start())

    def is_of(self, descriptor: int) -> bool:
        """Whether a file is the one that was published, perhaps grown."""
        return os.fstat(descriptor).st_size >= self.end and (self.head, self.tail) == (
            os.pread(descriptor, len(self.head), 0),
            os.pread(descriptor, len(self.tail), self._tail_start()),
        )

    def _tail_start(self) -> int:
        return max(0, self.end - _REMEMBERED)


class State:
    """What has been published, by the paths of files. Used by any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()  # of what is here
        self._saving = threading.Lock()  # of the file; taken before the other
        self._changes = 0
        self._saved = 0
        self.grown: dict[str, Grown] = {}
        self.whole: dict[str, Look] = {}
        self.refused: dict[str, tuple[Look, str]] = {}  # cannot be published; with the reason
        self.was_found = self._load()

    def _load(self) -> bool:
        try:
            found = json.loads(self._path.read_bytes())
            if found["format"] != _FORMAT:
                return False
            self.whole = {path: Look(*each) for path, each in found["whole"].items()}
            self.refused = {
                path: (Look(*look), str(why))
                for path, (look, why) in found.get("refused", {}).items()
            }
            if found["boot"] != _boot():
                return False
            self.grown = {path: _grown(each) for path, each in found["grown"].items()}
        except FileNotFoundError:
            return False
        except (ValueError, KeyError, TypeError):
            self.grown, self.whole, self.refused = {}, {}, {}  # damaged: the store knows
            return False
        return True

    def has_published(self, path: str, look: Look) -> bool:
        """Return whether a file is one of which something was published, as it is now."""
        return path in self.grown or self.whole.get(path) == look

    def set_grown(self, path: str, grown: Grown) -> None:
        """Notes what is published of an event file."""
        with self._lock:
            self.grown[path] = grown
            self._changes += 1

    def grow(self, grown: Grown, number: int, end: int, descriptor: int) -> None:
        """Notes that a segment has been acknowledged."""
        with self._lock:
            grown.ends[number - 1 :] = [end]
            grown.remember(descriptor)
            self._changes += 1

    def set_whole(self, path: str, look: Look | None) -> None:
        """Notes which version of a file is published; or that none is."""
        with self._lock:
            if look is None:
                self.whole.pop(path, None)
            else:
                self.whole[path] = look
            self._changes += 1

    def set_refused(self, refused: dict[str, tuple[Look, str]]) -> None:
        """Notes which files cannot be published."""
        with self._lock:
            if refused != self.refused:
                self.refused = refused
                self._changes += 1

    def save(self) -> None:
        """Write the file, unless it has all this already. One write serves several callers.

        Raises:
            StateError: The file cannot be written; the one before stays as it is.
        """
        with self._lock:
            wanted = self._changes
        with self._saving:
            if self._saved >= wanted:
                return
            with self._lock:
                changes = self._changes
                text = json.dumps(
                    {
                        "format": _FORMAT,
                        "boot": _boot(),
                        "grown": {path: _as_json(each) for path, each in self.grown.items()},
                        "whole": self.whole,
                        "refused": self.refused,
                    }
                )
            unfinished = self._path.with_name(f".{self._path.name}.tmp")
            try:
                unfinished.write_text(text)
                unfinished.replace(self._path)
            except OSError as error:
                with suppress(OSError):
                    unfinished.unlink()  # a part of it takes room, too
                raise StateError(
                    f"cannot record in {self._path} what is published: {error.strerror or error}"
                ) from error
            self._saved = changes


def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _as_json(grown: Grown) -> dict[str, Any]:
    return {
        **vars(grown),
        "head": grown.head.hex(),
        "tail": grown.tail.hex(),
    }


def _grown(found: dict[str, Any]) -> Grown:
    return Grown(
        str(found["name"]),
        int(found["again"]),
        [int(end) for end in found["ends"]],
        bytes.fromhex(found["head"]),
        bytes.fromhex(found["tail"]),
    )
