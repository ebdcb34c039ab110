"""The runs of the catalog, as they are asked for, changed and deleted.

What is shown of a page of runs is loaded in four statements, however many runs there are. Runs that
the caller may not see are not found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.exc import IntegrityError

from tbhub.api.models import Deleted, Metric, Run, RunChange, Runs
from tbhub.api.problems import BadRequest, Conflict, NotFound
from tbhub.catalog import removal
from tbhub.catalog.hparam_values import hparam_row, hparam_value
from tbhub.catalog.names import is_number
from tbhub.catalog.page import page_of
from tbhub.catalog.resolve import find_scope
from tbhub.catalog.selection import Selection
from tbhub.database.rows import among, chunks, insert_new
from tbhub.database.tables import (
    experiments,
    hparams,
    jobs,
    metrics,
    run_tags,
    runs,
    users,
    workspaces,
)

_LISTED = 10


def list_runs(
    connection: Connection,
    selection: Selection,
    visible: frozenset[int] | None,
    *,
    limit: int = 100,
    offset: int = 0,
    metrics: bool = True,
    archived: bool = False,
) -> Runs:
    """A page of the runs of a selection; without terms it has all runs, the newest first.

    Args:
        visible: The workspaces that the caller may see; None for all.
        limit: How long a page is; the selection's own limit bounds all pages together.
        metrics: Whether to tell the metrics of each run.
        archived: With runs that were put away.

    Raises:
        NotFound: A term names nothing.
        Ambiguous: A name belongs to several workspaces.
    """
    scope = find_scope(connection, selection, visible, archived=archived)
    total, ids = page_of(connection, selection, scope, limit=limit, offset=offset)
    return Runs(total=total, offset=offset, runs=load_runs(connection, ids, metrics=metrics))


def get_run(connection: Connection, run_id: int, visible: frozenset[int] | None) -> Run:
    """A run by its number."""
    return load_runs(connection, _insist(connection, [run_id], visible))[0]


def change_run(
    connection: Connection, run_id: int, change: RunChange, visible: frozenset[int] | None
) -> Run:
    """Gives a run another name, note, tags or hyperparameters, or archives it; what is None stays.

    Raises:
        Conflict: Another run of the workspace has the name.
        BadRequest: The name is the number of a run.
    """
    _insist(connection, [run_id], visible)
    values = change.model_dump(exclude_none=True, exclude={"tags", "hparams"})
    if change.name is not None:
        require_name(change.name)
        values["named"] = True
    if values:
        try:
            connection.execute(update(runs).where(runs.c.id == run_id).values(values))
        except IntegrityError as error:
            raise Conflict(f"Another run is called {change.name}; choose another name.") from error
    if change.tags is not None:
        connection.execute(delete(run_tags).where(run_tags.c.run_id == run_id))
        tags = dict.fromkeys(change.tags)
        insert_new(connection, run_tags, [{"run_id": run_id, "tag": tag} for tag in tags])
    if change.hparams is not None:
        set_hparams(connection, run_id, change.hparams)
    return get_run(connection, run_id, visible)


def require_name(name: str) -> None:
    """Refuse the name of a run by which selectors would find another one.

    Raises:
        BadRequest: It is the number of a run.
    """
    if is_number(name):
        raise BadRequest(f"{name} means the run of this number. hint: choose another name.")


def set_hparams(connection: Connection, run_id: int, values: Mapping[str, object]) -> None:
    """Gives a run these hyperparameters, beside those of other names it has."""
    mine = hparams.c.run_id == run_id
    connection.execute(delete(hparams).where(mine, hparams.c.name.in_(list(values))))
    insert_new(
        connection,
        hparams,
        [hparam_row(run_id, name, value) for name, value in values.items() if value is not None],
    )


def delete_runs(
    connection: Connection,
    ids: Sequence[int],
    visible: frozenset[int] | None,
    *,
    files: bool,
    dry_run: bool,
) -> Deleted:
    """Deletes runs, and with `files` what lies in their directories; `dry_run` only counts.

    Nothing is deleted unless every run is found.
    """
    return removal.delete_runs(
        connection, _insist(connection, ids, visible), files=files, dry_run=dry_run
    )


def load_runs(connection: Connection, ids: Sequence[int], *, metrics: bool = True) -> list[Run]:
    """Runs by number, in this order; numbers of no run are left out."""
    found: dict[int, dict[str, Any]] = {}
    for chunk in chunks(ids):
        here = among(connection, runs.c.id, chunk)
        for row in connection.execute(_RUNS.where(here)).mappings().all():
            times = {name: _time(row[name]) for name in _TIMES}
            found[row["id"]] = {**row, **times, "tags": [], "hparams": {}, "metrics": {}}
        _add_tags(connection, chunk, found)
        _add_hparams(connection, chunk, found)
        if metrics:
            _add_metrics(connection, chunk, found)
    return _MODELS.validate_python([found[number] for number in ids if number in found])


_MODELS = TypeAdapter(list[Run])  # all at once: three times as fast as one by one
_TIMES = ("created", "started", "updated", "ended", "heartbeat")
_RUNS = (
    select(
        *(runs.c[name] for name in Run.model_fields if name in runs.c),
        runs.c.job_id.label("job"),
        func.coalesce(jobs.c.name, "").label("job_name"),
        workspaces.c.name.label("workspace"),
        experiments.c.name.label("experiment"),
        users.c.name.label("owner"),
    )
    .join_from(runs, workspaces)
    .join(experiments, experiments.c.id == runs.c.experiment_id)
    .outerjoin(users, users.c.id == runs.c.owner_id)
    .outerjoin(jobs, jobs.c.id == runs.c.job_id)
)

_Found = dict[int, dict[str, Any]]


def _add_tags(connection: Connection, ids: Sequence[int], found: _Found) -> None:
    wanted = select(run_tags.c.run_id, run_tags.c.tag).where(
        among(connection, run_tags.c.run_id, ids)
    )
    for run_id, tag in connection.execute(wanted.order_by(run_tags.c.tag)).all():
        found[run_id]["tags"].append(tag)


def _add_hparams(connection: Connection, ids: Sequence[int], found: _Found) -> None:
    wanted = select(
        hparams.c.run_id, hparams.c.name, hparams.c.kind, hparams.c.number, hparams.c.text
    ).where(among(connection, hparams.c.run_id, ids))
    rows = connection.execute(wanted.order_by(hparams.c.run_id, hparams.c.name)).all()
    for run_id, name, kind, number, text in rows:
        value = hparam_value(kind, number, text)
        if isinstance(value, float) and not math.isfinite(value):
            value = text  # JSON has no such numbers
        found[run_id]["hparams"][name] = value


def _add_metrics(connection: Connection, ids: Sequence[int], found: _Found) -> None:
    wanted = select(metrics.c.run_id, metrics.c.tag, *(metrics.c[name] for name in _METRIC))
    wanted = wanted.where(among(connection, metrics.c.run_id, ids))
    for row in connection.execute(wanted.order_by(metrics.c.run_id, metrics.c.tag)).all():
        values = dict(zip(_METRIC, row[2:], strict=True))
        values["last_time"] = _time(values["last_time"])
        found[row[0]]["metrics"][row[1]] = values


_METRIC = tuple(Metric.model_fields)


def _time(seconds: float | None) -> datetime | None:
    """A log may say any time; what is beyond the calendar is its end."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return (datetime.max if seconds > 0 else datetime.min).replace(tzinfo=UTC)


def _insist(
    connection: Connection, ids: Sequence[int], visible: frozenset[int] | None
) -> list[int]:
    """The ids, each once; all are there and may be seen."""
    wanted = list(dict.fromkeys(ids))
    found: set[int] = set()
    for chunk in chunks(wanted):
        there = select(runs.c.id).where(runs.c.id.in_(chunk))
        if visible is not None:
            there = there.where(runs.c.workspace_id.in_(visible))
        found.update(connection.scalars(there))
    missing = [str(number) for number in wanted if number not in found]
    if missing:
        shown = ", no run ".join(missing[:_LISTED]) + (", …" if len(missing) > _LISTED else "")
        raise NotFound(f"There is no run {shown}.", terms=missing)
    return wanted
