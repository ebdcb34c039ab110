"""What alembic runs: the revisions, on a connection whose transaction is the caller's."""

from __future__ import annotations

from alembic import context

from tbhub.database.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
