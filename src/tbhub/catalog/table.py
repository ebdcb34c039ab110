"""The table of runs: some columns of a page of them, column by column.

Only what is asked for is looked up, in a statement for each kind of column, however many runs and
columns there are. Times are seconds since the epoch: a page has thousands of them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, String, case, cast, func, select

from tbhub.api.models import RunsTable
from tbhub.catalog.clauses import parse_fields
from tbhub.catalog.hparam_values import hparam_value
from tbhub.catalog.page import page_of
from tbhub.catalog.query import AGGREGATES
from tbhub.catalog.resolve import find_scope
from tbhub.catalog.selection import Column, Field, Hparam, Metric, Selection
from tbhub.catalog.selector_error import SelectorError
from tbhub.database.rows import among, chunks
from tbhub.database.tables import (
    experiments,
    hparams,
    jobs,
    metrics,
    run_tags,
    runs,
    users,
    workspaces,
)

MOST_COLUMNS = 200
# Columns that can be shown, though runs are not found by them.
_SHOWN = (
    *("tags", "experiment_id", "exit_code", "attempt", "progress"),
    *("command", "heartbeat", "problem"),
)

_ALWAYS = {"id": Column("id"), "name": Column("name")}
_DEFAULT = "status,experiment,owner,tags,created,updated,duration"


def parse_columns(text: str) -> dict[str, Field]:
    """The columns of a table as they are written in addresses; some without any.

    Raises:
        SelectorError: This is no list of fields; says where and why.
    """
    return _ALWAYS | parse_fields(text.strip() or _DEFAULT, MOST_COLUMNS, _SHOWN)


def template_columns(names: Iterable[str]) -> dict[str, Field]:
    """Return the columns and metrics among the fields of a template, by how they are written."""
    found: dict[str, Field] = {}
    for name in names:
        try:
            ((_, field),) = parse_fields(name, 1, _SHOWN).items()
        except (SelectorError, ValueError):
            continue  # a hyperparameter with a name that no selector could have
        if not isinstance(field, Hparam):
            found[name] = field
    return found


def list_table(
    connection: Connection,
    selection: Selection,
    visible: frozenset[int] | None,
    *,
    columns: Mapping[str, Field],
    search: str = "",
    limit: int = 200,
    offset: int = 0,
    archived: bool = False,
) -> RunsTable:
    """A part of the table; without an order the newest come first.

    Args:
        visible: The workspaces that the caller may see; None for all.
        columns: See `parse_columns`.
        search: Words that a run has somewhere.
        archived: With runs that were put away.

    Raises:
        NotFound: A term of the selection names nothing.
        Ambiguous: A name belongs to several workspaces.
    """
    scope = find_scope(connection, selection, visible, archived=archived)
    total, ids = page_of(connection, selection, scope, search=search, limit=limit, offset=offset)
    found = load_columns(connection, ids, columns)
    written = orjson.dumps([total, found], option=orjson.OPT_SORT_KEYS)
    revision = hashlib.blake2b(written, digest_size=8).hexdigest()
    return RunsTable(total=total, offset=offset, revision=revision, columns=found)


def load_columns(
    connection: Connection, ids: Sequence[int], columns: Mapping[str, Field]
) -> dict[str, list[Any]]:
    """Columns of runs by number, in this order; None where a run has no value."""
    place = {number: row for row, number in enumerate(ids)}
    found: dict[str, list[Any]] = {name: [None] * len(ids) for name in columns}
    by_kind: dict[type[Field], list[tuple[str, Any]]] = {Column: [], Hparam: [], Metric: []}
    for name, field in columns.items():
        by_kind[type(field)].append((name, field))
    for chunk in chunks(ids):
        for kind, load in _LOADERS:
            if by_kind[kind]:
                load(connection, chunk, by_kind[kind], place, found)
    return found


_Found = dict[str, list[Any]]
_Places = Mapping[int, int]


def _load_runs(
    connection: Connection,
    ids: Sequence[int],
    wanted: list[tuple[str, Column]],
    place: _Places,
    found: _Found,
) -> None:
    plain = [name for name, field in wanted if field.name not in ("tag", "tags")]
    fields = dict(wanted)
    values = [EXPRESSIONS[fields[name].name] for name in plain]
    chosen = select(runs.c.id, *(value.label(f"c{at}") for at, value in enumerate(values)))
    used = {fields[name].name for name in plain}
    joined = chosen.select_from(_joined(used)).where(among(connection, runs.c.id, ids))
    for row in connection.execute(joined).all():
        for name, value in zip(plain, row[1:], strict=True):
            found[name][place[row[0]]] = value
    for name in (name for name, field in wanted if field.name in ("tag", "tags")):
        tags: list[list[str]] = [[] for _ in place]
        mine = select(run_tags.c.run_id, run_tags.c.tag).where(
            among(connection, run_tags.c.run_id, ids)
        )
        for run_id, tag in connection.execute(mine.order_by(run_tags.c.tag)).all():
            tags[place[run_id]].append(tag)
        for number in ids:
            found[name][place[number]] = tags[place[number]]


def _joined(names: set[str]) -> Any:
    source: Any = runs
    if "experiment" in names:
        source = source.join(experiments, experiments.c.id == runs.c.experiment_id)
    if "workspace" in names:
        source = source.join(workspaces, workspaces.c.id == runs.c.workspace_id)
    if "owner" in names:
        source = source.outerjoin(users, users.c.id == runs.c.owner_id)
    if "job" in names:
        source = source.outerjoin(jobs, jobs.c.id == runs.c.job_id)
    return source


EXPRESSIONS: dict[str, ColumnElement[Any]] = {
    **{column.name: column for column in runs.columns},
    "job": case((jobs.c.name != "", jobs.c.name), else_="job" + cast(jobs.c.id, String)),
    "experiment": experiments.c.name,
    "workspace": workspaces.c.name,
    "owner": users.c.name,
    "duration": func.coalesce(runs.c.ended, runs.c.updated) - runs.c.started,
}


def _load_hparams(
    connection: Connection,
    ids: Sequence[int],
    wanted: list[tuple[str, Hparam]],
    place: _Places,
    found: _Found,
) -> None:
    columns = (hparams.c.run_id, hparams.c.name, hparams.c.kind, hparams.c.number, hparams.c.text)
    mine = select(*columns).where(
        among(connection, hparams.c.run_id, ids),
        hparams.c.name.in_({field.name for _, field in wanted}),
    )
    names: dict[str, list[str]] = {}
    for name, field in wanted:
        names.setdefault(field.name, []).append(name)
    for run_id, known, kind, number, text in connection.execute(mine).all():
        value = hparam_value(kind, number, text)
        if isinstance(value, float) and not math.isfinite(value):
            value = text  # JSON has no such numbers
        for name in names[known]:
            found[name][place[run_id]] = value


def _load_metrics(
    connection: Connection,
    ids: Sequence[int],
    wanted: list[tuple[str, Metric]],
    place: _Places,
    found: _Found,
) -> None:
    aggregates = sorted({field.aggregate for _, field in wanted})
    values = [AGGREGATES[aggregate] for aggregate in aggregates]
    mine = select(metrics.c.run_id, metrics.c.tag, *values).where(
        among(connection, metrics.c.run_id, ids),
        metrics.c.tag.in_({field.tag for _, field in wanted}),
    )
    names: dict[str, list[tuple[str, int]]] = {}
    for name, field in wanted:
        at = 2 + aggregates.index(field.aggregate)
        names.setdefault(field.tag, []).append((name, at))
    last = 2 + aggregates.index("last") if "last" in aggregates else None
    for row in connection.execute(mine).all():
        for name, at in names[row[1]]:
            # A series that ends with no number must not look as if there were none.
            found[name][place[row[0]]] = "NaN" if at == last and row[at] is None else row[at]


_LOADERS: tuple[tuple[type[Field], Callable[..., None]], ...] = (
    (Column, _load_runs),
    (Hparam, _load_hparams),
    (Metric, _load_metrics),
)
