"""Workspaces: who is a member, and which logdirs are watched for them.

The workspace ``default`` is always there. What the caller may not see is not found; whether they
may change what they see has been decided by who calls.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from tbhub.api.models import (
    Logdir,
    Member,
    NewLogdir,
    NewWorkspace,
    Role,
    Workspace,
    WorkspaceChange,
)
from tbhub.api.problems import BadRequest, Conflict, NotFound
from tbhub.catalog.run_records import drop_empty_experiments, is_missed
from tbhub.catalog.selection import is_uri
from tbhub.database.rows import insert_new
from tbhub.database.tables import (
    deleted_files,
    experiments,
    forgotten,
    logdirs,
    members,
    runs,
    users,
    workspaces,
)
from tbhub.storage.errors import StoreError
from tbhub.storage.uri import HUB, parse

DEFAULT = "default"

Visible = frozenset[int] | None


def ensure_defaults(connection: Connection) -> None:
    """Makes the workspace ``default`` if it is not there."""
    insert_new(connection, workspaces, [{"name": DEFAULT, "created": time.time()}])


# --- workspaces


def list_workspaces(
    connection: Connection, visible: Visible, *, user_id: int | None = None
) -> list[Workspace]:
    """Those the caller may see, by name; `user_id` is the caller, whose role is told."""
    return _workspaces(connection, visible, user_id)


def get_workspace(
    connection: Connection, name: str, visible: Visible, *, user_id: int | None = None
) -> Workspace:
    """One of them."""
    found = _workspaces(connection, visible, user_id, name)
    if not found:
        raise _no_workspace(name)
    return found[0]


def create_workspace(
    connection: Connection, new: NewWorkspace, *, owner_id: int | None = None
) -> Workspace:
    """A new workspace; who makes it is its admin.

    Raises:
        Conflict: There is one of this name.
    """
    if _id_of(connection, new.name, None) is not None:
        raise Conflict(f"There is a workspace {new.name} already.")
    values = {**new.model_dump(), "created": time.time()}
    try:
        made = connection.execute(insert(workspaces).values(values).returning(workspaces.c.id))
    except IntegrityError as error:
        raise Conflict(f"There is a workspace {new.name} already.") from error
    if owner_id is not None:
        row = {"workspace_id": made.scalar_one(), "user_id": owner_id, "role": "admin"}
        connection.execute(insert(members), row)
    return get_workspace(connection, new.name, None, user_id=owner_id)


def change_workspace(
    connection: Connection,
    name: str,
    change: WorkspaceChange,
    visible: Visible,
    *,
    user_id: int | None = None,
) -> Workspace:
    """Changes what was given, also to none."""
    workspace_id = workspace_id_of(connection, name, visible)
    values = change.model_dump(exclude_unset=True)
    if values.get("note", "") is None:
        values["note"] = ""
    if values:
        connection.execute(update(workspaces).where(workspaces.c.id == workspace_id).values(values))
    return get_workspace(connection, name, visible, user_id=user_id)


def delete_workspace(connection: Connection, name: str, visible: Visible) -> None:
    """Deletes a workspace with everything the catalog knows of it; no file is touched.

    Raises:
        Conflict: It is the default workspace.
    """
    workspace_id = workspace_id_of(connection, name, visible)
    if name == DEFAULT:
        raise Conflict("The workspace default is always there and cannot be deleted.")
    connection.execute(delete(workspaces).where(workspaces.c.id == workspace_id))


def workspace_id_of(connection: Connection, name: str, visible: Visible) -> int:
    """The number of a workspace the caller may see."""
    found = _id_of(connection, name, visible)
    if found is None:
        raise _no_workspace(name)
    return found


# --- members


def list_members(connection: Connection, workspace: str, visible: Visible) -> list[Member]:
    """Who may see a workspace, by name; the hub's admins see all and are not listed."""
    workspace_id = workspace_id_of(connection, workspace, visible)
    rows = connection.execute(
        select(users.c.name, members.c.role)
        .join_from(members, users)
        .where(members.c.workspace_id == workspace_id)
        .order_by(users.c.name)
    )
    return [Member(user=name, role=role) for name, role in rows]


def set_member(
    connection: Connection, workspace: str, user: str, role: Role, visible: Visible
) -> Member:
    """Makes somebody a member, or gives a member another role."""
    key = _member(connection, workspace, user, visible)
    connection.execute(delete(members).where(*_is(key)))
    connection.execute(insert(members), {**key, "role": role})
    return Member(user=user, role=role)


def remove_member(connection: Connection, workspace: str, user: str, visible: Visible) -> None:
    """Somebody is no member any more."""
    key = _member(connection, workspace, user, visible)
    if connection.execute(delete(members).where(*_is(key))).rowcount == 0:
        raise NotFound(f"{user} is not a member of the workspace {workspace}.")


# --- logdirs


def list_logdirs(
    connection: Connection, visible: Visible, *, workspace: str | None = None
) -> list[Logdir]:
    """The directories that are watched, the first added first."""
    chosen: list[Any] = [_seen_by(logdirs.c.workspace_id, visible)]
    if workspace is not None:
        chosen.append(logdirs.c.workspace_id == workspace_id_of(connection, workspace, visible))
    return _logdirs(connection, chosen)


