"""The table of runs: its columns, its order, its search; and which columns there are."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import insert

from support import rows
from support.rows import NOW
from tbhub.api.models import RunsTable
from tbhub.api.problems import NotFound
from tbhub.catalog import known_columns as known_columns_module
from tbhub.catalog import page
from tbhub.catalog.clauses import parse_sort
from tbhub.catalog.known_columns import known_columns
from tbhub.catalog.selection import Column, Hparam, Metric, Order, Selection
from tbhub.catalog.selectors import SelectorError, parse
from tbhub.catalog.table import list_table, parse_columns
from tbhub.database.engine import Database
from tbhub.database.tables import metrics


def table(database: Database, q: str = "", columns: str = "status", **options: Any) -> RunsTable:
    selection = parse(q)
    order = parse_sort(options.pop("sort", ""))
    if order:
        selection = Selection(selection.terms, selection.where, order, selection.limit)
    visible = options.pop("visible", None)
    with database.read() as connection:
        return list_table(connection, selection, visible, columns=parse_columns(columns), **options)


def names(database: Database, q: str = "", **options: Any) -> list[str]:
    found: list[str] = table(database, q, **options).columns["name"]
    return found


@pytest.fixture
def team(database: Database) -> Database:
    """Four runs that are alike in some ways."""
    with database.begin() as c:
        rows.run(
            c,
            "base",
            "mnist",
            "ws",
            owner="ada",
            note="The first one",
            tags=["good", "best"],
            started=NOW,
            ended=NOW + 60,
            values={"lr": 0.1, "opt": "Adam", "amp": True, "nan": float("nan")},
            series={"loss": {"last": 0.5, "min": 0.25, "max": 2.0, "count": 9, "last_step": 8}},
        )
        rows.run(c, "wide", "mnist", "ws", values={"lr": 1}, series={"loss": {"last": 0.75}})
        rows.run(c, "deep", "cifar", "ws", values={"lr": 1.0}, series={"loss": {"last": None}})
        rows.run(c, "old", "cifar", "other", archived=True, values={"lr": "1"}, status="failed")
    return database


def test_columns_have_a_value_for_each_run(team: Database) -> None:
    asked = 'tags,experiment,duration,lr,hparams."nan",amp,metrics.loss,metrics.loss.step,owner'
    found = table(team, columns=asked, sort="id")
    assert (found.total, found.offset) == (3, 0)
    assert found.columns == {
        "id": [1, 2, 3],
        "name": ["base", "wide", "deep"],
        "tags": [["best", "good"], [], []],
        "experiment": ["mnist", "mnist", "cifar"],
        "duration": [60.0, None, None],
        "lr": [0.1, 1, 1.0],
        'hparams."nan"': ["nan", None, None],
        "amp": [True, None, None],
        "metrics.loss": [0.5, 0.75, "NaN"],
        "metrics.loss.step": [8, 0, 0],
        "owner": ["ada", None, None],
    }


def test_a_revision_stays_as_long_as_the_answer_does(team: Database) -> None:
    before = table(team, columns="metrics.loss").revision
    assert table(team, columns="metrics.loss").revision == before
    with team.begin() as c:
        row = {"run_id": 4, "tag": "loss", "count": 1, "last_step": 0, "last_time": NOW}
        c.execute(insert(metrics).values({**row, "last": 9.0}))
    assert table(team, columns="metrics.loss").revision == before
    assert table(team, columns="metrics.loss", archived=True).revision != before


def test_what_was_put_away_is_shown_when_asked_for(team: Database) -> None:
    assert names(team, sort="name") == ["base", "deep", "wide"]
    assert names(team, sort="name", archived=True) == ["base", "deep", "old", "wide"]
    assert names(team, "where archived = true") == ["old"]


def test_what_may_not_be_seen_is_not_there(team: Database) -> None:
    with team.read() as c:
        ws = rows.workspace(c, "ws")
        other = rows.workspace(c, "other")
        seen = {each.name for each in known_columns(c, Selection(), frozenset({other}))}
    assert names(team, visible=frozenset({ws}), archived=True) == ["deep", "wide", "base"]
    assert names(team, visible=frozenset({other}), archived=True) == ["old"]
    assert names(team, visible=frozenset(), archived=True) == []
    assert not {name for name in seen if name.startswith("metrics.")}
    with pytest.raises(NotFound):
        table(team, "base", visible=frozenset({other}))


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("bas", ["base"]),
        ("MNIST", ["base", "wide"]),
        ("ada", ["base"]),
        ("first", ["base"]),
        ("GOOD", ["base"]),
        ("adam", ["base"]),
        ("cifar 1.0", ["deep"]),
        ("cifar best", []),
        ("100%", []),
        ("_", []),
        ("  ", ["base", "deep", "wide"]),
    ],
)
def test_each_word_is_somewhere(team: Database, search: str, expected: list[str]) -> None:
    assert names(team, search=search, sort="name") == expected
    with team.read() as c:
        ws = rows.workspace(c, "ws")
    assert names(team, search=search, sort="name", visible=frozenset({ws})) == expected


def test_a_search_narrows_a_filter(team: Database) -> None:
    assert names(team, "where lr = 1", search="mnist") == ["wide"]


@pytest.mark.parametrize("few", [0, 10_000])
@pytest.mark.parametrize("q", ["", "where id > 2", "where metrics.loss.last > 0.2", "exp:e"])
@pytest.mark.parametrize(
    "sort", ["metrics.loss", "-metrics.loss.last", "-metrics.loss.max", "lr", "-hparams.lr"]
)
def test_pages_of_metrics_follow_each_other(
    database: Database, monkeypatch: pytest.MonkeyPatch, few: int, q: str, sort: str
) -> None:
    monkeypatch.setattr(page, "_FEW", few)
    values = [0.5, None, 0.25, 0.5, None, 2.0, 0.125]
    with database.begin() as c:
        for number, value in enumerate(values):
            given = {} if value is None else {"lr": value}
            series = {"loss": {"last": value, "max": value}}
            rows.run(c, f"r{number}", series=series, values=given)
        rows.run(c, "none")
    whole = table(database, q, sort=sort)
    fits = {
        "where id > 2": lambda at: at >= 2,
        "where metrics.loss.last > 0.2": lambda at: at < 7 and (values[at] or 0) > 0.2,
    }.get(q, lambda _: True)

    def rank(at: int) -> tuple[bool, float, int]:
        value = values[at] if at < 7 else None
        turned = 0.0 if value is None else -value if sort.startswith("-") else value
        return value is None, turned, -at

    expected = sorted((at for at in range(8) if fits(at)), key=rank)
    assert whole.total == len(expected)
    assert whole.columns["id"] == [at + 1 for at in expected]
    parts = [table(database, q, sort=sort, limit=3, offset=at) for at in range(0, 12, 3)]
    assert {part.total for part in parts} == {whole.total}
    assert [number for part in parts for number in part.columns["id"]] == whole.columns["id"]


def test_a_limit_of_the_selector_bounds_all_pages(team: Database) -> None:
    found = table(team, "limit 2", sort="-metrics.loss", limit=1, offset=1)
    assert (found.total, found.columns["name"]) == (2, ["base"])
    assert table(team, "limit 2", sort="-metrics.loss", offset=2).columns["name"] == []


def test_orders_are_written_as_in_addresses() -> None:
    assert parse_sort('-created, metrics.loss.min,-"my rate",-hparams."a,b"') == (
        Order(Column("created"), descending=True),
        Order(Metric("loss", "min")),
        Order(Hparam("my rate"), descending=True),
        Order(Hparam("a,b"), descending=True),
    )
    assert parse_sort("") == ()


@pytest.mark.parametrize(
    ("text", "position"), [("-tag", 1), ("name created", 5), ("lr,,b", 3), ("a,=", 2)]
)
def test_what_is_no_order_says_where(text: str, position: int) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_sort(text)
    assert caught.value.position == position


def test_columns_that_are_too_many_are_refused() -> None:
    with pytest.raises(SelectorError, match="too many"):
        parse_columns(",".join(f"h{number}" for number in range(201)))


@pytest.mark.parametrize("counted", [1, 5_000])
def test_every_hyperparameter_and_metric_is_known(
    team: Database, monkeypatch: pytest.MonkeyPatch, counted: int
) -> None:
    monkeypatch.setattr(known_columns_module, "_COUNTED", counted)
    with team.read() as c:
        found = {each.name: each for each in known_columns(c, Selection(), None)}
        some = {each.name for each in known_columns(c, parse("deep"), None)}
        everything = {each.name for each in known_columns(c, Selection(), None, archived=True)}
    assert found["status"].kind == "text"
    assert found["tags"].kind == "tags"
    added = [name for name in found if "." in name]
    assert sorted(added) == [
        "hparams.amp",
        "hparams.lr",
        "hparams.nan",
        "hparams.opt",
        "metrics.loss.last",
    ]
    assert added[0] == "hparams.lr"
    assert {name for name in some if "." in name} == {"hparams.lr", "metrics.loss.last"}
    assert everything == set(found)
    if counted == 5_000:
        kinds = {name: found[name].kind for name in added}
        assert kinds["hparams.lr"] == kinds["hparams.nan"] == "number"
        assert (kinds["hparams.amp"], kinds["hparams.opt"]) == ("bool", "text")
        assert (found["hparams.lr"].runs, found["metrics.loss.last"].runs) == (3, 3)
