"""Rows by the thousand: what SQLAlchemy leaves to each database, or does at a cost per row."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import (
    ARRAY,
    JSON,
    ColumnElement,
    Connection,
    String,
    Table,
    Text,
    any_,
    bindparam,
    func,
    select,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql.schema import ScalarElementColumnDefault

T = TypeVar("T")

# Parameters of one statement; PostgreSQL takes 65,535 of them and SQLite half of that.
CHUNK = 5000


def chunks(items: Sequence[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """Some at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def among(
    connection: Connection, column: ColumnElement[Any], values: Collection[Any]
) -> ColumnElement[bool]:
    """Whether a column is one of any number of values, which are one parameter: to write each of
    them into a statement costs more than finding it."""
    if connection.dialect.name == "postgresql":
        # Text of any length: as short as the column's own, it would be cut off and fit another's.
        kind = Text() if isinstance(column.type, String) else column.type
        return column == any_(bindparam(None, list(values), ARRAY(kind)))
    listed = func.json_each(bindparam(None, json.dumps(list(values)), String))
    return column.in_(select(listed.table_valued("value").c.value))


def insert_new(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Inserts rows, which have the same columns; those that would be there twice are left out."""
    if not rows:
        return
    defaults = {
        column.name: column.default.arg
        for column in table.columns
        if isinstance(column.default, ScalarElementColumnDefault) and column.name not in rows[0]
    }
    names = [*rows[0], *defaults]
    constant = tuple(defaults.values())
    insert_tuples(connection, table, names, [(*row.values(), *constant) for row in rows])


def insert_tuples(
    connection: Connection, table: Table, names: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """The same for values in the order of their columns' names, all without a default."""
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        connection.execute(_insert(table, names, rows).on_conflict_do_nothing())
    else:
        connection.exec_driver_sql(f"INSERT OR IGNORE INTO {_into(table, names)}", list(rows))


def put(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Inserts rows, which have the same columns, or gives those that are there these values."""
    if not rows:
        return
    names = list(rows[0])
    keys = [column.name for column in table.primary_key]
    changed = [name for name in names if name not in keys]
    values = [tuple(row.values()) for row in rows]
    if connection.dialect.name == "postgresql":
        statement = _insert(table, names, values)
        excluded = {name: statement.excluded[name] for name in changed}
        connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=excluded))
    else:
        text = f"INSERT INTO {_into(table, names)} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET "
        text += ", ".join(f'"{name}" = excluded."{name}"' for name in changed)
        connection.exec_driver_sql(text, values)


def _insert(
    table: Table, names: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> postgresql.Insert:
    """An array for each column: a few parameters, however many rows there are."""
    arrays = [
        func.unnest(bindparam(None, list(values), ARRAY(table.c[name].type)))
        for name, values in zip(names, zip(*rows, strict=True), strict=True)
    ]
    return postgresql.insert(table).from_select(list(names), select(*arrays))


def _into(table: Table, names: Sequence[str]) -> str:
    """SQLite takes our values as they are: they need not go through SQLAlchemy one by one."""
    assert not any(isinstance(table.c[name].type, JSON) for name in names), "not as they are"
    columns = ", ".join(f'"{name}"' for name in names)
    return f'"{table.name}" ({columns}) VALUES ({", ".join("?" * len(names))})'
