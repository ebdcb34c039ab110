"""``/api/v1/runs`` and ``/api/v1/experiments``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection, select

from tbhub.api.models import (
    Deleted,
    Event,
    Experiment,
    Experiments,
    NoteChange,
    Run,
    RunChange,
    Runs,
    Selector,
)
from tbhub.api.problems import Ambiguous, BadRequest, Conflict, NotFound
from tbhub.catalog import experiments as catalog_experiments
from tbhub.catalog import runs as catalog_runs
from tbhub.catalog.resolve import resolve
from tbhub.catalog.selectors import parse
from tbhub.database import tables
from tbhub.database.rows import chunks
from tbhub.hub.access import Caller
from tbhub.hub.board_store import log_deleted_runs
from tbhub.hub.hub import Hub
from tbhub.hub.routes.common import (
    Limit,
    Number,
    Offset,
    Reader,
    TheHub,
    Writer,
    as_json,
    problems,
)

router = APIRouter(tags=["runs"])

Select = Annotated[Selector, Query(description="Which runs: a selector; all without one.")]
Files = Annotated[bool, Query(description="Delete the logs, too.")]
DryRun = Annotated[bool, Query(description="Only tell what would be deleted.")]


# --- experiments


@router.get("/experiments", responses=problems(), response_model=Experiments)
def list_experiments(
    hub: TheHub,
    caller: Reader,
    search: Annotated[str, Query(max_length=1000, description="A part of the name.")] = "",
    archived: Annotated[bool, Query(description="Those put away, too.")] = False,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """Experiments, the latest first."""
    with hub.database.read() as connection:
        found = catalog_experiments.list_experiments(
            connection,
            caller.visible,
            search=search,
            limit=limit,
            offset=offset,
            archived=archived,
        )
    return as_json(found)


@router.get("/experiments/{experiment}", responses=problems(NotFound))
def get_experiment(hub: TheHub, caller: Reader, experiment: Number) -> Experiment:
    """One experiment."""
    with hub.database.read() as connection:
        return catalog_experiments.get_experiment(connection, experiment, caller.visible)


@router.patch("/experiments/{experiment}", responses=problems(NotFound, Conflict))
def change_experiment(
    hub: TheHub, caller: Reader, experiment: Number, change: NoteChange
) -> Experiment:
    """Changes an experiment's note, or puts it away."""
    with hub.database.begin() as connection:
        place = _workspace_of(connection, tables.experiments, experiment)
        _require_write(caller, place, f"experiment {experiment}")
        found = catalog_experiments.change_experiment(
            connection, experiment, change, caller.visible
        )
    tell(hub, "experiments", place)
    return found


@router.delete("/experiments/{experiment}", responses=problems(NotFound, Conflict))
def delete_experiment(
    hub: TheHub,
    caller: Reader,
    experiment: Number,
    files: Files = False,
    dry_run: DryRun = False,
) -> Deleted:
    """Deletes an experiment with its runs, and nothing else."""
    with hub.database.begin() as connection:
        place = _workspace_of(connection, tables.experiments, experiment)
        _require_write(caller, place, f"experiment {experiment}")
        mine = select(tables.runs.c.id).where(tables.runs.c.experiment_id == experiment)
        ids = connection.scalars(mine).all()
        kept = hub.files.in_bucket(connection, ids) if files else []
        if not dry_run:
            log_deleted_runs(connection, ids, caller.name)
        found = catalog_experiments.delete_experiment(
            connection, experiment, caller.visible, files=files, dry_run=dry_run
        )
    found = hub.files.remove(kept, found)
    if not dry_run:
        hub.files.forget()
        hub.runs_deleted(ids)
        tell(hub, "experiments", place)
    return found


# --- runs


