"""``tbhub experiments``: groups of runs, by number."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tbhub.cli.asking import Yes, confirm, connect, in_words
from tbhub.cli.groups import group
from tbhub.cli.runs import report_deleted
from tbhub.cli.tables import Column, Csv, Json, Output, Quiet, show
from tbhub.cli.text import plain

if TYPE_CHECKING:
    from tbhub.api.models import Experiment

_SHOWN = 100
_ABOUT = """
List experiments, and change or delete them.

- `tbhub experiments`
- `tbhub experiments mnist` those whose name contains it
- `tbhub experiments delete 7 --files`
"""

app = group(_ABOUT)
Number = Annotated[int, typer.Argument(metavar="ID", min=1, help="The experiment's number.")]


@app.command("list")
def list_experiments(
    search: Annotated[str, typer.Argument(help="Text their names contain.")] = "",
    archived: Annotated[
        bool, typer.Option("--archived", help="Those that were put away, too.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=0, metavar="N", help="At most so many; 0: all. Tables show 100."
        ),
    ] = None,
    as_json: Json = False,
    as_csv: Csv = False,
    quiet: Quiet = False,
) -> None:
    """List experiments: all of them, or those whose name contains some text.

    - `tbhub experiments`
    - `tbhub experiments mnist --json`
    """
    from tbhub.client.calls import experiments
    from tbhub.client.find import pages

    output = Output(as_json, as_csv, quiet)
    if limit is None and output.is_table:
        limit = _SHOWN
    with connect() as hub:
        found = hub.do(
            pages(
                lambda size, offset: experiments(
                    search, limit=size, offset=offset, archived=archived
                ),
                lambda page: (page.experiments, page.total),
                limit or None,
            )
        )
    columns: list[Column[Experiment]] = [
        Column("ID", lambda each: each.id, right=True),
        Column("NAME", lambda each: each.name),
        Column("WORKSPACE", lambda each: each.workspace),
        Column("RUNS", lambda each: each.runs, right=True),
        Column("RUNNING", lambda each: each.running, right=True),
        Column("UPDATED", lambda each: each.updated),
        Column("OWNER", lambda each: each.owner),
        Column("NOTE", lambda each: each.note),
    ]
    show(found, columns, output, key=lambda each: each.id, nothing="no experiments")
    if limit and len(found) == limit and output.is_table:
        print(f"the first {limit:,}; --limit 0 lists all", file=sys.stderr)


@app.command("edit")
def edit(
    number: Number,
    note: Annotated[str | None, typer.Option("--note", help="A note; empty: none.")] = None,
    archived: Annotated[
        bool | None, typer.Option("--archive/--unarchive", help="Put it away, or take it back.")
    ] = None,
) -> None:
    """Change an experiment's note, or put it away.

    - `tbhub experiments edit 7 --note "the one in the paper"`
    - `tbhub experiments edit 7 --archive`
    """
    from tbhub.api.models import NoteChange
    from tbhub.client.calls import build

    change = build(NoteChange, note=note, archived=archived)
    if not change.model_fields_set:
        raise ValueError("say what to change: --note, --archive, --unarchive")
    with connect() as hub:
        changed = hub.change_experiment(number, change)
    print(f"changed experiment {changed.id} ({plain(changed.name)})")


@app.command("delete")
def delete(
    number: Number,
    files: Annotated[
        bool, typer.Option("--files/--keep-files", help="Delete the files of its runs, too.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell how much it would be.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete an experiment with its runs; asks first. Files stay unless told otherwise.

    - `tbhub experiments delete 7 --dry-run`
    - `tbhub experiments delete 7 --files`

    Exactly what it names is deleted: experiment 1 is not 10.
    """
    with connect() as hub:
        name = plain(hub.experiment(number).name)
        planned = hub.delete_experiment(number, files=files, dry_run=True)
        done = planned
        if not dry_run:
            kept = "" if files else "; the files stay"
            confirm(f"Delete experiment {number} ({name}): {in_words(planned)}{kept}?", yes)
            done = hub.delete_experiment(number, files=files)
    report_deleted(done.model_dump(mode="json"), in_words(done), as_json)
