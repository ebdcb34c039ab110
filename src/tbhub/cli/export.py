"""``tbhub export``: every scalar point as a table that other programs read."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, TypeAlias, cast

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from tbhub.cli.completion import complete_selectors
from tbhub.cli.event_files import errors
from tbhub.cli.export_runs import names_runs, select_runs
from tbhub.cli.named_paths import is_uri, name_and_path
from tbhub.errors import NoEventsError
from tbhub.series.tree import Tree, find_runs

# The command line starts without numpy, which takes longer than all the rest.
if TYPE_CHECKING:
    from tbhub.series.export import SeriesWriter
    from tbhub.series.growing_file import GrowingFile
    from tbhub.series.run_data import RunData, ScalarSeries

Files: TypeAlias = "Sequence[str | GrowingFile]"  # of a run: paths, or files of a store

_LISTED_NAMES = 5
_BUFFER = 1 << 20


class Format(StrEnum):
    """What can be written."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def export(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME:]PATH…|SELECTOR…",
            help="Event files or directories of runs, also URIs of directories (s3://bucket/runs);"
            " NAME goes before the names of its runs. Or runs of a hub.",
            autocompletion=complete_selectors,
        ),
    ],
    tag: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Only tags in which this is found.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Only runs in whose names this is found.")
    ] = None,
    file_format: Annotated[
        Format | None,
        typer.Option("--format", help="Otherwise the ending of OUT says it; csv without OUT."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The new file; standard output if it is - or left out."),
    ] = None,
    downsample: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="At most N points per series; extremes are kept."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
) -> None:
    """Write every scalar point of runs as CSV, JSON or Parquet.

    All points come at full resolution and exact to the last bit, as **run**, **tag**, **step**,
    **wall_time** (seconds since 1970) and **value**. OUT appears when it is complete, and is
    compressed if it ends in .gz. Parquet needs `pip install 'tbhub[parquet]'`.

    - `tbhub export runs -o points.parquet`
    - `tbhub export runs --tag '^train/' --run 'lr=0.1$' -o train.csv.gz`
    - `tbhub export old:runs/1 new:runs/2 --format json | jq '.[].run'`
    - `tbhub export runs --tag loss --downsample 1000 > small.csv`
    - `tbhub export s3://bucket/runs -o points.parquet`
    - `tbhub export "exp:mnist where lr<.1" -o points.parquet` runs of a hub, by their names there

    A word that is not a path here, and does not look like one, selects runs of the hub.

    Exits with 0 when points were written, 1 when nothing matched, 2 when a path does not exist or
    OUT cannot be written, 3 when the hub has no such run. What is damaged or cannot be read is
    left out with a warning.
    """
    tag_matches, run_matches = _matcher("--tag", tag), _matcher("--run", run)
    file = None if out is None or str(out) == "-" else out
    kind = file_format or _format_of(file)
    _insist_on_place(file, kind, force)

    tally = _Tally()
    found = _find_runs(paths, tally.problems)
    chosen = {name: files for name, files in found.items() if run_matches(name)}
    if not chosen:
        _say(f"no run matches {run!r}; there {_listed(found, 'run')}")
        raise typer.Exit(1)

    sizes = {name: sum(map(_size, files)) for name, files in chosen.items()}
    with (
        _bar(sum(sizes.values()), shown=file is not None or not sys.stdout.isatty()) as bar,
        _output(file) as stream,
        _writer(kind, stream, bar.wrote) as writer,
    ):
        for name, files in chosen.items():
            bar.begin(sizes[name])
            _export_run(name, files, tag_matches, downsample, writer, bar, tally)
        if not tally.runs:
            raise tally.problems[0]
        if not tally.points:
            _warn(tally)
            _explain_nothing(tally, tag)
            raise typer.Exit(1)
    _warn(tally)
    if file is not None:
        count = f"{tally.points:,} points of {tally.series:,} series"
        print(f"wrote {count} to {file}", file=sys.stderr)


@dataclass
class _Tally:
    """What was written, and what was noticed on the way."""

    runs: int = 0  # that could be read
    events: int = 0
    series: int = 0
    points: int = 0
    tags: set[str] = field(default_factory=set)  # all there are, until one has matched
    damaged_runs: int = 0
    damages: int = 0
    skipped_values: int = 0
    problems: list[OSError] = field(default_factory=list)


