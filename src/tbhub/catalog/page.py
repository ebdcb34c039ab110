"""A page of the runs of a selection, and how many there are in all.

A filter costs more than anything else. Where it lets few runs through, these are sorted. Many are
not, by a hyperparameter's number or a metric's last, least or greatest value: an index has the
order already, and is followed until the page is full.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Select, exists, func, not_, select

from tbhub.catalog.query import Clause, Plain, condition, ids_of, order_of
from tbhub.catalog.resolve import Scope
from tbhub.catalog.search import matches
from tbhub.catalog.selection import Hparam, Metric, Selection
from tbhub.database.rows import among
from tbhub.database.tables import hparams, metrics, runs

# Runs that are sorted one by one rather than found in the order of an index.
_FEW = 10_000
# Of a metric, what an index has in order: columns of the same names.
_INDEXED = ("last", "min", "max")


def page_of(
    connection: Connection,
    selection: Selection,
    scope: Scope,
    *,
    search: str = "",
    limit: int,
    offset: int = 0,
    now: float | None = None,
) -> tuple[int, list[int]]:
    """How many runs there are, and the ids of a page of them.

    Args:
        search: Words that each of them has somewhere; see `tbhub.catalog.search`.
        limit: How long a page is; the selection's own limit bounds all pages together.
        now: What ages are counted back from.
    """

    def within(wide: bool) -> list[Clause]:
        found = [scope.clause]
        if selection.where is not None:
            found.append(condition(selection.where, moment, wide=wide))
        if search.strip():
            found.append(matches(search, wide=wide))
        return found

    moment = time.time() if now is None else now
    filtered = selection.where is not None or bool(search.strip())
    length = limit if selection.limit is None else min(limit, max(0, selection.limit - offset))
    rank = _rank(selection)
    if rank is None:
        wanted = select(runs.c.id).where(*within(scope.wide)).order_by(*order_of(selection))
        total, ids = _sorted(connection, wanted, length, offset, filtered=filtered)
    else:
        total, few = _counted(connection, within(scope.wide), filtered=filtered)
        if few is not None:
            those = ids_of(Selection(order=selection.order), among(connection, runs.c.id, few))
            ids = list(connection.scalars(those.limit(length).offset(offset)))
        else:
            # Only the runs of a page are looked at: lists of all that fit would not pay.
            ids = _walk(connection, selection, rank, within(False), length, offset)
    return total if selection.limit is None else min(total, selection.limit), ids


def _sorted(
    connection: Connection, wanted: Select[Any], length: int, offset: int, *, filtered: bool
) -> tuple[int, list[int]]:
    """A filter is gone through once, counting along the way. Without one, counting is quick and so
    is finding the first."""
    page = wanted.limit(length).offset(offset)
    if filtered:
        rows = connection.execute(page.add_columns(func.count().over())).all()
        if rows:
            return rows[0][1], [row[0] for row in rows]
        if not offset and length:
            return 0, []
    counted = wanted.order_by(None).with_only_columns(func.count(runs.c.id))
    total = connection.scalar(counted) or 0
    return total, [] if filtered else list(connection.scalars(page))


def _counted(
    connection: Connection, within: Sequence[Clause], *, filtered: bool
) -> tuple[int, list[int] | None]:
    """How many runs there are, and which if these are few."""
    if filtered:
        few = list(connection.scalars(select(runs.c.id).where(*within).limit(_FEW + 1)))
        if len(few) <= _FEW:
            return len(few), few
    return connection.scalar(select(func.count()).select_from(runs).where(*within)) or 0, None


@dataclass(frozen=True)
class _Rank:
    """An order that an index has: rows beside runs, and what they are sorted by."""

    rows: FromClause
    here: tuple[Clause, ...]
    values: tuple[ColumnElement[Any], ...]
    descending: bool


def _rank(selection: Selection) -> _Rank | None:
    if len(selection.order) != 1:
        return None
    (order,) = selection.order
    # Under another name: conditions speak of these tables, too.
    if isinstance(order.field, Hparam):
        rows = hparams.alias("ranks")
        here = rows.c.name == order.field.name, rows.c.number.is_not(None)
        return _Rank(rows, here, (rows.c.number, Plain(rows.c.text)), order.descending)
    if isinstance(order.field, Metric) and order.field.aggregate in _INDEXED:
        rows = metrics.alias("ranks")
        value = rows.c[order.field.aggregate]
        here = rows.c.tag == order.field.tag, value.is_not(None)
        return _Rank(rows, here, (value,), order.descending)
    return None


def _walk(
    connection: Connection,
    selection: Selection,
    rank: _Rank,
    within: Sequence[Clause],
    length: int,
    offset: int,
) -> list[int]:
    """A page in the order of an index; those without a number come behind the others."""
    if not length:
        return []
    run_id = rank.rows.c.run_id
    fits = exists().where(runs.c.id == run_id, *within)
    values = (value.desc() if rank.descending else value.asc() for value in rank.values)
    ordered = select(run_id).where(*rank.here, fits).order_by(*values, run_id.desc())
    ids = list(connection.scalars(ordered.limit(offset + length)))
    page = ids[offset:]
    if len(page) < length:
        ranked = exists().where(run_id == runs.c.id, *rank.here)
        others = select(runs.c.id).where(*within, not_(ranked)).order_by(*order_of(selection))
        others = others.limit(length - len(page)).offset(max(0, offset - len(ids)))
        page += connection.scalars(others)
    return page
