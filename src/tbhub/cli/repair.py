"""``tbhub repair``: save what can be saved of a damaged log."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from tbhub.cli.event_files import event_files, work_on
from tbhub.events.check import Report
from tbhub.events.repair import repair as repair_file


def repair(
    path: Annotated[Path, typer.Argument(help="An event file, or a directory of runs.")],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="The new file, or the new directory for a directory."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the reports as JSON.")] = False,
) -> None:
    """Write every whole good record of a damaged log to a new file.

    - `tbhub repair runs/ -o repaired/`

    Reading goes on behind damage at the next record that proves itself by its checksums. Nothing
    is changed in place and nothing is overwritten. Of a directory all event files are written,
    the good ones too, under the same names below OUT.

    Exits with 0 when all files could be read, 1 when some could not, 2 when none could be written.
    """
    files = event_files(path)
    if path.is_dir():
        inside = out.resolve().is_relative_to(path.resolve())
        if inside:
            raise ValueError(f"{out} lies in {path}; give a directory outside of it")
        targets = {file: str(out / os.path.relpath(file, path)) for file in files}
    else:
        targets = {files[0]: str(out / path.name if out.is_dir() else out)}
    reports = list(work_on(files, lambda file: _repair(file, targets[file]), "repairing"))
    if as_json:
        print(
            json.dumps(
                [{**report.as_dict(), "out": targets[report.path]} for report in reports], indent=2
            )
        )
    else:
        _print(reports, out)
    if any(report.error for report in reports):
        raise typer.Exit(1)


def _repair(file: str, target: str) -> Report:
    """A file that cannot be read is part of the report, and the others go on."""
    try:
        return repair_file(file, target)
    except OSError as error:
        if error.filename != file or isinstance(error, FileExistsError):
            raise
        return Report(file, error=error.strerror or str(error))


def _print(reports: list[Report], out: Path) -> None:
    console = Console(highlight=False)
    kept = sum(report.good_events + report.saved_events for report in reports)
    saved = sum(report.saved_events for report in reports)
    damaged = sum(sum(report.damage_counts.values()) for report in reports) - saved
    console.print(
        f"[green]{kept:,} events[/] written to {escape(str(out))}"
        + (f", {saved:,} of them from behind a bad length" if saved else "")
    )
    console.print(f"{damaged:,} damaged places left out" if damaged else "nothing was left out")
    for report in reports:
        if report.error:
            print(f"tbhub: {report.path}: {report.error}", file=sys.stderr)
