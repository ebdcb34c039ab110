"""Migrations make exactly the tables, on both databases, and only once."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, insert, select, text

from support.postgresql import PostgreSQL
from tbhub.api.problems import Unavailable
from tbhub.catalog.run_records import create_run
from tbhub.catalog.runs import load_runs
from tbhub.database.engine import HEAD, Database, open_database
from tbhub.database.migrations import config
from tbhub.database.tables import logdirs, metadata, runs, workspaces

_EXPERIMENT = {
    "id": 1,
    "workspace_id": 1,
    "name": "e",
    "note": "",
    "archived": False,
    "created": 1.0,
}
_AT = {"last_step": 2, "last_time": 2.0}
_RUN = {
    "id": 7,
    "name": "run7",
    "path": "a",
    "location": "/runs/a",
    "experiment_id": 1,
    "workspace_id": 1,
    "logdir_id": 1,
    "status": "finished",
    "created": 1.0,
    "note": "kept",
    "archived": False,
    "seen": "1:x",
}


def sqlite_schema(database: Database) -> set[tuple[str, ...]]:
    """Every table and index by the parts of its SQL; columns and constraints in any order."""
    with database.read() as connection:
        rows = connection.execute(
            text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND tbl_name != :version"),
            {"version": "alembic_version"},
        )
        return {
            tuple(sorted(part.strip() for part in re.split("[,\n]", row.sql) if part.strip()))
            for row in rows
        }


def test_migrations_make_the_tables_of_sqlite(tmp_path: Path) -> None:
    migrated = open_database(f"sqlite:///{tmp_path / 'migrated.db'}")
    migrated.upgrade()
    made = open_database(f"sqlite:///{tmp_path / 'made.db'}")
    with made.begin() as connection:
        metadata.create_all(connection)
    assert sqlite_schema(migrated) == sqlite_schema(made)
    migrated.close()
    made.close()


@pytest.mark.postgresql
def test_migrations_make_the_tables_of_postgresql(postgresql: PostgreSQL) -> None:
    migrated, made = postgresql.create(), postgresql.create(empty=True)
    database = open_database(made)
    with database.begin() as connection:
        metadata.create_all(connection)
    database.close()
    version = "public.alembic_version"
    dumps = []
    for url in (migrated, made):
        # One statement at a time; pg_dump orders them by name.
        statements = re.split(r";\n", re.sub(r"^(--|\\).*\n", "", postgresql.dump(url), flags=re.M))
        dumps.append([each.strip() for each in statements if version not in each])
        postgresql.drop(url)
    assert dumps[0] == dumps[1]
    assert any("CREATE TABLE public.runs" in each for each in dumps[0])


def test_the_engine_knows_the_newest_revision() -> None:
    assert ScriptDirectory.from_config(config()).get_current_head() == HEAD


def test_upgrading_twice_changes_nothing(empty_url: str) -> None:
    database = open_database(empty_url)
    database.upgrade()
    with database.begin() as connection:
        connection.execute(insert(workspaces), {"name": "kept", "created": 0.0})
    database.upgrade()
    with database.read() as connection:
        assert connection.scalars(select(workspaces.c.name)).all() == ["kept"]
    database.close()


def test_what_an_older_database_holds_is_kept(empty_url: str) -> None:
    """As the first revision made it: with runs, and all that refers to them."""
    database = open_database(empty_url)
    older = config()
    with database.begin() as connection:
        older.attributes["connection"] = connection
        command.upgrade(older, "0001")
        tables = MetaData()
        tables.reflect(connection)
        for table, row in (
            ("workspaces", {"id": 1, "name": "default", "note": "", "created": 1.0}),
            ("experiments", _EXPERIMENT),
            ("logdirs", {"id": 1, "workspace_id": 1, "path": "/runs", "created": 1.0}),
            ("runs", _RUN),
            ("run_tags", {"run_id": 7, "tag": "best"}),
            ("metrics", {"run_id": 7, "tag": "loss", "count": 3, "last": 0.5, **_AT}),
            ("hparams", {"run_id": 7, "name": "lr", "number": 0.1, "text": "0.1", "kind": "float"}),
        ):
            connection.execute(insert(tables.tables[table]), row)
    database.upgrade()
    with database.read() as connection:
        (run,) = load_runs(connection, [7])
        experiment = connection.scalars(select(logdirs.c.experiment)).all()
        attempt = connection.scalars(select(runs.c.attempt)).all()
    assert (run.name, run.note, run.tags, run.hparams) == ("a", "kept", ["best"], {"lr": 0.1})
    assert run.metrics["loss"].last == 0.5
    assert (experiment, attempt) == ([None], [0])
    with database.begin() as connection:
        made = create_run(connection, 1, "e", "/elsewhere")
        assert made.experiment == "e"
    database.close()


def _insert_watched_directory(connection: Connection) -> MetaData:
    """Insert a workspace with an experiment and a log directory. Return the tables there are."""
    tables = MetaData()
    tables.reflect(connection)
    home = {"id": 1, "name": "default", "note": "", "created": 1.0}
    connection.execute(insert(tables.tables["workspaces"]), home)
    connection.execute(insert(tables.tables["experiments"]), _EXPERIMENT)
    logdir = {"id": 1, "workspace_id": 1, "path": "/runs", "created": 1.0}
    connection.execute(insert(tables.tables["logdirs"]), logdir)
    return tables


def test_found_runs_get_the_names_of_their_directories(empty_url: str) -> None:
    """Numbers and names that people gave stay; a directory run6 is not the run of number 6."""
    database = open_database(empty_url)
    older = config()
    kept = {"experiment_id": 1, "workspace_id": 1, "note": "", "archived": False, "seen": ""}
    found = {"path": "", "logdir_id": 1, "status": "finished", "created": 90.0, "started": 5.0}
    made = {"path": "", "logdir_id": None, "status": "lost", "created": 90.0, "started": 5.0}
    rows = [
        {**kept, **found, "id": 1, "name": "run1", "location": "/runs/exp8/run82"},
        {**kept, **found, "id": 2, "name": "run2", "location": "/runs/exp2/run82"},
        {**kept, **found, "id": 3, "name": "run3", "location": "/runs/exp1/run6"},
        {**kept, **found, "id": 4, "name": "best", "location": "/runs/exp1/x"},
        {**kept, **found, "id": 5, "name": "run5", "location": "/runs/best"},
        {**kept, **found, "id": 6, "name": "run6", "location": "/runs/exp1/a/train"},
        {**kept, **made, "id": 7, "name": "run7", "location": "/kept/7"},
    ]
    with database.begin() as connection:
        older.attributes["connection"] = connection
        command.upgrade(older, "0005")
        tables = _insert_watched_directory(connection)
        for row in rows:
            given = {"attempt": 1, "heartbeat": 80.0} if row["id"] == 7 else {}
            connection.execute(insert(tables.tables["runs"]), {**row, **given})
        for number, name in enumerate(("sweep", "sweep", "", ""), 1):
            job = {"id": number, "workspace_id": 1, "name": name, "created": 1.0}
            connection.execute(insert(tables.tables["jobs"]), job)
        connection.execute(text("UPDATE runs SET job_id = 1 WHERE id = 7"))
    database.upgrade()
    with database.read() as connection:
        runs_now = load_runs(connection, list(range(1, 8)))
        moment = [run.created.timestamp() for run in runs_now]
    assert [run.name for run in runs_now] == [
        *("exp8/run82", "exp2/run82", "run6", "best", "runs/best", "a/train", "run7")
    ]
    assert moment == [5.0] * 6 + [90.0]
    assert (runs_now[6].job, runs_now[6].job_name) == (2, "sweep")
    database.close()


def _insert_boards(connection: Connection, boards: Sequence[tuple[str, bool, list[int]]]) -> None:
    """Insert boards 1, 2, ... with their selectors, whether they follow, and the runs they show."""
    tables = MetaData()
    tables.reflect(connection)
    user = {"id": 1, "name": "ada", "role": "admin", "disabled": False, "created": 1.0}
    connection.execute(insert(tables.tables["users"]), user)
    for number, (selector, follow, shown) in enumerate(boards, 1):
        kept = {"id": str(number), "short": str(number), "name": "b", "owner_id": 1}
        asked = {"asked": {}, "shown": {"experiments": [], "trials": [], "workspaces": [1]}}
        told = {"sources": [], "options": {}, "asked": asked, "sources_key": "old"}
        life = {"state": "STOPPED", "message": "", "generation": 1, "created": 1.0, "active": 1.0}
        counts = {"requests": 0, "bytes": 0, "selector": selector, "follow": follow}
        board = {**kept, **told, **life, **counts}
        connection.execute(insert(tables.tables["boards"]), board)
        for run in shown:
            row = {"board_id": str(number), "run_id": run}
            connection.execute(insert(tables.tables["board_runs"]), row)


def _insert_found_runs(connection: Connection, directories: Mapping[int, str]) -> None:
    """Insert runs as revision 0005 knew them, each called by its number."""
    tables = _insert_watched_directory(connection)
    for number, directory in directories.items():
        row = {**_RUN, "id": number, "name": f"run{number}", "location": f"/runs/{directory}"}
        connection.execute(insert(tables.tables["runs"]), row)


# What runs 1 to 7 are called now. Number 5 was deleted, and number 7 was given the name "run9".
_DIRECTORIES = {1: "a", 2: "b", 3: "run6", 4: "run5", 6: "run1", 7: "c", 9: "d"}
_SOURCES = [
    # made before runs were called by their directories
    ("run6", False, [6], "trial:6"),
    ("run1, exp:e", False, [1, 2, 3], "trial:1, exp:e"),
    ("run3, run6", False, [3, 6], "trial:3, trial:6"),
    ("run5, run6", False, [6], "trial:5, trial:6"),
    ("default/run6", False, [6], "default/trial:6"),
    ("run1-run3", False, [1, 2, 3], "trial:1, trial:2, trial:3"),
    ("run1-run3", True, [1, 2, 3], "trial:1, trial:2, trial:3"),
    ('run?, "run6"', False, [1, 6], 'trial:1, trial:6, "run6"'),
    ("run*", True, [1, 2, 3, 4, 6], "all"),
    ("run6, run9", False, [6, 7], "trial:6, run9"),
    ("run6 run1", False, [1, 6], "trial:6 trial:1"),
    ("all where name = run2", False, [2], "all where id = 2"),
    ('all where name in (run2, run6) and note != "name = run2"', False, [2, 6], None),
    ("run6 where hparams.lr > 0.1 limit 3", False, [6], "trial:6 where hparams.lr > 0.1 limit 3"),
    # made since
    ("run6", False, [3], "run6"),
    ("run1, run6", False, [6, 3], "run1, run6"),
    ("run1-run6", False, [3, 4, 6], "run1-run6"),
    ("run9", False, [7], "run9"),
    ("exp:e", False, [1, 2], "exp:e"),
]


@pytest.mark.parametrize("made_at", ["0005", "0009"])
def test_sources_of_boards_name_the_same_runs_as_before(empty_url: str, made_at: str) -> None:
    database = open_database(empty_url)
    older = config()
    with database.begin() as connection:
        older.attributes["connection"] = connection
        command.upgrade(older, "0005")
        _insert_found_runs(connection, _DIRECTORIES)
        connection.execute(text("UPDATE runs SET name = 'number9' WHERE id = 9"))
        connection.execute(text("UPDATE runs SET name = 'run9' WHERE id = 7"))
        command.upgrade(older, made_at)
        _insert_boards(connection, [each[:3] for each in _SOURCES])
    database.upgrade()
    with database.read() as connection:
        rows = connection.execute(text("SELECT id, selector, sources_key FROM boards"))
        found = sorted(rows, key=lambda row: int(row.id))
    both = 'all where id in (2, 6) and note != "name = run2"'
    assert [row.selector for row in found] == [each[3] or both for each in _SOURCES]
    changed = [row.sources_key != "old" for row in found]
    assert changed == [each[0] != each[3] for each in _SOURCES]
    database.close()


def test_several_upgrade_at_once(empty_url: str) -> None:
    program = (
        "import sys; from tbhub.database.engine import open_database;"
        " open_database(sys.argv[1]).upgrade()"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, empty_url], stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    assert [process.communicate()[1] for process in processes] == [b"", b"", b""]
    database = open_database(empty_url)
    with database.begin() as connection:
        connection.execute(insert(workspaces), {"name": "kept", "created": 0.0})
    database.close()


def test_several_threads_upgrade_at_once(empty_url: str) -> None:
    problems: list[BaseException] = []

    def upgrade() -> None:
        database = open_database(empty_url)
        try:
            database.upgrade()
        except BaseException as error:
            problems.append(error)
        finally:
            database.close()

    threads = [threading.Thread(target=upgrade) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_newer_database_is_refused(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Unavailable, match="made by a newer tbhub"):
        database.upgrade()
