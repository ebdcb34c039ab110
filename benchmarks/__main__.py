"""Runs every comparison, prints one table and writes it to docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import version
from itertools import chain

from rich.console import Console
from rich.table import Table

from benchmarks import reading, writing
from benchmarks.measure import ROOT, Row
from tbhub._kernel import crc32c_implementation

COLUMNS = ["work", "tbhub", "peer", "peer's cost", "ratio", "goal", ""]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side (median)")
    parser.add_argument("--slow-repeats", type=int, default=3, help="runs of the Rust server")
    parser.add_argument("--only", choices=["writing", "reading"], help="one half of the table")
    parser.add_argument("--no-docs", action="store_true", help="leave docs/benchmarks.md alone")
    arguments = parser.parse_args()
    console = Console()
    found: list[Row] = []
    with console.status("starting") as status:

        def say(text: str) -> None:
            status.update(text)

        halves = {
            "writing": lambda: writing.rows(arguments.repeats, say),
            "reading": lambda: reading.rows(arguments.repeats, arguments.slow_repeats, say),
        }
        chosen = [arguments.only] if arguments.only else list(halves)
        for row in chain.from_iterable(halves[name]() for name in chosen):
            found.append(row)
            console.print(f"{row.work}: [bold]{row.ratio}[/] of {row.peer}", highlight=False)
    _print(found, console)
    if not arguments.no_docs and not arguments.only:
        _write(found, arguments.repeats, arguments.slow_repeats)
        console.print("written to docs/benchmarks.md")


def _cells(row: Row) -> list[str]:
    mark = "✓" if row.met else "✗"
    return [row.work, row.ours, row.peer, row.theirs, row.ratio, row.goal, mark]


def _print(rows: list[Row], console: Console) -> None:
    table = Table(*COLUMNS, title="tbhub and its peers, same run")
    for row in rows:
        table.add_row(*_cells(row), style=None if row.met else "red")
    console.print(table)


def _write(rows: list[Row], repeats: int, slow_repeats: int) -> None:
    packages = ", ".join(
        f"{name} {version(name)}"
        for name in ("torch", "tensorboardX", "tensorboard", "tensorboard-data-server", "numpy")
    )
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; do not edit. Both sides run in the same session, in turns, each",
        f"time in a fresh process; CPU time, median of {repeats} ({slow_repeats} for the Rust",
        "server, one for the Python reader). Trust the ratios: machines are noisy.",
        "",
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"crc32c by {crc32c_implementation}; {packages}.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + " --- |" * len(COLUMNS),
        *("| " + " | ".join(_cells(row)) + " |" for row in rows),
        "",
        (ROOT / "benchmarks" / "notes.md").read_text().strip(),
        "",
    ]
    (ROOT / "docs" / "benchmarks.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
