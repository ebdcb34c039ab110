"""The hub's database: SQLite in a file, or PostgreSQL by URL; the same promises on both.

A block of `Database.read` sees one moment of the database, whatever others write meanwhile. A block
of `Database.begin` is one transaction: all of it is kept, or nothing. On SQLite it has the right to
write from its first line on, so that what it has read is still so when it writes; on PostgreSQL
rows that were read may change under it, and unique constraints decide.

What a person can do something about (locked, gone, full, no rights) is raised as
`tbhub.api.problems.Unavailable`, with what to do. Anything else is a mistake of ours and goes
through as it is.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tbhub.api.problems import BadRequest, Unavailable

# Seconds a transaction waits for another one, or for a server.
PATIENCE = 10
HEAD = "0010"  # the newest revision in migrations/
_MAPPED = 256 << 20  # bytes of SQLite's file that are read in place
_STATEMENT_PATIENCE = 60
NO_DRIVER = "PostgreSQL needs a driver that is not installed: pip install 'tbhub[postgresql]'."

_SQLITE_ADVICE = {
    sqlite3.SQLITE_BUSY: (
        f"is locked by another program for more than {PATIENCE} s. Try again; if it stays so,"
        " look for a program that holds the file open"
    ),
    sqlite3.SQLITE_LOCKED: "is locked. Try again",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full. Make room on it",
    sqlite3.SQLITE_IOERR: "cannot be read or written. Look at the disk it is on",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened. Is its directory there, and may it be written to?",
    sqlite3.SQLITE_READONLY: "cannot be written to. Look at its rights and those of its directory",
    sqlite3.SQLITE_PERM: "may not be opened. Look at its rights",
    sqlite3.SQLITE_CORRUPT: "is damaged. Put a copy in its place",
    sqlite3.SQLITE_NOTADB: "is not an SQLite database. Name another file",
}

# By SQLSTATE, or its first two letters.
_POSTGRESQL_ADVICE = {
    "08": "does not answer. Is the server running?",
    "28": "refuses the user or the password. Look at the URL",
    "3D000": "does not exist. Create it on the server",
    "40": "was busy with a change that contradicts this one. Try again",
    "42P01": "lacks tables. Was it made by another program?",
    "53100": "cannot grow: the server's disk is full. Make room on it",
    "53": "has no room for this now. Try again, or give the server more connections",
    "55P03": f"is locked by another program for more than {PATIENCE} s. Try again",
    "57014": f"did not answer within {_STATEMENT_PATIENCE} s. Try again",
    "57": "is shutting down or starting up. Try again",
}


class Database:
    """One database, for any number of threads.

    Attributes:
        url: Where it is; may hold a password.
        dialect: ``sqlite`` or ``postgresql``.
        name: The URL without its password, for people.
    """

    def __init__(self, url: URL) -> None:
        self.url = url.render_as_string(hide_password=False)
        self.name = url.render_as_string(hide_password=True)
        self.dialect = url.get_backend_name()
        self._engine = _sqlite(url) if self.dialect == "sqlite" else _postgresql(url)
        # SQLite lets one write at a time and has the others poll, the unlucky ones for long. Within
        # this process they queue here.
        self._writer = threading.Lock() if self.dialect == "sqlite" else None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that sees the database as it is now, and cannot change it."""
        with self._explained(), self._engine.connect() as connection:
            yield connection.execution_options(**_READ[self.dialect])

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction: kept if the block ends, undone if it raises."""
        with self._explained(), self._turn(), self._engine.begin() as connection:
            yield connection

    def upgrade(self) -> None:
        """Brings the tables up to date; of two who do it at once, one does and one waits."""
        if self._is_up_to_date():
            return
        from tbhub.database.migrations import upgrade  # takes a while to import

        with self.begin() as connection:
            if self.dialect == "postgresql":
                connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('tbhub'))")
            upgrade(connection, self.name)

    def _is_up_to_date(self) -> bool:
        with self.read() as connection:
            if not inspect(connection).has_table("alembic_version"):
                return False
            found = connection.exec_driver_sql("SELECT version_num FROM alembic_version")
            return found.scalars().all() == [HEAD]

    def close(self) -> None:
        """Closes every connection that is not in use."""
        self._engine.dispose()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._writer is None:
            yield
            return
        if not self._writer.acquire(timeout=PATIENCE):
            raise Unavailable(
                f"The database {self.name} has been written to for more than {PATIENCE} s."
                " Try again; the disk may be slow."
            )
        try:
            yield
        finally:
            self._writer.release()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except PoolTimeout as error:
            raise Unavailable(
                f"The database {self.name} is busy: every connection is in use. Try again."
            ) from error
        except (DBAPIError, sqlite3.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            advice = _advice(cause)
            if advice is None:
                raise
            reason = str(cause).strip().splitlines()
            raise Unavailable(
                f"The database {self.name} {advice} ({reason[0] if reason else 'no reason given'})."
            ) from error


def open_database(url: str) -> Database:
    """A database by URL: ``sqlite:////absolute/path`` or ``postgresql://user@server/name``.

    Nothing is opened before the first use, and no table is made before `Database.upgrade`.
    """
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, ValueError):
        parsed, backend = None, ""
    if parsed is not None and backend == "postgres":
        parsed, backend = parsed.set(drivername="postgresql"), "postgresql"
    if parsed is None or backend not in ("sqlite", "postgresql"):
        raise BadRequest(
            "This is no URL of a database we know. Write sqlite:////path/to/hub.db or"
            " postgresql://user:password@server/name."
        )
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise BadRequest("The URL of an SQLite database names a file: sqlite:////path/to/hub.db.")
    return Database(parsed)


_READ: dict[str, dict[str, Any]] = {
    "sqlite": {"tbhub_read": True},
    "postgresql": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
}


def _sqlite(url: URL) -> Engine:
    engine = create_engine(
        url.set(drivername="sqlite+pysqlite"),
        connect_args={"timeout": PATIENCE, "check_same_thread": False},
        pool_size=8,
        max_overflow=56,
        pool_timeout=PATIENCE,
    )

    @event.listens_for(engine, "do_connect")
    def connecting(*_: object) -> None:
        # Made by SQLite it could be read by everybody; its journals have the rights that it has.
        with suppress(OSError):
            path = url.database or ""
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    @event.listens_for(engine, "connect")
    def connected(connection: sqlite3.Connection, _: object) -> None:
        # Transactions are begun by us, below, and not by the driver when it sees fit.
        connection.isolation_level = None
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA cache_size = -16000")
        connection.execute(f"PRAGMA mmap_size = {_MAPPED}")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        if connection.get_execution_options().get("tbhub_read"):
            connection.exec_driver_sql("PRAGMA query_only = ON")
            connection.exec_driver_sql("BEGIN")
        else:
            connection.exec_driver_sql("PRAGMA query_only = OFF")
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _use_wal(connection: sqlite3.Connection) -> None:
    """Readers and a writer at once; kept in the file. SQLite does not wait for its turn here."""
    deadline = time.monotonic() + PATIENCE
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _postgresql(url: URL) -> Engine:
    try:
        return create_engine(
            url.set(drivername="postgresql+psycopg"),
            connect_args={
                # A plan made when a table was small would be kept when it is large.
                "prepare_threshold": None,
                "connect_timeout": PATIENCE,
                "keepalives_idle": 30,
                "tcp_user_timeout": 30_000,
                "application_name": "tbhub",
                "options": f"-c lock_timeout={PATIENCE}s"
                f" -c statement_timeout={_STATEMENT_PATIENCE}s",
            }
            | ({"options": url.query["options"]} if "options" in url.query else {}),
            pool_size=8,
            max_overflow=24,
            pool_timeout=PATIENCE,
            pool_pre_ping=True,
        )
    except ModuleNotFoundError as error:
        raise Unavailable(NO_DRIVER) from error


def _advice(error: BaseException | None) -> str | None:
    """What to tell of an error of the driver's; none if it is a mistake of ours."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        if "no such table" in str(error):
            return _POSTGRESQL_ADVICE["42P01"]
        return _SQLITE_ADVICE.get(code & 0xFF)
    state = getattr(error, "sqlstate", None)
    if state is None:
        # PostgreSQL's driver itself: it could not connect, or the connection broke.
        return _POSTGRESQL_ADVICE["08"] if type(error).__name__ == "OperationalError" else None
    return _POSTGRESQL_ADVICE.get(state) or _POSTGRESQL_ADVICE.get(state[:2])
