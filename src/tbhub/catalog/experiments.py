"""Experiments: numbered groups of runs with one purpose.

An experiment goes by its number in everything that is done to it: deleting 1 never touches 10.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Select, case, delete, func, select, update

from tbhub.api.models import Deleted, Experiment, Experiments, NoteChange
from tbhub.api.problems import NotFound
from tbhub.catalog import removal
from tbhub.database.tables import experiments, runs, users, workspaces

Visible = frozenset[int] | None


def list_experiments(
    connection: Connection,
    visible: Visible,
    *,
    search: str = "",
    limit: int = 100,
    offset: int = 0,
    archived: bool = False,
) -> Experiments:
    """A page of experiments, the newest first.

    Args:
        visible: The workspaces that the caller may see; None for all.
        search: Words of which each must be in the name or the note, in any case.
        archived: Also those that were put away.
    """
    chosen = _seen_by(visible)
    if not archived:
        chosen.append(~experiments.c.archived)
    texts = experiments.c.name + " " + experiments.c.note
    chosen += [texts.icontains(word, autoescape=True) for word in search.split()]
    total = connection.scalar(select(func.count()).select_from(experiments).where(*chosen))
    page = (
        select(experiments.c.id)
        .where(*chosen)
        .order_by(experiments.c.id.desc())
        .limit(limit)
        .offset(offset)
    )
    ids = list(connection.scalars(page))
    found = _load(connection, _rows().where(experiments.c.id.in_(ids))) if ids else {}
    return Experiments(total=total or 0, offset=offset, experiments=[found[each] for each in ids])


def get_experiment(connection: Connection, experiment_id: int, visible: Visible) -> Experiment:
    """An experiment by its number."""
    chosen = _rows().where(experiments.c.id == experiment_id, *_seen_by(visible))
    found = _load(connection, chosen)
    if experiment_id not in found:
        raise NotFound(f"There is no experiment {experiment_id}.", terms=[str(experiment_id)])
    return found[experiment_id]


def change_experiment(
    connection: Connection, experiment_id: int, change: NoteChange, visible: Visible
) -> Experiment:
    """Gives an experiment another note, or puts it away; what is None stays."""
    get_experiment(connection, experiment_id, visible)
    values = change.model_dump(exclude_none=True)
    if values:
        chosen = experiments.c.id == experiment_id
        connection.execute(update(experiments).where(chosen).values(values))
    return get_experiment(connection, experiment_id, visible)


def delete_experiment(
    connection: Connection, experiment_id: int, visible: Visible, *, files: bool, dry_run: bool
) -> Deleted:
    """Deletes an experiment with its runs, with `files` also what lies in their directories.

    With `dry_run` nothing is done, and what would be is told.
    """
    get_experiment(connection, experiment_id, visible)
    mine = select(runs.c.id).where(runs.c.experiment_id == experiment_id)
    ids = list(connection.scalars(mine))
    deleted = removal.delete_runs(connection, ids, files=files, dry_run=dry_run)
    if not dry_run:
        connection.execute(delete(experiments).where(experiments.c.id == experiment_id))
    return deleted.model_copy(update={"experiments": 1})


def _rows() -> Select[Any]:
    return (
        select(
            *(experiments.c[name] for name in ("id", "name", "note", "archived", "created")),
            workspaces.c.name.label("workspace"),
            users.c.name.label("owner"),
        )
        .join_from(experiments, workspaces)
        .outerjoin(users, users.c.id == experiments.c.owner_id)
    )


def _load(connection: Connection, chosen: Select[Any]) -> dict[int, Experiment]:
    rows = {row["id"]: dict(row) for row in connection.execute(chosen).mappings()}
    running = func.sum(case((runs.c.status == "running", 1), else_=0))
    counted = connection.execute(
        select(runs.c.experiment_id, func.count(), running, func.max(runs.c.updated))
        .where(runs.c.experiment_id.in_(rows))
        .group_by(runs.c.experiment_id)
    )
    for number, count, live, updated in counted:
        rows[number] |= {"runs": count, "running": live, "updated": _time(updated)}
    return {
        number: Experiment(**{**row, "created": _time(row["created"])})
        for number, row in rows.items()
    }


def _seen_by(visible: Visible) -> list[Any]:
    return [] if visible is None else [experiments.c.workspace_id.in_(visible)]


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
