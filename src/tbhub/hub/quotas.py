"""How many boards may run at once: for each person, and in each workspace.

A board holds a place while it is live. In a workspace only the boards of its members and of the
hub's admins are counted: a viewer of the workspace, and a user who has left it, takes no place of
its members. The places are counted in the transaction that takes one.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, func, or_, select, true

from tbhub.api.models import Quota, Quotas
from tbhub.api.problems import TensorboardLimitExceeded
from tbhub.boards.life import LIVE
from tbhub.database.tables import boards, members, users, workspaces
from tbhub.hub.access import Caller
from tbhub.hub.settings import Settings
from tbhub.texts import text

_SHOWN = 10


def take_place(
    connection: Connection, settings: Settings, owner_id: int, workspace_id: int | None
) -> None:
    """Makes sure that there is a place for one more board.

    Raises:
        TensorboardLimitExceeded: There is none; names the boards that hold the places.
    """
    if connection.dialect.name == "postgresql":
        # Two who take the last place wait for one another here, and not only in this process.
        connection.execute(select(users.c.id).where(users.c.id == owner_id).with_for_update())
        if workspace_id is not None:
            chosen = workspaces.c.id == workspace_id
            connection.execute(select(workspaces.c.id).where(chosen).with_for_update())
    allowed = allowed_for_user(connection, settings, owner_id)
    _check(connection, boards.c.owner_id == owner_id, allowed, "yours")
    if workspace_id is not None and _takes_place(connection, owner_id, workspace_id):
        own = select(workspaces.c.max_boards).where(workspaces.c.id == workspace_id)
        override: int | None = connection.scalar(own)
        allowed = settings.max_boards_per_workspace if override is None else override
        here = (boards.c.workspace_id == workspace_id) & _is_member(boards.c.workspace_id)
        _check(connection, here, allowed, "workspace")


def _is_member(workspace_id: ColumnElement[int] | int) -> ColumnElement[bool]:
    """Return whether a user of a query is more than a viewer of a workspace."""
    mine = select(members.c.user_id).where(
        members.c.workspace_id == workspace_id,
        members.c.user_id == users.c.id,
        members.c.role != "viewer",
    )
    return or_(users.c.role == "admin", mine.correlate(users, boards).exists())


def _takes_place(connection: Connection, user_id: int, workspace_id: int) -> bool:
    chosen = select(users.c.id).where(users.c.id == user_id, _is_member(workspace_id))
    return connection.scalar(chosen) is not None


def allowed_for_user(connection: Connection, settings: Settings, user_id: int) -> int:
    """How many boards somebody may have; 0: any number."""
    own = connection.scalar(select(users.c.max_boards).where(users.c.id == user_id))
    return settings.max_boards_per_user if own is None else own


def quotas(connection: Connection, settings: Settings, caller: Caller) -> Quotas:
    """Everybody's quota for admins, one's own for others; and those of workspaces one may see."""
    people = select(users.c.id, users.c.name, users.c.max_boards).order_by(users.c.name)
    if not caller.is_admin:
        people = people.where(users.c.id == caller.user_id)
    places = select(workspaces.c.id, workspaces.c.name, workspaces.c.max_boards)
    if caller.visible is not None:
        places = places.where(workspaces.c.id.in_(caller.visible))
    per_user, per_workspace = settings.max_boards_per_user, settings.max_boards_per_workspace
    return Quotas(
        user_default=per_user or None,
        workspace_default=per_workspace or None,
        users=_quotas(connection, people, boards.c.owner_id, true(), per_user),
        workspaces=_quotas(
            connection,
            places.order_by(workspaces.c.name),
            boards.c.workspace_id,
            _is_member(boards.c.workspace_id),
            per_workspace,
        ),
    )


def _quotas(
    connection: Connection,
    chosen: Select[Any],
    whose: Column[Any],
    counted: ColumnElement[bool],
    default: int,
) -> list[Quota]:
    joined = boards.join(users, users.c.id == boards.c.owner_id)
    up = select(whose, func.count()).select_from(joined).where(boards.c.state.in_(LIVE), counted)
    live = up.group_by(whose)
    used = {row[0]: row[1] for row in connection.execute(live)}
    return [
        Quota(
            name=row.name,
            used=used.get(row.id, 0),
            allowed=(default if row.max_boards is None else row.max_boards) or None,
            own=row.max_boards,
        )
        for row in connection.execute(chosen).all()
    ]


def _check(connection: Connection, whose: object, allowed: int, whose_quota: str) -> None:
    if not allowed:
        return
    joined = boards.join(users, users.c.id == boards.c.owner_id)
    chosen = (
        select(boards.c.id, boards.c.name, users.c.name.label("owner"), boards.c.state)
        .select_from(joined)
        .where(whose, boards.c.state.in_(LIVE))  # type: ignore[arg-type]
        .order_by(boards.c.active)
    )
    holding = [dict(row._mapping) for row in connection.execute(chosen)]
    if len(holding) < allowed:
        return
    names = ", ".join(each["name"] for each in holding[:_SHOWN])
    if len(holding) > _SHOWN:
        names = text("quota.names_and_more", names=names, more=len(holding) - _SHOWN)
    raise TensorboardLimitExceeded(
        text(f"quota.{whose_quota}", used=len(holding), allowed=allowed, names=names),
        boards=holding,
        allowed=allowed,
    )
