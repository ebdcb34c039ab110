"""``tbhub experiments``: groups of runs, by number."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tbhub.cli.asking import NAMED, Yes, confirm, connect, in_words, what_goes, what_stays
from tbhub.cli.completion import complete_experiments
from tbhub.cli.groups import group
from tbhub.cli.runs import Files, report_deleted
from tbhub.cli.tables import Column, Csv, Json, Output, Quiet, show
from tbhub.cli.text import plain

if TYPE_CHECKING:
    from tbhub.api.models import Experiment
    from tbhub.client.hub import Hub

_SHOWN = 100
_ABOUT = """
List experiments, and change or delete them.

- `tbhub experiments`
- `tbhub experiments mnist` those whose name contains it
- `tbhub experiments delete 7 --files`

An experiment is named by its number or its name.
"""

app = group(_ABOUT)
Named = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT",
        help="An experiment: its number or name.",
        autocompletion=complete_experiments,
    ),
]


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
    experiment: Named,
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
        changed = hub.change_experiment(_one(hub, experiment).id, change)
    print(f"changed experiment {changed.id} ({plain(changed.name)})")


@app.command("delete")
def delete(
    experiment: Named,
    files: Files = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what it would be.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete an experiment with its runs; asks first. Files stay unless told otherwise.

    - `tbhub experiments delete 7 --dry-run`
    - `tbhub experiments delete mnist --files`

    Exactly what it names is deleted: experiment 1 is not 10. With --files everything in the
    directories of its runs goes, checkpoints too. Runs whose files stay are forgotten all the same:
    the hub does not find them again until `tbhub add PATH`.
    """
    with connect() as hub:
        found = _one(hub, experiment)
        first = hub.runs(f"exp:{found.id}", limit=NAMED, metrics=False, archived=True).runs
        planned = hub.delete_experiment(found.id, files=files, dry_run=True)
        about = what_goes(planned, first)
        done = planned
        if not dry_run:
            what = f"experiment {found.id} ({plain(found.name)}): {in_words(planned)}"
            confirm(f"Delete {what}{'' if files else '; the files stay'}?", yes, about)
            done = hub.delete_experiment(found.id, files=files)
    report_deleted(done, about if dry_run else () if files else what_stays(done, first), as_json)


def _one(hub: Hub, experiment: str) -> Experiment:
    """An experiment by its number or its whole name, with or without the ``exp:`` of selectors."""
    from tbhub.api.problems import Ambiguous, NotFound
    from tbhub.client.calls import experiments
    from tbhub.client.find import pages

    name = experiment.removeprefix("exp:")
    if name.isascii() and name.isdigit():
        return hub.experiment(int(name))
    alike: list[Experiment] = hub.do(
        pages(
            lambda size, offset: experiments(name, limit=size, offset=offset, archived=True),
            lambda page: (page.experiments, page.total),
        )
    )
    found = [each for each in alike if each.name == name]
    if not found:
        raise NotFound(f"There is no experiment {name}.")
    if len(found) > 1:
        matches = [{"id": each.id, "name": f"{each.workspace}/{each.name}"} for each in found]
        raise Ambiguous(f"{name!r} names {len(found):,} experiments; give one", matches=matches)
    return found[0]
