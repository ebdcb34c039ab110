"""Rows of a catalog, put into the database as plainly as can be: nothing is on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, insert, select, update

from tbhub.catalog.hparam_values import hparam_row
from tbhub.database.tables import (
    experiments,
    hparams,
    jobs,
    logdirs,
    metrics,
    run_tags,
    runs,
    users,
    workspaces,
)

NOW = 1_800_000_000.0


def workspace(connection: Connection, name: str) -> int:
    return _named(connection, workspaces, {"name": name})


def experiment(connection: Connection, name: str, home: str = "default") -> int:
    keys = {"name": name, "workspace_id": workspace(connection, home)}
    return _named(connection, experiments, keys)


def user(connection: Connection, name: str) -> int:
    return _named(connection, users, {"name": name}, role="member")


def job(connection: Connection, home: str = "default", name: str = "") -> int:
    return _insert(connection, jobs, workspace_id=workspace(connection, home), name=name)


def logdir(connection: Connection, path: str, home: str = "default") -> int:
    return _insert(connection, logdirs, workspace_id=workspace(connection, home), path=path)


def run(
    connection: Connection,
    name: str | None = None,
    group: str = "e",
    home: str = "default",
    *,
    owner: str | None = None,
    values: Mapping[str, object] | None = None,
    series: Mapping[str, Mapping[str, Any]] | None = None,
    tags: Sequence[str] = (),
    **columns: Any,
) -> int:
    """A run with hyperparameters and metrics; without a name it is called after its number."""
    number = _insert(
        connection,
        runs,
        **{
            "workspace_id": workspace(connection, home),
            "experiment_id": experiment(connection, group, home),
            "owner_id": None if owner is None else user(connection, owner),
            "name": name or "new",
            "location": f"/logs/{home}/{group}/{name or 'new'}",
            "status": "finished",
            **columns,
        },
    )
    if name is None:
        changed = {"name": f"run{number}", "location": f"/logs/{home}/{group}/run{number}"}
        connection.execute(update(runs).where(runs.c.id == number).values({**changed, **columns}))
    for key, value in (values or {}).items():
        connection.execute(insert(hparams).values(hparam_row(number, key, value)))
    for tag in tags:
        connection.execute(insert(run_tags).values(run_id=number, tag=tag))
    for tag, known in (series or {}).items():
        row = {"run_id": number, "tag": tag, "count": 1, "last_step": 0, "last_time": NOW}
        connection.execute(insert(metrics).values({**row, **known}))
    return number


def _named(connection: Connection, table: Table, keys: dict[str, Any], **more: Any) -> int:
    """The number of a row with these values, made if there is none."""
    there = connection.scalar(select(table.c.id).filter_by(**keys))
    return _insert(connection, table, **keys, **more) if there is None else int(there)


def _insert(connection: Connection, table: Table, **values: Any) -> int:
    made = insert(table).values({"created": NOW, **values}).returning(table.c.id)
    return int(connection.execute(made).scalar_one())
