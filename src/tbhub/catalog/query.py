"""Selections as SQL: what a filter lets through, in what order.

Nothing of a user's text becomes SQL; values are always bound. A condition is true or false and
never unknown: SQL's null, which would stay null under ``not``, is ruled out where it could arise.

Hyperparameters and metrics are looked up run by run through their primary keys: the columns of a
run rule out most of them before anything is looked up. Only where all runs are asked, and an index
alone answers (a number of a hyperparameter, the last value of a metric), the runs with a fitting
value are listed first, which is up to three times as quick; other lists took eight times as long.
"""

from __future__ import annotations

import operator as operators
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    FromClause,
    Select,
    String,
    and_,
    exists,
    false,
    func,
    literal,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy import Column as TableColumn
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from tbhub.catalog.selection import (
    TIMES,
    Age,
    And,
    Comparison,
    Condition,
    Field,
    Hparam,
    IsNull,
    Metric,
    Moment,
    Not,
    OneOf,
    Operator,
    Or,
    Order,
    Selection,
    Value,
)
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

Clause = ColumnElement[bool]

_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}

AGGREGATES: dict[str, TableColumn[Any]] = {
    "last": metrics.c.last,
    "min": metrics.c.min,
    "max": metrics.c.max,
    "step": metrics.c.last_step,
    "count": metrics.c.count,
}
# Columns that are the names of rows elsewhere.
_NAMED: dict[str, tuple[ColumnElement[Any], FromClause]] = {
    "experiment": (runs.c.experiment_id, experiments),
    "workspace": (runs.c.workspace_id, workspaces),
    "owner": (runs.c.owner_id, users),
    "job": (runs.c.job_id, jobs),
}
_JOB = re.compile(r"job([0-9]{1,18})")


def ids_of(
    selection: Selection, scope: Clause, now: float | None = None, *, wide: bool = False
) -> Select[Any]:
    """The ids of runs within a scope that a selection's filter lets through, in its order.

    The limit is left to the caller. Without an order the newest come first.

    Args:
        wide: The scope is all runs, or nearly so.
    """
    found = select(runs.c.id).where(scope)
    if selection.where is not None:
        found = found.where(
            condition(selection.where, time.time() if now is None else now, wide=wide)
        )
    return found.order_by(*order_of(selection))


def order_of(selection: Selection) -> list[ColumnElement[Any]]:
    """What runs are sorted by; the newest come first where nothing else decides."""
    return [*(value for key in selection.order for value in _ordered(key)), runs.c.id.desc()]


def named_like(column: ColumnElement[str], pattern: str) -> Clause:
    """Whether text fits a pattern of ``*`` and ``?``; upper and lower case differ."""
    return _Glob(column, literal(_glob(pattern)), literal(_like(pattern)))


def contains(column: ColumnElement[str], part: str) -> Clause:
    """Whether text has a part; upper and lower case are alike."""
    return _Contains(column, literal(f"%{_escaped(part)}%"))


def begins_with(column: ColumnElement[str], prefix: str) -> Clause:
    """Whether text begins so; upper and lower case differ."""
    return func.substr(column, 1, len(prefix)) == prefix


# --- what SQLite and PostgreSQL say differently


class _Glob(FunctionElement[bool]):
    type = Boolean()
    inherit_cache = True


@compiles(_Glob, "sqlite")
def _glob_sqlite(element: _Glob, compiler: SQLCompiler, **options: Any) -> str:
    column, glob, _ = element.clauses
    return f"{compiler.process(column, **options)} GLOB {compiler.process(glob, **options)}"


@compiles(_Glob, "postgresql")
def _glob_postgresql(element: _Glob, compiler: SQLCompiler, **options: Any) -> str:
    column, _, like = element.clauses
    return f"{compiler.process(column, **options)} LIKE {compiler.process(like, **options)}"


class _Contains(FunctionElement[bool]):
    """SQLite's LIKE takes upper and lower case for alike as it is; lowering both sides first, as
    SQLAlchemy does, takes twice as long."""

    type = Boolean()
    inherit_cache = True


