"""Many runs changed at once, as a person does who has selected them in a table.

All of them are changed, or none is. Tags are added and taken away: those that a person did not
speak of stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, update

from tbhub.api.models import RunsChange
from tbhub.database.rows import chunks, insert_new
from tbhub.database.tables import run_tags, runs


def change_runs(connection: Connection, ids: Sequence[int], change: RunsChange) -> None:
    """Changes runs by number; they are there, and the caller may."""
    values = change.model_dump(include={"note", "archived"}, exclude_none=True)
    for chunk in chunks(ids):
        if values:
            connection.execute(update(runs).where(runs.c.id.in_(chunk)).values(values))
        if change.remove_tags:
            mine = run_tags.c.run_id.in_(chunk), run_tags.c.tag.in_(change.remove_tags)
            connection.execute(delete(run_tags).where(*mine))
        for tag in dict.fromkeys(change.add_tags):
            insert_new(connection, run_tags, [{"run_id": number, "tag": tag} for number in chunk])
