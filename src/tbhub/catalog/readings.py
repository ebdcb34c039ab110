"""What was read of runs, written to the database: many runs in one transaction, or none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, exists, func, or_, select, update

from tbhub.catalog.adopted_dirs import (
    Suspect,
    find_adopters,
    write_adopted,
    write_event_files,
)
from tbhub.catalog.aggregates import Aggregate
from tbhub.catalog.hparam_values import hparam_row
from tbhub.catalog.run_reader import Reading
from tbhub.catalog.run_records import delete_found, is_kept_by_user
from tbhub.database.rows import chunks, insert_new, put
from tbhub.database.tables import board_runs, boards, hparams, logdirs, metrics, runs

# Seconds without a new event after which a run that was found counts as ended. torch's writer shows
# what it logs every two minutes only.
RUNNING = 150.0
# Seconds. A run of this machine that was listed later than that after its last event may have ended
# before: its directory was forgotten or adopted until then, or was copied.
_LISTED_LATE_SECONDS = 30.0

_FIELDS = tuple(Aggregate.__dataclass_fields__)


def last_sign(reading: Reading, now: float) -> float | None:
    """When a run was last heard of. A time that is yet to come is that of another clock; then the
    time of its files has to do."""
    if reading.updated is None or reading.updated <= now + RUNNING:
        return reading.updated
    return min(reading.touched, now)


def status_of(reading: Reading, now: float) -> str:
    """What a run that nobody has created is doing, by what it has logged."""
    last = last_sign(reading, now)
    if last is None:
        return "unknown"
    return "running" if now - last < RUNNING else reading.ending


def write_readings(
    connection: Connection, readings: Mapping[int, Reading], now: float, since: float = 0.0
) -> set[int]:
    """Write what was read, by run. Return the runs that are still there.

    Args:
        since: When the indexer began to look. What a run has logged just before it was found does
            not show that it is running: it may have ended. One that has logged more since it was
            first read is running; so is one that began later, was listed soon after its last event,
            and whose files are not all closed.
    """
    there: dict[int, bool] = {}  # whether somebody created it
    unproven: set[int] = set()
    columns = (
        *(runs.c.id, runs.c.location, runs.c.heartbeat, runs.c.status, runs.c.updated),
        runs.c.created.label("listed"),  # until it is first read, and then when it began
        logdirs.c.created.label("watched"),
    )
    source = runs.outerjoin(logdirs, logdirs.c.id == runs.c.logdir_id)
    for chunk in chunks(list(readings)):
        chosen = select(*columns).select_from(source).where(runs.c.id.in_(chunk))
        for row in connection.execute(chosen.with_for_update(of=runs)):
            there[row.id] = row.heartbeat is not None
            if row.status == "unknown" and not _is_proven(readings[row.id], row, since):
                unproven.add(row.id)
    left = {run: reading for run, reading in readings.items() if run in there}
    for run in [run for run, reading in left.items() if reading.failed]:
        problem = left.pop(run).problem
        connection.execute(update(runs).where(runs.c.id == run).values(seen="", problem=problem))
    _write_runs(connection, left, there, now, unproven)
    _write_metrics(connection, left)
    _write_hparams(connection, left, there)
    for run, reading in left.items():
        if reading.files is not None:
            write_event_files(connection, run, reading.files)
    return set(there)


def _is_proven(reading: Reading, row: Any, since: float) -> bool:
    """Whether a run is known to have logged something since it was looked for."""
    if reading.updated is None:
        return False
    if row.updated is not None:
        return bool(reading.updated > row.updated)
    # A bucket in which nothing changes is listed once a minute.
    is_late = row.listed - reading.updated > _LISTED_LATE_SECONDS and "://" not in row.location
    if row.watched is None or is_late or reading.is_closed:
        return False
    return bool((reading.started or 0.0) >= max(since, row.watched))


def end_quiet(connection: Connection, ended: Mapping[int, tuple[str, float]]) -> None:
    """These have logged nothing for a while: how each ended, and when."""
    statement = (
        update(runs)
        .where(
            runs.c.id == bindparam("run"),
            or_(runs.c.status == "running", runs.c.status == "unknown"),
            runs.c.heartbeat.is_(None),
        )
        .values(status=bindparam("how"), ended=bindparam("at"))
    )
    rows = [{"run": run, "how": how, "at": at} for run, (how, at) in ended.items()]
    if rows:
        connection.execute(statement, rows)


def withdraw(connection: Connection, suspects: Sequence[Suspect]) -> list[Suspect]:
    """Delete found runs whose directories are adopted, and remember the directories.

    A run with a note, a tag, a name of its own, or on a board that does not follow its selector
    stays. Return the runs that were deleted.
    """
    rows = {
        row.id: row
        for ids in chunks([each.id for each in suspects])
        for row in connection.execute(
            select(runs.c.id, runs.c.workspace_id, _is_missed().label("missed")).where(
                runs.c.id.in_(ids)
            )
        )
    }
    withdrawn = [
        each
        for each in suspects
        if (row := rows.get(each.id)) is not None
        and not row.missed
        and find_adopters(connection, row.workspace_id, [each.location])
    ]
    for each in withdrawn:
        write_adopted(connection, rows[each.id].workspace_id, [each.location])
    delete_found(connection, [each.id for each in withdrawn])
    return withdrawn


def _write_runs(
    connection: Connection,
    readings: Mapping[int, Reading],
    created: Mapping[int, bool],
    now: float,
    unproven: Collection[int],
) -> None:
    common: dict[str, Any] = {
        "started": bindparam("first"),
        "updated": bindparam("latest"),
        "seen": bindparam("signature"),
        "problem": bindparam("trouble"),
    }
    own = {
        **common,
        "status": bindparam("doing"),
        "ended": bindparam("end"),
        "created": func.coalesce(bindparam("first"), runs.c.created),
    }
    for by_hand in (False, True):
        rows = []
        for run, reading in readings.items():
            if created[run] is not by_hand:
                continue
            row = {
                "run": run,
                "first": reading.started,
                "latest": reading.updated,
                "signature": reading.seen,
                "trouble": reading.problem,
            }
            if not by_hand:
                doing = status_of(reading, now)
                row["end"] = None if doing == "running" else reading.updated
                row["doing"] = "unknown" if doing == "running" and run in unproven else doing
            rows.append(row)
        if rows:
            statement = update(runs).where(runs.c.id == bindparam("run"))
            connection.execute(statement.values(common if by_hand else own), rows)


def _write_metrics(connection: Connection, readings: Mapping[int, Reading]) -> None:
    anew = [run for run, reading in readings.items() if reading.whole]
    for chunk in chunks(anew):
        connection.execute(delete(metrics).where(metrics.c.run_id.in_(chunk)))
    for run, reading in readings.items():
        for some in chunks(reading.dropped):
            mine = metrics.c.run_id == run, metrics.c.tag.in_(some)
            connection.execute(delete(metrics).where(*mine))
    rows = [
        {"run_id": run, "tag": tag, **{name: getattr(each, name) for name in _FIELDS}}
        for run, reading in readings.items()
        for tag, each in reading.metrics.items()
    ]
    put(connection, metrics, rows)


def _write_hparams(
    connection: Connection, readings: Mapping[int, Reading], created: Mapping[int, bool]
) -> None:
    """Those given when a run was created stand above those in its files."""
    changed = {run: r.hparams for run, r in readings.items() if r.hparams is not None}
    for chunk in chunks([run for run in changed if not created[run]]):
        connection.execute(delete(hparams).where(hparams.c.run_id.in_(chunk)))
    insert_new(
        connection,
        hparams,
        [
            hparam_row(run, name, value)
            for run, values in changed.items()
            for name, value in values.items()
        ],
    )


def _is_missed() -> Any:
    """Whether a user would miss a found run of which another run has the data."""
    shown = (
        exists()
        .where(board_runs.c.run_id == runs.c.id)
        .where(boards.c.id == board_runs.c.board_id)
        .where(~boards.c.follow)
    )
    return or_(is_kept_by_user(), shown)