@compiles(_Contains)
def _contains_plain(element: _Contains, compiler: SQLCompiler, **options: Any) -> str:
    return _compiled_like("LIKE", element, compiler, options)


@compiles(_Contains, "postgresql")
def _contains_postgresql(element: _Contains, compiler: SQLCompiler, **options: Any) -> str:
    return _compiled_like("ILIKE", element, compiler, options)


def _compiled_like(
    like: str, element: _Contains, compiler: SQLCompiler, options: dict[str, Any]
) -> str:
    column, part = (compiler.process(each, **options) for each in element.clauses)
    return f"({column} {like} {part} ESCAPE '\\')"


def _glob(pattern: str) -> str:
    return pattern.replace("[", "[[]")


def _like(pattern: str) -> str:
    return _escaped(pattern).replace("*", "%").replace("?", "_")


def _escaped(text: str) -> str:
    for char in "\\%_":
        text = text.replace(char, f"\\{char}")
    return text


class Plain(FunctionElement[str]):
    """Text in the order of its characters, whatever the language of the database is."""

    type = String()
    inherit_cache = True


@compiles(Plain)
def _plain(element: Plain, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses, **options)


@compiles(Plain, "postgresql")
def _plain_postgresql(element: Plain, compiler: SQLCompiler, **options: Any) -> str:
    return f'({compiler.process(element.clauses, **options)} COLLATE "C")'


# --- conditions


def condition(wanted: Condition, now: float, *, wide: bool = False) -> Clause:
    """A condition about `runs`; ages are counted back from now. See `ids_of` for `wide`."""
    if isinstance(wanted, And):
        return and_(*(condition(part, now, wide=wide) for part in wanted.parts))
    if isinstance(wanted, Or):
        return or_(*(condition(part, now, wide=wide) for part in wanted.parts))
    if isinstance(wanted, Not):
        return not_(condition(wanted.part, now, wide=wide))
    field = wanted.field
    if wide and isinstance(wanted, Comparison) and isinstance(field, Hparam | Metric):
        listed = _listed(field, wanted.operator, wanted.value)
        if listed is not None:
            return listed
    if isinstance(field, Hparam):
        return _hparam(field, wanted)
    if isinstance(field, Metric):
        return _metric(field, wanted)
    if field.name == "tag":
        return _tag(wanted)
    if field.name in _NAMED:
        return _named(field.name, wanted)
    return _column(field.name, wanted, now)


def _listed(field: Hparam | Metric, sign: Operator, value: Value) -> Clause | None:
    """A comparison that an index answers, as a list of runs; none if it does not."""
    if sign not in ("<", "<=", ">", ">=") or isinstance(value, str):
        return None
    table = hparams if isinstance(field, Hparam) else metrics
    if isinstance(field, Hparam):
        here, column = hparams.c.name == field.name, hparams.c.number
    elif field.aggregate == "last":
        here, column = metrics.c.tag == field.tag, metrics.c.last
    else:
        return None
    fits = _sign(sign, column, float(_number(value)))
    return runs.c.id.in_(select(table.c.run_id).where(here, fits))


def _hparam(field: Hparam, wanted: Comparison | OneOf | IsNull) -> Clause:
    here = and_(hparams.c.run_id == runs.c.id, hparams.c.name == field.name)
    if isinstance(wanted, IsNull):
        found = exists().where(here)
        return found if wanted.negated else not_(found)
    if isinstance(wanted, OneOf):
        fits = _hparam_in(wanted.values)
        return exists().where(here, not_(fits) if wanted.negated else fits)
    sign, value = wanted.operator, wanted.value
    if sign in ("=", "!="):
        fits = _hparam_in([value])
        return exists().where(here, not_(fits) if sign == "!=" else fits)
    if isinstance(value, str):
        return exists().where(here, _text(hparams.c.text, sign, value))
    return exists().where(here, _SIGNS[sign](hparams.c.number, float(_number(value))))


