"""Named connections: with which credentials the hub gets at what lies below a prefix.

Their values are encrypted in the database, by a key that is made of the home's secret; whoever has
the database alone has nothing. They go to the stores, and to the hosts and the indexer of this hub:
never to a client, a page or a log. Which connection is used for a place is decided in
`storage/credentials.py` and nowhere else: the one with the longest prefix, of those that the
place's workspace may use, and of several the newest.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from tbhub.api.models import NewStorageConnection, StorageConnection
from tbhub.api.problems import BadRequest, Conflict, Forbidden, NotFound
from tbhub.database.engine import Database
from tbhub.database.tables import board_runs, boards, connections, runs, workspaces
from tbhub.hub.board_store import visible_to
from tbhub.storage.credentials import Known, Workspaces, choose
from tbhub.storage.errors import StoreError
from tbhub.storage.open import SETTINGS, open_store
from tbhub.storage.store import Patience, Store
from tbhub.storage.uri import FILE, HUB, Uri, parse

_NONCE = 12  # bytes
# Hosts are made of these; one that is more than a word could be any host.
_PARTS_OF_HOSTS = ("region", "account_name", "tenant_id")
_HARMLESS = re.compile(r"[A-Za-z0-9_-]*")
# Without any of these the hub's own identity would be used.
_STANDING_ALONE = frozenset(
    {
        *("access_key_id", "service_account_key", "token", "account_key", "sas_key"),
        *("connection_string", "client_secret", "anonymous"),
    }
)


class Connections:
    """All connections of a hub. Any thread may ask."""

    def __init__(self, database: Database, secret: bytes) -> None:
        self._database = database
        key = HKDF(SHA256(), 32, salt=None, info=b"tbhub storage connections").derive(secret)
        self._cipher = AESGCM(key)
        self._lock = threading.Lock()
        self._known: list[Known] | None = None

    # --- using them

    def credentials(self, place: str | Uri, allowed: Workspaces) -> dict[str, str] | None:
        """The settings for a place; none if no connection is for it.

        Args:
            allowed: The workspaces whose connections may be used, beside those that are for all.
        """
        found = self.find(place, allowed)
        return None if found is None else dict(found.settings)

    def find(self, place: str | Uri, allowed: Workspaces) -> Known | None:
        """The connection for a place."""
        return choose(self._all(), place, allowed)

    def told(self) -> list[dict[str, object]]:
        """All of them with their secrets, the oldest first, as the indexer is told of them."""
        return [
            {
                "name": each.name,
                "uri": str(each.place),
                "workspace_id": each.workspace_id,
                "settings": dict(each.settings),
            }
            for each in self._all()
        ]

    def open(
        self, location: str, allowed: Workspaces, *, patience: Patience | None = None
    ) -> tuple[Store, str]:
        """The store that holds a location, and the location's path in it."""
        return open_store(location, self.credentials(location, allowed), patience=patience)

    def get(self, name: str) -> Known:
        """A connection by its name."""
        found = next((each for each in self._all() if each.name == name), None)
        if found is None:
            raise NotFound(f"There is no storage connection {name}; `tbhub storage` lists them.")
        return found

    # --- changing them

    def listed(self, visible: Workspaces, manageable: Workspaces) -> list[StorageConnection]:
        """Return the connections of some workspaces; with None all, also those that are for all.

        Args:
            manageable: The workspaces of whose connections the names of settings are told, too.
        """
        with self._database.read() as connection:
            return _listed(connection, visible, manageable)

    def add(
        self,
        connection: Connection,
        new: NewStorageConnection,
        workspace_id: int | None,
        by: int,
        *,
        trusted: bool,
    ) -> StorageConnection:
        """Keeps a connection; call `forget` once that is written.

        Args:
            trusted: Whether it may do without keys, by what the hub's machine may, and lead to
                any address that machine reaches.

        Raises:
            BadRequest: The prefix or a setting cannot be.
            Forbidden: It is for who is trusted.
            Conflict: There is one of this name.
        """
        place, values = checked(new, trusted=trusted)
        row = {
            "name": new.name,
            "workspace_id": workspace_id,
            "uri": str(place),
            "settings": sorted(values),
            "secret": self._encrypted(new.name, str(place), values),
            "created_by": by,
            "created": time.time(),
        }
        require_free_name(connection, new.name)
        try:
            connection.execute(insert(connections), row)
        except IntegrityError:
            raise _taken(new.name) from None
        return next(each for each in _listed(connection, None, None) if each.name == new.name)

    def remove(self, connection: Connection, name: str) -> None:
        """Forgets a connection; call `forget` once that is written."""
        connection.execute(delete(connections).where(connections.c.name == name))

    def forget(self) -> None:
        """Connections have changed."""
        with self._lock:
            self._known = None

    # --- parts

    def _all(self) -> list[Known]:
        with self._lock:
            if self._known is None:
                with self._database.read() as connection:
                    rows = connection.execute(select(connections).order_by(connections.c.id)).all()
                self._known = [
                    Known(row.name, parse(row.uri), row.workspace_id, self._decrypted(row))
                    for row in rows
                ]
            return self._known

    def _encrypted(self, name: str, uri: str, values: Mapping[str, str]) -> str:
        nonce = os.urandom(_NONCE)
        text = json.dumps(values).encode()
        sealed = self._cipher.encrypt(nonce, text, _bound_to(name, uri))
        return base64.b64encode(nonce + sealed).decode("ascii")

    def _decrypted(self, row: Any) -> dict[str, str]:
        """The values of a row; none of one that was made with another secret."""
        try:
            sealed = base64.b64decode(row.secret)
            bound = _bound_to(row.name, row.uri)
            text = self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], bound)
        except (InvalidTag, ValueError):
            return {}
        return dict(json.loads(text))


