"""``tbhub runs``: what the hub knows of runs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tbhub.cli.asking import NAMED, Yes, confirm, connect, in_words, selector, what_goes, what_stays
from tbhub.cli.completion import complete_selectors
from tbhub.cli.groups import group
from tbhub.cli.tables import Column, Csv, Json, Output, Quiet, print_json, print_pairs, show
from tbhub.cli.text import count, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tbhub.api.models import Deleted, Run, Runs
    from tbhub.client.hub import Hub

Files = Annotated[
    bool,
    typer.Option("--files/--keep-files", help="Delete all files in the runs' directories, too."),
]
_SHOWN = 100
_MAX_PAIRS = 3  # hyperparameters and metrics of a run in a table
_MAX_VALUE = 24  # characters of a hyperparameter's value in a table

_ABOUT = """
List runs, and change or delete them.

- `tbhub runs` all of them
- `tbhub runs "where lr<.01 and status=running"`
- `tbhub runs exp:mnist "order by metrics.loss.last limit 10"`
- `tbhub runs delete "where status=failed" --files`

A **selector** says which. Its terms are a union:

| term | names |
| --- | --- |
| `7` or `exp:7`, `exp:mnist` | the runs of an experiment, by number or name |
| `trial:12` (or `'#12'`, quoted), `run343` | a run by number, by name |
| `exp8/run82` | a run by the end of its path |
| `run1-run5`, `run3*` | a range, a pattern |
| `job2300`, `job:sweepA`, `ws1/run7`, `ws1/*` | a job's, a workspace's |
| `./runs`, `/data/x`, `s3://…` | whatever is there or below |
| `all` | all |

