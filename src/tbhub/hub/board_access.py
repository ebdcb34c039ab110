"""Whether somebody may see a board: its owner and admins, with a right to each of its sources.

The right to a run is membership in its workspace. The right to a path is membership in a workspace
that has a logdir above it; all other paths and URIs are for admins. The answer is remembered for
some seconds, so that a board's requests do not ask the database each time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from sqlalchemy import Connection, select

from tbhub.database.engine import Database
from tbhub.database.tables import board_runs, boards, logdirs, runs
from tbhub.hub.access import Caller

_REMEMBERED = 5.0
_MOST_REMEMBERED = 100_000
_Key = tuple[int, frozenset[int] | None, str]


class BoardAccess:
    """Answers for all boards. Any thread may ask."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[_Key, tuple[bool, float]] = {}

    def remembered(self, caller: Caller, board_id: str) -> bool | None:
        """The answer, if it is known without asking the database."""
        if caller.share is not None:
            return caller.share == board_id
        known = self._known.get((caller.user_id, caller.visible, board_id))
        return known[0] if known is not None and known[1] > time.monotonic() else None

    def allowed(self, caller: Caller, board_id: str) -> bool:
        """Whether the caller may see a board, and all that it shows."""
        found = self.remembered(caller, board_id)
        if found is None:
            with self._database.read() as connection:
                found = is_allowed(connection, caller, board_id)
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            until = time.monotonic() + _REMEMBERED
            self._known[caller.user_id, caller.visible, board_id] = (found, until)
        return found


def is_allowed(connection: Connection, caller: Caller, board_id: str) -> bool:
    """The same, looked up."""
    chosen = select(boards.c.owner_id, boards.c.sources).where(boards.c.id == board_id)
    board = connection.execute(chosen).one_or_none()
    if board is None:
        return False
    if caller.visible is None:
        return True
    joined = board_runs.join(runs, runs.c.id == board_runs.c.run_id)
    places = select(runs.c.workspace_id).select_from(joined).distinct()
    found = connection.execute(places.where(board_runs.c.board_id == board_id)).scalars()
    return caller.may_see_board(board_id, board.owner_id, frozenset(found)) and may_open(
        connection, caller.visible, board.sources
    )


def may_open(connection: Connection, visible: frozenset[int] | None, uris: Iterable[str]) -> bool:
    """Return whether each of these paths and URIs may be shown to users of some workspaces."""
    wanted = list(uris)
    if visible is None or not wanted:
        return True
    chosen = select(logdirs.c.path).where(logdirs.c.workspace_id.in_(visible))
    roots = list(filter(None, map(resolved, connection.execute(chosen).scalars())))
    return all(any(_is_below(_real(each), root) for root in roots) for each in wanted)


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
