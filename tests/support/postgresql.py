"""A real PostgreSQL server: one for each process of tests, and only if one of them asks for it."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tbhub.database.engine import open_database

_PATIENCE = 60


class PostgreSQL:
    """A server on a socket in a directory of its own; no port is taken."""

    def __init__(self) -> None:
        programs = _programs()
        self.directory = Path(tempfile.mkdtemp(prefix="tbhub-pg-"))
        user = _user()
        if user is not None:
            os.chown(self.directory, user.pw_uid, user.pw_gid)
        self._data = self.directory / "data"
        _as(
            user,
            [programs / "initdb", "-D", self._data, "-A", "trust", "-U", "hub", "--no-sync"],
        )
        self._log = (self.directory / "log").open("w+")
        # The server ends with the tests even if they are killed.
        self.process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "QUIT"),
                *_switch(user),
                *(programs / "postgres", "-D", self._data, "-k", self.directory),
                *("-c", "listen_addresses="),
                *("-c", "fsync=off"),
                *("-c", "max_connections=200"),
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            cwd=self.directory,
        )
        self._numbers = itertools.count(1)
        self._wait()
        self._run("CREATE DATABASE template")
        template = open_database(self.url("template"))
        template.upgrade()
        template.close()
        # Who is connected to it, be it the server's own housekeeping, keeps it from being copied.
        self._run("ALTER DATABASE template WITH ALLOW_CONNECTIONS false")

    def url(self, name: str) -> str:
        return f"postgresql://hub@/{name}?host={self.directory}"

    def create(self, *, empty: bool = False) -> str:
        """A new database with the hub's tables, or without; its URL."""
        name = f"test{next(self._numbers)}"
        self._run(f"CREATE DATABASE {name} TEMPLATE {'template1' if empty else 'template'}")
        return self.url(name)

    def drop(self, url: str) -> None:
        name = url.partition("@/")[2].partition("?")[0]
        self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def dump(self, url: str) -> str:
        """The tables of a database as SQL."""
        return subprocess.run(
            [_programs() / "pg_dump", "--schema-only", "--no-comments", f"--dbname={url}"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self._run("SELECT 1")
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self._log.seek(0)
                    pytest.fail(f"PostgreSQL did not start: {self._log.read()}")
                time.sleep(0.02)


def _programs() -> Path:
    """Debian keeps each version's programs in a directory of its own; the newest is taken."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name)
    )
    if found:
        return found[-1]
    program = shutil.which("postgres")
    if program is None:
        pytest.fail("PostgreSQL is not installed: apt-get install postgresql")
    return Path(program).parent


def _user() -> pwd.struct_passwd | None:
    """Who the server runs as where the tests are root's, which it refuses to be."""
    return pwd.getpwnam("postgres") if os.getuid() == 0 else None


def _switch(user: pwd.struct_passwd | None) -> list[str]:
    if user is None:
        return []
    return ["--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups", "--"]


def _as(user: pwd.struct_passwd | None, command: list[str | Path]) -> None:
    subprocess.run(
        ["setpriv", *_switch(user), *command] if user else command,
        check=True,
        capture_output=True,
        cwd="/",
    )


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """The server."""
    server = PostgreSQL()
    yield server
    server.close()