Behind them `where …`, `order by …`, `limit N`: `where lr<.01 and metrics.acc.max>.9`,
`where name~resnet or tag in (best, baseline)`, `where updated > 2h order by duration desc`.
"""

app = group(_ABOUT)


@app.command("list")
def list_runs(
    select: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SELECTOR", help="Which; all unless given.", autocompletion=complete_selectors
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=0, metavar="N", help="At most so many; 0: all. Tables show 100."
        ),
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="Those that were put away, too.")
    ] = False,
    as_json: Json = False,
    as_csv: Csv = False,
    quiet: Quiet = False,
) -> None:
    """List runs: all of them, or those that a selector names.

    - `tbhub runs`
    - `tbhub runs 7 "where lr<.01 order by metrics.loss.last limit 10"`
    - `tbhub runs "where status=running" -q`
    """
    from tbhub.client.calls import runs
    from tbhub.client.find import pages

    output = Output(as_json, as_csv, quiet)
    if limit is None and output.is_table:
        limit = _SHOWN
    chosen = selector(select)
    totals = []
    with connect() as hub:
        found = hub.do(
            pages(
                lambda size, offset: runs(
                    chosen, limit=size, offset=offset, metrics=not quiet, archived=archived
                ),
                lambda page: (page.runs, totals.append(page.total) or page.total),  # type: ignore[func-returns-value]
                limit or None,
            )
        )
    columns: list[Column[Run]] = [
        Column("ID", lambda run: run.id, right=True),
        Column("NAME", lambda run: run.name),
        Column("EXPERIMENT", lambda run: run.experiment),
        *([Column("JOB", _job)] if any(run.job for run in found) else []),
        Column("STATUS", lambda run: run.status),
        Column("UPDATED", lambda run: run.updated),
        Column("HPARAMS", _hparams if output.is_table else lambda run: _pairs(run.hparams)),
        Column("METRICS", _metrics),
    ]
    show(found, columns, output, key=lambda run: run.id, nothing="no runs")
    if output.is_table and totals[-1] > len(found):
        print(f"{len(found):,} of {totals[-1]:,}; --limit 0 lists all", file=sys.stderr)


@app.command("show")
def show_run(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run: its number, its name, or the end of its path."),
    ],
    as_json: Json = False,
) -> None:
    """Tell all that is known of a run.

    - `tbhub runs show 12`
    - `tbhub runs show exp8/run82`
    - `tbhub runs show run343 --json`
    """
    found = _one(run)
    with connect() as hub:
        details = hub.run_details(found.id).details
    if as_json:
        print_json({**found.model_dump(mode="json"), "details": details})
        return
    known = found.model_dump(exclude={"hparams", "metrics", "experiment_id"})
    print_pairs([*known.items(), *_origin(details)])
    for name, value in found.hparams.items():
        print(f"  {plain(name)} = {plain(value)}")
    for tag, metric in found.metrics.items():
        last = "NaN" if metric.last is None else f"{metric.last:.6g}"
        ends = "" if metric.min is None else f", from {metric.min:.6g} to {metric.max:.6g}"
        points = count(metric.count, "point")
        print(f"  {plain(tag)}: {last} at step {metric.last_step:,}{ends}, {points}")


@app.command("logs")
def logs(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run: its number, its name, or the end of its path.",
            autocompletion=complete_selectors,
        ),
    ],
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Continue with new output until the run ends.")
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option("--tail", min=0, max=100_000, metavar="N", help="Only the last N lines."),
    ] = None,
    head: Annotated[
        int | None, typer.Option("--head", min=0, metavar="N", help="Only the first N lines.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            metavar="NAME",
            help="One of several console logs, of an earlier attempt or a rank: "
            "`console.log.again1`; unless given the newest.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print an object to a line.")] = False,
) -> None:
    """Print what the command of a run has printed, as `tbhub run` has kept it.

    - `tbhub runs logs 12 --tail 20`
    - `tbhub runs logs exp8/run82 -f`
    - `tbhub runs logs 12 --file console.log` of the first attempt

    On a terminal, escape sequences other than colours are removed.
    """
    from tbhub.cli.run_logs import print_run_log

    if head is not None and (tail is not None or follow):
        raise ValueError("--head goes neither with --tail nor with -f")
    found = _one(run)
    with connect() as hub:
        print_run_log(
            hub, found.id, follow=follow, tail=tail, head=head, file=file, as_json=as_json
        )


@app.command("edit")
def edit(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run: its number or name.")],
    name: Annotated[str | None, typer.Option("--name", help="Another name.")] = None,
    note: Annotated[str | None, typer.Option("--note", help="A note; empty: none.")] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="Its tags from now on; repeat for several.")
    ] = None,
    archived: Annotated[
        bool | None, typer.Option("--archive/--unarchive", help="Put it away, or take it back.")
    ] = None,
) -> None:
    """Change a run's name, note or tags, or put it away.

    - `tbhub runs edit 12 --name baseline --tag best --tag paper`
    - `tbhub runs edit 12 --archive`
    """
    from tbhub.api.models import RunChange
    from tbhub.client.calls import build

    change = build(RunChange, name=name, note=note, tags=tags or None, archived=archived)
    if not change.model_fields_set:
        raise ValueError("say what to change: --name, --note, --tag, --archive")
    found = _one(run)
    with connect() as hub:
        changed = hub.change_run(found.id, change)
    print(f"changed run {changed.id} ({plain(changed.name)})")


@app.command("delete")
def delete(
    select: Annotated[
        list[str],
        typer.Argument(metavar="SELECTOR", help="Which.", autocompletion=complete_selectors),
    ],
    files: Files = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what it would be.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete runs; asks first. Files stay unless told otherwise.

    - `tbhub runs delete run7 --dry-run`
    - `tbhub runs delete trial:12 exp:mnist` a run by number, and the runs of an experiment
    - `tbhub runs delete "where status=failed and updated < 30d" --files`

    With --files everything in their directories goes, checkpoints too. A run whose files stay is
    forgotten all the same: the hub does not find it again until `tbhub add PATH`.
    """
    chosen = selector(select)
    _refuse_bare_numbers(chosen)
    with connect() as hub:
        first = hub.runs(chosen, limit=NAMED, metrics=False).runs
        planned = hub.delete_runs(chosen, files=files, dry_run=True)
        about = what_goes(planned, first)
        done = planned
        if not dry_run:
            stay = "" if files else "; their files stay"
            confirm(f"Delete {in_words(planned)}{stay}?", yes, about)
            done = hub.delete_runs(chosen, files=files)
    report_deleted(done, about if dry_run else () if files else what_stays(done, first), as_json)


def report_deleted(deleted: Deleted, about: Iterable[str], as_json: bool) -> None:
    """Tells what a deletion did, and what it could not do.

    Args:
        about: Lines that say more: what would be deleted, or what was not.
    """
    if as_json:
        print_json(deleted.model_dump(mode="json"))
    else:
        print(f"{'would delete' if deleted.dry_run else 'deleted'} {in_words(deleted)}")
        for line in about:
            print(f"  {line}")
    if deleted.problems:
        for problem in deleted.problems:
            print(f"tbhub: {plain(problem)}", file=sys.stderr)
        raise typer.Exit(2)


