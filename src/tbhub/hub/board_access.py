"""What a user may see of a board.

The owner of a board and the hub's admins see that it is there, how it is and what it was made with,
and may end it. Its data needs, besides, the owner's right to each of its sources: to a run by
membership in its workspace, to a path by membership in a workspace that has a logdir above it, to a
URI by membership in the workspace of the storage connection that is used for it; all other paths
and URIs are for admins. An owner who has lost such a right learns which.

What was found is remembered for some seconds, so that a board's requests do not ask the database
each time. `forget` is called when rights have changed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from urllib.parse import unquote, urlsplit

from sqlalchemy import Connection, or_, select

from tbhub.catalog.resolve import known_spellings, location_above, location_below
from tbhub.catalog.selection import is_uri
from tbhub.database.engine import Database
from tbhub.database.rows import among
from tbhub.database.tables import board_runs, boards, connections, logdirs, runs, workspaces
from tbhub.hub.access import Caller
from tbhub.storage.credentials import Known, choose
from tbhub.storage.uri import parse
from tbhub.texts import Message, text

_REMEMBERED = 5.0
_MOST_REMEMBERED = 100_000
_Key = tuple[int, frozenset[int] | None, str]


@dataclass(frozen=True)
class Access:
    """What a caller may see of a board.

    Attributes:
        is_seen: Whether the caller may see the board at all.
        missing: The right to a source that the caller lacks, as a text; none: the data may be seen.
    """

    is_seen: bool
    missing: Message | None = None

    @property
    def is_open(self) -> bool:
        """Whether the data of the board may be seen."""
        return self.is_seen and self.missing is None


_HIDDEN, _OPEN = Access(False), Access(True)


class BoardAccess:
    """Answers for all boards. Any thread may ask."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[_Key, tuple[Access, float]] = {}
        self._lock = threading.Lock()

    def remembered(self, caller: Caller, board_id: str) -> Access | None:
        """Return what a caller may see, if that is known without asking the database."""
        if caller.share is not None:
            return _OPEN if caller.share == board_id else _HIDDEN
        known = self._known.get((caller.user_id, caller.visible, board_id))
        return known[0] if known is not None and known[1] > time.monotonic() else None

    def of(self, caller: Caller, board_id: str) -> Access:
        """Return what a caller may see of a board."""
        found = self.remembered(caller, board_id)
        if found is not None:
            return found
        generation = self._known
        with self._database.read() as connection:
            found = look_up(connection, caller, board_id)
        with self._lock:
            # What was forgotten since must not come back.
            if self._known is generation:
                if len(generation) >= _MOST_REMEMBERED:
                    generation.clear()
                until = time.monotonic() + _REMEMBERED
                generation[caller.user_id, caller.visible, board_id] = (found, until)
        return found

    def forget(self) -> None:
        """Look everything up again: members, logdirs or connections have changed."""
        with self._lock:
            self._known = {}


def look_up(connection: Connection, caller: Caller, board_id: str) -> Access:
    """Return what a caller may see of a board, from the database."""
    owner_id = connection.scalar(select(boards.c.owner_id).where(boards.c.id == board_id))
    if owner_id is None or not caller.may_see_board(board_id, owner_id):
        return _HIDDEN
    return Access(True, missing_rights(connection, caller, [board_id]).get(board_id))


def missing_rights(
    connection: Connection, caller: Caller, board_ids: Collection[str]
) -> dict[str, Message]:
    """Return the right that a caller lacks for each of some boards whose data may not be seen."""
    visible = caller.visible
    if visible is None or caller.share is not None or not board_ids:
        return {}
    found: dict[str, Message] = {}
    chosen = select(boards.c.id, boards.c.sources).where(among(connection, boards.c.id, board_ids))
    places = {row.id: row.sources for row in connection.execute(chosen)}
    closed = set(closed_places(connection, visible, chain.from_iterable(places.values())))
    for board_id, uris in places.items():
        if not closed.isdisjoint(uris):
            first = next(each for each in uris if each in closed)
            found[board_id] = text("closed.place", place=first)
    joined = board_runs.join(runs, runs.c.id == board_runs.c.run_id).join(
        workspaces, workspaces.c.id == runs.c.workspace_id
    )
    hidden = (
        select(board_runs.c.board_id, workspaces.c.name)
        .select_from(joined)
        .where(among(connection, board_runs.c.board_id, board_ids))
        .where(runs.c.workspace_id.not_in(visible))
        .distinct()
    )
    names: dict[str, list[str]] = {}
    for board_id, name in connection.execute(hidden):
        names.setdefault(board_id, []).append(name)
    for board_id, each in names.items():
        found[board_id] = text("closed.workspace", workspace=", ".join(sorted(each)))
    return found


def may_open(connection: Connection, visible: frozenset[int] | None, uris: Iterable[str]) -> bool:
    """Return whether each of these paths and URIs may be shown to users of some workspaces."""
    return not closed_places(connection, visible, uris)


def closed_places(
    connection: Connection, visible: frozenset[int] | None, uris: Iterable[str]
) -> list[str]:
    """Return the paths and URIs that may not be shown to users of some workspaces."""
    wanted = list(dict.fromkeys(uris))
    if visible is None or not wanted:
        return []
    chosen = select(logdirs.c.path).where(logdirs.c.workspace_id.in_(visible))
    paths = (path for path in connection.scalars(chosen).all() if not is_uri(path))
    roots = list(filter(None, map(resolved, paths)))
    rows = connection.execute(select(connections).order_by(connections.c.id))
    known = [Known(row.name, parse(row.uri), row.workspace_id, {}) for row in rows]
    return [
        each
        for each in wanted
        if not any(_is_below(_real(each), root) for root in roots)
        and not _has_connection(connection, known, visible, each)
    ]


def _has_connection(
    connection: Connection, known: Iterable[Known], visible: frozenset[int], uri: str
) -> bool:
    """Return whether a URI is read by a connection of one of some workspaces.

    It is not enough that a workspace has a connection above the URI: one for all with a longer
    prefix would be used instead, and its keys are not the workspace's. What the hub keeps for runs
    is not opened by any connection: other workspaces' runs are there, too.
    """
    used = choose(known, uri, visible)
    if used is None or used.workspace_id is None:
        return False
    spellings = known_spellings(connection, uri)
    above = [upper for each in spellings for upper in location_above(each)]
    overlapping = or_(
        runs.c.location.in_(above),
        *(location_below(runs.c.location, each) for each in spellings),
    )
    return connection.scalar(select(runs.c.id).where(runs.c.kept, overlapping).limit(1)) is None


def resolved(path: str) -> str:
    """Return a path without links; empty for one that cannot be resolved, which nobody may open."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a link that may not be read, as /proc/1/root; a NUL
        return ""


def _real(uri: str) -> str:
    """Where a path leads; nowhere for a URI of another kind."""
    parts = urlsplit(uri) if "://" in uri else None
    if parts is None:
        return resolved(uri)
    return resolved(unquote(parts.path)) if parts.scheme == "file" else ""


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
