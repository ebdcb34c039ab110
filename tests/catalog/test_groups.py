"""Runs in groups, and changes of many at once."""

from __future__ import annotations

from typing import Any

import pytest

from support import rows
from tbhub.api.models import RunGroups, RunsChange
from tbhub.api.problems import BadRequest
from tbhub.catalog.bulk import change_runs
from tbhub.catalog.clauses import parse_fields, parse_sort
from tbhub.catalog.groups import group_runs
from tbhub.catalog.runs import list_runs
from tbhub.catalog.selectors import parse
from tbhub.database.engine import Database

VALUES: list[tuple[object, float | None]] = [
    (0.1, 1.0),
    (0.1, 3.0),
    (1, 5.0),
    (1.0, None),
    (True, 7.0),
    ("1", 8.0),
    (None, 9.0),
]


@pytest.fixture
def sweep(database: Database) -> Database:
    with database.begin() as c:
        for number, (lr, loss) in enumerate(VALUES):
            values = {"seed": number, **({} if lr is None else {"lr": lr})}
            rows.run(
                c,
                group="e1" if number < 4 else "e2",
                owner="ada" if number % 2 else None,
                values=values,
                series={"loss": {"last": loss}},
            )
        rows.run(c, group="e1", archived=True, values={"lr": 0.1})
    return database


def groups(
    database: Database, by: str, columns: str = "", q: str = "", **options: Any
) -> RunGroups:
    order = parse_sort(options.pop("sort", ""))
    with database.read() as connection:
        return group_runs(
            connection,
            parse(q),
            options.pop("visible", None),
            by=parse_fields(by, 10),
            columns=parse_fields(columns, 50),
            order=order,
            **options,
        )


def test_numbers_group_as_numbers(sweep: Database) -> None:
    found = groups(sweep, "lr", "metrics.loss,seed", sort="lr")
    assert found.total == 5
    assert found.keys == {"lr": [0.1, 1, "1", True, None]}
    assert found.count == [2, 2, 1, 1, 1]
    loss, seed = found.columns["metrics.loss"], found.columns["seed"]
    assert (loss.mean, loss.min, loss.max) == (
        [2.0, 5.0, 8.0, 7.0, 9.0],
        [1.0, 5.0, 8.0, 7.0, 9.0],
        [3.0, 5.0, 8.0, 7.0, 9.0],
    )
    assert seed.mean == [0.5, 2.5, 5.0, 4.0, 6.0]


@pytest.mark.parametrize("q", ["", "where seed < 5", "where seed < 2 or seed > 3", "exp:e2"])
@pytest.mark.parametrize("by", ["lr", "experiment,owner", "status,lr", "metrics.loss", "archived"])
def test_the_selector_of_a_group_has_its_runs(sweep: Database, q: str, by: str) -> None:
    found = groups(sweep, by, q=q)
    with sweep.read() as c:
        totals = [list_runs(c, parse(text), None).total for text in found.select]
        assert sum(found.count) == list_runs(c, parse(q), None).total
    # To the language true is 1, too, and text that reads like a number is found by either.
    one = ("hparams.lr = 1", 'hparams.lr = "1"')
    clear = [at for at, text in enumerate(found.select) if not text.endswith(one)]
    assert [totals[at] for at in clear] == [found.count[at] for at in clear]
    assert found.count == sorted(found.count, reverse=True)


def test_groups_come_in_the_order_that_is_asked_for(sweep: Database) -> None:
    assert groups(sweep, "lr", "metrics.loss", sort="-metrics.loss").keys["lr"][0] is None
    assert groups(sweep, "experiment", sort="-experiment").keys == {"experiment": ["e2", "e1"]}
    assert groups(sweep, "experiment", sort="-count").count == [4, 3]
    second = groups(sweep, "lr", sort="lr", limit=1, offset=1)
    assert (second.total, second.keys["lr"]) == (5, [1])


def test_a_group_of_nothing_is_no_group(sweep: Database) -> None:
    assert groups(sweep, "lr", q="where lr = 77").total == 0
    assert groups(sweep, "lr", visible=frozenset()).total == 0
    assert groups(sweep, "lr", search="e2", sort="lr").keys["lr"] == ["1", True, None]
    assert groups(sweep, "lr", archived=True, sort="-count").count[0] == 3


@pytest.mark.parametrize(
    ("by", "columns", "sort"),
    [("", "", ""), ("tag", "", ""), ("created", "", ""), ("lr", "name", ""), ("lr", "", "seed")],
)
def test_what_cannot_be_grouped_is_refused(
    sweep: Database, by: str, columns: str, sort: str
) -> None:
    with pytest.raises(BadRequest):
        groups(sweep, by, columns, sort=sort)


def test_many_are_changed_at_once(sweep: Database) -> None:
    with sweep.begin() as c:
        change_runs(c, [1, 2, 3], RunsChange(add_tags=["a", "b", "a"], note="n"))
        change_runs(c, [2, 3], RunsChange(add_tags=["a"], remove_tags=["b"], archived=True))
    with sweep.read() as c:
        found = {run.id: run for run in list_runs(c, parse(""), None, archived=True).runs}
    assert [found[number].tags for number in (1, 2, 4)] == [["a", "b"], ["a"], []]
    assert [found[number].archived for number in (1, 2, 3, 4)] == [False, True, True, False]
    assert [found[number].note for number in (1, 4)] == ["n", ""]
