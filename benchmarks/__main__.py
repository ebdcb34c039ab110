"""Runs every comparison, prints one table and writes it to docs/benchmarks.md."""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
from collections.abc import Callable, Iterable
from importlib.metadata import version

from rich.console import Console
from rich.table import Table

from benchmarks import (
    appending,
    boards_memory,
    boards_page,
    boards_requests,
    boards_start,
    hosts,
    hosts_start,
    hosts_watch,
    hub,
    publishing,
    reading,
    remote,
    replicas,
    scale,
    web,
    web_table,
    writing,
)
from benchmarks.measure import ROOT, Row
from tbhub._kernel import crc32c_implementation

KEPT = ROOT / ".bench"
# `--only boards` and `--only hosts` are all parts that begin with it.
PARTS: dict[str, Callable[[argparse.Namespace, Callable[[str], None]], Iterable[Row]]] = {
    "writing": lambda given, say: writing.rows(given.repeats, say),
    "reading": lambda given, say: reading.rows(given.repeats, given.slow_repeats, say),
    "speed": lambda given, say: reading.speed_rows(given.repeats, say),
    "boards-start": lambda given, say: boards_start.rows(given.slow_repeats, say),
    "boards-requests": lambda given, say: boards_requests.rows(given.slow_repeats, say),
    "boards-page": lambda given, say: boards_page.rows(given.slow_repeats, say),
    "boards-memory": lambda given, say: boards_memory.rows(given.slow_repeats, say),
    "remote": lambda given, say: remote.rows(given.slow_repeats, say),
    "traffic": lambda given, say: remote.idle_rows(say),
    "publishing": lambda given, say: publishing.rows(given.slow_repeats, say),
    "hub": lambda given, say: hub.rows(given.slow_repeats, say),
    "web": lambda given, say: web.rows(given.slow_repeats, say),
    "web-table": lambda given, say: web_table.rows(given.slow_repeats, say),
    "hosts": lambda given, say: hosts.rows(given.slow_repeats, say),
    "hosts-start": lambda given, say: hosts_start.rows(given.slow_repeats, say),
    "hosts-watch": lambda given, say: hosts_watch.rows(say),
    "replicas": lambda given, say: replicas.rows(given.slow_repeats, say),
    "scale": lambda given, say: scale.rows(say, docs=not given.no_docs),
    "appending": lambda given, say: appending.rows(given.slow_repeats, say),
}
COLUMNS = ["work", "tbhub", "peer", "peer's cost", "ratio", "goal", ""]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side (median)")
    parser.add_argument(
        "--slow-repeats", type=int, default=3, help="runs of the Rust server, of boards and hubs"
    )
    parser.add_argument("--only", choices=[*PARTS, "boards"], help="a part of the table")
    parser.add_argument("--no-docs", action="store_true", help="leave docs/benchmarks.md alone")
    arguments = parser.parse_args()
    # As pip does for what it installs, the peers among it: whatever this shell says of bytecode.
    compileall.compile_dir(ROOT / "src" / "tbhub", quiet=1)
    console = Console()
    found: list[Row] = []
    with console.status("starting") as status:

        def say(text: str) -> None:
            status.update(text)

        for name, part in PARTS.items():
            if arguments.only and name != arguments.only and name.split("-")[0] != arguments.only:
                continue
            rows = []
            for row in part(arguments, say):
                rows.append(row)
                console.print(f"{row.work}: [bold]{row.ratio}[/] of {row.peer}", highlight=False)
            _save(name, rows)
            found += rows
    _print(found, console)
    saved = [row for name in PARTS for row in _saved(name)]
    if not arguments.no_docs and all(map(_saved, PARTS)):
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
        "before `.steps` is asked for. Boards are measured in wall time, as their users wait for",
        f"them, median of {slow_repeats} or 2. Trust the ratios: machines are noisy.",
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
