"""The run that an attempt goes on with is found by the attempt's key, by an index.

Every run that is begun is looked for by its key, so that asking twice makes one.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Few runs have been gone on with; the others are not in it."""
    there = sa.text("resume_key IS NOT NULL")
    op.create_index(
        op.f("ix_runs_workspace_id_resume_key"),
        "runs",
        ["workspace_id", "resume_key"],
        sqlite_where=there,
        postgresql_where=there,
    )
