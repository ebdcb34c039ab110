"""``tbhub check``: what is wrong with a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tbhub.cli.event_files import event_files, size_text, work_on
from tbhub.events.check import Report
from tbhub.events.check import check as check_file

_SHOWN_DAMAGES = 20


def check(
    paths: Annotated[list[Path], typer.Argument(help="Event files, or directories of runs.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the reports as JSON.")] = False,
) -> None:
    """Tell what is damaged in event files, record by record.

    - `tbhub check runs/`
    - `tbhub check runs/first --json`

    Each damaged place is listed with its offset and kind: **bad length crc** (the record behind
    it is whole and can be saved), **bad data crc**, **truncated**, **garbage** between records, or
    **not an event**. A file that is still being written may end in a truncated record.

    Exits with 0 when all is well, 1 when something is damaged, 2 when a path does not exist.

    Next: `tbhub repair PATH -o OUT` writes the good records to a new file.
    """
    files = [file for path in paths for file in event_files(path)]
    reports = list(work_on(files, check_file, "checking"))
    if as_json:
        print(json.dumps([report.as_dict() for report in reports], indent=2))
    else:
        _print(reports)
    if not all(report.is_good for report in reports):
        raise typer.Exit(1)


def _print(reports: list[Report]) -> None:
    console = Console(highlight=False)
    for report in reports:
        if not report.is_good:
            _print_damaged(report, console)
    damaged = sum(not report.is_good for report in reports)
    events = sum(report.good_events for report in reports)
    size = size_text(sum(report.size for report in reports))
    verdict = (
        f"[red]{damaged} of {len(reports)} files damaged"
        if damaged
        else f"[green]{len(reports)} file{'s' * (len(reports) > 1)} good"
    )
    console.print(f"{verdict}[/]: {events:,} good events in {size}")


def _print_damaged(report: Report, console: Console) -> None:
    console.print(report.path, style="bold", markup=False, soft_wrap=True)
    if report.error:
        console.print(f"  [red]{report.error}[/]")
    if not report.damages:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    for name in ("offset", "bytes"):
        table.add_column("  " + name, justify="right", style="cyan")
    table.add_column("damage")
    for damage in report.damages[:_SHOWN_DAMAGES]:
        table.add_row(str(damage.offset), str(damage.size), damage.kind)
    console.print(table)
    more = sum(report.damage_counts.values()) - min(len(report.damages), _SHOWN_DAMAGES)
    if more > 0:
        console.print(f"  … and {more:,} more (--json lists the first ten thousand)")
    kept = f", {report.saved_events:,} more can be saved" if report.saved_events else ""
    console.print(f"  {report.good_events:,} good events{kept}")
