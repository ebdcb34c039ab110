"""Filters and orders: the database answers as a plain reading of the selector would."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text as sql
from sqlalchemy import true

from support import rows
from support.rows import NOW
from tbhub.catalog import page
from tbhub.catalog.query import ids_of
from tbhub.catalog.resolve import Scope
from tbhub.catalog.runs import load_runs
from tbhub.catalog.selection import (
    AGGREGATES,
    STATUSES,
    Age,
    And,
    Column,
    Comparison,
    Condition,
    Field,
    Hparam,
    IsNull,
    Metric,
    Moment,
    Not,
    OneOf,
    Or,
    Order,
    Selection,
    Value,
    moment,
)
from tbhub.catalog.selectors import parse
from tbhub.database.engine import Database

# --- a catalog, and the same as plain values

Plain = dict[str, Any]

TEXTS = ["", "a", "A", "b", "run1", "Run1", "x_y", "x%y", "x\\y", "[ab]", "ä", "a b"]
NUMBERS = [-1.0, 0.0, 0.5, 1.0, 2.0, 1e-3]
TIMES = [NOW - 3 * 86400, NOW - 86400, NOW - 3600, NOW, 1_799_971_200.0]  # the last is a midnight
HPARAMS = ["lr", "amp", "opt", "my rate"]
TAGS = ["loss", "a/b.c", "top 5"]


def plain_runs() -> list[Plain]:
    """Runs of every kind, the same each time."""
    pick = random.Random(4)

    def maybe(values: list[Any]) -> Any:
        return pick.choice([None, *values])

    found = []
    for number in range(1, 41):
        series = {}
        for tag in TAGS:
            if pick.random() < 0.6:
                series[tag] = {
                    "last": maybe(NUMBERS),
                    "min": maybe(NUMBERS),
                    "max": maybe(NUMBERS),
                    "last_step": pick.choice([0, 1, 2]),
                    "count": pick.choice([1, 2]),
                }
        values = {name: maybe([0.5, 1, 2, True, False, "adam", "1", "true"]) for name in HPARAMS}
        found.append(
            {
                "id": number,
                "name": f"run{number}" if number % 3 else f"Name {number}",
                "path": pick.choice(TEXTS),
                "status": pick.choice(STATUSES),
                "experiment": pick.choice(["e1", "E2", "7"]),
                "workspace": pick.choice(["ws1", "ws2"]),
                "owner": maybe(["ada", "Bob"]),
                "created": pick.choice(TIMES),
                "started": maybe(TIMES),
                "updated": maybe(TIMES),
                "ended": maybe(TIMES),
                "note": pick.choice(TEXTS),
                "machine": maybe(TEXTS),
                "location": f"/logs/{number}",
                "archived": pick.random() < 0.3,
                "tag": pick.sample(["best", "Best", "x_y", "bad"], pick.randrange(3)),
                "hparams": {name: value for name, value in values.items() if value is not None},
                "metrics": series,
            }
        )
    return found


@pytest.fixture
def plain(database: Database) -> list[Plain]:
    made = plain_runs()
    names = ("hparams", "metrics", "tag", "experiment", "workspace", "owner", "id", "name")
    with database.begin() as connection:
        jobs = [rows.job(connection, "ws1"), rows.job(connection, "ws1")]
        for row in made:
            row["job"] = [None, *jobs][row["id"] % 3]
            number = rows.run(
                connection,
                row["name"],
                row["experiment"],
                row["workspace"],
                owner=row["owner"],
                values=row["hparams"],
                series=row["metrics"],
                tags=row["tag"],
                job_id=row["job"],
                **{key: row[key] for key in row if key not in (*names, "job")},
            )
            assert number == row["id"]
            row["experiment_id"] = rows.experiment(connection, row["experiment"], row["workspace"])
            ended = row["updated"] if row["ended"] is None else row["ended"]
            missing = ended is None or row["started"] is None
            row["duration"] = None if missing else ended - row["started"]
    return made


# --- a plain reading of conditions


def fits(condition: Condition, row: Plain) -> bool:
    if isinstance(condition, And):
        return all(fits(part, row) for part in condition.parts)
    if isinstance(condition, Or):
        return any(fits(part, row) for part in condition.parts)
    if isinstance(condition, Not):
        return not fits(condition.part, row)
    if condition.field == Column("tag"):
        return fits_tags(condition, row["tag"])
    if isinstance(condition, IsNull):
        return (value_of(condition.field, row) is None) != condition.negated
    value = value_of(condition.field, row)
    if value is None:
        return False
    if isinstance(condition, OneOf):
        found = any(compare(condition.field, value, "=", each, row) for each in condition.values)
        return found != condition.negated
    if condition.operator in ("!=", "!~"):
        return not compare(condition.field, value, condition.operator[1:], condition.value, row)
    return compare(condition.field, value, condition.operator, condition.value, row)


def fits_tags(condition: Comparison | OneOf | IsNull, tags: list[str]) -> bool:
    if isinstance(condition, IsNull):
        return bool(tags) == condition.negated
    if isinstance(condition, OneOf):
        return any(tag in condition.values for tag in tags) != condition.negated
    wanted = str(condition.value)
    if condition.operator in ("=", "!="):
        return (wanted in tags) == (condition.operator == "=")
    return any(wanted.lower() in tag.lower() for tag in tags) == (condition.operator == "~")


def value_of(field: Field, row: Plain) -> Any:
    if isinstance(field, Hparam):
        return row["hparams"].get(field.name)
    if isinstance(field, Metric):
        name = "last_step" if field.aggregate == "step" else field.aggregate
        return row["metrics"].get(field.tag, {}).get(name)
    return row[field.name]


def compare(field: Field, value: Any, sign: str, wanted: Value, row: Plain) -> bool:
    if isinstance(wanted, Moment):
        return {
            "=": wanted.start <= value < wanted.end,
            "<": value < wanted.start,
            "<=": value < wanted.end,
            ">": value >= wanted.end,
            ">=": value >= wanted.start,
        }[sign]
    if isinstance(wanted, Age):
        wanted = wanted.seconds if field == Column("duration") else NOW - wanted.seconds
    if isinstance(field, Hparam):
        if isinstance(wanted, bool):
            return isinstance(value, bool) and value == wanted
        if isinstance(wanted, str):
            value = str(value).lower() if isinstance(value, bool) else str(value)
        elif isinstance(value, str):
            return False
    elif field == Column("experiment") and not isinstance(wanted, str):
        value = row["experiment_id"]
    if sign == "~":
        assert isinstance(wanted, str)
        return wanted.lower() in str(value).lower()
    results: dict[str, bool] = {
        "=": value == wanted,
        "<": value < wanted,
        "<=": value <= wanted,
        ">": value > wanted,
        ">=": value >= wanted,
    }
    return results[sign]


def in_order(plain: list[Plain], order: tuple[Order, ...]) -> list[Plain]:
    found = sorted(plain, key=lambda row: -row["id"])
    for key in reversed(order):
        for values in reversed(sort_values(key.field)):
            known = [row for row in found if values(row) is not None]
            known.sort(key=values, reverse=key.descending)  # type: ignore[arg-type]
            found = known + [row for row in found if values(row) is None]
    return found


def sort_values(field: Field) -> list[Any]:
    if not isinstance(field, Hparam):
        return [lambda row: value_of(field, row)]

    def number(row: Plain) -> float | None:
        value = value_of(field, row)
        return None if value is None or isinstance(value, str) else float(value)

    def text(row: Plain) -> str | None:
        value = value_of(field, row)
        return str(value).lower() if isinstance(value, bool) else value and str(value)

    return [number, text]


# --- what people may ask

EVERYTHING = Scope(true(), (), (), (), wide=True)
COMPARED = ("=", "!=", "<", "<=", ">", ">=")
TEXT_VALUES = st.sampled_from([*TEXTS, "ada", "Bob", "ws1", "e1", "7", "un1", "%", "_", "\\", "1"])
NUMBER_VALUES = st.sampled_from([*NUMBERS, 1, 2, 0, 10**30])
MOMENTS = st.sampled_from(
    [moment("2027-01-15"), moment("2027-01-15T08:00"), moment("2027-01-14T08:00:00")]
)
PLAIN_TEXTS = ("name", "path", "status", "owner", "workspace", "note", "machine", "location")


def asked(field: Any, value: Any, signs: tuple[str, ...]) -> st.SearchStrategy[Condition]:
    return st.one_of(
        st.builds(Comparison, field, st.sampled_from(signs), value),
        st.builds(IsNull, field, st.booleans()),
    )


def listed(field: Any, value: Any) -> st.SearchStrategy[Condition]:
    values = st.lists(value, min_size=1, max_size=3).map(tuple)
    return st.builds(OneOf, field, values, st.booleans())


HPARAM = st.builds(Hparam, st.sampled_from([*HPARAMS, "none"]))
METRIC = st.builds(Metric, st.sampled_from([*TAGS, "none"]), st.sampled_from(AGGREGATES))
TEXT_COLUMN = st.sampled_from(PLAIN_TEXTS).map(Column)
TIME_COLUMN = st.sampled_from(["created", "started", "updated", "ended"]).map(Column)
HPARAM_TEXTS = st.sampled_from(["adam", "1", "true", "0.5", "ADAM", "2"])
LEAVES = st.one_of(
    asked(HPARAM, NUMBER_VALUES | HPARAM_TEXTS, COMPARED),
    asked(HPARAM, HPARAM_TEXTS, ("~", "!~")),
    asked(HPARAM, st.booleans(), ("=", "!=")),
    listed(HPARAM, NUMBER_VALUES | HPARAM_TEXTS | st.booleans()),
    asked(METRIC, NUMBER_VALUES, COMPARED),
    listed(METRIC, NUMBER_VALUES),
    asked(TEXT_COLUMN, TEXT_VALUES, (*COMPARED, "~", "!~")),
    listed(TEXT_COLUMN, TEXT_VALUES),
    asked(st.sampled_from(["id", "job"]).map(Column), st.integers(0, 40), COMPARED),
    listed(st.sampled_from(["id", "job"]).map(Column), st.integers(0, 40)),
    asked(TIME_COLUMN, MOMENTS | st.sampled_from(TIMES), COMPARED),
    asked(
        TIME_COLUMN,
        st.sampled_from([Age(1, "d"), Age(2, "h"), Age(1, "w")]),
        ("<", "<=", ">", ">="),
    ),
    listed(TIME_COLUMN, MOMENTS | st.sampled_from(TIMES)),
    asked(st.just(Column("duration")), st.sampled_from([0, 3600.0, Age(1, "d")]), COMPARED),
    listed(st.just(Column("duration")), st.sampled_from([0, 3600.0, Age(1, "d")])),
    asked(st.just(Column("experiment")), st.sampled_from(["e1", "E2", 1, 3, "e", "7"]), COMPARED),
    listed(st.just(Column("experiment")), st.sampled_from(["e1", "E2", 1, 3, "7"])),
    asked(st.just(Column("archived")), st.booleans(), ("=", "!=")),
    asked(
        st.just(Column("tag")), st.sampled_from(["best", "x_y", "_", "a"]), ("=", "!=", "~", "!~")
    ),
    listed(st.just(Column("tag")), st.sampled_from(["best", "x_y", "none"])),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=5,
)
ORDERS = st.lists(
    st.builds(
        Order,
        HPARAM | METRIC | TEXT_COLUMN | TIME_COLUMN | st.just(Column("experiment")),
        st.booleans(),
    ),
    max_size=2,
).map(tuple)


@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(where=st.none() | CONDITIONS, order=ORDERS)
def test_the_database_answers_as_a_plain_reading_does(
    database: Database, plain: list[Plain], where: Condition | None, order: tuple[Order, ...]
) -> None:
    selection = Selection(where=where, order=order)
    with database.read() as connection:
        found = list(connection.scalars(ids_of(selection, true(), NOW)))
        wide = list(connection.scalars(ids_of(selection, true(), NOW, wide=True)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(page, "_FEW", 3)
            parts = [
                page.page_of(connection, selection, EVERYTHING, limit=25, offset=at, now=NOW)
                for at in (0, 25)
            ]
    wanted = [row for row in plain if where is None or fits(where, row)]
    assert found == [row["id"] for row in in_order(wanted, order)]
    assert wide == found
    assert [number for _, ids in parts for number in ids] == found
    assert {total for total, _ in parts} == {len(found)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("where lr<0.01 and status=running and metrics.acc.max>0.9", ["a"]),
        ("where lr < 1 order by metrics.acc.max desc", ["a", "b", "c"]),
        ("where lr < 1 order by metrics.acc.max", ["b", "a", "c"]),
        ("where metrics.acc is null", ["d", "c"]),
        ("where opt = adam or tag = best order by name", ["a", "d"]),
        ("where not opt = adam order by name", ["b", "c", "d"]),
        ("where opt != adam", ["b"]),
        ("where created > 2d order by name", ["a", "b"]),
        ("where created = 2027-01-10", ["c"]),
        ("where created <= 2027-01-10 order by name", ["c", "d"]),
        ("where created < 2027-01-10", ["d"]),
        ("where owner = ada and note ~ 'BEST so'", ["b"]),
        ("where duration > 1h", ["a"]),
    ],
)
def test_what_people_ask(database: Database, text: str, expected: list[str]) -> None:
    day = 86400
    with database.begin() as c:
        rows.run(
            c,
            "a",
            status="running",
            started=NOW - day,
            updated=NOW,
            values={"lr": 0.001, "opt": "adam"},
            series={"acc": {"last": 0.9, "max": 0.95}},
        )
        rows.run(
            c,
            "b",
            owner="ada",
            note="the best so far",
            started=NOW,
            ended=NOW + 60,
            values={"lr": 0.01, "opt": "sgd"},
            series={"acc": {"last": 0.5, "max": 0.9}},
        )
        nan = {"acc": {"last": None, "max": None}}
        rows.run(c, "c", created=NOW - 5 * day, values={"lr": 0.1}, series=nan)
        rows.run(c, "d", created=NOW - 6 * day, tags=["best"])
    with database.read() as c:
        ids = list(c.scalars(ids_of(parse(text), true(), NOW)))
        assert [run.name for run in load_runs(c, ids)] == expected


@pytest.mark.parametrize("order", ["created desc", "id desc", "id"])
def test_the_newest_are_found_without_sorting_all(database: Database, order: str) -> None:
    asked = ids_of(parse(f"order by {order}"), true()).limit(10)
    with database.begin() as c:
        rows.run(c, "a")
        text = asked.compile(c.engine, compile_kwargs={"literal_binds": True})
        if c.dialect.name == "sqlite":
            plan = str(c.execute(sql(f"EXPLAIN QUERY PLAN {text}")).all())
        else:
            c.execute(sql("SET LOCAL enable_seqscan = off"))  # which is best for one run
            plan = str(c.execute(sql(f"EXPLAIN {text}")).all())
    assert "B-TREE" not in plan, plan
    assert "Sort" not in plan, plan