def _refuse_bare_numbers(chosen: str) -> None:
    """A number is an experiment in a selector and a run to `show` and `edit`: no way to delete."""
    from tbhub.catalog.selection import ExperimentNumber
    from tbhub.catalog.selectors import parse

    for term in parse(chosen).terms:
        if isinstance(term, ExperimentNumber) and ":" not in term.typed:
            home = f"{term.workspace}/" if term.workspace else ""
            raise ValueError(
                f"{term.typed} may be a run or an experiment: to delete the run write "
                f"{home}trial:{term.number}, for all runs of the experiment {home}exp:{term.number}"
            )


def _one(run: str) -> Run:
    """Return the run that a word of the command line names.

    Raises:
        NotFound: No run is named.
        Ambiguous: Several runs are named.
    """
    with connect() as hub:
        if run.isascii() and run.isdigit():
            return _numbered_or_called(hub, run)
        chosen = selector([run])
        found = hub.runs(chosen, limit=10)
        if found.total > 1:
            found = _at_place(hub, chosen) or found
        return hub.run(_only(run, found).id)


def _only(typed: str, found: Runs) -> Run:
    """Return the run of a list that has to have exactly one."""
    from tbhub.api.problems import Ambiguous

    if found.total != 1 or not found.runs:
        raise Ambiguous(
            f"{typed} names {found.total:,} runs. hint: give one, by name or trial:ID.",
            matches=[{"id": each.id, "name": each.name} for each in found.runs],
        )
    return found.runs[0]


def _at_place(hub: Hub, chosen: str) -> Runs | None:
    """Return the run in the directory that a selector names, without those below it."""
    from tbhub.catalog.selection import Location, quote
    from tbhub.catalog.selectors import parse

    terms = parse(chosen).terms
    if len(terms) != 1 or not isinstance(terms[0], Location):
        return None
    places = {terms[0].uri.rstrip("/"), os.path.realpath(terms[0].uri)}
    listed = ", ".join(map(quote, sorted(places)))
    found = hub.runs(f"where location in ({listed})", limit=10, archived=True)
    return found if found.total else None


def _numbered_or_called(hub: Hub, text: str) -> Run:
    """Return the run with a number or, if no run has it, the run that is called so.

    Raises:
        NotFound: There is neither.
        Ambiguous: A run has the number and another one the name, or several have the name.
    """
    from tbhub.api.problems import Ambiguous, BadRequest, NotFound
    from tbhub.catalog.selection import RunName

    number = int(text)
    try:
        called = hub.runs(str(RunName(text)), limit=10, metrics=False)
    except NotFound:
        return hub.run(number)
    others = [each for each in called.runs if each.id != number]
    if not others:
        return hub.run(number)
    try:
        hub.run(number)
    except (NotFound, BadRequest):  # no run has the number, or can have one that large
        return hub.run(_only(text, called).id)
    numbers = " or ".join(f"#{each}" for each in sorted([number, others[0].id]))
    raise Ambiguous(
        f"{text} is the number of a run and the name of another. hint: write {numbers}.",
        matches=[{"id": each.id, "name": each.name} for each in others],
    )


def _origin(details: dict[str, Any]) -> list[tuple[str, object]]:
    """Where a run comes from, as far as its worker has told."""
    git = details.get("git") or {}
    commit = git.get("commit")
    if commit:
        branch, dirty = git.get("branch"), git.get("dirty")
        commit += f" ({branch})" if branch else ""
        commit += ", changed: see git.diff" if dirty else ""
    packages = details.get("packages") or ()
    found = {
        "commit": commit,
        "remote": git.get("remote"),
        **{name: details.get(name) for name in ("user", "cwd", "python", "platform")},
        "packages": f"{len(packages):,}; --json lists them" if packages else None,
    }
    return [(name, value) for name, value in found.items() if value]


def _job(run: Run) -> str:
    """What a run's job is called."""
    return run.job_name or (f"job{run.job}" if run.job else "")


def _pairs(values: Mapping[str, bool | int | float | str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _hparams(run: Run) -> str:
    shown = {name: _cut(str(value)) for name, value in list(run.hparams.items())[:_MAX_PAIRS]}
    return _pairs(shown) + _and_more(len(run.hparams) - len(shown))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"


def _metrics(run: Run) -> str:
    shown = [
        f"{tag}={'NaN' if metric.last is None else f'{metric.last:.4g}'}"
        for tag, metric in list(run.metrics.items())[:_MAX_PAIRS]
    ]
    return " ".join(shown) + _and_more(len(run.metrics) - len(shown))


def _and_more(left_out: int) -> str:
    return f" +{left_out}" if left_out else ""
