"""Rows by the thousand, on both databases."""

from __future__ import annotations

from sqlalchemy import insert, select

from tbhub.database.engine import Database
from tbhub.database.rows import among, insert_new, put
from tbhub.database.tables import experiments, hparams, runs, workspaces


def make_run(database: Database) -> int:
    with database.begin() as connection:
        insert_new(connection, workspaces, [{"name": "w", "created": 0.0}])
        place = connection.scalar(select(workspaces.c.id))
        experiment = {"workspace_id": place, "name": "e", "created": 0.0}
        insert_new(connection, experiments, [experiment])
        number = connection.scalar(select(experiments.c.id))
        row = {"workspace_id": place, "experiment_id": number, "name": "run1", "location": "/a"}
        made = insert(runs).values({**row, "status": "unknown", "created": 0.0})
        return connection.execute(made.returning(runs.c.id)).scalar_one()


def test_what_is_there_is_left_alone_and_defaults_are_given(database: Database) -> None:
    rows = [{"name": f"w{number}", "created": float(number)} for number in range(3000)]
    with database.begin() as connection:
        insert_new(connection, workspaces, rows[:2000])
        insert_new(connection, workspaces, [{**row, "created": -1.0} for row in rows])
        insert_new(connection, workspaces, [])
        found = connection.execute(
            select(workspaces.c.created, workspaces.c.note).order_by(workspaces.c.created)
        ).all()
    assert len(found) == 3000
    assert [row.created for row in found[1000:]] == [float(number) for number in range(2000)]
    assert {row.note for row in found} == {""}


def test_putting_replaces(database: Database) -> None:
    run = make_run(database)
    row = {"run_id": run, "name": "lr", "number": 0.5, "text": "0.5", "kind": "float"}
    with database.begin() as connection:
        put(connection, hparams, [row, {**row, "name": "seed"}])
        put(connection, hparams, [{**row, "number": None, "text": "x"}])
        put(connection, hparams, [])
        found = connection.execute(select(hparams.c.name, hparams.c.number, hparams.c.text)).all()
    assert sorted(map(tuple, found)) == [("lr", None, "x"), ("seed", 0.5, "0.5")]


def test_one_of_any_number(database: Database) -> None:
    names = [f"w'\"ö{number}" for number in range(70_000)]
    with database.begin() as connection:
        insert_new(connection, workspaces, [{"name": names[7], "created": 0.0}])
        insert_new(connection, workspaces, [{"name": "other", "created": 0.0}])
        chosen = select(workspaces.c.name).where(among(connection, workspaces.c.name, names))
        assert connection.scalars(chosen).all() == [names[7]]
        numbers = select(workspaces.c.id).where(
            among(connection, workspaces.c.id, list(range(100_000)))
        )
        assert len(connection.scalars(numbers).all()) == 2
        none = select(workspaces.c.id).where(among(connection, workspaces.c.id, []))
        assert connection.scalars(none).all() == []
