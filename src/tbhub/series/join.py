"""The files of one run put together, tag by tag, as TensorBoard does.

Files follow one another in the order of their names. Two things make earlier points orphans:

- A ``SessionLog.START`` event at step s drops everything at or behind s that came before it.
- A restart without one: a file that begins after the earlier files ended (by wall time) and goes
  back in steps drops, tag by tag, what it writes again. Files that overlap in time are writers
  at work side by side and keep all of their points; so does a step that goes back within a file.
"""

from __future__ import annotations

from collections.abc import Sequence

from tbhub.series.column import Column, before
from tbhub.series.file_content import Blob, FileContent


def join_columns(tag: str, contents: Sequence[FileContent]) -> tuple[Column, ...]:
    """The columns of a tag in all files of a run; the files come in order."""
    if len(contents) == 1:
        return contents[0].columns.get(tag, ())
    return tuple(column for file in _join_files(tag, contents) for column in file)


def join_blobs(tag: str, contents: Sequence[FileContent]) -> tuple[Blob, ...]:
    """The same for what is not a scalar: a tag that goes back after a restart begins there anew."""
    joined: list[Blob] = []
    for content in contents:
        for step in _purges(content, tag):
            joined = [blob for blob in joined if blob.step < step]
        fresh = content.blobs.get(tag, ())
        joined = _not_replaced(joined, fresh)
        joined.extend(fresh)
    return tuple(joined)


def restarts(contents: Sequence[FileContent]) -> list[int]:
    """The steps the run went back to, in the order it did."""
    found: list[int] = []
    for number, content in enumerate(contents):
        found.extend(step for step, _ in content.purges)
        back = [
            columns[0].ends[0]
            for tag, columns in content.columns.items()
            if columns and _begins_again(tag, contents[:number], content)
        ]
        if back:
            found.append(min(back))
    return found


# The columns of each file that has any left.
_Files = list[tuple[Column, ...]]


def _join_files(tag: str, contents: Sequence[FileContent]) -> _Files:
    files: _Files = []
    for content in contents:
        files = _purged(files, _purges(content, tag))
        columns = content.columns.get(tag)
        if not columns:
            continue
        if _goes_back(files, columns[0]):
            files = _purged(files, [columns[0].ends[0]])
        files.append(columns)
    return files


def _begins_again(tag: str, contents: Sequence[FileContent], content: FileContent) -> bool:
    files = _purged(_join_files(tag, contents), _purges(content, tag))
    return _goes_back(files, content.columns[tag][0])


def _purged(files: _Files, steps: list[int]) -> _Files:
    for step in steps:
        files = [left for file in files if (left := before(file, step))]
    return files


def _purges(content: FileContent, tag: str) -> list[int]:
    return [step for step, only in content.purges if only is None or only == tag]


def _goes_back(earlier: _Files, later: Column) -> bool:
    """Whether a file begins after all earlier ones ended, at a step they had reached."""
    if not earlier:
        return False
    step, wall_time, _, _ = later.ends
    ends = [file[-1].ends for file in earlier]
    return wall_time >= max(end[3] for end in ends) and step <= max(end[2] for end in ends)


def _not_replaced(earlier: list[Blob], later: Sequence[Blob]) -> list[Blob]:
    ends: dict[int, float] = {}
    for blob in earlier:
        ends[blob.kind] = max(blob.wall_time, ends.get(blob.kind, blob.wall_time))
    firsts: dict[int, Blob] = {}
    for blob in later:
        firsts.setdefault(blob.kind, blob)
    back = {
        kind: first.step
        for kind, first in firsts.items()
        if kind in ends and first.wall_time >= ends[kind]
    }
    return [blob for blob in earlier if blob.step < back.get(blob.kind, blob.step + 1)]
