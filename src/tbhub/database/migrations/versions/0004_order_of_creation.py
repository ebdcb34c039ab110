"""Runs in the order of their creation, by an index; others have the few runs that are in them only.

Most runs are found, a hundred thousand at a time, and have no job, key or heartbeat.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_FEW = (
    ("ix_runs_job_id", ["job_id"], "job_id"),
    ("uq_runs_workspace_id_key", ["workspace_id", "key"], "key"),
    ("ix_runs_status_heartbeat", ["status", "heartbeat"], "heartbeat"),
)


def upgrade() -> None:
    """With the id, which decides among runs of one moment. No order was found by `updated`."""
    op.create_index(op.f("ix_runs_created_id"), "runs", ["created", "id"])
    op.drop_index(op.f("ix_runs_workspace_id_updated"), "runs")
    for name, columns, given in _FEW:
        there = sa.text(f"{given} IS NOT NULL")
        op.drop_index(op.f(name), "runs")
        op.create_index(
            op.f(name),
            "runs",
            columns,
            unique=name.startswith("uq"),
            sqlite_where=there,
            postgresql_where=there,
        )
