"""Lists, as tables for people and as JSON, CSV or bare ids for programs."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

import typer

from tbhub.cli.text import clock, plain

if TYPE_CHECKING:
    from pydantic import BaseModel

Row = TypeVar("Row", bound="BaseModel")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, with a header.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print ids only, one to a line.")]

_WIDE = 150  # columns of a terminal in which a whole id has room
_NO_LIMIT = 100_000


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table.

    Args:
        of: What a row has in it; times are shown on this machine's clock.
        right: For numbers.
        narrow: What a terminal without much room is shown instead.
        wide_only: Left out where a terminal has not much room.
    """

    title: str
    of: Callable[[Row], object]
    right: bool = False
    narrow: Callable[[Row], object] | None = None
    wide_only: bool = False


@dataclass(frozen=True)
class Output:
    """What a list is printed as; one of them, or a table."""

    as_json: bool = False
    as_csv: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.as_json + self.as_csv + self.quiet > 1:
            raise ValueError("--json, --csv and -q exclude one another")

    @property
    def is_table(self) -> bool:
        """Whether a person reads it."""
        return not (self.as_json or self.as_csv or self.quiet)


def show(
    rows: Sequence[Row],
    columns: Sequence[Column[Row]],
    output: Output,
    *,
    key: Callable[[Row], object],
    nothing: str,
) -> None:
    """Prints a list.

    Args:
        key: What `-q` prints.
        nothing: Told instead of a table without rows.
    """
    if output.quiet:
        for row in rows:
            print(plain(key(row)))
    elif output.as_json:
        print_json([row.model_dump(mode="json") for row in rows])
    elif output.as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([column.title.lower().replace(" ", "_") for column in columns])
        for row in rows:
            writer.writerow([_cell(column.of(row), exact=True) for column in columns])
    elif rows:
        print_table(rows, columns)
    else:
        print(nothing, file=sys.stderr)


def print_json(value: Any) -> None:
    """Prints something as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(rows: Iterable[Row], columns: Sequence[Column[Row]]) -> None:
    """Prints a table; where nobody looks on, nothing is wrapped or cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    on_terminal = sys.stdout.isatty()
    room = shutil.get_terminal_size().columns
    is_narrow = on_terminal and room < _WIDE
    columns = [column for column in columns if not (is_narrow and column.wide_only)]
    between = 1 if is_narrow else 2
    table = Table(box=None, pad_edge=False, padding=(0, between, 0, 0), header_style="bold")
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.right else "left"
        # Values are folded where there is no room for them, words of titles are not.
        least = max(map(len, column.title.split()))
        table.add_column(column.title, justify=justify, overflow="fold", min_width=least)
    for row in rows:
        cells = [column.narrow if column.narrow and is_narrow else column.of for column in columns]
        table.add_row(*(Text(plain(_cell(of(row)))) for of in cells))
    console = Console(highlight=False, width=None if on_terminal else _NO_LIMIT)
    if on_terminal:
        console.print(table)
        return
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        print(line.rstrip())


def print_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Prints what is known of one thing: a name and a value to a line."""
    shown = [(name, plain(_cell(value))) for name, value in pairs if value not in (None, "", [])]
    longest = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        print(f"{name:<{longest}}  {value}")


def _cell(value: object, exact: bool = False) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat() if exact else clock(value)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return repr(value) if exact else f"{value:.6g}"
    if isinstance(value, list | tuple):
        return (" " if exact else ", ").join(map(str, value))
    return str(value)
