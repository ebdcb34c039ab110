"""Runs that were found are called what their directories are called; a job's name is unique.

Until now every run was called ``run<number>`` unless it was given another name. Names that were
given stay. The rules for names are repeated here, because `tbhub.catalog.names` may change.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_MAX_NAME = 400
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_PARTS = re.compile(
    r"train|training|test|eval|val|valid|validation|dev"
    r"|[0-9]+|(?:version|rank|local_rank|worker|node|process)[_-]?[0-9]+"
    r"|lightning_logs|logs?|events?|summar(?:y|ies)|tb|tb_?logs?|tensorboard"
)


def upgrade() -> None:
    """Add the columns, name the runs that were found, and merge jobs of one name."""
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.add_column("runs", sa.Column("named", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("runs", sa.Column("tail", text))
    op.add_column("workspaces", sa.Column("name_template", sa.Text))
    op.add_column("users", sa.Column("name_template", sa.Text))
    _name_runs(op.get_bind())
    there = sa.text("tail IS NOT NULL")
    op.create_index(
        op.f("ix_runs_workspace_id_tail"),
        "runs",
        ["workspace_id", "tail"],
        sqlite_where=there,
        postgresql_where=there,
    )
    _merge_jobs(op.get_bind())
    named = sa.text("name != ''")
    op.create_index(
        op.f("uq_jobs_workspace_id_name"),
        "jobs",
        ["workspace_id", "name"],
        unique=True,
        sqlite_where=named,
        postgresql_where=named,
    )


def _name_runs(connection: sa.Connection) -> None:
    given = "name != 'run' || CAST(id AS VARCHAR(20))"
    was_found = "heartbeat IS NULL AND attempt = 0"
    connection.execute(sa.text(f"UPDATE runs SET named = NOT ({was_found}) OR {given}"))
    rows = connection.execute(
        sa.text(
            "SELECT id, workspace_id, location, name, named,"
            f" ({was_found}) AS was_found, started FROM runs"
        )
    ).all()
    by_workspace: dict[int, list[Any]] = {}
    for row in rows:
        by_workspace.setdefault(row.workspace_id, []).append(row)
    changes = [change for each in by_workspace.values() for change in _names(each)]
    # No name may be there twice, not for a moment: the old ones are cleared away first.
    connection.execute(sa.text("UPDATE runs SET name = '#' || id || '#' WHERE NOT named"))
    if changes:
        update = sa.text("UPDATE runs SET name = :name, tail = :tail WHERE id = :id")
        connection.execute(update, changes)
    connection.execute(
        sa.text(f"UPDATE runs SET created = started WHERE {was_found} AND started IS NOT NULL")
    )


def _names(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """The names and tails of the runs of one workspace."""
    found = {row.id: row for row in rows if row.was_found}
    tails = {number: _tail(row.location) for number, row in found.items()}
    ordered = sorted(set(tails.values()))
    needed: dict[str, int] = {}
    shared = [0, *(_shared(*pair) for pair in itertools.pairwise(ordered)), 0]
    for at, tail in enumerate(ordered):
        needed[tail] = min(tail.count("/"), max(shared[at], shared[at + 1], _least(tail) - 1) + 1)
    taken = {row.name for row in rows if row.named}
    changes = []
    for number, tail in tails.items():
        name, count = found[number].name, needed[tail]
        while not found[number].named:
            name = _name(number, tail, count)
            if name not in taken:
                taken.add(name)
                break
            count += 1
        changes.append({"id": number, "name": name, "tail": tail})
    return changes


def _tail(location: str) -> str:
    path = location.partition("://")[2] if "://" in location else location
    return "".join(f"{part}/" for part in reversed(path.split("/")) if part not in ("", "."))


def _shared(one: str, other: str) -> int:
    count = 0
    for mine, its in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if mine != its:
            break
        count += 1
    return count


def _least(tail: str) -> int:
    parts = tail.split("/")[:-1]
    plain = (at for at, part in enumerate(parts, 1) if _PARTS.fullmatch(part) is None)
    return next(plain, len(parts))


def _name(number: int, tail: str, count: int) -> str:
    parts = tail.split("/")[:-1][:count]
    name = _UNSAFE.sub(_escaped, "/".join(reversed(parts))) or "/"
    missing = max(count - tail.count("/"), int(len(name) > _MAX_NAME))
    mark = f" #{number}" * missing
    return name if not mark else f"{name[-(_MAX_NAME - len(mark)) :]}{mark}"


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogateescape"))


def _merge_jobs(connection: sa.Connection) -> None:
    """Of jobs of one name the newest was meant by it."""
    newest = (
        "SELECT MAX(other.id) FROM jobs AS mine JOIN jobs AS other"
        " ON other.workspace_id = mine.workspace_id AND other.name = mine.name"
        " WHERE mine.id = runs.job_id AND mine.name != ''"
    )
    connection.execute(
        sa.text(f"UPDATE runs SET job_id = COALESCE(({newest}), job_id) WHERE job_id IS NOT NULL")
    )
    newer = (
        "SELECT 1 FROM jobs AS other WHERE other.workspace_id = jobs.workspace_id"
        " AND other.name = jobs.name AND other.id > jobs.id"
    )
    connection.execute(sa.text(f"DELETE FROM jobs WHERE name != '' AND EXISTS ({newer})"))
