"""Catalogs for tests: users, workspaces, and runs that were indexed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select

from tbhub import SummaryWriter
from tbhub.api.models import NewLogdir, Run
from tbhub.catalog.indexer import Indexer
from tbhub.catalog.runs import load_runs
from tbhub.catalog.workspaces import add_logdir, ensure_defaults
from tbhub.database.engine import Database
from tbhub.database.tables import runs, users


def log(directory: Path, *values: float, tag: str = "loss", **more: Any) -> Path:
    """A run with some values of a scalar, logged at second 1, 2, 3… of 1970 unless told when."""
    first = more.pop("wall_time", 1.0)
    with SummaryWriter(directory, **more) as writer:
        for step, value in enumerate(values):
            writer.add_scalar(tag, value, step, walltime=first + step)
    return directory


def add_user(database: Database, name: str) -> int:
    with database.begin() as connection:
        row = {"name": name, "role": "member", "created": 0.0, "disabled": False}
        return connection.execute(insert(users).values(row).returning(users.c.id)).scalar_one()


class Watched:
    """A logdir of the workspace ``default``, indexed when told to."""

    def __init__(self, database: Database, root: Path, **options: Any) -> None:
        self.database = database
        self.root = root
        with database.begin() as connection:
            ensure_defaults(connection)
            self.logdir = add_logdir(connection, NewLogdir(path=str(root)), None)
        self.indexer = Indexer(database, cache_dir=root.parent / "cache", **options)

    def index(self) -> dict[str, Run]:
        """Looks once; the runs there are then."""
        self.indexer.run_until_idle()
        return self.runs()

    def runs(self) -> dict[str, Run]:
        """By path."""
        with self.database.read() as connection:
            ids = list(connection.scalars(select(runs.c.id).order_by(runs.c.id)))
            return {run.path: run for run in load_runs(connection, ids)}

    def close(self) -> None:
        self.indexer.close()


Watch = Callable[..., Watched]
