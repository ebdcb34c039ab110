"""Rows of runs: created one by one by who starts them, and by the thousand by discovery.

A run that was found and one that was created at the same place are the same run. What was created
has a heartbeat; its status is told by who started it, and never guessed from its files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    delete,
    exists,
    insert,
    or_,
    select,
    text,
    update,
)

from tbhub.api.models import Run, RunStatus
from tbhub.api.problems import Conflict, NotFound
from tbhub.catalog.names import tail_of
from tbhub.catalog.naming import ends_in, lengthen_name, lock_names, name_found
from tbhub.catalog.query import begins_with
from tbhub.catalog.runs import get_run, require_name, set_hparams
from tbhub.database.rows import among, chunks, insert_new, insert_tuples
from tbhub.database.tables import (
    board_runs,
    experiments,
    forgotten,
    jobs,
    run_tags,
    runs,
)
from tbhub.storage.uri import same_place_key


class FoundRun(NamedTuple):
    """A run directory below a logdir."""

    path: str  # for people
    location: str
    experiment: str


_FOUND = (
    *("id", "name", "path", "location", "experiment_id"),
    *("workspace_id", "logdir_id", "status", "created", "note", "archived", "seen", "tail"),
)


def create_run(
    connection: Connection,
    workspace_id: int,
    experiment: str,
    location: str | Callable[[int, str], str],
    name: str | None = None,
    *,
    kept: bool = False,
    key: str | None = None,
    takes_name: bool = False,
    hparams: Mapping[str, object] | None = None,
    tags: Sequence[str] = (),
    job: int | None = None,
    status: RunStatus = "running",
    owner_id: int | None = None,
    machine: str | None = None,
    command: str | None = None,
    note: str = "",
) -> Run:
    """A run that is being started; one that was found at its location before becomes it.

    Args:
        location: Where it logs; or what says so, given the run's number and name.
        kept: Whether the hub itself keeps its files.
        key: Of who creates it; unique in the workspace.
        takes_name: A run that was only found and has the name gets a longer one.

    Raises:
        NotFound: There is no such workspace or job.
        Conflict: The name is taken in the workspace, or the location is that of a created run.
        BadRequest: The name is the number of a run.
    """
    now = time.time()
    if not lock_names(connection, workspace_id):
        raise NotFound("There is no such workspace.")
    if job is not None:
        mine = select(jobs.c.id).where(jobs.c.id == job, jobs.c.workspace_id == workspace_id)
        _insist(connection, mine, "job")
    experiment_id = experiment_ids(connection, workspace_id, [experiment], now)[experiment]
    values: dict[str, Any] = {
        "experiment_id": experiment_id,
        "job_id": job,
        "status": status,
        "owner_id": owner_id,
        "machine": machine,
        "command": command,
        "note": note,
        "heartbeat": now,
        "attempt": 1,
        "kept": kept,
        "key": key,
    }
    run_id = 0
    if not isinstance(location, str):
        run_id = new_ids(connection, workspace_id, 1)[0]
        location = location(run_id, name or f"run{run_id}")
    there = find_known(connection, workspace_id, [location]).get(location)
    if there is not None and there.heartbeat is not None:
        raise Conflict(f"{location} is where run {there.id} logs; choose another place.")
    if name is not None:
        require_name(name)
        taken = select(runs.c.id).where(runs.c.workspace_id == workspace_id, runs.c.name == name)
        other = connection.scalar(taken.where(runs.c.id != (there.id if there else 0)))
        if other is not None and not (
            takes_name
            and _was_only_found(connection, other)
            and lengthen_name(connection, workspace_id, other)
        ):
            raise Conflict(
                f"The name {name} is taken by run #{other}. hint: choose another name; to continue "
                f"that run: --resume '#{other}'."
            )
        values |= {"name": name, "named": True}
    if there is None:
        run_id = run_id or new_ids(connection, workspace_id, 1)[0]
        connection.execute(
            insert(runs),
            {
                "name": f"run{run_id}",
                "named": True,
                "path": location,
                "created": now,
                **values,
                "id": run_id,
                "workspace_id": workspace_id,
                "location": location,
            },
        )
        remembered = forgotten.c.workspace_id == workspace_id, forgotten.c.location == location
        connection.execute(delete(forgotten).where(*remembered))
    else:
        run_id = there.id
        if there.location != location:
            # Its worker can reach what it was given, and a logdir knows its runs by their spelling.
            values |= {"location": location, "logdir_id": None}
        connection.execute(update(runs).where(runs.c.id == run_id), values)
    set_hparams(connection, run_id, hparams or {})
    insert_new(connection, run_tags, [{"run_id": run_id, "tag": tag} for tag in tags])
    return get_run(connection, run_id, None)


def _was_only_found(connection: Connection, run: int) -> bool:
    chosen = select(runs.c.id).where(runs.c.id == run, runs.c.heartbeat.is_(None))
    return connection.scalar(chosen) is not None


def experiment_ids(
    connection: Connection, workspace_id: int, names: Sequence[str], now: float
) -> dict[str, int]:
    """The experiments of these names, made where there are none."""
    wanted = select(experiments.c.name, experiments.c.id).where(
        experiments.c.workspace_id == workspace_id,
        among(connection, experiments.c.name, sorted(set(names))),
    )
    found = {row.name: row.id for row in connection.execute(wanted)}
    missing = [name for name in sorted(set(names)) if name not in found]
    if missing:
        insert_new(
            connection,
            experiments,
            [{"workspace_id": workspace_id, "name": name, "created": now} for name in missing],
        )
        found = {row.name: row.id for row in connection.execute(wanted)}
    return found


def new_ids(connection: Connection, workspace_id: int, count: int) -> list[int]:
    """Numbers for new runs, each of which may be called run<number> in the workspace.

    No run there has the name, nor a directory of that name.
    """
    found: list[int] = []
    while len(found) < count:
        fresh = _next_ids(connection, count - len(found))
        names = [f"run{number}" for number in fresh]
        taken = set(
            connection.scalars(
                select(runs.c.name).where(
                    runs.c.workspace_id == workspace_id, among(connection, runs.c.name, names)
                )
            )
        )
        prefixes = [f"{name}/" for name in names]
        for alike in ends_in(prefixes, runs.c.workspace_id == workspace_id):
            tails = connection.scalars(select(runs.c.tail).where(alike))
            taken.update(tail.partition("/")[0] for tail in tails)
        found += [number for number in fresh if f"run{number}" not in taken]
    return found


def _next_ids(connection: Connection, count: int) -> list[int]:
    if connection.dialect.name == "postgresql":
        drawn = text(
            "SELECT nextval(pg_get_serial_sequence('runs', 'id')) FROM generate_series(1, :count)"
        )
        return list(connection.scalars(drawn, {"count": count}))
    # The transaction has the right to write: nobody else draws numbers meanwhile.
    last = connection.scalar(text("SELECT seq FROM sqlite_sequence WHERE name = 'runs'"))
    if last is None:
        connection.execute(text("INSERT INTO sqlite_sequence VALUES ('runs', 0)"))
    connection.execute(
        text("UPDATE sqlite_sequence SET seq = seq + :count WHERE name = 'runs'"), {"count": count}
    )
    return list(range((last or 0) + 1, (last or 0) + count + 1))


def add_found(
    connection: Connection,
    workspace_id: int,
    logdir_id: int | None,
    found: Sequence[FoundRun],
    now: float,
) -> dict[str, int]:
    """Runs that were found, by location: new ones are made, known and lost ones taken up again.

    Without a logdir they were found once, and nobody looks for them again. Runs that a person has
    forgotten, that another logdir has found first, or that are known by another spelling than the
    logdir's, are left out.
    """
    places = [run.location for run in found]
    known = find_known(connection, workspace_id, places)
    gone = (
        forgotten.c.workspace_id == workspace_id,
        among(connection, forgotten.c.location, places),
    )
    left_out = set(connection.scalars(select(forgotten.c.location).where(*gone)))
    numbers = _insert_found(
        connection,
        workspace_id,
        logdir_id,
        [run for run in found if run.location not in known and run.location not in left_out],
        now,
    )
    for run in found:
        row = known.get(run.location)
        if row is None:
            continue
        is_others = row.logdir_id not in (None, logdir_id) or row.location != run.location
        if logdir_id is not None and is_others:
            continue
        numbers[run.location] = row.id
        if logdir_id is None and row.logdir_id is not None:
            continue
        back = row.status == "lost" and row.heartbeat is None
        if row.logdir_id != logdir_id or back:
            changed: dict[str, Any] = {"logdir_id": logdir_id, "path": run.path, "seen": ""}
            if back:
                changed |= {"status": "unknown", "problem": None}
            connection.execute(update(runs).where(runs.c.id == row.id).values(changed))
    return numbers


def find_known(
    connection: Connection, workspace_id: int, locations: Sequence[str]
) -> dict[str, Any]:
    """Return the runs of a workspace at some locations, by these, however a run's is spelled.

    Of several spellings of a location, the given one comes first, then that of the oldest run.
    """
    others = _other_spellings(connection, workspace_id, locations)
    columns = (runs.c.location, runs.c.id, runs.c.logdir_id, runs.c.status, runs.c.heartbeat)
    here = among(connection, runs.c.location, [*locations, *others])
    chosen = select(*columns).where(runs.c.workspace_id == workspace_id, here)
    found = {row.location: row for row in connection.execute(chosen)}
    if not others:
        return found
    rows = sorted(found.values(), key=lambda row: int(row.id), reverse=True)
    by_key = {same_place_key(row.location): row for row in rows}
    known = {each: found.get(each) or by_key.get(same_place_key(each)) for each in locations}
    return {each: row for each, row in known.items() if row is not None}


def _other_spellings(
    connection: Connection, workspace_id: int, locations: Sequence[str]
) -> list[str]:
    """Return other spellings of some locations in OSS, with each host that runs there have."""
    inside: dict[str, set[str]] = {}  # by bucket
    for key in {same_place_key(each) for each in locations if each.startswith("oss://")}:
        bucket, slash, path = key.removeprefix("oss://").partition("/")
        inside.setdefault(f"oss://{bucket}", set()).add(f"{slash}{path}")
    return [
        f"{top}{path}"
        for bucket, paths in inside.items()
        for top in (bucket, *_hosts_of(connection, workspace_id, bucket))
        for path in paths
    ]


def _hosts_of(connection: Connection, workspace_id: int, bucket: str) -> list[str]:
    """Return the spellings of a bucket of OSS with a host that runs of a workspace have."""
    location = runs.c.location
    chosen = select(location).where(
        runs.c.workspace_id == workspace_id, begins_with(location, f"{bucket}.oss-")
    )
    hosts: list[str] = []
    while (found := connection.scalar(chosen.limit(1))) is not None:
        host = "/".join(found.split("/", 3)[:3])
        hosts.append(host)
        chosen = chosen.where(location != host, ~begins_with(location, f"{host}/"))
    return hosts


def _insert_found(
    connection: Connection,
    workspace_id: int,
    logdir_id: int | None,
    found: Sequence[FoundRun],
    now: float,
) -> dict[str, int]:
    if not found:
        return {}
    lock_names(connection, workspace_id)
    groups = experiment_ids(connection, workspace_id, [run.experiment for run in found], now)
    numbers = dict(zip(_next_ids(connection, len(found)), found, strict=True))
    names = name_found(
        connection, workspace_id, {number: run.location for number, run in numbers.items()}
    )
    insert_tuples(
        connection,
        runs,
        _FOUND,
        [
            (
                *(number, names[number], run.path, run.location, groups[run.experiment]),
                *(workspace_id, logdir_id, "unknown", now, "", False, ""),
                tail_of(run.location),
            )
            for number, run in numbers.items()
        ],
    )
    return {run.location: number for number, run in numbers.items()}


def drop_gone(connection: Connection, ids: Sequence[int]) -> tuple[list[int], list[int]]:
    """Runs whose directories are gone: deleted, or lost where a person would miss them.

    A person would miss a run with a note, a tag, a name of its own, in a board, or that somebody
    started. Returns the deleted ones and the lost ones.
    """
    deleted: list[int] = []
    lost: list[int] = []
    for chunk in chunks(ids):
        rows = connection.execute(
            select(runs.c.id, is_missed().label("missed")).where(runs.c.id.in_(chunk))
        ).all()
        lost += [row.id for row in rows if row.missed]
        deleted += [row.id for row in rows if not row.missed]
    for chunk in chunks(lost):
        connection.execute(
            update(runs)
            .where(runs.c.id.in_(chunk))
            .values(status="lost", seen="", problem="Its directory is gone.")
        )
    delete_found(connection, deleted)
    return deleted, lost


def delete_found(connection: Connection, ids: Sequence[int]) -> None:
    """Delete found runs from the catalog, and their experiments where nothing is left of them."""
    emptied: set[int] = set()
    for chunk in chunks(ids):
        mine = runs.c.id.in_(chunk)
        emptied.update(connection.scalars(select(runs.c.experiment_id).where(mine)))
        connection.execute(delete(runs).where(mine))
    drop_empty_experiments(connection, sorted(emptied))


def is_missed() -> Any:
    """Whether a user would miss a run, as a condition."""
    shown = exists().where(board_runs.c.run_id == runs.c.id)
    return or_(is_kept_by_user(), shown)


def is_kept_by_user() -> Any:
    """Whether a user has started a run or given it a note, a tag or a name; as a condition."""
    tagged = exists().where(run_tags.c.run_id == runs.c.id)
    made = or_(runs.c.heartbeat.is_not(None), runs.c.owner_id.is_not(None))
    return or_(runs.c.note != "", runs.c.named, made, tagged)


def drop_empty_experiments(connection: Connection, ids: Sequence[int]) -> None:
    """Deletes those of the experiments that have no runs left, and nothing a person would miss."""
    used = exists().where(runs.c.experiment_id == experiments.c.id)
    plain = (experiments.c.note == "", experiments.c.owner_id.is_(None), ~experiments.c.archived)
    for chunk in chunks(ids):
        connection.execute(delete(experiments).where(experiments.c.id.in_(chunk), ~used, *plain))


def _insist(connection: Connection, wanted: Any, noun: str) -> None:
    if connection.scalar(wanted) is None:
        raise NotFound(f"There is no such {noun}.")
