"""How the hub is, as far as somebody may know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, select

from tbhub.api.models import Me, State, Status
from tbhub.database.tables import boards, experiments, runs
from tbhub.hub.access import Caller
from tbhub.hub.login_ways import with_login_ways
from tbhub.hub.quotas import allowed_for_user
from tbhub.hub.users import user_by_id

if TYPE_CHECKING:
    from tbhub.hub.hub import Hub


def me(hub: Hub, caller: Caller) -> Me:
    """Who somebody is, and what they may."""
    with hub.database.read() as connection:
        user = user_by_id(connection, caller.user_id)
        return Me(
            user=with_login_ways(connection, [user], sso=hub.oidc is not None)[0],
            scope=caller.scope,
            hub=version("tbhub"),
            single_user=hub.settings.single_user,
            boards_used=hub.conductor.places_held(caller.user_id),
            boards_allowed=allowed_for_user(connection, hub.settings, caller.user_id) or None,
        )


def status(hub: Hub, caller: Caller) -> Status:
    """How the hub is; what only admins may know is left out for others."""
    with hub.database.read() as connection:
        return Status(
            version=version("tbhub"),
            home=str(hub.home.path) if caller.is_admin else None,
            database=hub.database.name if caller.is_admin else hub.database.dialect,
            started=hub.started,
            runs=_count(connection, runs, caller),
            experiments=_count(connection, experiments, caller),
            boards=_boards(connection, caller),
            hosts=list(hub.conductor.hosts()) if caller.is_admin else [],
            # Of all workspaces, with the paths that cannot be read.
            indexing=dict(hub.indexing) if caller.is_admin else {},
        )


def gauges(hub: Hub) -> Mapping[str, Mapping[str, float]]:
    """Numbers for Prometheus that are looked up."""
    with hub.database.read() as connection:
        states = hub.conductor.counts()
        return {
            "tbhub_boards": {each.value: states.get(each, 0) for each in State},
            "tbhub_hosts": Counter(each.state for each in hub.conductor.hosts()),
            "tbhub_catalog": {
                "runs": connection.scalar(select(func.count()).select_from(runs)) or 0,
                "experiments": connection.scalar(select(func.count()).select_from(experiments))
                or 0,
            },
            "tbhub_streams": {"events": hub.bus.readers},
        }


def _count(connection: Connection, table: Any, caller: Caller) -> int:
    counted = select(func.count()).select_from(table)
    if caller.visible is not None:
        counted = counted.where(table.c.workspace_id.in_(caller.visible))
    return connection.scalar(counted) or 0


def _boards(connection: Connection, caller: Caller) -> dict[State, int]:
    counted = select(boards.c.state, func.count()).group_by(boards.c.state)
    if caller.visible is not None:
        counted = counted.where(boards.c.owner_id == caller.user_id)
    return {State(state): number for state, number in connection.execute(counted)}
