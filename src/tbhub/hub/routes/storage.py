"""``/api/v1/storage``: the hub's connections to buckets. Their secrets come in and never go out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tbhub.api.models import (
    NewStorageConnection,
    StorageConnection,
    StorageFindings,
    StoragePurpose,
)
from tbhub.api.problems import Conflict, NotFound
from tbhub.api.storage_findings import test_place
from tbhub.catalog.workspaces import workspace_id_of
from tbhub.hub.access import Caller
from tbhub.hub.connections import Connections
from tbhub.hub.language import translate_finding
from tbhub.hub.routes.common import Reader, TheHub, Word, Writer, problems
from tbhub.storage.credentials import Known

router = APIRouter(tags=["storage"])


@router.get("/storage", responses=problems())
def list_connections(hub: TheHub, caller: Reader) -> list[StorageConnection]:
    """The connections that the caller may manage."""
    own = [place for place in caller.workspaces if caller.may_manage(place)]
    return hub.connections.listed(None if caller.is_admin else own)


@router.post("/storage", status_code=201, responses=problems(NotFound, Conflict))
def add_connection(hub: TheHub, caller: Writer, new: NewStorageConnection) -> StorageConnection:
    """Keeps the credentials for a prefix: for a workspace by its admins, for all by the hub's."""
    with hub.database.begin() as connection:
        workspace_id = None
        if new.workspace is None:
            caller.require("admin", "admin")
        else:
            workspace_id = workspace_id_of(connection, new.workspace, caller.visible)
            caller.require_manage(workspace_id)
        made = hub.connections.add(
            connection, new, workspace_id, caller.user_id, trusted=caller.is_admin
        )
    hub.connections_changed()
    return made


@router.delete("/storage/{name}", status_code=204, responses=problems(NotFound))
def remove_connection(hub: TheHub, caller: Writer, name: Word) -> None:
    """Forgets a connection."""
    _managed(hub.connections, caller, name)
    with hub.database.begin() as connection:
        hub.connections.remove(connection, name)
    hub.connections_changed()


@router.post("/storage/{name}/test", responses=problems(NotFound))
def test_connection(
    hub: TheHub,
    caller: Writer,
    name: Word,
    purpose: Annotated[
        StoragePurpose | None,
        Query(alias="for", description="What it is for; boards read only. Everything by default."),
    ] = None,  # noqa: PT028
) -> StorageFindings:
    """What is wrong with a connection, found out by using it."""
    known = _managed(hub.connections, caller, name)
    found = test_place(known.place, known.settings, purpose)
    for each in found.findings:
        each.text = translate_finding(each.check, each.good, each.text)
    return found


def _managed(connections: Connections, caller: Caller, name: str) -> Known:
    known = connections.get(name)
    hidden = NotFound(f"There is no storage connection {name}.")
    if known.workspace_id is None:
        if caller.role != "admin":
            raise hidden
        caller.require("admin", "admin")
    else:
        if not caller.may_see(known.workspace_id):
            raise hidden
        caller.require_manage(known.workspace_id, "storage connection")
    return known
