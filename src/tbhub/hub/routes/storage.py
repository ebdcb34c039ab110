"""``/api/v1/storage``: the hub's connections to buckets. Their secrets come in and never go out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import Connection

from tbhub.api.models import (
    NewStorageConnection,
    StorageConnection,
    StorageFindings,
    StoragePurpose,
)
from tbhub.api.problems import Conflict, NotFound, Unreadable
from tbhub.api.storage_findings import test_place
from tbhub.catalog.workspaces import workspace_id_of
from tbhub.hub.access import Caller
from tbhub.hub.connections import Connections, checked, require_free_name
from tbhub.hub.language import translate_finding
from tbhub.hub.routes.common import Reader, TheHub, Word, Writer, problems
from tbhub.storage.credentials import Known
from tbhub.storage.roles import BOARDS
from tbhub.storage.uri import Uri

router = APIRouter(tags=["storage"])


@router.get("/storage", responses=problems())
def list_connections(hub: TheHub, caller: Reader) -> list[StorageConnection]:
    """The connections of the caller's workspaces; those for all, too, for the hub's admins.

    Which settings one has is told to those who may manage it.
    """
    if caller.is_admin:
        return hub.connections.listed(None, None)
    own = [place for place in caller.workspaces if caller.may_manage(place)]
    return hub.connections.listed(caller.workspaces.keys(), own)


@router.post("/storage", status_code=201, responses=problems(NotFound, Conflict, Unreadable))
def add_connection(hub: TheHub, caller: Writer, new: NewStorageConnection) -> StorageConnection:
    """Keeps the credentials for a prefix: for a workspace by its admins, for all by the hub's.

    With `test` the store is asked first: boards below the prefix use what is added at once.
    """
    if new.test:
        with hub.database.read() as connection:
            _workspace_of(connection, caller, new)
            require_free_name(connection, new.name)
        _require_readable(*checked(new, trusted=caller.is_admin))
    with hub.database.begin() as connection:
        workspace_id = _workspace_of(connection, caller, new)
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


def _workspace_of(connection: Connection, caller: Caller, new: NewStorageConnection) -> int | None:
    """Return the workspace that a connection is for, which the caller may add one to."""
    if new.workspace is None:
        caller.require("admin", "admin")
        return None
    workspace_id = workspace_id_of(connection, new.workspace, caller.visible)
    caller.require_manage(workspace_id)
    return workspace_id


def _require_readable(place: Uri, settings: Mapping[str, str]) -> None:
    found = test_place(place, settings, BOARDS)
    wrong = next((each for each in found.findings if each.good is False), None)
    if wrong is not None:
        raise Unreadable(
            f"{place} cannot be read with these settings: {wrong.text}", check=wrong.check
        )


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
