"""A run that somebody created, read for the catalog: its directory and all directories below it.

What a directory below logs goes by that directory's name: ``train/loss`` and ``test/loss`` are two
metrics of one run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping

from tbhub.catalog.adopted_dirs import EventFile
from tbhub.catalog.run_reader import Reading, RunReader, Signature, signature
from tbhub.events.names import is_event_file
from tbhub.series.cache import ColumnCache
from tbhub.series.run_files import RunFiles

_MOST = 1000  # directories of a run


def tree_signature(path: str) -> Signature:
    """What the event files of a run are, in its directory and below.

    Raises:
        OSError: A directory cannot be listed.
    """
    os.stat(path)
    found = [(inside, signature(os.path.join(path, inside))) for inside in _directories(path)]
    digest = hashlib.blake2b(repr([(at, each.text) for at, each in found]).encode(), digest_size=12)
    touched = max((each.touched for _, each in found), default=0.0)
    return Signature(f"2:{digest.hexdigest()}", touched)


class TreeReader:
    """Reads one run again and again; used by one thread at a time."""

    def __init__(
        self, path: str, cache: ColumnCache, find: Callable[[], Mapping[str, RunFiles | str]]
    ) -> None:
        """`find` tells the directories with event files there are, by their names below."""
        self.path = path
        self._cache = cache
        self._find = find
        self._readers: dict[str, RunReader] = {}
        self._known: dict[str, list[str]] = {}  # metrics by directory
        self._files: frozenset[EventFile] = frozenset()
        self._saved_files: frozenset[EventFile] | None = None

    def read(self, files: Signature) -> Reading:
        """Reads what is new; `files` is what they were before."""
        whole = Reading(self.path, files.text, files.touched, whole=not self._readers)
        inside = self._find()
        for gone in self._readers.keys() - inside.keys():
            self._readers.pop(gone).close()
            whole.dropped += self._known.pop(gone, [])
        for directory, place in inside.items():
            reader = self._readers.get(directory)
            if reader is None:
                reader = self._readers[directory] = RunReader(place, self._cache)
            self._join(whole, directory, reader.read(files))
        self._files = frozenset(
            each for reader in self._readers.values() for each in reader.event_files()
        )
        whole.files = None if self._files == self._saved_files else self._files
        return whole

    def saved(self) -> None:
        """What was read last is in the database now."""
        for reader in self._readers.values():
            reader.saved()
        self._saved_files = self._files

    def close(self) -> None:
        """Lets go of the run."""
        for reader in self._readers.values():
            reader.close()
        self._readers = {}

    def _join(self, whole: Reading, directory: str, part: Reading) -> None:
        before = f"{directory}/" if directory else ""
        if not part.seen:
            whole.seen = ""
        named = {f"{before}{tag}": each for tag, each in part.metrics.items()}
        whole.metrics.update(named)
        whole.dropped += [f"{before}{tag}" for tag in part.dropped]
        self._known[directory] = sorted({*self._known.get(directory, ()), *named})
        if part.hparams is not None:
            whole.hparams = {**(whole.hparams or {}), **part.hparams}
        starts = [each for each in (whole.started, part.started) if each is not None]
        ends = [each for each in (whole.updated, part.updated) if each is not None]
        whole.started, whole.updated = min(starts, default=None), max(ends, default=None)
        if part.ending == "failed":
            whole.ending = part.ending
        if part.problem:
            text = f"{before}{part.problem}"
            whole.problem = f"{whole.problem}; {text}"[:2000] if whole.problem else text


def directories_of(path: str) -> dict[str, str]:
    """The directories of a run of this machine, by their names below it."""
    return {inside: os.path.join(path, inside) if inside else path for inside in _directories(path)}


def _directories(path: str) -> list[str]:
    """Those with event files, from the run's own on; links are not followed."""
    found = []
    for at, _, names in os.walk(path):
        if any(map(is_event_file, names)):
            found.append("" if at == path else os.path.relpath(at, path))
            if len(found) == _MOST:
                break
    return sorted(found)
