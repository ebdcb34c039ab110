"""How each user can log in."""

from __future__ import annotations

import time
from collections.abc import Iterable

from sqlalchemy import Connection, select

from tbhub.api.models import LoginWay, User
from tbhub.database.tables import login_links, tokens, users
from tbhub.hub.users import can_be_linked


def with_login_ways(connection: Connection, found: Iterable[User], *, sso: bool) -> list[User]:
    """Return users with the ways by which they can log in.

    Args:
        sso: Whether the hub has single sign-on.
    """
    now = time.time()
    api = select(tokens.c.user_id).where(
        tokens.c.kind == "api", tokens.c.expires.is_(None) | (tokens.c.expires > now)
    )
    with_token = set(connection.scalars(api.distinct()))
    links = select(login_links.c.user_id).where(
        login_links.c.purpose == "password", login_links.c.expires > now
    )
    invited = set(connection.scalars(links))
    rows = {row.id: row for row in connection.execute(select(users))}

    def ways(user: User) -> list[LoginWay]:
        row = rows.get(user.id)
        if row is None or user.disabled:
            return []
        is_linked = row.subject is not None
        can_link = not is_linked and can_be_linked(connection, row)
        known: dict[LoginWay, bool] = {
            "password": row.password is not None,
            "sso": sso and (is_linked or can_link),
            "token": user.id in with_token,
            "invitation": user.id in invited,
        }
        return [way for way, is_there in known.items() if is_there]

    return [user.model_copy(update={"login_ways": ways(user)}) for user in found]