def _hparam_in(values: Sequence[Value]) -> Clause:
    """Whether a hyperparameter has one of these values; never null."""
    texts = [value for value in values if isinstance(value, str)]
    booleans = ["true" if value else "false" for value in values if isinstance(value, bool)]
    numbers = [
        float(value)
        for value in values
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return or_(
        hparams.c.text.in_(texts),
        and_(hparams.c.kind == "bool", hparams.c.text.in_(booleans)),
        and_(hparams.c.number.is_not(None), hparams.c.number.in_(numbers)),
    )


def _metric(field: Metric, wanted: Comparison | OneOf | IsNull) -> Clause:
    value = AGGREGATES[field.aggregate]
    here = and_(metrics.c.run_id == runs.c.id, metrics.c.tag == field.tag)
    if isinstance(wanted, IsNull):
        found = exists().where(here, value.is_not(None))
        return found if wanted.negated else not_(found)
    if isinstance(wanted, OneOf):
        numbers = [float(_number(each)) for each in wanted.values]
        fits = value.not_in(numbers) if wanted.negated else value.in_(numbers)
        return exists().where(here, fits)
    return exists().where(here, _SIGNS[wanted.operator](value, float(_number(wanted.value))))


def _tag(wanted: Comparison | OneOf | IsNull) -> Clause:
    fits: Clause
    if isinstance(wanted, IsNull):
        fits, negated = true(), not wanted.negated
    elif isinstance(wanted, OneOf):
        fits, negated = run_tags.c.tag.in_(wanted.values), wanted.negated
    else:
        negated = wanted.operator in ("!=", "!~")
        sign: Operator = "~" if wanted.operator in ("~", "!~") else "="
        fits = _text(run_tags.c.tag, sign, str(wanted.value))
    found = exists().where(run_tags.c.run_id == runs.c.id, fits)
    return not_(found) if negated else found


def _named(name: str, wanted: Comparison | OneOf | IsNull) -> Clause:
    """A condition on the name of something else, or for experiments on its number."""
    key, table = _NAMED[name]
    nullable = name in ("owner", "job")
    if isinstance(wanted, IsNull):
        return _is_null(key, nullable, wanted.negated)
    if isinstance(wanted, OneOf):
        names = [value for value in wanted.values if isinstance(value, str)]
        numbers = [value for value in wanted.values if not isinstance(value, str)]
        fits = or_(table.c.name.in_(names), table.c.id.in_(numbers))
        if name == "job":
            given = filter(None, map(job_number, wanted.values))
            fits = or_(table.c.name.in_(names), *map(job_numbered, given))
        fits = not_(fits) if wanted.negated else fits
    else:
        fits = _named_so(table, wanted.operator, wanted.value)
    found = key.in_(select(table.c.id).where(fits))
    return and_(key.is_not(None), found) if nullable else found


def _named_so(table: FromClause, sign: Operator, value: Value) -> Clause:
    number = job_number(value) if table is jobs and sign in ("=", "!=") else None
    if number is not None:
        fits = job_numbered(number)
        return fits if sign == "=" else not_(fits)
    if isinstance(value, str):
        return _text(table.c.name, sign, value)
    return _sign(sign, table.c.id, value)


def job_number(value: object) -> int | None:
    """Return the number that ``job7`` or 7 means; None for other names and values."""
    if isinstance(value, str):
        found = _JOB.fullmatch(value)
        return None if found is None else int(found[1])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def job_numbered(number: int) -> Clause:
    """Return a condition on jobs: called ``job<number>``, or with that number.

    A job that is called by another number, as ``job2300`` may be, goes by that one only. In a
    workspace where a job is called ``job<number>``, that name is no other job's number.
    """
    named, name = jobs.alias(), f"job{number}"
    begins_so = func.substr(jobs.c.name, 1, 3) == "job"
    has_number = and_(begins_so, func.substr(jobs.c.name, 4, 1).in_([*"0123456789"]))
    is_taken = exists().where(named.c.workspace_id == jobs.c.workspace_id, named.c.name == name)
    return or_(jobs.c.name == name, and_(jobs.c.id == number, not_(has_number), not_(is_taken)))


def _column(name: str, wanted: Comparison | OneOf | IsNull, now: float) -> Clause:
    column, nullable = _expression(name)
    if isinstance(wanted, IsNull):
        return _is_null(column, nullable, wanted.negated)
    fits: Clause
    if isinstance(wanted, OneOf):
        spans = [value for value in wanted.values if isinstance(value, Moment)]
        plain = [value.seconds if isinstance(value, Age) else value for value in wanted.values]
        fits = or_(
            column.in_([value for value in plain if not isinstance(value, Moment)]),
            *(_compare(name, column, "=", value, now) for value in spans),
        )
        fits = not_(fits) if wanted.negated else fits
    else:
        fits = _compare(name, column, wanted.operator, wanted.value, now)
    return and_(column.is_not(None), fits) if nullable else fits


def _expression(name: str) -> tuple[ColumnElement[Any], bool]:
    """A column, and whether it may be null."""
    if name == "duration":
        return func.coalesce(runs.c.ended, runs.c.updated) - runs.c.started, True
    column = runs.c[name]
    return column, bool(column.nullable)


def _is_null(column: ColumnElement[Any], nullable: bool, negated: bool) -> Clause:
    if not nullable:
        return true() if negated else false()
    return column.is_not(None) if negated else column.is_(None)


def _compare(
    name: str, column: ColumnElement[Any], sign: Operator, value: Value, now: float
) -> Clause:
    if isinstance(value, Moment):
        start, end = value.start, value.end
        whole: dict[str, Clause] = {
            "=": and_(column >= start, column < end),
            "!=": or_(column < start, column >= end),
            "<": column < start,
            "<=": column < end,
            ">": column >= end,
            ">=": column >= start,
        }
        return whole[sign]
    if isinstance(value, Age):
        value = now - value.seconds if name in TIMES else value.seconds
    if isinstance(value, str):
        return _text(column, sign, value)
    return _sign(sign, column, value)


def _sign(sign: Operator, column: ColumnElement[Any], value: Value) -> Clause:
    compared: Clause = _SIGNS[sign](column, value)
    return compared


def _text(column: ColumnElement[str], sign: Operator, value: str) -> Clause:
    if sign == "~":
        return contains(column, value)
    if sign == "!~":
        return not_(contains(column, value))
    return _sign(sign, column if sign in ("=", "!=") else Plain(column), value)


def _number(value: Value) -> int | float:
    assert isinstance(value, int | float), value
    return value


# --- order


def _ordered(key: Order) -> list[ColumnElement[Any]]:
    """What to sort by; runs without a value come last, whichever way."""
    values = _sort_values(key.field)
    ordered = [value.desc() if key.descending else value.asc() for value in values]
    if _has_all(key.field):  # then nothing is said of others: an index is followed either way
        return list(ordered)
    return [each.nulls_last() for each in ordered]


def _has_all(field: Field) -> bool:
    """Whether every run has a value."""
    if isinstance(field, Metric | Hparam) or field.name in _NAMED:
        return False
    return not _expression(field.name)[1]


def _sort_values(field: Field) -> list[ColumnElement[Any]]:
    if isinstance(field, Metric):
        mine = metrics.c.run_id == runs.c.id, metrics.c.tag == field.tag
        return [select(AGGREGATES[field.aggregate]).where(*mine).scalar_subquery()]
    if isinstance(field, Hparam):
        mine = hparams.c.run_id == runs.c.id, hparams.c.name == field.name
        return [
            select(hparams.c.number).where(*mine).scalar_subquery(),
            Plain(select(hparams.c.text).where(*mine).scalar_subquery()),
        ]
    if field.name == "job":
        return [runs.c.job_id]
    if field.name in _NAMED:
        key, table = _NAMED[field.name]
        return [Plain(select(table.c.name).where(table.c.id == key).scalar_subquery())]
    column, _ = _expression(field.name)
    return [Plain(column) if isinstance(column.type, String) else column]
