"""How the tables came to be what they are, one revision after the other.

A revision that was released is never changed: databases of every age come by here. What all
revisions together make is exactly `tbhub.database.tables`, which a test holds.
"""

from __future__ import annotations

import threading

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection

from tbhub.api.problems import Unavailable

# Alembic keeps the connection it works on in a global.
_alembic = threading.Lock()


def config() -> Config:
    """Alembic's settings, which are the same everywhere."""
    made = Config()
    made.set_main_option("script_location", "tbhub.database:migrations")
    made.set_main_option("path_separator", "os")
    return made


def upgrade(connection: Connection, name: str) -> None:
    """Runs every revision the database lacks, within the connection's transaction."""
    settings = config()
    settings.attributes["connection"] = connection
    with _alembic:
        try:
            command.upgrade(settings, "head")
        except CommandError as error:
            raise Unavailable(
                f"The database {name} was made by a newer tbhub ({error}). Install that version."
            ) from error
