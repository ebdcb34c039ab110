"""How much of the columns is held in memory, and what goes when that is too much.

Columns come in two sorts. Those just decoded are on the heap until the run they belong to is
stored in the cache. Stored ones are loaded when looked at and can be let go at any time. Both count
against one budget, and both go in the order in which they were last viewed.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
import weakref
from collections import OrderedDict
from typing import Protocol

from tbhub.series.column import Part


class Loadable(Protocol):
    """A column that can be loaded from where it is stored."""

    def load(self) -> Part: ...


class Storable(Protocol):
    """A run whose columns can be moved from the heap to the cache."""

    @property
    def heap(self) -> int: ...
    @property
    def viewed(self) -> int: ...
    def store(self) -> None: ...


def default_budget() -> int:
    """A quarter of the memory this process may have."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:
                total = min(total, int(file.read()))
        except (OSError, ValueError):
            continue
    return total // 4


def give_back() -> None:
    """Makes the allocator return what it holds but does not need, where it can."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def be_frugal() -> None:
    """Makes the allocator keep little for later, which costs a little time.

    By default each thread has memory of its own that it does not give back.
    """
    arena_max, trim_threshold, mmap_threshold = -8, -1, -3  # of glibc's malloc.h
    with contextlib.suppress(AttributeError):
        libc = ctypes.CDLL(None)
        for parameter, value in (
            (arena_max, 1),
            (trim_threshold, 128 << 10),
            (mmap_threshold, 128 << 10),
        ):
            libc.mallopt(parameter, value)


class Memory:
    """Keeps loaded and decoded columns within a budget of bytes."""

    def __init__(self, budget: int | None = None) -> None:
        self.budget = default_budget() if budget is None else budget
        self._loaded: OrderedDict[int, Part] = OrderedDict()
        self._loaded_bytes = 0
        self._heap_bytes = 0
        self._runs: weakref.WeakSet[Storable] = weakref.WeakSet()
        # Reentrant: the garbage collector may come by at any moment and call forget().
        self._lock = threading.RLock()
        self._relieving = threading.Lock()
        self._clock = itertools.count(1)

    def now(self) -> int:
        """A number that grows with every view."""
        return next(self._clock)

    def watch(self, run: Storable) -> None:
        """A run whose heap is counted from now on, by grow()."""
        with self._lock:
            self._runs.add(run)

    def grow(self, size: int) -> None:
        """The heap of some run has become larger, or smaller."""
        with self._lock:
            self._heap_bytes += size

    def load(self, column: Loadable) -> Part:
        """The arrays of a stored column; the least recently viewed make room for them."""
        key = id(column)
        with self._lock:
            part = self._loaded.get(key)
            if part is not None:
                self._loaded.move_to_end(key)
                return part
        part = column.load()
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = part
                self._loaded_bytes += part.nbytes
            self._shrink()
        return part

    def forget(self, key: int) -> None:
        """A stored column is no more."""
        with self._lock:
            part = self._loaded.pop(key, None)
            if part is not None:
                self._loaded_bytes -= part.nbytes

    def _shrink(self) -> None:
        """Lets go what was viewed longest ago, but for the last: someone is looking at it."""
        while self.used > self.budget and len(self._loaded) > 1:
            _, part = self._loaded.popitem(last=False)
            self._loaded_bytes -= part.nbytes

    @property
    def used(self) -> int:
        """Bytes of columns on the heap and loaded."""
        return self._loaded_bytes + self._heap_bytes

    def relieve(self) -> None:
        """Stores runs, the least recently viewed first, where the heap takes too much.

        Whoever decodes calls this: decoding is held up by storing, so that the budget holds while
        a large tree is being read. A quarter is left to columns that are looked at.
        """
        if self._heap_bytes <= self.budget * 3 // 4:
            return
        with self._relieving:
            with self._lock:
                self._shrink()
                runs = [run for run in self._runs if run.heap > 0]
                heap = self._heap_bytes
            # Somewhat more than is needed: storing one run at a time would mean to look for the
            # coldest every time.
            for run in sorted(runs, key=lambda run: run.viewed):
                if self._heap_bytes <= self.budget // 2:
                    break
                run.store()
            if self._heap_bytes < heap:
                give_back()
