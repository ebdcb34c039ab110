"""Runs grouped by what they have in common: how many, and the mean, least and greatest of numbers.

Numbers group as numbers: ``1`` and ``1.0`` are one group, true is one of its own. Each group comes
with the selector of its runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    FromClause,
    case,
    cast,
    func,
    null,
    select,
)

from tbhub.api.models import GroupColumn, RunGroups
from tbhub.api.problems import BadRequest
from tbhub.catalog.query import AGGREGATES, condition
from tbhub.catalog.resolve import find_scope
from tbhub.catalog.search import matches
from tbhub.catalog.selection import (
    TIMES,
    And,
    Column,
    Comparison,
    Condition,
    Field,
    Hparam,
    IsNull,
    Metric,
    Order,
    Selection,
)
from tbhub.catalog.table import EXPRESSIONS
from tbhub.database.tables import experiments, hparams, jobs, metrics, runs, users, workspaces

MOST_KEYS = 5
MOST_COLUMNS = 50
_COUNT = Hparam("count")
# A run has many of these, or one that no other has.
_NOT_SHARED = TIMES | {"id", "tag", "tags", "duration", "progress", "heartbeat"}
_NUMBERS = TIMES | {"duration", "progress", "heartbeat"}


@dataclass(frozen=True)
class _Key:
    """What is grouped by: the columns of SQL it takes, and how its value is put together."""

    field: Field
    parts: tuple[ColumnElement[Any], ...]

    def value(self, parts: Sequence[Any]) -> bool | int | float | str | None:
        if isinstance(self.field, Hparam):
            number, text, is_bool = parts
            if is_bool:
                return bool(text == "true")
            return text if number is None else _whole(number)
        if isinstance(self.field, Metric):
            return None if parts[0] is None else _whole(parts[0])
        if self.field.name == "archived":
            return bool(parts[0])
        found: str | int | None = parts[0]
        return found


def group_runs(
    connection: Connection,
    selection: Selection,
    visible: frozenset[int] | None,
    *,
    by: Mapping[str, Field],
    columns: Mapping[str, Field],
    order: Sequence[Order] = (),
    search: str = "",
    limit: int = 200,
    offset: int = 0,
    archived: bool = False,
) -> RunGroups:
    """Groups of the runs of a selection; the largest come first unless an order is given.

    Args:
        by: What the runs of a group have in common, by how it is called in the answer.
        columns: The numbers that are put together, likewise.
        order: By what is grouped by, by the mean of a column, or by ``count``.

    Raises:
        BadRequest: Runs cannot be grouped or put together by this.
    """
    if not 1 <= len(by) <= MOST_KEYS:
        raise BadRequest(f"group by one to {MOST_KEYS} fields, as in by=hparams.lr,status")
    scope = find_scope(connection, selection, visible, archived=archived)
    source = _Source()
    keys = {name: source.key(name, field) for name, field in by.items()}
    numbers = {name: source.number(name, field) for name, field in columns.items()}
    inner = select(
        *(
            part.label(f"k{at}_{number}")
            for at, key in enumerate(keys.values())
            for number, part in enumerate(key.parts)
        ),
        *(value.label(f"v{at}") for at, value in enumerate(numbers.values())),
    )
    inner = inner.select_from(source.tables).where(scope.clause)
    if selection.where is not None:
        inner = inner.where(condition(selection.where, time.time(), wide=scope.wide))
    if search.strip():
        inner = inner.where(matches(search, wide=scope.wide))
    each = inner.subquery("each")
    parts = [column for column in each.columns if column.name.startswith("k")]
    values = [column for column in each.columns if column.name.startswith("v")]
    count = func.count()
    grouped = select(
        *parts,
        count,
        func.count().over(),
        *(put(value) for value in values for put in (func.avg, func.min, func.max)),
    ).group_by(*parts)
    ranks: dict[Field, list[ColumnElement[Any]]] = {_COUNT: [count]}
    ranks |= {
        field: [func.avg(value)] for field, value in zip(columns.values(), values, strict=True)
    }
    at = 0
    for key in keys.values():
        ranks[key.field] = list(parts[at : at + len(key.parts)])
        at += len(key.parts)
    for one in order or (Order(_COUNT, descending=True),):
        for value in _rank(ranks, one):
            grouped = grouped.order_by((value.desc() if one.descending else value).nulls_last())
    rows = connection.execute(grouped.order_by(*parts).limit(limit).offset(offset)).all()
    return _answer(selection, keys, list(columns), rows, offset)


def _rank(
    ranks: Mapping[Field, list[ColumnElement[Any]]], order: Order
) -> list[ColumnElement[Any]]:
    if order.field not in ranks:
        raise BadRequest(
            f"groups are not ordered by {order.field}; there are"
            f" {', '.join('count' if field == _COUNT else str(field) for field in ranks)}"
        )
    return ranks[order.field]


def _answer(
    selection: Selection,
    keys: Mapping[str, _Key],
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    offset: int,
) -> RunGroups:
    found = RunGroups(
        total=rows[0][sum(len(key.parts) for key in keys.values()) + 1] if rows else 0,
        offset=offset,
        keys={name: [] for name in keys},
        count=[],
        select=[],
        columns={name: GroupColumn(mean=[], min=[], max=[]) for name in columns},
    )
    for row in rows:
        at, alike = 0, []
        for name, key in keys.items():
            value = key.value(row[at : at + len(key.parts)])
            at += len(key.parts)
            found.keys[name].append(value)
            alike.append(_is(key.field, value))
        found.count.append(row[at])
        found.select.append(str(_narrowed(selection, alike)))
        at += 2
        for name in columns:
            column = found.columns[name]
            for values in (column.mean, column.min, column.max):
                values.append(row[at])
                at += 1
    return found


def _is(field: Field, value: bool | int | float | str | None) -> Condition:
    return IsNull(field) if value is None else Comparison(field, "=", value)


def _narrowed(selection: Selection, alike: Sequence[Condition]) -> Selection:
    given = selection.where
    whole: list[Condition] = []
    if given is not None:
        whole += given.parts if isinstance(given, And) else (given,)
    whole += alike
    where = whole[0] if len(whole) == 1 else And(tuple(whole))
    return replace(selection, where=where, order=(), limit=None)


class _Source:
    """`runs`, and beside it a row of each hyperparameter and metric that is asked for."""

    def __init__(self) -> None:
        self.tables: Any = runs
        self._there: set[str] = set()

    def key(self, name: str, field: Field) -> _Key:
        if isinstance(field, Hparam):
            row = self._hparam(field)
            is_bool = func.coalesce(row.c.kind == "bool", False)
            number = case((is_bool, null()), else_=row.c.number)
            text = case((number.is_(None), row.c.text), else_=null())
            return _Key(field, (number, text, is_bool))
        if isinstance(field, Metric):
            return _Key(field, (self._metric(field),))
        if field.name in _NOT_SHARED:
            raise BadRequest(f"runs are not grouped by {name}; take a column that some share")
        return _Key(field, (self._column(field),))

    def number(self, name: str, field: Field) -> ColumnElement[Any]:
        if isinstance(field, Hparam):
            return self._hparam(field).c.number
        if isinstance(field, Metric):
            return cast(self._metric(field), Double)
        if field.name not in _NUMBERS:
            raise BadRequest(f"{name} is no number; columns of groups are put together")
        return self._column(field)

    def _hparam(self, field: Hparam) -> FromClause:
        row = hparams.alias()
        self._beside(row, row.c.run_id == runs.c.id, row.c.name == field.name)
        return row

    def _metric(self, field: Metric) -> ColumnElement[Any]:
        row = metrics.alias()
        self._beside(row, row.c.run_id == runs.c.id, row.c.tag == field.tag)
        value: ColumnElement[Any] = row.c[AGGREGATES[field.aggregate].name]
        return value

    def _beside(self, row: FromClause, mine: Any, called: Any) -> None:
        self.tables = self.tables.outerjoin(row, mine & called)

    def _column(self, field: Column) -> ColumnElement[Any]:
        named = {
            "experiment": experiments,
            "workspace": workspaces,
            "owner": users,
            "job": jobs,
        }
        if field.name in named and field.name not in self._there:
            self._there.add(field.name)
            other = named[field.name]
            self.tables = self.tables.outerjoin(other, other.c.id == runs.c[f"{field.name}_id"])
        return EXPRESSIONS[field.name]


def _whole(number: float) -> int | float:
    return int(number) if float(number).is_integer() and abs(number) < 1 << 53 else number
