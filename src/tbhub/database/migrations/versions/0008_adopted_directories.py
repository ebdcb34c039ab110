"""Event files of started runs, and directories that hold nothing but these."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables, and have started runs read again to fill them."""
    op.create_table(
        "event_files",
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("begun", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_event_files_run_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "name", "begun", name=op.f("pk_event_files")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_event_files_begun"), "event_files", ["begun"])
    op.create_table(
        "adopted_dirs",
        sa.Column("workspace_id", _ID, nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"],
            ["workspaces.id"],
            name=op.f("fk_adopted_dirs_workspace_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("workspace_id", "location", name=op.f("pk_adopted_dirs")),
        sqlite_with_rowid=False,
    )
    op.execute("UPDATE runs SET seen = '' WHERE attempt > 0")
