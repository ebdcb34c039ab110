"""Runs that somebody starts, goes on with and ends, by what their workers tell.

A worker is known by the number of its attempt. When another goes on with the run the number grows,
and what the older one tells counts no more: it is fenced. A run whose worker is silent for too long
is lost, until the same attempt is heard of again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from tbhub.api.models import Finish, Heartbeat, NewRun, Pulse
from tbhub.api.problems import Ambiguous, BadRequest, Conflict, Fenced, NotFound
from tbhub.catalog.names import is_number
from tbhub.catalog.naming import lock_names
from tbhub.catalog.query import job_number, job_numbered
from tbhub.catalog.resolve import resolve
from tbhub.catalog.run_lookup import Asked, RunLookup
from tbhub.catalog.run_records import create_run
from tbhub.catalog.runs import set_hparams
from tbhub.catalog.selection import RunName, Selection
from tbhub.catalog.selectors import parse
from tbhub.database.rows import among, insert_new
from tbhub.database.tables import experiments, jobs, run_details, run_tags, runs, users

NEW_JOB = "new"
# Keys that begin so come again, for something else: they mean a run for as long as it is running.
PASSING_KEY = "now:"

Placing = Callable[[int, str], str]  # a run's number and name to its location


def known_by_key(connection: Connection, workspace_id: int, key: str) -> tuple[int, int] | None:
    """The run and the attempt that were begun with a key."""
    if key.startswith(PASSING_KEY):
        _forget_key(connection, workspace_id, key)
    chosen = select(runs.c.id, runs.c.attempt, runs.c.key).where(
        runs.c.workspace_id == workspace_id, (runs.c.key == key) | (runs.c.resume_key == key)
    )
    row = connection.execute(chosen).first()
    if row is None:
        return None
    return row.id, 1 if row.key == key else row.attempt


def _forget_key(connection: Connection, workspace_id: int, key: str) -> None:
    """A run that is over is not meant by a key that has come again."""
    for column in (runs.c.key, runs.c.resume_key):
        over = (runs.c.workspace_id == workspace_id, column == key, runs.c.status != "running")
        connection.execute(update(runs).where(*over).values({column: None}))


def run_to_continue(
    connection: Connection, workspace_id: int, user_id: int, new: NewRun
) -> int | None:
    """Return the run that a restarted job of a user continues; None if it has to start one.

    A name is looked up before an identity: the run may have been started without one.

    Raises:
        BadRequest: Neither a name nor an identity is given, or the name is that of a run which was
            found in a directory and never started, unless the run has begun without the hub.
        Ambiguous: Several runs have the name, a run that was started before had it, or the run that
            has it is another user's or in another experiment than the given one.
    """
    if new.name is None and new.identity is None:
        raise BadRequest("resume_or_start: give a name or an identity to find the run by")
    for column, value in ((runs.c.name, new.name), (runs.c.key, new.identity)):
        if value is None:
            continue
        names = (users.c.name.label("owner"), experiments.c.name.label("experiment"))
        columns = (runs.c.id, runs.c.heartbeat, runs.c.location, runs.c.owner_id)
        chosen = select(*columns, *names).where(
            runs.c.workspace_id == workspace_id, column == value
        )
        chosen = chosen.join_from(runs, experiments).outerjoin(users, users.c.id == runs.c.owner_id)
        found = connection.execute(chosen.order_by(runs.c.id).limit(11)).all()
        if len(found) > 1:
            raise Ambiguous(
                f"{value} can mean {len(found)} runs; resume one by its number.",
                matches=[row.id for row in found[:10]],
            )
        if found and found[0].heartbeat is None and new.late:
            continue
        if found and found[0].heartbeat is None:
            raise BadRequest(
                f"{value} is the name of run #{found[0].id}, which was found in "
                f"{found[0].location}. hint: choose another name; to continue that run in its "
                f"directory: --resume '#{found[0].id}'."
            )
        if found:
            _require_same_job(found[0], user_id, value, None if column is runs.c.key else new)
            return int(found[0].id)
    if new.name is not None and not new.late:
        _refuse_former_name(connection, workspace_id, new.name)
    return None


def _require_same_job(run: Any, user_id: int, value: str, named: NewRun | None) -> None:
    """Refuse a run that has the name or identity of a job and is of another job.

    Args:
        named: What is to be started, if the run was found by its name.
    """
    why = ""
    if run.owner_id not in (None, user_id):
        why = f"belongs to {run.owner}"
    elif named is not None and named.experiment not in ("default", run.experiment):
        why = f"is in the experiment {run.experiment}, not in {named.experiment}"
    if why:
        raise Ambiguous(
            f"There is a run {value} already (#{run.id}), which {why}. hint: choose another name "
            f"or key; to continue that run: --resume '#{run.id}'.",
            matches=[run.id],
        )


def _refuse_former_name(connection: Connection, workspace_id: int, name: str) -> None:
    """Refuse the name that a started run had until another run was found that would fit it.

    Raises:
        Ambiguous: A run was started that is called by its directory, and so was another.
    """
    home = {workspace_id: ""}
    asked = Asked(name)
    ids = [match.id for match in RunLookup(connection, home).find([asked])[asked]]
    chosen = select(runs.c.id, runs.c.name).where(
        among(connection, runs.c.id, ids), runs.c.heartbeat.is_not(None), ~runs.c.named
    )
    if found := connection.execute(chosen.order_by(runs.c.id)).all():
        listed = ", ".join(f"{row.name} (#{row.id})" for row in found[:10])
        raise Ambiguous(
            f"No run is called {name} any more: there is {listed}. hint: to continue it: --resume "
            f"'#{found[0].id}'; to start another run choose another name.",
            matches=[row.id for row in found[:10]],
        )


def begin_run(
    connection: Connection,
    workspace_id: int,
    owner_id: int,
    new: NewRun,
    place: str | Placing,
    *,
    kept: bool,
) -> int:
    """A new run, whose worker has begun; its number.

    Raises:
        Conflict: The name is taken, or another run logs there.
        NotFound: There is no such job.
    """
    run = create_run(
        connection,
        workspace_id,
        new.experiment,
        place,
        new.name,
        kept=kept,
        key=new.identity or new.key,
        takes_name=new.late,
        hparams=new.hparams,
        tags=new.tags,
        job=_job(connection, workspace_id, owner_id, new.job),
        owner_id=owner_id,
        machine=new.machine,
        command=new.command,
        note=new.note,
    )
    if new.resume_or_start:  # other processes of the job, and a repeated request, find the attempt
        connection.execute(update(runs).where(runs.c.id == run.id).values(resume_key=new.key))
    _set_details(connection, run.id, new)
    return run.id


def run_to_resume(connection: Connection, text: str, visible: frozenset[int] | None) -> int:
    """The one run that a number, a name or another selector means.

    Raises:
        NotFound: There is none, or none that may be seen.
        Ambiguous: There are several.
    """
    named = None if is_number(text) else _named(connection, text, visible)
    if text.isdecimal():
        number = int(text[:18])
        found = _numbered(connection, number, visible)
        if named is not None:
            found = sorted({*found, *resolve(connection, named, visible).run_ids})
    else:
        found = resolve(connection, named or parse(text), visible, parts=False).run_ids
    if not found:
        raise NotFound(f"There is no run {text}.", terms=[text])
    if len(found) > 1:
        numbers = ", ".join(f"#{number}" for number in found[:10])
        raise Ambiguous(
            f"{text} can mean {len(found)} runs; one is resumed at a time. "
            f"hint: resume one by its number: {numbers}.",
            matches=list(found[:10]),
        )
    return found[0]


def _numbered(connection: Connection, number: int, visible: frozenset[int] | None) -> Sequence[int]:
    try:
        return resolve(connection, parse(""), visible, trials=[number]).run_ids
    except NotFound:
        return []


def _named(connection: Connection, text: str, visible: frozenset[int] | None) -> Selection | None:
    """The runs of exactly this name, if there are any; it may look like anything."""
    chosen = select(runs.c.id).where(runs.c.name == text)
    if visible is not None:
        chosen = chosen.where(runs.c.workspace_id.in_(visible))
    if connection.scalar(chosen.limit(1)) is None:
        return None
    return Selection((RunName(text),))


def resume_run(
    connection: Connection, run_id: int, owner_id: int, new: NewRun, fresh_since: float
) -> int:
    """Another worker goes on with a run; the number of its attempt.

    Args:
        fresh_since: Who has been heard of after this moment seems to be alive.

    Raises:
        Conflict: The older worker seems to be alive; says who and where it is.
    """
    chosen = select(
        runs.c.attempt,
        runs.c.status,
        runs.c.heartbeat,
        runs.c.machine,
        runs.c.resume_key,
        runs.c.name,
        users.c.name.label("owner"),
    )
    row = connection.execute(
        chosen.select_from(runs.outerjoin(users, users.c.id == runs.c.owner_id))
        .where(runs.c.id == run_id)
        .with_for_update(of=runs)
    ).one()
    if new.key is not None and row.resume_key == new.key:
        note_rank(connection, run_id, new)
        return int(row.attempt)
    seen = row.heartbeat
    is_fresh = row.status == "running" and seen is not None and seen > fresh_since
    if is_fresh and not new.force and new.ended_attempt != row.attempt:
        who = f" of {row.owner}" if row.owner else ""
        where = f" on {row.machine}" if row.machine else ""
        ago = max(0, round(time.time() - seen))
        raise Conflict(
            f"{row.name} is running: attempt {row.attempt}{who}{where} was heard of {ago} s ago."
            " hint: end it first, or resume with --force.",
            run=run_id,
            attempt=row.attempt,
            machine=row.machine,
            owner=row.owner,
            heartbeat=seen,
            worker=details_of(connection, run_id).get("worker"),
        )
    attempt = int(row.attempt) + 1
    values: dict[str, Any] = {
        "attempt": attempt,
        "status": "running",
        "heartbeat": time.time(),
        "ended": None,
        "exit_code": None,
        "resume_key": new.key,
        "owner_id": owner_id,
    }
    given = {"machine": new.machine, "command": new.command, "note": new.note or None}
    values |= {name: value for name, value in given.items() if value is not None}
    connection.execute(update(runs).where(runs.c.id == run_id).values(values))
    set_hparams(connection, run_id, new.hparams)
    insert_new(connection, run_tags, [{"run_id": run_id, "tag": tag} for tag in set(new.tags)])
    _set_details(connection, run_id, new)
    return attempt


def beat(connection: Connection, run_id: int, told: Heartbeat) -> Pulse:
    """A worker is alive; a run that was lost is not any more.

    Raises:
        Fenced: A newer attempt goes on with the run.
    """
    status = _current(connection, run_id, told.attempt)
    values: dict[str, Any] = {"heartbeat": time.time()}
    if told.progress is not None:
        values["progress"] = told.progress
    if status == "lost":
        status = "running"
        values |= {"status": status, "ended": None}
    connection.execute(update(runs).where(runs.c.id == run_id).values(values))
    return Pulse(run=run_id, attempt=told.attempt, status=status)


def end(connection: Connection, run_id: int, told: Finish) -> Pulse:
    """A worker has ended, and says how; what is said again changes nothing.

    Raises:
        Fenced: A newer attempt goes on with the run.
    """
    status = _current(connection, run_id, told.attempt)
    if told.rank and _rank_of(details_of(connection, run_id)) != told.rank:
        return Pulse(run=run_id, attempt=told.attempt, status=status)  # another's to say
    if status in ("running", "lost", "unknown"):
        now = time.time()
        values = {"status": told.status, "exit_code": told.exit_code, "ended": now}
        connection.execute(update(runs).where(runs.c.id == run_id).values(heartbeat=now, **values))
        status = told.status
    return Pulse(run=run_id, attempt=told.attempt, status=status)


def lose(connection: Connection, silent_since: float) -> list[tuple[int, int]]:
    """Runs whose workers have not been heard of since are lost; their numbers and workspaces."""
    silent = (
        runs.c.status == "running",
        runs.c.heartbeat.is_not(None),
        runs.c.heartbeat <= silent_since,
    )
    lost = connection.execute(
        update(runs)
        .where(*silent)
        .values(status="lost", ended=runs.c.heartbeat)
        .returning(runs.c.id, runs.c.workspace_id)
    )
    return [(row.id, row.workspace_id) for row in lost]


def most_silent(connection: Connection) -> float | None:
    """When the run that has been silent for longest was last heard of."""
    chosen = select(func.min(runs.c.heartbeat)).where(
        runs.c.status == "running", runs.c.heartbeat.is_not(None)
    )
    found: float | None = connection.scalar(chosen)
    return found


def details_of(connection: Connection, run_id: int) -> dict[str, Any]:
    """What the worker told of where it runs."""
    chosen = select(run_details.c.details).where(run_details.c.run_id == run_id)
    return dict(connection.scalar(chosen) or {})


def _current(connection: Connection, run_id: int, attempt: int) -> Any:
    """The status of a run, for who has its newest attempt."""
    chosen = select(runs.c.status, runs.c.attempt, runs.c.machine)
    row = connection.execute(chosen.where(runs.c.id == run_id).with_for_update()).first()
    if row is None:
        raise NotFound(f"There is no run {run_id}.")
    if attempt < row.attempt:
        raise fenced(run_id, attempt, row.attempt, row.machine)
    if attempt > row.attempt:
        raise Conflict(f"Run {run_id} has no attempt {attempt} yet.", attempt=row.attempt)
    return row.status


def fenced(run_id: int, attempt: int, newest: int, machine: str | None = None) -> Fenced:
    """What an older worker is told."""
    where = f" on {machine}" if machine else ""
    text = f"attempt {newest}{where} goes on with run {run_id}; attempt {attempt} is over"
    return Fenced(text, attempt=newest)


def _job(
    connection: Connection, workspace_id: int, owner_id: int, job: int | str | None
) -> int | None:
    """Return the number of a job, and create the job of a name that there is none of.

    Raises:
        BadRequest: The name is a number.
    """
    if job is None or isinstance(job, int):
        return job
    if job.isdecimal():
        raise BadRequest(f"job: a number is given as such, not as the text {job!r}")
    lock_names(connection, workspace_id)
    number = job_number(job)
    name = job if number is None else f"job{number}"  # without zeros before the number
    known = None if name == NEW_JOB else _job_called(connection, workspace_id, name)
    if known is not None:
        return known
    return _new_job(connection, workspace_id, owner_id, "" if name == NEW_JOB else name)


def _job_called(connection: Connection, workspace_id: int, name: str) -> int | None:
    """Return the job of a workspace with a name; ``job7`` may also be the one with the number 7."""
    number = job_number(name)
    fits = jobs.c.name == name if number is None else job_numbered(number)
    chosen = select(jobs.c.id).where(jobs.c.workspace_id == workspace_id, fits)
    found: int | None = connection.scalar(chosen)
    return found


def _new_job(connection: Connection, workspace_id: int, owner_id: int, name: str) -> int:
    """Create a job; its number is in the name of no other job of the workspace."""
    values = {"workspace_id": workspace_id, "owner_id": owner_id, "created": time.time()}
    passed: list[int] = []
    while True:
        new = insert(jobs).values(name="", **values).returning(jobs.c.id)
        number = int(connection.execute(new).scalar_one())
        if _job_called(connection, workspace_id, f"job{number}") == number:
            break
        passed.append(number)
    if passed:  # only now, so that their numbers are not given again
        connection.execute(delete(jobs).where(jobs.c.id.in_(passed)))
    if name:
        connection.execute(update(jobs).where(jobs.c.id == number).values(name=name))
    return number


def _set_details(connection: Connection, run_id: int, new: NewRun) -> None:
    if not new.details:
        _forget_worker(connection, run_id)
        return
    connection.execute(run_details.delete().where(run_details.c.run_id == run_id))
    connection.execute(insert(run_details), {"run_id": run_id, "details": new.details})


def note_rank(connection: Connection, run_id: int, new: NewRun) -> None:
    """Record the lowest rank of the processes that are a run: it says how the run has ended."""
    rank, details = _rank_of(new.details), details_of(connection, run_id)
    known = _rank_of(details)
    if rank is not None and known is not None and rank < known:
        details["worker"]["rank"] = rank
        chosen = update(run_details).where(run_details.c.run_id == run_id)
        connection.execute(chosen.values(details=details))


def _rank_of(details: Mapping[str, Any]) -> int | None:
    """Return the rank in the record of a worker; None if it has none."""
    worker = details.get("worker")
    rank = worker.get("rank") if isinstance(worker, dict) else None
    return rank if isinstance(rank, int) else None


def _forget_worker(connection: Connection, run_id: int) -> None:
    """Drop the record of an older attempt's process: it says nothing of the newest attempt's."""
    details = details_of(connection, run_id)
    if details.pop("worker", None) is not None:
        chosen = update(run_details).where(run_details.c.run_id == run_id)
        connection.execute(chosen.values(details=details))
