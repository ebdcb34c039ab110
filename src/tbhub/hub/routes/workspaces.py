"""``/api/v1/workspaces`` and ``/api/v1/logdirs``."""

from __future__ import annotations

import os

from fastapi import APIRouter
from sqlalchemy import Connection

from tbhub.api.models import (
    Event,
    Logdir,
    Member,
    MemberChange,
    NewLogdir,
    NewWorkspace,
    Workspace,
    WorkspaceChange,
)
from tbhub.api.problems import Conflict, NotFound
from tbhub.catalog import workspaces as catalog
from tbhub.hub.access import Caller
from tbhub.hub.language import say
from tbhub.hub.name_templates import check_template
from tbhub.hub.routes.common import Admin, Number, Reader, TheHub, Word, problems
from tbhub.hub.users import get_user

router = APIRouter(tags=["workspaces"])


@router.get("/workspaces", responses=problems())
def list_workspaces(hub: TheHub, caller: Reader) -> list[Workspace]:
    """The workspaces the caller may see."""
    with hub.database.read() as connection:
        return catalog.list_workspaces(connection, caller.visible, user_id=caller.user_id)


@router.post("/workspaces", status_code=201, responses=problems(Conflict))
def create_workspace(hub: TheHub, caller: Admin, new: NewWorkspace) -> Workspace:
    """Makes a workspace."""
    with hub.database.begin() as connection:
        found = catalog.create_workspace(connection, new, owner_id=caller.user_id)
    hub.identity.forget()
    return found


@router.patch("/workspaces/{name}", responses=problems(NotFound))
def change_workspace(hub: TheHub, caller: Reader, name: Word, change: WorkspaceChange) -> Workspace:
    """Changes a workspace's note or template; its quota is for the hub's admins."""
    with hub.database.begin() as connection:
        _require_manage(connection, caller, name)
        if "max_boards" in change.model_fields_set:
            caller.require("admin", "admin")
        check_template(change.name_template)
        return catalog.change_workspace(
            connection, name, change, caller.visible, user_id=caller.user_id
        )


@router.delete("/workspaces/{name}", status_code=204, responses=problems(NotFound, Conflict))
def delete_workspace(hub: TheHub, caller: Admin, name: Word) -> None:
    """Deletes a workspace with all that the catalog knows of it; files stay where they are."""
    with hub.database.begin() as connection:
        catalog.delete_workspace(connection, name, caller.visible)
    hub.rights_changed()
    hub.rescan()
    hub.bus.publish(Event(kind="experiments"))


@router.get("/workspaces/{name}/members", responses=problems(NotFound))
def list_members(hub: TheHub, caller: Reader, name: Word) -> list[Member]:
    """Who may see a workspace; the hub's admins see all of them."""
    with hub.database.read() as connection:
        return catalog.list_members(connection, name, caller.visible)


@router.put("/workspaces/{name}/members/{user:path}", responses=problems(NotFound))
def set_member(hub: TheHub, caller: Reader, name: Word, user: Word, change: MemberChange) -> Member:
    """Makes a user a member of a workspace, or gives them another role there."""
    with hub.database.begin() as connection:
        _require_manage(connection, caller, name)
        found = catalog.set_member(connection, name, user, change.role, caller.visible)
        user_id = get_user(connection, user).id
    hub.rights_changed(user_id)
    return found


@router.delete(
    "/workspaces/{name}/members/{user:path}", status_code=204, responses=problems(NotFound)
)
def remove_member(hub: TheHub, caller: Reader, name: Word, user: Word) -> None:
    """Takes a user out of a workspace."""
    with hub.database.begin() as connection:
        _require_manage(connection, caller, name)
        catalog.remove_member(connection, name, user, caller.visible)
        user_id = get_user(connection, user).id
    hub.rights_changed(user_id)


@router.get("/logdirs", responses=problems())
def list_logdirs(hub: TheHub, caller: Reader) -> list[Logdir]:
    """The directories the hub looks for runs in."""
    with hub.database.read() as connection:
        return catalog.list_logdirs(connection, caller.visible)


@router.post("/logdirs", status_code=201, responses=problems(NotFound, Conflict))
def add_logdir(hub: TheHub, caller: Admin, new: NewLogdir) -> Logdir:
    """Has the hub look for runs in a directory of its machine.

    For the hub's admins: whoever is in the workspace will see what is there.
    """
    with hub.database.begin() as connection:
        found = catalog.add_logdir(connection, new, caller.visible)
    hub.rights_changed()
    hub.rescan()
    return found.model_copy(update={"notice": _notice(found.path)})


@router.delete("/logdirs/{logdir}", status_code=204, responses=problems(NotFound))
def remove_logdir(hub: TheHub, caller: Admin, logdir: Number) -> None:
    """Has the hub no longer look there; files stay where they are."""
    with hub.database.begin() as connection:
        catalog.remove_logdir(connection, logdir, caller.visible)
    hub.rights_changed()
    hub.rescan()
    hub.bus.publish(Event(kind="runs"))


def _notice(path: str) -> str | None:
    """Why the hub will find nothing in a directory; it may come, or be let in, later."""
    if "://" in path:
        return None
    if not os.path.isdir(path):
        return say("logdir.awaited", path=path)
    if not os.access(path, os.R_OK | os.X_OK):
        return say("logdir.no_access", path=path)
    return None


def _require_manage(connection: Connection, caller: Caller, name: str) -> None:
    caller.require_manage(catalog.workspace_id_of(connection, name, caller.visible))
