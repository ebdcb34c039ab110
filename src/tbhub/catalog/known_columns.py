"""Which columns a table of runs can have: what each run has by itself, and every hyperparameter and
metric that any of them has.

Names are found by jumping from one to the next in an index, however many runs have each. How many
have them is counted among the newest runs only: it decides what is offered first, and all of a
million rows would have to be gone through for it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column as TableColumn
from sqlalchemy import Connection, Table, case, exists, func, select

from tbhub.api.models import ColumnKind, RunColumn
from tbhub.catalog.query import Clause, condition
from tbhub.catalog.resolve import find_scope
from tbhub.catalog.selection import Hparam, Metric, Selection
from tbhub.database.tables import hparams, metrics, runs

_COUNTED = 5_000
_MOST = 5_000

_OWN: dict[ColumnKind, tuple[str, ...]] = {
    "text": (
        *("name", "status", "experiment", "workspace", "owner", "job"),
        *("note", "path", "machine", "location", "command", "problem"),
    ),
    "tags": ("tags",),
    "number": ("id", "exit_code", "attempt", "progress"),
    "time": ("created", "started", "updated", "ended", "heartbeat"),
    "duration": ("duration",),
    "bool": ("archived",),
}


def known_columns(
    connection: Connection,
    selection: Selection,
    visible: frozenset[int] | None,
    *,
    archived: bool = False,
) -> list[RunColumn]:
    """Columns of runs themselves, then hyperparameters, then metrics: the most frequent first.

    `RunColumn.runs` counts the newest runs of the selection, at most 5,000 of them.
    """
    scope = find_scope(connection, selection, visible, archived=archived)
    within = [scope.clause]
    if selection.where is not None:
        within.append(condition(selection.where, time.time(), wide=scope.wide))
    newest = select(runs.c.id).where(*within).order_by(runs.c.id.desc()).limit(_COUNTED)
    ids = list(connection.scalars(newest))
    everything = scope.wide and selection.where is None and archived
    return [
        *(
            RunColumn(name=name, kind=kind, runs=len(ids))
            for kind, names in _OWN.items()
            for name in names
        ),
        *_hparams(connection, ids, within, everything),
        *_metrics(connection, ids, within, everything),
    ]


def _hparams(
    connection: Connection, ids: Sequence[int], within: list[Clause], everything: bool
) -> list[RunColumn]:
    def kind(only_kind: str, numeric: int) -> ColumnKind:
        return "number" if numeric else "bool" if only_kind == "bool" else "text"

    numeric = func.max(case((hparams.c.kind.in_(["int", "float"]), 1), else_=0))
    wanted = select(hparams.c.name, func.count(), func.min(hparams.c.kind), numeric)
    wanted = wanted.where(hparams.c.run_id.in_(ids)).group_by(hparams.c.name)
    counted = {
        name: RunColumn(name=str(Hparam(name)), kind=kind(only, has_numbers), runs=count)
        for name, count, only, has_numbers in connection.execute(wanted).all()
    }
    for name in _names(connection, hparams.c.name, within, len(ids), everything):
        counted.setdefault(name, RunColumn(name=str(Hparam(name)), kind="text", runs=0))
    return _in_order(counted)


def _metrics(
    connection: Connection, ids: Sequence[int], within: list[Clause], everything: bool
) -> list[RunColumn]:
    wanted = select(metrics.c.tag, func.count()).where(metrics.c.run_id.in_(ids))
    counted = {
        tag: RunColumn(name=str(Metric(tag)), kind="metric", runs=count)
        for tag, count in connection.execute(wanted.group_by(metrics.c.tag)).all()
    }
    for tag in _names(connection, metrics.c.tag, within, len(ids), everything):
        counted.setdefault(tag, RunColumn(name=str(Metric(tag)), kind="metric", runs=0))
    return _in_order(counted)


def _in_order(counted: dict[str, RunColumn]) -> list[RunColumn]:
    return sorted(counted.values(), key=lambda column: (-column.runs, column.name))


def _names(
    connection: Connection,
    column: TableColumn[str],
    within: list[Clause],
    counted: int,
    everything: bool,
) -> list[str]:
    """All names of a table that a run of these has; none are missing if all runs were counted."""
    if counted < _COUNTED:
        return []
    table = column.table
    assert isinstance(table, Table)
    first = select(func.min(column).label("name"))
    steps = first.cte("steps", recursive=True)
    following = select(func.min(column)).where(column > steps.c.name).scalar_subquery()
    steps = steps.union_all(select(following).where(steps.c.name.is_not(None)))
    names = select(steps.c.name).where(steps.c.name.is_not(None))
    if not everything:
        row: Any = table.alias("row")
        has = exists().where(row.c[column.name] == steps.c.name, row.c.run_id == runs.c.id, *within)
        names = names.where(has)
    return list(connection.scalars(names.limit(_MOST)))
