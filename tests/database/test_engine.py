"""Snapshots, transactions, and what is said when the database cannot be used."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from support.postgresql import PostgreSQL
from tbhub.api.problems import BadRequest, Unavailable
from tbhub.database import engine
from tbhub.database.engine import Database, open_database
from tbhub.database.tables import members, workspaces


def add(database: Database, *names: str) -> None:
    with database.begin() as connection:
        connection.execute(insert(workspaces), [{"name": name, "created": 0.0} for name in names])


def names(database: Database) -> list[str]:
    with database.read() as connection:
        return list(connection.scalars(select(workspaces.c.name).order_by(workspaces.c.id)))


def test_a_transaction_is_kept_whole_or_not_at_all(database: Database) -> None:
    add(database, "kept")
    with contextlib.suppress(ZeroDivisionError), database.begin() as connection:
        connection.execute(insert(workspaces), {"name": "undone", "created": 0.0})
        raise ZeroDivisionError
    with pytest.raises(IntegrityError):
        add(database, "also undone", "kept")
    assert names(database) == ["kept"]


def test_a_reader_sees_one_moment(database: Database) -> None:
    count = select(func.count()).select_from(workspaces)
    with database.read() as connection:
        assert connection.scalar(count) == 0
        add(database, "meanwhile")
        assert connection.scalar(count) == 0
    assert names(database) == ["meanwhile"]


def test_a_reader_cannot_write(database: Database) -> None:
    with pytest.raises((DBAPIError, Unavailable)), database.read() as connection:
        connection.execute(insert(workspaces), {"name": "no", "created": 0.0})
    add(database, "yes")
    assert names(database) == ["yes"]


def test_foreign_keys_are_held(database: Database) -> None:
    with pytest.raises(IntegrityError), database.begin() as connection:
        connection.execute(insert(members), {"workspace_id": 404, "user_id": 404, "role": "admin"})


def test_many_threads_write_at_once(database: Database) -> None:
    def write(number: int) -> None:
        for each in range(10):
            add(database, f"{number}-{each}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names(database)) == 80


def test_many_processes_write_at_once(database: Database, database_url: str) -> None:
    program = """
import sys
from sqlalchemy import insert
from tbhub.database.engine import open_database
from tbhub.database.tables import workspaces
database = open_database(sys.argv[1])
for number in range(20):
    with database.begin() as connection:
        connection.execute(insert(workspaces), {"name": f"{sys.argv[2]}-{number}", "created": 0})
"""
    started = [
        subprocess.Popen([sys.executable, "-c", program, database_url, str(number)])
        for number in range(3)
    ]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert len(names(database)) == 60


def test_a_mistake_of_ours_is_not_explained_away(database: Database) -> None:
    with pytest.raises(DBAPIError) as raised, database.read() as connection:
        connection.exec_driver_sql("SELECT no_such_column FROM workspaces")
    assert "no_such_column" in str(raised.value)


def test_tables_that_are_not_there(empty_url: str) -> None:
    database = open_database(empty_url)
    with pytest.raises(Unavailable, match="lacks tables"):
        names(database)
    database.close()


@pytest.mark.parametrize(
    "url", ["", "hub.db", "mysql://server/x", "sqlite://", "sqlite:///:memory:", "postgresql:/x y"]
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(BadRequest, match=r"sqlite:////path/to/hub.db"):
        open_database(url)


def test_a_password_is_not_told(tmp_path: Path) -> None:
    database = open_database(f"postgres://hub:geheim@/x?host={tmp_path}")
    assert "geheim" in database.url
    assert "geheim" not in database.name
    with pytest.raises(Unavailable, match="Is the server running") as raised:
        names(database)
    assert "geheim" not in str(raised.value)


class TestSQLite:
    """Faults of a file."""

    def test_locked(
        self, tmp_path: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engine, "PATIENCE", 0.05)
        database = _copy(sqlite_template, tmp_path)
        other = sqlite3.connect(tmp_path / "hub.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="is locked by another program"):
            add(database, "x")
        assert names(database) == []  # reading goes on
        other.execute("ROLLBACK")
        other.close()
        add(database, "x")
        assert names(database) == ["x"]
        database.close()

    def test_a_directory_that_is_gone(self, tmp_path: Path) -> None:
        with pytest.raises(Unavailable, match="cannot be opened"):
            open_database(f"sqlite:///{tmp_path / 'gone' / 'hub.db'}").upgrade()

    def test_another_file(self, tmp_path: Path) -> None:
        (tmp_path / "hub.db").write_text("this is a diary, and a long one" * 100)
        with pytest.raises(Unavailable, match="is not an SQLite database"):
            open_database(f"sqlite:///{tmp_path / 'hub.db'}").upgrade()

    @pytest.mark.root
    def test_a_full_disk(self, tmp_path: Path) -> None:
        disk = tmp_path / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tbhub-test", str(disk)]
        done = subprocess.run(mount, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"cannot mount a file system here: {done.stderr.strip()}")
        database = open_database(f"sqlite:///{disk / 'hub.db'}")
        try:
            database.upgrade()
            add(database, "kept")
            with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
                while True:
                    filler.write(b"x" * 4096)
            with pytest.raises(Unavailable, match="disk"):
                add(database, *(f"{number}" + "x" * 190 for number in range(1000)))
            os.unlink(disk / "filler")
            add(database, "again")
            assert {"kept", "again"} <= set(names(database))
        finally:
            database.close()
            subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.postgresql
def test_connections_that_broke_are_made_anew(postgresql: PostgreSQL) -> None:
    url = postgresql.create()
    database = open_database(url)
    add(database, "before")
    with pytest.raises(Unavailable, match="Try again"), database.begin() as connection:
        connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
    add(database, "after")
    assert names(database) == ["before", "after"]
    database.close()
    postgresql.drop(url)


@pytest.mark.postgresql
def test_a_database_the_server_does_not_have(postgresql: PostgreSQL) -> None:
    database = open_database(postgresql.url("nowhere"))
    with pytest.raises(Unavailable, match="nowhere"):
        names(database)


def _copy(template: Path, directory: Path) -> Database:
    (directory / "hub.db").write_bytes(template.read_bytes())
    return open_database(f"sqlite:///{directory / 'hub.db'}")
