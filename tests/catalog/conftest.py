"""Fixtures for tests of the catalog: each runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.catalog import Watch, Watched
from support.database import database, database_url, empty_url, postgresql, sqlite_template
from tbhub.database.engine import Database

__all__ = ["database", "database_url", "empty_url", "postgresql", "sqlite_template"]


@pytest.fixture
def watch(database: Database) -> Iterator[Watch]:
    """Watches logdirs, which ends with the test."""
    made: list[Watched] = []

    def start(root: Path, **options: Any) -> Watched:
        made.append(Watched(database, root, **options))
        return made[-1]

    yield start
    for each in made:
        each.close()
