"""One run: a directory of event files, followed.

Readers take `view`, which never changes: it is replaced when there is news, so that a chart is
drawn from one state of the run while the next one is being read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from tbhub.series.cache import CacheLostError, ColumnCache
from tbhub.series.column import Column, Part, concatenate
from tbhub.series.file_content import Blob, FileContent
from tbhub.series.growing_file import GrowingFile
from tbhub.series.join import join_blobs, join_columns
from tbhub.series.run_files import LocalFiles, RunFiles, why
from tbhub.series.tail import Change, Tail

T = TypeVar("T")


class RunView:
    """What a run holds at one moment."""

    def __init__(
        self, log: RunLog, contents: Sequence[FileContent], problems: Mapping[str, str]
    ) -> None:
        self.log = log
        self.contents = tuple(contents)
        # By path: why it could not be read. A file that will be one begins with a whole record.
        strange = [each for each in contents if each.pending and each.pending == each.size]
        self.problems = {
            **{each.path: f"none of its {each.size:,} bytes is an event yet" for each in strange},
            **problems,
        }
        self.version = log.version

    @cached_property
    def tags(self) -> frozenset[str]:
        """The tags with scalars."""
        found = frozenset().union(*(content.columns for content in self.contents))
        if not self._later_purges:
            return found
        return frozenset(tag for tag in found if self.columns(tag))

    @cached_property
    def blob_tags(self) -> frozenset[str]:
        """The tags with something else."""
        found = frozenset().union(*(content.blobs for content in self.contents))
        if not self._later_purges:
            return found
        return frozenset(tag for tag in found if self.blobs(tag))

    @property
    def _later_purges(self) -> bool:
        """Only these can leave nothing of a tag."""
        return any(content.purges for content in self.contents[1:])

    @cached_property
    def plugins(self) -> Mapping[str, tuple[str, bytes]]:
        """By tag, the plugin it belongs to and its SummaryMetadata; the first file decides."""
        if len(self.contents) == 1:
            return self.contents[0].plugins
        found: dict[str, tuple[str, bytes]] = {}
        for content in reversed(self.contents):
            found.update(content.plugins)
        return found

    @cached_property
    def damage_counts(self) -> Mapping[str, int]:
        """How many places of each kind of damage were skipped."""
        found: dict[str, int] = {}
        for content in self.contents:
            for kind, count in content.damage_counts.items():
                found[kind] = found.get(kind, 0) + count
        return found

    @property
    def size(self) -> int:
        """Bytes of event files read."""
        return sum(content.size for content in self.contents)

    def columns(self, tag: str) -> tuple[Column, ...]:
        """The columns of a tag, without loading them if that can be helped."""
        return self._not_lost(lambda view: join_columns(tag, view.contents))

    def points(self, tag: str) -> Part | None:
        """Every point of a tag."""
        self.log.viewed = self.log.memory.now()
        return self._not_lost(lambda view: _loaded(join_columns(tag, view.contents)))

    def _not_lost(self, look: Callable[[RunView], T]) -> T:
        """Looks again where the cache has been deleted, damaged or replaced under us."""
        try:
            return look(self)
        except CacheLostError:
            pass
        try:
            return look(self.log.start_over(self))
        except CacheLostError:
            return look(self.log.start_over(self.log.view, trust_cache=False))

    def blobs(self, tag: str) -> tuple[Blob, ...]:
        """Where the values of a tag stand that are not scalars."""
        return join_blobs(tag, self.contents)


def _loaded(columns: tuple[Column, ...]) -> Part | None:
    if not columns:
        return None
    joined = concatenate(columns)
    steps = joined.even_steps or joined.steps
    return Part(steps, joined.wall_times, joined.values, joined.max_step, joined.max_wall_time)


class RunLog:
    """Follows the event files of one directory, or a single event file."""

    def __init__(self, files: RunFiles | str, cache: ColumnCache) -> None:
        """`files`: where they are; a path of this machine will do."""
        self.files = LocalFiles(files) if isinstance(files, str) else files
        self.path = self.files.path
        self.memory = cache.memory
        self.version = 0
        self.heap = 0  # bytes of columns in no cache file
        self.stored = 0  # bytes of those that are
        self.viewed = cache.memory.now()
        self._cache = cache
        self._tails: dict[str, Tail] = {}
        self._lock = threading.Lock()
        self._closed = False
        self.view = RunView(self, (), {})
        self.memory.watch(self)

    @property
    def fresh(self) -> int:
        """Bytes of event files of which the cache does not know."""
        return sum(tail.fresh for tail in list(self._tails.values()))

    @property
    def is_settled(self) -> bool:
        """Whether all there is has been read, as far as it was told."""
        return not self.view.problems and not any(
            tail.is_behind for tail in list(self._tails.values())
        )

    @property
    def has_files(self) -> bool:
        """Return whether there were event files, perhaps empty, at the last look."""
        return bool(self._tails)

    @property
    def is_idle(self) -> bool:
        """Whether none of its files has been written to for a while."""
        return all(tail.is_idle for tail in list(self._tails.values()))

    @cached_property
    def started(self) -> float:
        """When its first event was logged, for the order of runs; infinity when unknown."""
        return self.files.started()

    def refresh(self, report: Callable[[int], None] = lambda _: None) -> bool:
        """Reads what is new; True when there is news. A run whose files are gone is empty."""
        with self._lock:
            changed = not self._closed and self._refresh(report)
        if self._closed:
            self.close()  # which could not be done meanwhile
        return changed

    def _refresh(self, report: Callable[[int], None], trust_cache: bool = True) -> bool:
        problems: dict[str, str] = {}
        tails = self._tails
        files = self.files.open({path: tail.file for path, tail in tails.items()}, problems)
        changed = self.version == 0 or list(tails) != list(files)
        self._tails = {
            path: self._tail(file, tails.get(path), trust_cache) for path, file in files.items()
        }
        for path, tail in self._tails.items():
            try:
                changed |= tail.advance(report) is not Change.NOTHING
            except FileNotFoundError:
                if os.path.islink(path):
                    problems[path] = "a link that leads nowhere"
                # Else it is gone since it was listed; the next look will not list it.
            except OSError as error:
                problems[path] = why(error)
        changed |= problems != self.view.problems
        if changed:
            self.version += 1
            self._publish(problems)
        return changed

    def _tail(self, file: GrowingFile, known: Tail | None, trust_cache: bool) -> Tail:
        if known is not None and known.file is file:
            return known
        return Tail(file, self._cache, trust_cache)

    def _publish(self, problems: Mapping[str, str]) -> None:
        heap = sum(tail.heap for tail in self._tails.values())
        self.memory.grow(heap - self.heap)
        self.heap = heap
        self.stored = sum(tail.stored for tail in self._tails.values())
        contents = [tail.content for tail in self._tails.values() if tail.content.size]
        self.view = RunView(self, contents, problems)

    def start_over(self, lost: RunView, trust_cache: bool = True) -> RunView:
        """What takes the place of a view whose columns are no longer in the cache."""
        with self._lock:
            if self.view is lost or self._closed:
                self._tails = {}
                self._refresh(lambda _: None, trust_cache)
            view = self.view
        if self._closed:
            self.close()
        return view

    def close(self) -> None:
        """Nobody follows this run any more; views that are still held stay readable.

        Does not wait for a refresh that is under way: that one does it then.
        """
        self._closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._tails = {}
                self._publish({})
            finally:
                self._lock.release()

    def store(self) -> None:
        """Moves the columns from memory to the cache."""
        with self._lock:
            if sum(tail.store() for tail in self._tails.values()):
                self._publish(self.view.problems)
