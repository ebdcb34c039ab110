"""One run read for the catalog: its metrics, hyperparameters, times and troubles.

A reader that is kept reads only what is new, and aggregates only columns it has not seen: columns
never change. Only what differs from what was last saved is handed on.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tbhub.catalog.adopted_dirs import EventFile, identify
from tbhub.catalog.aggregates import Aggregate, aggregate, as_time, merge
from tbhub.catalog.hparam_values import from_file
from tbhub.events.names import SESSION_START_TAG, is_event_file
from tbhub.publisher.files import openness_of
from tbhub.publisher.plan import Openness
from tbhub.series.cache import CacheLostError, ColumnCache
from tbhub.series.column import Column
from tbhub.series.run_files import RunFiles
from tbhub.series.run_log import RunLog, RunView

_SESSION_END_TAG = "_hparams_/session_end_info"
_ENDINGS: dict[int, Literal["finished", "failed"]] = {1: "finished", 2: "failed"}
_MAX_NAME = 400  # characters of a tag or of a hyperparameter's name
_STORE_FROM = 64 << 10  # bytes of columns that are worth a cache file
_FIRST_CALENDAR_TIME = 946_684_800  # 2000-01-01 UTC; times below are taken for numbers of steps


@dataclass
class Reading:
    """What is to be written of a run."""

    path: str
    seen: str = ""
    touched: float = 0.0  # when its files were last written to
    whole: bool = True  # else `metrics` are those that changed
    metrics: dict[str, Aggregate] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)  # metrics that are no more
    hparams: dict[str, object] | None = None  # none: as they were
    started: float | None = None
    updated: float | None = None
    ending: Literal["finished", "failed"] = "finished"  # once nothing more comes
    problem: str | None = None
    failed: bool = False  # nothing is known but the problem
    files: frozenset[EventFile] | None = None  # of a started run; none: as they were
    is_closed: bool = False  # a found run of this machine: no process has its files open to write


class Signature(NamedTuple):
    """What the event files of a directory are; the text is the same while none has changed."""

    text: str
    touched: float


def failed(path: str, problem: str) -> Reading:
    """Of a run that could not be read."""
    return Reading(path, problem=problem, failed=True)


def signature(path: str) -> Signature:
    """Looks at the event files of a directory.

    Raises:
        OSError: The directory cannot be listed.
    """
    parts = []
    touched = 0.0
    with os.scandir(path) as entries:
        for entry in entries:
            if is_event_file(entry.name):
                try:
                    status = entry.stat()
                except OSError:
                    continue  # a link that leads nowhere, or gone in this moment
                touched = max(touched, status.st_mtime)
                parts.append((entry.name, status.st_ino, status.st_size, status.st_mtime_ns))
    digest = hashlib.blake2b(repr(sorted(parts)).encode(errors="surrogateescape"), digest_size=12)
    return Signature(f"1:{digest.hexdigest()}", touched)


def are_closed(path: str) -> bool:
    """Return whether no process can write to the event files of a directory, as far as is known.

    Raises:
        OSError: The directory cannot be listed.
    """
    with os.scandir(path) as entries:
        files = [Path(entry.path) for entry in entries if is_event_file(entry.name)]
    return all(openness_of(file) is Openness.CLOSED for file in files)


class RunReader:
    """Reads one run again and again; used by one thread at a time."""

    def __init__(self, files: RunFiles | str, cache: ColumnCache) -> None:
        """`files`: where they are; a path of this machine will do."""
        self._log = RunLog(files, cache)
        self.path = self._log.path
        self._columns: dict[str, list[tuple[Column, Aggregate]]] = {}
        self._saved: dict[str, Aggregate] | None = None  # none: nothing is known to be
        self._saved_hparams: dict[str, object] | None = None
        self._read: tuple[dict[str, Aggregate], dict[str, object]] = ({}, {})
        self._files: dict[str, EventFile] = {}  # by path

    def read(self, files: Signature) -> Reading:
        """Reads what is new; `files` is what they were before.

        Raises:
            FileNotFoundError: Its files are gone. What was read of them is not yet, and the run may
                be about to be deleted.
        """
        self._log.refresh()
        if not self._log.has_files and not self._log.files.is_remote:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
        view = self._log.view
        problems = [f"{os.path.basename(path)}: {why}" for path, why in view.problems.items()]
        metrics = self._metrics(view)
        hparams = _hparams(view, problems)
        metrics = _storable(metrics, problems, "metrics")
        hparams = _storable(hparams, problems, "hyperparameters")
        self._read = (metrics, hparams)
        damages = sum(view.damage_counts.values())
        if damages:
            places = "1 damaged place was" if damages == 1 else f"{damages} damaged places were"
            problems.append(f"{places} skipped; `tbhub check` lists what is wrong")
        is_settled = not self._log.files.is_remote or self._log.is_settled
        self._log.files.after_reading(is_settled)
        # What could not be read of a bucket is read again, also by the next indexer.
        seen = files.text if is_settled else ""
        reading = Reading(self.path, seen, files.touched, self._saved is None)
        if self._saved is None:
            reading.metrics = metrics
        else:
            saved = self._saved
            reading.metrics = {tag: each for tag, each in metrics.items() if saved.get(tag) != each}
            reading.dropped = [tag for tag in saved if tag not in metrics]
        if hparams != self._saved_hparams:
            reading.hparams = hparams
        started = as_time(self._log.started)
        firsts = [
            as_time(columns[0].ends[1])
            for content in view.contents
            for columns in content.columns.values()
            if columns
        ]
        reading.started = _first_time(started, firsts)
        reading.updated = _latest(view) or reading.started
        reading.ending = _ending(view)
        reading.problem = "; ".join(problems)[:2000] or None
        return reading

    def saved(self) -> None:
        """What was read last is in the database now."""
        self._saved, self._saved_hparams = self._read

    def event_files(self) -> list[EventFile]:
        """Return what identifies the event files that were read last."""
        files = {content.file.path: content.file for content in self._log.view.contents}
        self._files = {path: each for path, each in self._files.items() if path in files}
        for path in files.keys() - self._files.keys():
            with suppress(OSError):  # the next look will show it
                if (each := identify(files[path])) is not None:
                    self._files[path] = each
        return list(self._files.values())

    def close(self) -> None:
        """Lets go of the run; what was decoded is kept in the cache if it is worth it."""
        if self._log.heap >= _STORE_FROM or (self._log.files.is_remote and self._log.fresh):
            self._log.store()
        self._log.close()
        self._columns = {}

    def _metrics(self, view: RunView) -> dict[str, Aggregate]:
        found: dict[str, Aggregate] = {}
        known, self._columns = self._columns, {}
        for tag in view.tags:
            try:
                parts = _aggregates(view.columns(tag), known.get(tag, []))
            except CacheLostError:
                points = view.points(tag)
                parts = [] if points is None else [(points, aggregate(points))]
            if not parts:
                continue
            self._columns[tag] = parts
            whole = parts[0][1]
            for _, each in parts[1:]:
                whole = merge(whole, each)
            found[tag] = whole
        return found


def _aggregates(
    columns: Sequence[Column], known: Sequence[tuple[Column, Aggregate]]
) -> list[tuple[Column, Aggregate]]:
    """Those of the same columns are taken as they are."""
    by_column = {id(column): each for column, each in known}
    return [
        (column, by_column.get(id(column)) or aggregate(column))
        for column in columns
        if len(column)
    ]


def _hparams(view: RunView, problems: list[str]) -> dict[str, object]:
    _, metadata = view.plugins.get(SESSION_START_TAG, ("", b""))
    if not metadata:
        return {}
    from tbhub.series.decode import hparams_from

    try:
        values = hparams_from(metadata)
    except Exception:  # protobuf's own DecodeError, by any implementation
        problems.append("its hyperparameters cannot be decoded")
        return {}
    return {name: from_file(value) for name, value in values.items() if value is not None}


def _ending(view: RunView) -> Literal["finished", "failed"]:
    _, metadata = view.plugins.get(_SESSION_END_TAG, ("", b""))
    if not metadata:
        return "finished"
    from tbhub.events.schema import HParamsPluginData, SummaryMetadata

    try:
        content = SummaryMetadata.FromString(metadata).plugin_data.content
        status = HParamsPluginData.FromString(content).session_end_info.status
    except Exception:
        return "finished"
    return _ENDINGS.get(status, "finished")


def _latest(view: RunView) -> float | None:
    latest = -math.inf
    for content in view.contents:
        for columns in content.columns.values():
            for column in columns:
                if column.max_wall_time > latest and as_time(column.max_wall_time) is not None:
                    latest = column.max_wall_time
        for blobs in content.blobs.values():
            if blobs and blobs[-1].wall_time > latest and as_time(blobs[-1].wall_time) is not None:
                latest = blobs[-1].wall_time
    return latest if latest >= 0 else None


def _first_time(begun: float | None, firsts: Sequence[float | None]) -> float | None:
    """Return when a run began.

    Args:
        begun: When its first file was begun, as the file says.
        firsts: The times of first points. Those of a log that was converted are before that; small
            numbers are no times of day, and count only where nothing else is known.
    """
    known = [each for each in firsts if each is not None]
    if begun is None:
        return min(known, default=None)
    return min([begun, *(each for each in known if each >= _FIRST_CALENDAR_TIME)])


def _storable(named: Mapping[str, Any], problems: list[str], noun: str) -> dict[str, Any]:
    """Without names that no database takes."""
    kept = {name: value for name, value in named.items() if _is_storable(name)}
    if len(kept) < len(named):
        some = len(named) - len(kept)
        problems.append(f"{some} {noun} are left out: their names are too long or hold a NUL")
    return {
        name: value.replace("\x00", "�") if isinstance(value, str) else value
        for name, value in kept.items()
    }


def _is_storable(name: str) -> bool:
    return 0 < len(name) <= _MAX_NAME and "\x00" not in name