def get_logdir(connection: Connection, logdir_id: int, visible: Visible) -> Logdir:
    """One of them."""
    chosen = [_seen_by(logdirs.c.workspace_id, visible), logdirs.c.id == logdir_id]
    found = _logdirs(connection, chosen)
    if not found:
        raise NotFound(f"There is no logdir {logdir_id}.")
    return found[0]


def add_logdir(connection: Connection, new: NewLogdir, visible: Visible) -> Logdir:
    """Watches a directory from now on; it need not be there yet.

    Runs below it that were deleted once, but for their files, are found again.

    Raises:
        Conflict: It is being watched in this workspace.
    """
    workspace_id = workspace_id_of(connection, new.workspace, visible)
    path = _absolute(new.path)
    same = logdirs.c.workspace_id == workspace_id, logdirs.c.path == path
    if connection.scalar(select(logdirs.c.id).where(*same)) is not None:
        raise Conflict(f"{path} is being watched in the workspace {new.workspace} already.")
    values = {
        "workspace_id": workspace_id,
        "path": path,
        "experiment": new.experiment,
        "created": time.time(),
    }
    made = connection.execute(insert(logdirs).values(values).returning(logdirs.c.id)).scalar_one()
    remember(connection, workspace_id, path)
    return get_logdir(connection, made, None)


def remember(connection: Connection, workspace_id: int, place: str) -> None:
    """Runs at or below a place that were deleted, but for their files, may be found again: somebody
    has asked for them."""
    for table in (forgotten, deleted_files):
        here = (
            table.c.location == place,
            table.c.location.startswith(place.rstrip("/") + "/", autoescape=True),
        )
        connection.execute(delete(table).where(table.c.workspace_id == workspace_id, or_(*here)))


def remove_logdir(connection: Connection, logdir_id: int, visible: Visible) -> None:
    """Watches a directory no longer. Its runs leave the catalog, but for those with a note, a tag,
    a name of their own, or in a board; no file is touched."""
    get_logdir(connection, logdir_id, visible)
    found = runs.c.logdir_id == logdir_id
    emptied = connection.scalars(select(runs.c.experiment_id).where(found).distinct()).all()
    connection.execute(delete(runs).where(found, ~is_missed()))
    connection.execute(delete(logdirs).where(logdirs.c.id == logdir_id))
    drop_empty_experiments(connection, emptied)


# --- parts


def _workspaces(
    connection: Connection, visible: Visible, user_id: int | None, name: str | None = None
) -> list[Workspace]:
    own = select(members.c.role).where(
        members.c.workspace_id == workspaces.c.id, members.c.user_id == user_id
    )
    columns = [
        workspaces,
        own.scalar_subquery().label("role"),
        _count(experiments, experiments.c.workspace_id).label("experiments"),
        _count(runs, runs.c.workspace_id).label("runs"),
    ]
    chosen = select(*columns).where(_seen_by(workspaces.c.id, visible)).order_by(workspaces.c.name)
    if name is not None:
        chosen = chosen.where(workspaces.c.name == name)
    rows = connection.execute(chosen).mappings()
    return [Workspace(**{**row, "created": _time(row["created"])}) for row in rows]


def _count(table: Any, column: Any) -> Any:
    counted = select(func.count()).select_from(table).where(column == workspaces.c.id)
    return counted.scalar_subquery()


def _logdirs(connection: Connection, chosen: Collection[Any]) -> list[Logdir]:
    counted = select(func.count()).select_from(runs).where(runs.c.logdir_id == logdirs.c.id)
    rows = connection.execute(
        select(
            logdirs.c.id,
            logdirs.c.path,
            logdirs.c.created,
            workspaces.c.name.label("workspace"),
            counted.scalar_subquery().label("runs"),
        )
        .join_from(logdirs, workspaces)
        .where(*chosen)
        .order_by(logdirs.c.id)
    ).mappings()
    return [Logdir(**{**row, "created": _time(row["created"])}) for row in rows]


def _absolute(path: str) -> str:
    if is_uri(path) and not path.startswith("file:"):
        try:
            place = parse(path)
        except StoreError as error:
            raise BadRequest(str(error)) from None
        if place.scheme == HUB:
            raise BadRequest(f"{path}: what a hub keeps is known to it already.")
        return str(place)
    if "\x00" in path or "://" in path:
        raise BadRequest(f"{path!r} is not a directory of this machine.")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(f"{path!r} is not UTF-8; its runs could not be named.") from error
    return os.path.abspath(os.path.expanduser(path))


def _id_of(connection: Connection, name: str, visible: Visible) -> int | None:
    chosen = select(workspaces.c.id).where(workspaces.c.name == name)
    found: int | None = connection.scalar(chosen.where(_seen_by(workspaces.c.id, visible)))
    return found


def _seen_by(column: Any, visible: Visible) -> Any:
    return True if visible is None else column.in_(visible)


def _member(connection: Connection, workspace: str, user: str, visible: Visible) -> dict[str, int]:
    workspace_id = workspace_id_of(connection, workspace, visible)
    user_id = connection.scalar(select(users.c.id).where(users.c.name == user))
    if user_id is None:
        raise NotFound(f"There is no user {user}.")
    return {"workspace_id": workspace_id, "user_id": user_id}


def _is(key: dict[str, int]) -> list[Any]:
    return [members.c[name] == value for name, value in key.items()]


def _no_workspace(name: str) -> NotFound:
    return NotFound(f"There is no workspace {name}.")


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
