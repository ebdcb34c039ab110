"""What a user is told about adopted event files; pure but for the directory that is listed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from tbhub.events.names import is_event_file
from tbhub.tracking.capture.capturer import OWN_DIRECTORY, Report
from tbhub.tracking.capture.naming import is_below
from tbhub.tracking.capture.search import MAX_DIRECTORIES

_MAX_LISTED = 3
_NAME_IT = "name the directory that your script logs to: `tbhub run --logdir DIR -- …`"


def adopted_line(report: Report) -> str:
    """Return what was adopted, as a sentence; empty if that is nothing."""
    if not report.adopted:
        return ""
    files = sum(report.adopted.values())
    what = "1 event file" if files == 1 else f"{files:,} event files"
    tops = [
        each
        for each in report.adopted
        if not any(other != each and is_below(each, other) for other in report.adopted)
    ]
    return f"adopted {what} from {_listed([_short(each) for each in tops])}"


def missing_line(report: Report | None, is_expected: bool, recorded: Iterable[str] = ()) -> str:
    """Return what was not adopted and where it is, as a sentence; empty if that is nothing.

    Args:
        report: None if the process that adopts was killed.
        is_expected: Whether event files are missed if none were adopted.
        recorded: Directories that files were adopted from, if there is no report.
    """
    if report is None:
        return f"{_files_of(recorded)} may be incomplete: the process that copies them was killed"
    said = []
    if report.error:
        said.append(
            f"{_files_of(report.adopted)} may be incomplete: copying failed: {report.error}"
        )
    for why in sorted(set(report.missed.values())):
        paths = [_short(path) for path in sorted(report.missed) if report.missed[path] == why]
        said.append(f"not adopted: {_listed(paths)} ({why})")
    for path, process in sorted(report.shared.items()):
        said.append(
            f"values in {_short(path)} may be mixed: process {process} of another run writes to it "
            f"as well. hint: {OWN_DIRECTORY}"
        )
    if report.unused:
        unused = _listed([_short(each) for each in report.unused])
        said.append(f"no event files were written to {unused}, named by --logdir")
    if report.is_limited and is_expected and not report.adopted:
        said.append(f"only {MAX_DIRECTORIES:,} directories were searched. hint: {_NAME_IT}")
    elif is_expected and not (said or report.adopted):
        said.append(
            "no TensorBoard event files were written. hint: log to the directory in TBHUB_LOGDIR, "
            f"or {_NAME_IT}"
        )
    return "; ".join(said)


def later_lines(report: Report, earlier: Report) -> list[str]:
    """Return what a report has that an earlier one of the same command has not, as sentences."""
    new = Report(
        adopted={
            directory: files - earlier.adopted.get(directory, 0)
            for directory, files in report.adopted.items()
            if files > earlier.adopted.get(directory, 0)
        },
        missed={
            path: why for path, why in report.missed.items() if earlier.missed.get(path) != why
        },
        shared={
            path: process for path, process in report.shared.items() if path not in earlier.shared
        },
        error=report.error if report.error != earlier.error else "",
    )
    return [line for line in (adopted_line(new), missing_line(new, is_expected=False)) if line]


def _files_of(directories: Iterable[str]) -> str:
    listed = _listed([_short(each) for each in directories])
    return f"event files of {listed}" if listed else "event files outside of the run's directory"


def has_event_files(directory: Path, but_of: int) -> bool:
    """Return whether there are event files below a directory, but for those of one process."""
    mine = f".{but_of}."
    return any(
        is_event_file(name) and mine not in name
        for _, _, names in os.walk(directory)
        for name in names
    )


def _short(path: str) -> str:
    """Return a path from the working directory on, if it is below that."""
    below = os.path.relpath(path)
    return path if below.startswith(os.pardir) else below


def _listed(words: Sequence[str]) -> str:
    shown = ", ".join(words[:_MAX_LISTED])
    more = len(words) - _MAX_LISTED
    return f"{shown} and {more:,} more" if more > 0 else shown
