"""Runs in the order of the least or greatest value of a metric, found in an index."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """As there is one of their last values."""
    for column in ("min", "max"):
        op.create_index(op.f(f"ix_metrics_tag_{column}"), "metrics", ["tag", column])
