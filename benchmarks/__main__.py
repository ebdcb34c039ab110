"""Runs every comparison, prints one table and writes it to docs/benchmarks.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
from importlib.metadata import version

from rich.console import Console
from rich.table import Table

from benchmarks import reading, writing
from benchmarks.measure import ROOT, Row
from tbhub._kernel import crc32c_implementation

KEPT = ROOT / ".bench"
COLUMNS = ["work", "tbhub", "peer", "peer's cost", "ratio", "goal", ""]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side (median)")
    parser.add_argument("--slow-repeats", type=int, default=3, help="runs of the Rust server")
    parser.add_argument(
        "--only", choices=["writing", "reading", "speed"], help="a part of the table"
    )
    parser.add_argument("--no-docs", action="store_true", help="leave docs/benchmarks.md alone")
    arguments = parser.parse_args()
    console = Console()
    found: list[Row] = []
    with console.status("starting") as status:

        def say(text: str) -> None:
            status.update(text)

        parts = {
            "writing": lambda: writing.rows(arguments.repeats, say),
            "reading": lambda: reading.rows(arguments.repeats, arguments.slow_repeats, say),
            "speed": lambda: reading.speed_rows(arguments.repeats, say),
        }
        for name in [arguments.only] if arguments.only else list(parts):
            rows = []
            for row in parts[name]():
                rows.append(row)
                console.print(f"{row.work}: [bold]{row.ratio}[/] of {row.peer}", highlight=False)
            _save(name, rows)
            found += rows
    _print(found, console)
    saved = [row for name in parts for row in _saved(name)]
    if not arguments.no_docs and all(map(_saved, parts)):
        _write(saved, arguments.repeats, arguments.slow_repeats)
        console.print("written to docs/benchmarks.md")


def _save(part: str, rows: list[Row]) -> None:
    """Each part is kept, so that the others can be measured anew by themselves."""
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{part}.json").write_text(json.dumps([vars(row) for row in rows]))


def _saved(part: str) -> list[Row]:
    path = KEPT / f"{part}.json"
    return [Row(**each) for each in json.loads(path.read_text())] if path.exists() else []


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
        "Written by `make bench`; do not edit. Both sides run in the same session, each time in a",
        f"fresh process; CPU time, median of {repeats} ({slow_repeats} for the Rust server, one",
        "for the Python reader). Loading is measured at the second load of a process, memory",
        "before `.steps` is asked for. Trust the ratios: machines are noisy.",
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
