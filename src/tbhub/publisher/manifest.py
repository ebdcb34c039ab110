"""The manifest: which files each checkpoint directory of a run has, kept beside them in the store.

A worker may be killed when a checkpoint directory is only partly published. So the publisher puts
the names of all its files before it uploads the first of them; `tbhub.publisher.restorer` leaves
out a directory of which the store lacks a listed file.

Not listed are event files and logs, which may be published under other names, and directories with
a single file, which is published whole or not at all. A directory without an entry may be complete
or not: only an entry is evidence.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping, Sequence, Set
from typing import NamedTuple

from tbhub.publisher.checkpoints import Checkpoints, checkpoint_directory, checkpoint_files
from tbhub.publisher.exclusion import excluding
from tbhub.storage.errors import NoPermission, NotFound, StoreError
from tbhub.storage.store import Store

MANIFEST = ".checkpoints.tbhub-manifest"
"""The name of the manifest. A hub rejects names that begin with ``.tbhub-``."""
MAX_BYTES = 8 << 20  # of a manifest that is read
_FORMAT = 1
_SETTLED_SECONDS = 60.0  # a program that adds no file for so long has written all of them
_MAX_DIRECTORIES = 1000
_MAX_FILES = 10_000
_MAX_CHARACTERS = 500_000  # of all names; in JSON each takes at most twelve bytes

Entries = Checkpoints
"""The files that each checkpoint directory should have; the newest entry is last."""


class NewerFormatError(ValueError):
    """A later version of tbhub has written the manifest."""


def updated(
    entries: Entries, present: Entries, begun: Collection[str], deleted: Mapping[str, Set[str]]
) -> Entries:
    """Return the entries that are needed before more files are uploaded.

    Args:
        entries: The manifest as it is.
        present: The files that are to be published.
        begun: Directories of which a file is published or about to be, and another is not.
        deleted: Files of each directory that the program has deleted. A listed file that is
            neither there nor known to be deleted, e.g. of an earlier attempt, is still required.
    """
    found = dict(entries)
    for directory, names in present.items():
        if (old := entries.get(directory)) is not None:
            names |= old - deleted.get(directory, frozenset())
        elif directory not in begun or len(names) == 1:
            continue
        if names != old:
            found.pop(directory, None)
            found[directory] = names
    return entries if found == entries else _bounded(found)


def missing_files(entries: Entries, stored: Collection[str]) -> Entries:
    """Return the listed files that a store lacks, of directories of which it has any file."""
    there = checkpoint_files(stored)
    lacking = {each: entries[each] - names for each, names in there.items() if each in entries}
    return {directory: names for directory, names in lacking.items() if names}


def encode(entries: Entries) -> bytes:
    """Return the manifest as JSON."""
    directories = {directory: sorted(names) for directory, names in entries.items()}
    return json.dumps({"format": _FORMAT, "directories": directories}).encode()


def decode(data: bytes) -> Entries:
    """Return the entries of a manifest.

    Raises:
        NewerFormatError: A later version has written it.
        ValueError: It is damaged.
    """
    try:
        found = json.loads(data)
        if found["format"] > _FORMAT:
            raise NewerFormatError(f"manifest format {found['format']}")
        directories: dict[str, list[str]] = found["directories"]
        if not all(isinstance(names, list) for names in directories.values()):
            raise ValueError("damaged manifest")
        return {directory: frozenset(map(str, names)) for directory, names in directories.items()}
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("damaged manifest") from error


class _Observed(NamedTuple):
    """What is known of a directory on this machine."""

    names: frozenset[str]  # its files, when it was last observed
    seen: frozenset[str]  # all files that it has had
    since: float  # when its files changed


class ManifestWriter:
    """Keeps the manifest of one publisher. Used by any thread.

    Args:
        store: Where the files are published.
        place: The path of the manifest there.
        exclude: Globs of files that are not published.
    """

    def __init__(self, store: Store, place: str, exclude: Sequence[str] = ()) -> None:
        self._store = store
        self._place = place
        self._exclude = exclude
        self._lock = threading.Lock()  # of the entries
        self._saving = threading.Lock()  # of the object; taken before the other
        self._entries: Entries = {}
        self._saved: Entries = {}
        self._observed: dict[str, _Observed] = {}
        self._is_loaded = False
        self._is_newer = False

    def observe(
        self, present: Entries, begun: Collection[str], now: float, *, has_ended: bool
    ) -> None:
        """Take in which checkpoint files there are now, and read the manifest the first time.

        Args:
            present: The files that are to be published.
            begun: Directories of which a file is published or about to be, and another is not.
            now: Seconds, by a clock that is not set.
            has_ended: The program that writes them has ended.

        Raises:
            StoreError: The manifest cannot be read now.
        """
        if not present:
            return
        if not self._is_loaded:
            self._load()
        with self._lock:
            deleted = {
                directory: self._deleted(directory, names, now, has_ended)
                for directory, names in present.items()
            }
            self._entries = updated(self._entries, present, begun, deleted)
        self._observed = {each: self._observed[each] for each in present}

    def _deleted(
        self, directory: str, names: frozenset[str], now: float, has_ended: bool
    ) -> frozenset[str]:
        """Return the files that the program has deleted from a directory, as far as is certain.

        One that only loses files may be about to be deleted when it is partly published. One of
        which the manifest lists more than was ever here, by an earlier attempt, may be about to get
        these files again.
        """
        listed = self._entries.get(directory, names)
        last = self._observed.get(directory, _Observed(frozenset(), names, now))
        since = last.since if last.names == names else now
        self._observed[directory] = _Observed(names, last.seen | names, since)
        if now - since >= _SETTLED_SECONDS:
            return listed - names
        if has_ended or last.names == names or names - listed:
            return last.seen - names
        return frozenset()

    def leave_out(self, path: str) -> None:
        """Require a file no longer: it cannot be published."""
        directory = checkpoint_directory(path)
        with self._lock:
            if directory is not None and directory in self._entries:
                names = self._entries[directory] - {path[len(directory) + 1 :]}
                self._entries = {**self._entries, directory: names}

    def save(self) -> None:
        """Put the manifest, unless the store has it. Call it before a file of it is uploaded.

        Raises:
            StoreError: It could not be put.
        """
        with self._saving:
            with self._lock:
                entries = self._entries
            if entries != self._saved and not self._is_newer:
                self._store.put(self._place, encode(entries))
                self._saved = entries

    def _load(self) -> None:
        try:
            self._saved = decode(self._store.read(self._place, 0, MAX_BYTES))
        except (NotFound, NoPermission):
            pass
        except StoreError:
            raise
        except NewerFormatError:
            self._is_newer = True
        except ValueError:
            pass  # it is replaced
        self._entries = {
            directory: frozenset(
                name for name in names if not excluding(f"{directory}/{name}", self._exclude)
            )
            for directory, names in self._saved.items()
        }
        self._is_loaded = True


def _bounded(entries: Entries) -> Entries:
    """Drop the oldest entries of too many, and any that is too large by itself."""
    kept: Entries = {}
    files = characters = 0
    for directory, names in reversed(entries.items()):
        size = len(directory) + sum(map(len, names))
        is_small = files + len(names) <= _MAX_FILES and characters + size <= _MAX_CHARACTERS
        if len(kept) < _MAX_DIRECTORIES and is_small:
            kept[directory] = names
            files += len(names)
            characters += size
    return dict(reversed(kept.items()))
