"""``/api/v1/runs`` as workers use it: started, alive, ended; and what they have told."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import select

from tbhub.api.models import (
    ExistingLogs,
    Finish,
    FoundRuns,
    Heartbeat,
    NewRun,
    Pulse,
    RunDetails,
    RunLog,
    StartedRun,
)
from tbhub.api.problems import Ambiguous, Conflict, NotFound
from tbhub.catalog import attempts
from tbhub.database.tables import runs
from tbhub.hub import existing, run_log, starts
from tbhub.hub.access import Caller
from tbhub.hub.files import Facts
from tbhub.hub.hub import Hub
from tbhub.hub.routes.common import Number, Reader, TheHub, Writer, problems

router = APIRouter(tags=["runs"])


@router.post("/runs", status_code=201, responses=problems(NotFound, Ambiguous, Conflict))
def create_run(hub: TheHub, caller: Writer, new: NewRun) -> StartedRun:
    """Starts a run, or goes on with one; with the same key it is the same run again."""
    return starts.start(hub, caller, new)


@router.post("/runs/found", responses=problems(NotFound, Conflict))
def find_runs(hub: TheHub, caller: Writer, logs: ExistingLogs) -> FoundRuns:
    """Registers logs that are there already, once or from now on; nothing is copied."""
    return existing.register(hub, caller, logs)


@router.post("/runs/{run}/heartbeat", responses=problems(NotFound, Conflict))
def heartbeat(hub: TheHub, caller: Reader, run: Number, beat: Heartbeat) -> Pulse:
    """The worker of a run is alive."""
    place = _require_write(hub, caller, run)
    with hub.database.begin() as connection:
        before = connection.scalar(select(runs.c.status).where(runs.c.id == run))
        found = attempts.beat(connection, run, beat)
    if found.status != before:
        hub.run_started()
        hub.runs_changed([run], {place})
    return found


@router.post("/runs/{run}/finish", responses=problems(NotFound, Conflict))
def finish_run(hub: TheHub, caller: Reader, run: Number, finish: Finish) -> Pulse:
    """The worker of a run has ended."""
    place = _require_write(hub, caller, run)
    with hub.database.begin() as connection:
        found = attempts.end(connection, run, finish)
    hub.run_ended(run)
    hub.runs_changed([run], {place})
    return found


@router.get("/runs/{run}/details", responses=problems(NotFound))
def get_details(hub: TheHub, caller: Reader, run: Number) -> RunDetails:
    """What the worker told of where it runs: commit, packages, machine."""
    _require_sight(hub, caller, run)
    with hub.database.read() as connection:
        return RunDetails(run=run, details=attempts.details_of(connection, run))


@router.get("/runs/{run}/log", responses=problems(NotFound))
def get_log(
    hub: TheHub,
    caller: Reader,
    run: Number,
    tail: Annotated[int, Query(ge=0, le=100_000, description="So many lines at most.")] = 1000,
    after: Annotated[
        int | None,
        Query(ge=0, le=2**62, description="What follows this offset in bytes, instead of the end."),
    ] = None,
    file: Annotated[
        str | None, Query(max_length=1000, description="One of `files`; the newest unless given.")
    ] = None,
) -> RunLog:
    """The end of what a run has printed, or a part of it; at most a megabyte."""
    facts = _require_sight(hub, caller, run)
    return run_log.read_log(hub, run, facts, lines=tail, after=after, file=file)


def _require_sight(hub: Hub, caller: Caller, run: int) -> Facts:
    facts = hub.files.facts(run)
    if not caller.may_see(facts.workspace_id):
        raise NotFound(f"There is no run {run}.")
    return facts


def _require_write(hub: Hub, caller: Caller, run: int) -> int:
    place = _require_sight(hub, caller, run).workspace_id
    caller.require_write(place, "run")
    return place
