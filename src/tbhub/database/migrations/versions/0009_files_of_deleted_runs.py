"""Event files of deleted runs in directories that other runs share."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "deleted_files",
        sa.Column("workspace_id", _ID, nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("begun", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"],
            ["workspaces.id"],
            name=op.f("fk_deleted_files_workspace_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "workspace_id", "location", "name", "begun", name=op.f("pk_deleted_files")
        ),
        sqlite_with_rowid=False,
    )
