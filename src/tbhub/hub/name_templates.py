"""The template by which a board names its runs when its creator gave none.

The user's own counts before the workspace's, and that before the hub's.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, select

from tbhub.api.models import NewBoard
from tbhub.api.problems import BadRequest
from tbhub.catalog.templates import TemplateError, parse_template
from tbhub.database.tables import users, workspaces


def check_template(text: str | None) -> None:
    """Refuse a template that cannot be understood; none at all is fine.

    Raises:
        BadRequest: Says where it is wrong.
    """
    try:
        if text:
            parse_template(text)
    except TemplateError as error:
        raise BadRequest(str(error)) from None


def with_default(
    connection: Connection,
    new: NewBoard,
    user_id: int,
    of_hub: str,
    workspace_of: Callable[[], int | None],
) -> NewBoard:
    """Return a request for a board with the template that applies to it.

    Args:
        of_hub: The hub's own default; empty for none.
        workspace_of: Finds the board's workspace; called only if some workspace has a template.
    """
    if new.options.template:
        return new
    template = connection.scalar(select(users.c.name_template).where(users.c.id == user_id))
    if not template:
        rows = select(workspaces.c.id, workspaces.c.name_template)
        given = connection.execute(rows.where(workspaces.c.name_template.is_not(None))).all()
        by_workspace = {row.id: row.name_template for row in given if row.name_template}
        template = by_workspace.get(workspace_of()) if by_workspace else None
    template = template or of_hub
    if not template:
        return new
    options = new.options.model_copy(update={"template": template})
    return new.model_copy(update={"options": options})
