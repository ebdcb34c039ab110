"""Runs that are created: keys, attempts, where their files are; details; connections to storage."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Columns are added one by one: SQLite would copy the table, and deleting the old one would
    delete all that refers to it."""
    for column in (
        sa.Column("key", sa.String(length=200), nullable=True),
        sa.Column("resume_key", sa.String(length=200), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("kept", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("progress", sa.Double(), nullable=True),
    ):
        op.add_column("runs", column)
    op.add_column("logdirs", sa.Column("experiment", sa.Text(), nullable=True))
    op.create_index("uq_runs_workspace_id_key", "runs", ["workspace_id", "key"], unique=True)
    op.create_index(op.f("ix_runs_status_heartbeat"), "runs", ["status", "heartbeat"])
    op.create_table(
        "run_details",
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_run_details_run_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_details")),
    )
    op.create_table(
        "connections",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("workspace_id", _ID, nullable=True),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("created_by", _ID, nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["created_by"],
            ["users.id"],
            name=op.f("fk_connections_created_by"),
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["workspace_id"],
            ["workspaces.id"],
            name=op.f("fk_connections_workspace_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_connections")),
        sa.UniqueConstraint("name", name=op.f("uq_connections_name")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_connections_workspace_id"), "connections", ["workspace_id"])
