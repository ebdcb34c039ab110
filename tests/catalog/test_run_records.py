"""Runs that are created by who starts them."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import insert

from support.catalog import Watch, add_user, log
from tbhub.api.problems import Conflict, NotFound
from tbhub.catalog.hparam_values import from_file, hparam_row, hparam_value
from tbhub.catalog.run_records import create_run
from tbhub.catalog.workspaces import ensure_defaults, workspace_id_of
from tbhub.database.engine import Database
from tbhub.database.tables import jobs


@pytest.fixture
def place(database: Database) -> int:
    """The number of the default workspace."""
    with database.begin() as connection:
        ensure_defaults(connection)
        return workspace_id_of(connection, "default", None)


def test_a_run_has_what_it_was_given(database: Database, place: int) -> None:
    anna = add_user(database, "anna")
    with database.begin() as connection:
        row = {"workspace_id": place, "name": "sweep", "created": 0.0}
        job = connection.execute(insert(jobs).values(row).returning(jobs.c.id)).scalar_one()
        run = create_run(
            connection,
            place,
            "mnist",
            "s3://bucket/a",
            "best",
            hparams={"lr": 0.1, "n": 3, "deep": True, "opt": "sgd", "none": None},
            tags=["x", "y"],
            job=job,
            owner_id=anna,
            machine="node7",
            command="python train.py",
            note="try",
        )
    assert (run.name, run.experiment, run.workspace) == ("best", "mnist", "default")
    assert (run.location, run.path, run.status) == ("s3://bucket/a", "s3://bucket/a", "running")
    assert run.hparams == {"lr": 0.1, "n": 3, "deep": True, "opt": "sgd"}
    assert (run.tags, run.job, run.owner) == (["x", "y"], job, "anna")
    assert (run.machine, run.command, run.note) == ("node7", "python train.py", "try")


def test_names_and_places_are_given_once(database: Database, place: int) -> None:
    with database.begin() as connection:
        first = create_run(connection, place, "e", "/a")
        second = create_run(connection, place, "e", "/b", f"run{first.id + 2}")
        third = create_run(connection, place, "e", "/c")
    assert first.name == f"run{first.id}"
    assert third.id == second.id + 2  # the name of the number between is taken
    assert third.experiment_id == first.experiment_id
    with database.begin() as connection, pytest.raises(Conflict, match=f"run {first.id} logs"):
        create_run(connection, place, "e", "/a")
    with database.begin() as connection, pytest.raises(Conflict, match=f"taken by run #{first.id}"):
        create_run(connection, place, "e", "/d", first.name)


def test_workspaces_and_jobs_that_are_not_there(database: Database, place: int) -> None:
    with database.begin() as connection, pytest.raises(NotFound, match="no such workspace"):
        create_run(connection, place + 99, "e", "/a")
    with database.begin() as connection, pytest.raises(NotFound, match="no such job"):
        create_run(connection, place, "e", "/a", job=99)


def test_a_run_that_was_found_first_becomes_the_created_one(
    database: Database, tmp_path: Path, watch: Watch
) -> None:
    log(tmp_path / "runs/a", 1.0)
    watched = watch(tmp_path / "runs")
    found = watched.index()["a"]
    with database.begin() as connection:
        place = workspace_id_of(connection, "default", None)
        made = create_run(connection, place, "mine", str(tmp_path / "runs/a"), "best")
    assert (made.id, made.name, made.experiment) == (found.id, "best", "mine")
    assert (made.path, made.metrics) == ("a", found.metrics)


@pytest.mark.parametrize(
    "value", [True, False, 0, 3, -(10**400), 0.5, 1.0, 1e-30, float("inf"), "", "text", "true", "3"]
)
def test_values_come_back_as_they_were(value: bool | int | float | str) -> None:
    row = hparam_row(1, "x", value)
    back = hparam_value(row["kind"], row["number"], row["text"])
    assert (back, type(back)) == (value, type(value))


def test_whole_numbers_of_files_are_integers() -> None:
    assert [from_file(each) for each in (32.0, -1.0, 0.5, 1e300, True, "32.0")] == [
        32,
        -1,
        0.5,
        1e300,
        True,
        "32.0",
    ]
    assert type(from_file(32.0)) is int
    assert type(from_file(1e300)) is float
