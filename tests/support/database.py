"""Databases for tests: every test that asks for one runs on SQLite and on PostgreSQL.

A conftest imports the fixtures it wants: ``from support.database import *`` takes all.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.postgresql import PostgreSQL, postgresql
from tbhub.database.engine import Database, open_database

__all__ = ["database", "database_url", "empty_url", "postgresql", "sqlite_template"]

_BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the hub's tables, to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    made = open_database(f"sqlite:///{path}")
    made.upgrade()
    made.close()
    return path


@pytest.fixture(params=_BOTH)
def database_url(
    request: pytest.FixtureRequest, tmp_path: Path, sqlite_template: Path
) -> Iterator[str]:
    """The URL of a database with the hub's tables, for processes."""
    if request.param == "sqlite":
        path = tmp_path / "hub.db"
        shutil.copy(sqlite_template, path)
        yield f"sqlite:///{path}"
        return
    server: PostgreSQL = request.getfixturevalue("postgresql")
    url = server.create()
    yield url
    server.drop(url)


@pytest.fixture(params=_BOTH)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database that nobody has used."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server: PostgreSQL = request.getfixturevalue("postgresql")
    url = server.create(empty=True)
    yield url
    server.drop(url)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A database with the hub's tables, open."""
    opened = open_database(database_url)
    yield opened
    opened.close()