class _Bar:
    """Shows how many bytes of the logs are exported: a run's bytes count as its points do."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("exporting", total=total)
        self._done = 0
        self._size = 0
        self._bytes_per_point = 0.0

    def begin(self, size: int) -> None:
        """A run of so many bytes is next."""
        self._done, self._size = self._done + self._size, size
        self._progress.update(self._task, completed=self._done)

    def expect(self, points: int) -> None:
        """So many points of it will be written."""
        self._bytes_per_point = self._size / max(points, 1)

    def wrote(self, points: int) -> None:
        """So many points more are written."""
        self._progress.advance(self._task, points * self._bytes_per_point)


@contextlib.contextmanager
def _bar(total: int, shown: bool) -> Iterator[_Bar]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(
        *columns,
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        redirect_stdout=False,
        disable=not (shown and errors.is_terminal),
    ) as progress:
        yield _Bar(progress, total)


def _export_run(
    name: str,
    files: Files,
    tag_matches: Callable[[str], bool],
    at_most: int | None,
    writer: SeriesWriter,
    bar: _Bar,
    tally: _Tally,
) -> None:
    """Reads one run and writes what is wanted of it; its memory is free when this returns."""
    from tbhub.series.export import points_of

    run = _read(name, files, tally)
    if run is None:
        return
    wanted = {tag: series for tag, series in run.scalars.items() if tag_matches(tag)}
    if not tally.series:
        tally.tags.update(run.scalars)
    bar.expect(sum(_written_points(series, at_most) for series in wanted.values()))
    for tag, series in wanted.items():
        points = points_of(series, at_most)
        writer.add(name, tag, points)
        tally.series += 1
        tally.points += len(points.steps)


def _written_points(series: ScalarSeries, at_most: int | None) -> int:
    return len(series) if at_most is None else min(len(series), at_most)


def _read(name: str, files: Files, tally: _Tally) -> RunData | None:
    """A run without the files that cannot be read; None where none could."""
    from tbhub.series.file_content import read_content
    from tbhub.series.run_data import RunData
    from tbhub.series.run_files import joined_files

    paths = [file for file in files if isinstance(file, str)]
    distant = [file for file in files if not isinstance(file, str)]
    contents = []
    for file in [*(joined_files(paths) if paths else ()), *distant]:
        try:
            contents.append(read_content(file, lambda size: None))
        except OSError as error:
            tally.problems.append(error)
    if not contents:
        return None
    run = RunData(name, contents)
    tally.runs += 1
    tally.events += run.events
    tally.damaged_runs += bool(run.damages)
    tally.damages += sum(run.damages.values())
    tally.skipped_values += run.skipped_values
    return run


# Which runs there are, and what they are called.


def _find_runs(paths: list[str], problems: list[OSError]) -> dict[str, Files]:
    """Return the files of every run by its name; runs of the hub have the names they have there.

    Where runs of several paths would have the same name, each path without a name lends its runs
    its last component, or as many as tell the paths apart.
    """
    trees: dict[tuple[str | None, str], dict[str, Files]] = {}
    words = [text for text in paths if names_runs(text)]
    for name, run in select_runs(words).items() if words else ():
        trees[name, run.uri] = {
            part: files
            for part, files in _distant(run.uri).items()
            if part == "." or not run.is_alone
        }
    for text in paths:
        if text in words:
            continue
        given, path = name_and_path(text)
        if is_uri(path) and not path.startswith("file:"):
            trees[given, path.rstrip("/")] = _distant(path)
            continue
        path = path.removeprefix("file://")
        tree = _tree(path)
        trees[given, os.path.abspath(path)] = {each: [*files] for each, files in tree.runs.items()}
        problems.extend(tree.unreadable.values())
    longest = max((len(Path(path).parts) for _, path in trees), default=1)
    for depth in range(longest):
        runs: dict[str, Files] = {}
        for (given, path), tree_runs in trees.items():
            before = given or "/".join(Path(path).parts[1:][-depth:] if depth else ())
            runs.update((_run_name(before, each), files) for each, files in tree_runs.items())
        if len(runs) == sum(map(len, trees.values())):
            break
    else:
        raise ValueError("two runs would have the same name; name their paths apart (name:path)")
    if not runs:
        if problems:
            raise problems[0]
        nothing = "no run with event files matches" if words else "no event files below"
        raise NoEventsError(f"{nothing} {', '.join(paths)}")
    return runs


def _distant(uri: str) -> dict[str, Files]:
    from tbhub.series.remote_tree import find_remote_runs
    from tbhub.storage.uri import parse

    return {run: [*files] for run, files in find_remote_runs(parse(uri)).items()}


def _tree(path: str) -> Tree:
    if os.path.isdir(path):
        return find_runs(path)
    if os.path.exists(path):
        return Tree({".": [path]})
    raise NoEventsError(f"{path} does not exist")


def _run_name(before: str, run: str) -> str:
    parts = [part for part in (before, run) if part and part != "."]
    name = "/".join(parts) or "."
    # File names are bytes; those that are no text are shown by their numbers.
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _size(file: str | GrowingFile) -> int:
    try:
        return os.path.getsize(file) if isinstance(file, str) else file.look().size
    except OSError:
        return 0


def _matcher(option: str, pattern: str | None) -> Callable[[str], bool]:
    try:
        compiled = re.compile(pattern or "")
    except re.error as error:
        raise ValueError(f"{option} {pattern!r} is not a regular expression: {error}") from error
    return lambda name: compiled.search(name) is not None


# Where the output goes.


def _format_of(file: Path | None) -> Format:
    if file is None:
        return Format.CSV
    try:
        return Format(Path(file.name.removesuffix(".gz")).suffix[1:].lower())
    except ValueError:
        raise ValueError(f"{file} does not end in .csv, .json or .parquet; give --format") from None


def _insist_on_place(file: Path | None, kind: Format, force: bool) -> None:
    """Says at once what would otherwise be found out at the end."""
    if kind is Format.PARQUET and file is None and sys.stdout.isatty():
        raise ValueError("parquet is nothing to look at; give -o FILE, or send it to a program")
    if file is None:
        return
    if kind is Format.PARQUET and file.suffix == ".gz":
        raise ValueError(f"{file}: parquet is compressed already; leave out the .gz")
    if file.is_file() and not force:
        raise FileExistsError(errno.EEXIST, "exists already; --force replaces it", str(file))


@contextlib.contextmanager
def _output(file: Path | None) -> Iterator[BinaryIO]:
    """Where the bytes go; an error in writing them says where that was."""
    try:
        with _stdout() if file is None else _file(file) as stream:
            yield stream
    except OSError as error:
        is_ours = file is not None and error.filename == _temporary(file)
        if error.errno is not None and (error.filename is None or is_ours):
            error.filename = "standard output" if file is None else str(file)
        raise


@contextlib.contextmanager
def _stdout() -> Iterator[BinaryIO]:
    try:
        yield sys.stdout.buffer
        sys.stdout.flush()
    except OSError:
        # What is still in its buffer would fail once more when Python ends.
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise


@contextlib.contextmanager
def _file(file: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when all went well, and otherwise leaves nothing behind."""
    compress = _gzipped if file.suffix == ".gz" else contextlib.nullcontext
    if file.exists() and not file.is_file():  # a pipe or a device stays what it is
        with open(file, "wb", _BUFFER) as stream, compress(stream) as packed:
            yield packed
        return
    target, temporary = os.path.realpath(file), _temporary(file)
    try:
        with open(temporary, "xb", _BUFFER) as stream, compress(stream) as packed:
            yield packed
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _temporary(file: Path) -> str:
    """What a file is called while it is being written."""
    return f"{os.path.realpath(file)}.{os.getpid()}.tmp"