def checked(new: NewStorageConnection, *, trusted: bool) -> tuple[Uri, dict[str, str]]:
    """Return the prefix and the settings of a connection that may be added.

    Raises:
        BadRequest: The prefix or a setting cannot be.
        Forbidden: It is for who is trusted.
    """
    place = prefix_of(new.uri)
    if "service_account" in new.settings:
        raise BadRequest("service_account is a file here; give its text as service_account_key")
    unknown = sorted(new.settings.keys() - SETTINGS[place.scheme])
    if unknown:
        known = ", ".join(sorted(SETTINGS[place.scheme]))
        raise BadRequest(
            f"{place.scheme}:// has no setting {', '.join(unknown)}; there are {known}"
        )
    values = {name: value for name, value in new.settings.items() if value}
    if not trusted:
        _insist_on_harmless(place, values)
    return place, values


def require_free_name(connection: Connection, name: str) -> None:
    """Raise `Conflict` if a connection has the name."""
    if connection.scalar(select(connections.c.id).where(connections.c.name == name)):
        raise _taken(name)


def _taken(name: str) -> Conflict:
    return Conflict(f"There is a storage connection {name} already; remove it first.")


def connections_used(connection: Connection, board_id: str) -> dict[str, str]:
    """Return the name of the connection for each place of a board that has one."""
    rows = connection.execute(select(connections).order_by(connections.c.id))
    known = [Known(row.name, parse(row.uri), row.workspace_id, {}) for row in rows]
    if not known:
        return {}
    chosen = select(boards.c.sources, boards.c.owner_id).where(boards.c.id == board_id)
    places: list[tuple[str, Workspaces]] = []
    for board in connection.execute(chosen):
        seen = visible_to(connection, board.owner_id)
        places += [(uri, seen) for uri in board.sources]
    mine = select(runs.c.location, runs.c.workspace_id).join(board_runs)
    for run in connection.execute(mine.where(board_runs.c.board_id == board_id)):
        places.append((run.location, {run.workspace_id}))
    found = {place: choose(known, place, allowed) for place, allowed in places}
    return {place: each.name for place, each in found.items() if each is not None}


def prefix_of(uri: str) -> Uri:
    """A place that needs credentials.

    Raises:
        BadRequest: It is none, or needs none.
    """
    try:
        place = parse(uri)
    except StoreError as error:
        raise BadRequest(str(error)) from None
    if place.scheme in (FILE, HUB):
        raise BadRequest(f"{uri}: only buckets have connections, s3://bucket/prefix and the like")
    return place


def _insist_on_harmless(place: Uri, values: Mapping[str, str]) -> None:
    """Whoever is not the hub's admin brings keys, and names no address: the hub's machine may reach
    what they must not, and what it asks is asked in its name.

    Raises:
        Forbidden: It names one, or brings none.
    """
    if not values.keys() & _STANDING_ALONE:
        raise Forbidden("without keys the hub's own would be used, which is for its admins")
    names = [place.account, *(values.get(each, "") for each in _PARTS_OF_HOSTS)]
    if (
        "endpoint" in values
        or "connection_string" in values
        or "gcs_base_url" in values.get("service_account_key", "")
        or not all(map(_HARMLESS.fullmatch, names))
    ):
        raise Forbidden("which address the hub asks is for its admins to say")


def _bound_to(name: str, uri: str) -> bytes:
    """A secret cannot be moved to another connection, whose store would learn it."""
    return json.dumps([name, uri]).encode()


def _listed(
    connection: Connection, visible: Workspaces, manageable: Workspaces
) -> list[StorageConnection]:
    chosen = select(connections, workspaces.c.name.label("workspace")).select_from(
        connections.outerjoin(workspaces, workspaces.c.id == connections.c.workspace_id)
    )
    if visible is not None:
        chosen = chosen.where(connections.c.workspace_id.in_(visible))
    found = []
    for row in connection.execute(chosen.order_by(connections.c.name)):
        is_manageable = manageable is None or row.workspace_id in manageable
        found.append(
            StorageConnection(
                name=row.name,
                uri=row.uri,
                workspace=row.workspace,
                settings=row.settings if is_manageable else [],
                manageable=is_manageable,
                created=datetime.fromtimestamp(row.created, UTC),
            )
        )
    return found
