"""Runs that are being read, each with the reader that knows what has been read of it.

Readers of this machine's runs are closed at once; those of buckets by the threads of their bucket,
because they may be reading, from a slow store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tbhub.catalog.remote_runs import RemoteRun
from tbhub.catalog.run_reader import Reading, RunReader, are_closed, failed, signature
from tbhub.catalog.tree_reader import TreeReader, directories_of, tree_signature
from tbhub.series.cache import ColumnCache

_CLOSE_SECONDS = 2.0  # for runs of buckets to be kept

# Where a run is: a path of this machine, or a place in a bucket.
RunPlace = str | RemoteRun


class OpenRuns:
    """Readers by run. What reads may be called by one thread for each run, the rest by one.

    Attributes:
        created: Runs that somebody has started, with all that is below them.
        troubled: Runs of buckets that could not be read.
    """

    def __init__(self, cache: ColumnCache) -> None:
        self.created: set[int] = set()
        self.troubled: set[int] = set()
        self._cache = cache
        self._readers: dict[int | RemoteRun, RunReader | TreeReader] = {}

    def __len__(self) -> int:
        return len(self._readers)

    def get(self, run: int | RemoteRun) -> RunReader | TreeReader | None:
        """The reader of a run of this machine, by number, or of one of a bucket."""
        return self._readers.get(run)

    def read(self, run: int, place: RunPlace, known: str) -> Reading | None:
        """What a run has logged; none if its files are as they were when `known` was told."""
        if isinstance(place, str):
            return self._read_local(run, place, known)
        return self._read_remote(place, known)

    def close(self, run: int | RemoteRun) -> None:
        """Lets go of a run."""
        reader = self._readers.pop(run, None)
        if reader is None:
            return
        lane = run.root.lane if isinstance(run, RemoteRun) else None
        if lane is None:
            reader.close()
        else:
            lane.bucket.readers.submit(reader.close)

    def close_others(self, is_known: Callable[[RemoteRun], bool]) -> None:
        """Lets go of runs of buckets that are no longer what they were."""
        for run in list(self._readers):
            if isinstance(run, RemoteRun) and not is_known(run):
                self.close(run)

    def forget(self, run: int) -> None:
        """A run is no more."""
        self.created.discard(run)
        self.troubled.discard(run)

    def close_all(self) -> None:
        """Lets go of everything, at the end."""
        distant = [each for run, each in self._readers.items() if isinstance(run, RemoteRun)]
        for run, reader in self._readers.items():
            if not isinstance(run, RemoteRun):
                reader.close()
        self._readers = {}
        # A store that does not answer is not waited for; what is not kept then is read again.
        closing = threading.Thread(
            target=lambda: [each.close() for each in distant], name="tbhub-close", daemon=True
        )
        closing.start()
        closing.join(_CLOSE_SECONDS)

    def _read_local(self, run: int, path: str, known: str) -> Reading | None:
        is_tree = run in self.created
        files = tree_signature(path) if is_tree else signature(path)
        if files.text == known:
            return None
        reader = self._readers.get(run)
        if reader is None:
            reader = self._readers[run] = (
                TreeReader(path, self._cache, lambda: directories_of(path))
                if is_tree
                else RunReader(path, self._cache)
            )
        reading = reader.read(files)
        if reading.whole and not is_tree:
            reading.is_closed = are_closed(path)
        return reading

    def _read_remote(self, place: RemoteRun, known: str) -> Reading | None:
        if place.problem:
            self.troubled.add(place.id)
            return failed(place.uri, f"It cannot be read: {place.problem}")
        if not place.root.is_listed:
            return None
        files = place.signature()
        was_troubled = place.id in self.troubled
        self.troubled.discard(place.id)
        if files is None:
            # Nothing is there yet, and what was wrong with the place is wrong no longer.
            return Reading(place.uri) if was_troubled else None
        if files.text == known:
            return None
        reader = self._readers.get(place)
        if reader is None:
            reader = self._readers[place] = (
                RunReader(place.find()[""], self._cache)
                if place.alone
                else TreeReader(place.uri, self._cache, place.find)
            )
        return reader.read(files)