@contextlib.contextmanager
def _gzipped(stream: BinaryIO) -> Iterator[BinaryIO]:
    # Higher levels take four times as long to save a fifteenth: digits are hard to compress.
    with gzip.GzipFile("", "wb", compresslevel=1, fileobj=stream, mtime=0) as packed:
        yield cast(BinaryIO, packed)


def _writer(kind: Format, stream: BinaryIO, advance: Callable[[int], None]) -> SeriesWriter:
    from tbhub.series.export import series_writer

    try:
        return series_writer(kind, stream, advance)
    except ImportError as error:
        raise ValueError("parquet needs pyarrow: pip install 'tbhub[parquet]'") from error


# What a person is told.


def _explain_nothing(tally: _Tally, pattern: str | None) -> None:
    if tally.tags:
        _say(f"no tag matches {pattern!r}; there {_listed(tally.tags, 'tag')}")
    else:
        events, runs = _counted(tally.events, "event"), _counted(tally.runs, "run")
        _say(f"nothing to export: no scalars in the {events} of {runs}")


def _warn(tally: _Tally) -> None:
    notes = []
    if tally.damages:
        notes.append(
            f"{_counted(tally.damages, 'damaged place')} in {_counted(tally.damaged_runs, 'run')} "
            f"left out (`tbhub check` lists them)"
        )
    if tally.problems:
        first = tally.problems[0]
        notes.append(
            f"{_counted(len(tally.problems), 'path')} could not be read, first "
            f"{first.filename}: {first.strerror}"
        )
    if tally.skipped_values:
        notes.append(f"{tally.skipped_values:,} values of tags beyond the first million left out")
    if notes:
        _say("warning: " + "; ".join(notes))


def _listed(names: Collection[str], what: str) -> str:
    shown = [name if name.isprintable() else repr(name) for name in sorted(names)[:_LISTED_NAMES]]
    more = ", …" if len(names) > len(shown) else ""
    return f"{'is' if len(names) == 1 else 'are'} {_counted(len(names), what)}: " + (
        ", ".join(shown) + more
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _say(text: str) -> None:
    print(f"tbhub: {text}", file=sys.stderr)