@router.get("/runs", responses=problems(NotFound, Ambiguous), response_model=Runs)
def list_runs(
    hub: TheHub,
    caller: Reader,
    selector: Annotated[Select, Query(alias="select")] = "",
    metrics: Annotated[bool, Query(description="With what is known of their series.")] = True,
    archived: Annotated[bool, Query(description="Those put away, too.")] = False,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """The runs a selector names."""
    selection = parse(selector)
    with hub.database.read() as connection:
        found = catalog_runs.list_runs(
            connection,
            selection,
            caller.visible,
            limit=limit,
            offset=offset,
            metrics=metrics,
            archived=archived,
        )
    return as_json(found)


@router.delete("/runs", responses=problems(NotFound, Ambiguous, Conflict))
def delete_runs(
    hub: TheHub,
    caller: Writer,
    selector: Annotated[Select, Query(alias="select")],
    files: Files = False,
    dry_run: DryRun = False,
) -> Deleted:
    """Deletes the runs a selector names, and nothing else."""
    if not selector.strip():
        raise BadRequest("name the runs to delete; all of them are `all`")
    selection = parse(selector)
    with hub.database.begin() as connection:
        ids = resolve(connection, selection, caller.visible).run_ids
        places = workspaces_of_runs(connection, ids)
        for place in places:
            caller.require_write(place, "run")
        kept = hub.files.in_bucket(connection, ids) if files else []
        if not dry_run:
            log_deleted_runs(connection, ids, caller.name)
        found = catalog_runs.delete_runs(
            connection, ids, caller.visible, files=files, dry_run=dry_run
        )
    found = hub.files.remove(kept, found)
    if not dry_run:
        hub.files.forget()
        hub.runs_deleted(ids)
        tell(hub, "runs", *places)
    return found


@router.get("/runs/{run}", responses=problems(NotFound))
def get_run(hub: TheHub, caller: Reader, run: Number) -> Run:
    """One run."""
    with hub.database.read() as connection:
        return catalog_runs.get_run(connection, run, caller.visible)


@router.patch("/runs/{run}", responses=problems(NotFound, Conflict))
def change_run(hub: TheHub, caller: Reader, run: Number, change: RunChange) -> Run:
    """Changes a run's name, note, tags or hyperparameters, or puts it away."""
    with hub.database.begin() as connection:
        place = _workspace_of(connection, tables.runs, run)
        _require_write(caller, place, f"run {run}")
        found = catalog_runs.change_run(connection, run, change, caller.visible)
    if change.name is not None:
        hub.run_renamed(run)
    tell(hub, "runs", place)
    return found


@router.delete("/runs/{run}", responses=problems(NotFound, Conflict))
def delete_run(
    hub: TheHub, caller: Reader, run: Number, files: Files = False, dry_run: DryRun = False
) -> Deleted:
    """Deletes one run."""
    with hub.database.begin() as connection:
        place = _workspace_of(connection, tables.runs, run)
        _require_write(caller, place, f"run {run}")
        kept = hub.files.in_bucket(connection, [run]) if files else []
        if not dry_run:
            log_deleted_runs(connection, [run], caller.name)
        found = catalog_runs.delete_runs(
            connection, [run], caller.visible, files=files, dry_run=dry_run
        )
    found = hub.files.remove(kept, found)
    if not dry_run:
        hub.files.forget()
        hub.runs_deleted([run])
        tell(hub, "runs", place)
    return found


def _workspace_of(connection: Connection, table: object, number: int) -> int | None:
    assert table in (tables.runs, tables.experiments)
    of = tables.runs if table is tables.runs else tables.experiments
    place: int | None = connection.scalar(select(of.c.workspace_id).where(of.c.id == number))
    return place


def workspaces_of_runs(connection: Connection, ids: tuple[int, ...]) -> set[int]:
    """Where runs are; those that are not there are nowhere."""
    found: set[int] = set()
    for chunk in chunks(ids):
        chosen = select(tables.runs.c.workspace_id).where(tables.runs.c.id.in_(chunk))
        found.update(connection.scalars(chosen.distinct()))
    return found


def _require_write(caller: Caller, place: int | None, what: str) -> None:
    if place is None or not caller.may_see(place):
        raise NotFound(f"no {what}")
    caller.require_write(place, what)


def tell(hub: Hub, kind: str, *places: int | None) -> None:
    """Tells open pages that something has changed."""
    event = Event(kind="experiments" if kind == "experiments" else "runs")
    hub.bus.publish(event, workspaces=[each for each in places if each is not None])
