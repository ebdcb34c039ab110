"""The files of one run put together, as TensorBoard does.

Files follow one another in the order of their names. Two things make earlier points orphans:

- A ``SessionLog.START`` event at step s drops everything at or behind s that came before it.
- A restart without one: a file that begins after the earlier files ended (by wall time) and goes
  back in steps drops, tag by tag, what it writes again. Files that overlap in time are writers
  at work side by side and keep all of their points; so does a step that goes back within a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbhub._kernel import Points
from tbhub.series.file_content import Blob, FileContent


@dataclass(frozen=True)
class Part:
    """Some points of a series that a purge has thinned out; answers like the kernel's Points."""

    steps: NDArray[np.int64]
    wall_times: NDArray[np.float64]
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.steps)


@dataclass
class Joined:
    """One run: parts of series and blobs by tag, and what was noticed on the way."""

    parts: dict[str, list[Points | Part]] = field(default_factory=dict)
    blobs: list[Blob] = field(default_factory=list)
    plugins: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    restarts: list[int] = field(default_factory=list)


def join(contents: Iterable[FileContent]) -> Joined:
    """Puts the files of a run together; they come in order."""
    run = Joined()
    for content in contents:
        for step, tag in content.purges:
            _purge(run, step, tag)
        restart: int | None = None
        for tag, points in content.columns:
            earlier = run.parts.setdefault(tag, [])
            if earlier and _goes_back(earlier, points):
                first = int(points.steps[0])
                restart = first if restart is None else min(restart, first)
                _purge_series(earlier, first)
            earlier.append(points)
        if restart is not None:
            run.restarts.append(restart)
        _replace_blobs(run.blobs, content.blobs)
        run.blobs.extend(content.blobs)
        for tag, plugin in content.plugins.items():
            run.plugins.setdefault(tag, plugin)
    run.parts = {tag: parts for tag, parts in run.parts.items() if parts}
    return run


def _goes_back(earlier: list[Points | Part], later: Points) -> bool:
    """Whether a file begins after all earlier ones ended, at a step they had reached."""
    return bool(
        later.wall_times[0] >= max(part.wall_times[-1] for part in earlier)
        and later.steps[0] <= max(part.steps[-1] for part in earlier)
    )


def _replace_blobs(earlier: list[Blob], later: list[Blob]) -> None:
    """The same for what is not a scalar: a tag that goes back after a restart begins there anew."""
    ends: dict[tuple[int, str], float] = {}
    for blob in earlier:
        key = (blob.kind, blob.tag)
        ends[key] = max(blob.wall_time, ends.get(key, blob.wall_time))
    firsts: dict[tuple[int, str], Blob] = {}
    for blob in later:
        firsts.setdefault((blob.kind, blob.tag), blob)
    back = {
        key: first.step
        for key, first in firsts.items()
        if key in ends and first.wall_time >= ends[key]
    }
    earlier[:] = [
        blob for blob in earlier if blob.step < back.get((blob.kind, blob.tag), blob.step + 1)
    ]


def _purge(run: Joined, step: int, tag: str | None) -> None:
    run.restarts.append(step)
    for name, parts in run.parts.items():
        if tag is None or name == tag:
            _purge_series(parts, step)
    run.blobs = [
        blob for blob in run.blobs if blob.step < step or (tag is not None and blob.tag != tag)
    ]


def _purge_series(parts: list[Points | Part], step: int) -> None:
    """Takes away what lies at or behind a step."""
    kept: list[Points | Part] = []
    for part in parts:
        keep = part.steps < step
        if keep.all():
            kept.append(part)
        elif keep.any():
            kept.append(Part(part.steps[keep], part.wall_times[keep], part.values[keep]))
    parts[:] = kept
