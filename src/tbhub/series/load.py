"""``load``: a file, a run or a tree of runs into memory, every point kept."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tbhub.errors import NoEventsError, TbhubWarning
from tbhub.series.file_content import FileContent, read_content
from tbhub.series.growing_file import GrowingFile
from tbhub.series.progress import Progress
from tbhub.series.run_data import RunData, Runs
from tbhub.series.run_files import joined_files
from tbhub.series.tree import Tree, find_runs

_MAX_THREADS = 8
_MAX_REQUESTS = 16


def load(path: str | os.PathLike[str]) -> Runs:
    """Reads every run below a path.

    Args:
        path: An event file, a directory of one run, or a tree of runs; or the URI of a directory
            in a store (``s3://bucket/runs``).

    Returns:
        RunData by run name, sorted. As in TensorBoard a run is named by its path below the
        one given, and a run that lies directly in it is called ``.``.

    Raises:
        NoEventsError: The path does not exist, or is a file without a single event.

    Damaged places, files that cannot be read and unreadable directories are skipped with one
    warning that counts them; ``RunData.damages`` has the details.
    """
    root = os.fspath(path)
    groups, problems, threads = _files(root)
    files = [file for group in groups.values() for file in group]
    contents: dict[str, FileContent | OSError] = {}
    with Progress("loading", sum(map(_size, files))) as progress:
        contents.update(_read_all(files, progress, threads))

    runs = Runs()
    for name, group in groups.items():
        good = []
        for file in group:
            content = contents.pop(file.path)
            if isinstance(content, OSError):
                problems[file.path] = content
            else:
                good.append(content)
        if good:
            runs[name] = RunData(name, good)
    if files and not runs:
        raise next(iter(problems.values()))
    if os.path.isfile(root):
        _insist_on_events(root, runs["."])
    _warn_of(problems, runs, root)
    return runs


def _files(root: str) -> tuple[dict[str, list[GrowingFile]], dict[str, OSError], int]:
    """The files of each run, directories that could not be listed, and how many to read at once."""
    if "://" in root:
        from tbhub.storage.uri import FILE, parse

        place = parse(root)
        if place.scheme != FILE:
            from tbhub.series.remote_tree import find_remote_runs

            found = find_remote_runs(place)
            if not found:
                raise NoEventsError(f"no event files below {place}")
            return found, {}, _MAX_REQUESTS
        root = place.path
    tree = _tree(root)
    groups = {name: joined_files(files) for name, files in tree.runs.items()}
    return groups, dict(tree.unreadable), min(os.cpu_count() or 1, _MAX_THREADS)


def _tree(root: str) -> Tree:
    if os.path.isdir(root):
        tree = find_runs(root)
        if root in tree.unreadable:
            raise tree.unreadable[root]
        return tree
    if os.path.exists(root):
        return Tree({".": [root]})
    raise NoEventsError(f"{root} does not exist; give an event file or a directory of runs")


def _size(file: GrowingFile) -> int:
    try:
        return file.look().size
    except OSError:
        return 0


def _read_all(
    files: list[GrowingFile], progress: Progress, threads: int
) -> Iterator[tuple[str, FileContent | OSError]]:
    def read(file: GrowingFile) -> FileContent | OSError:
        try:
            return read_content(file, progress.advance)
        except OSError as error:
            return error

    paths = [file.path for file in files]
    threads = min(len(files), threads)
    if threads < 2:
        yield from zip(paths, map(read, files), strict=True)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="tbhub-load") as pool:
        yield from zip(paths, pool.map(read, files), strict=True)


def _insist_on_events(path: str, run: RunData) -> None:
    if run.events == 0 and run.size > 0:
        raise NoEventsError(f"{path} is not an event file: no event in its {run.size} bytes")


def _warn_of(problems: dict[str, OSError], runs: Runs, root: str) -> None:
    damaged = [run for run in runs.values() if run.damages]
    skipped = sum(run.skipped_values for run in runs.values())
    notes = []
    if damaged:
        count = sum(sum(run.damages.values()) for run in damaged)
        notes.append(
            f"{count} damaged places in {len(damaged)} runs were skipped "
            f"(`tbhub check {root}` lists them)"
        )
    if problems:
        first = next(iter(problems.values()))
        notes.append(f"{len(problems)} paths could not be read, the first because of: {first}")
    if skipped:
        notes.append(f"{skipped} values of tags beyond the first million were skipped")
    if notes:
        warnings.warn(f"load({root!r}): " + "; ".join(notes), TbhubWarning, stacklevel=3)
