"""Hosts in the database: one function for each thing that is asked or kept.

Every function takes a connection and does all it does in the caller's transaction. A host's token
is kept as a hash and only until it is used; its secret only as long as it lives.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from contextlib import suppress
from typing import Any

from sqlalchemy import ColumnElement, Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from tbhub.database.tables import board_runs, boards, hosts, runs
from tbhub.hub.placement import Data
from tbhub.launchers.base import Details


def known_hosts(connection: Connection) -> list[Any]:
    """Hosts that live, or that boards still believe to be on."""
    named = select(boards.c.host_id).where(boards.c.host_id.is_not(None))
    chosen = select(hosts).where((hosts.c.state != "ended") | hosts.c.id.in_(named))
    return list(connection.execute(chosen))


def boards_on(connection: Connection, host: str) -> dict[str, Data]:
    """The boards that have a place on a host, and what they show."""
    return _shown_by(connection, boards.c.host_id == host)


def shown_by(connection: Connection, board: str) -> Data:
    """What a board shows."""
    return _shown_by(connection, boards.c.id == board).get(board, frozenset())


def _shown_by(connection: Connection, which: ColumnElement[bool]) -> dict[str, Data]:
    places = connection.execute(select(boards.c.id, boards.c.sources).where(which))
    found = {row.id: set(row.sources) for row in places}
    joined = boards.join(board_runs, board_runs.c.board_id == boards.c.id)
    joined = joined.join(runs, runs.c.id == board_runs.c.run_id)
    pairs = select(boards.c.id, runs.c.experiment_id).select_from(joined).where(which).distinct()
    for board, experiment in connection.execute(pairs):
        found[board].add(f"experiment {experiment}")
    return {board: frozenset(data) for board, data in found.items()}


def lives(connection: Connection, host: str) -> bool:
    """Whether a host is known and not known to have ended."""
    chosen = select(hosts.c.state).where(hosts.c.id == host)
    return connection.scalar(chosen) not in (None, "ended")


def new_host(connection: Connection, launcher: str, token: str) -> str:
    """A host under a name that none has had, nor is just being given."""
    while True:
        known = connection.scalars(select(hosts.c.id).where(hosts.c.launcher == launcher))
        numbers = [int(each.rpartition("-")[2]) for each in known]
        host = f"{launcher}-{max(numbers, default=0) + 1}"
        values = {
            "id": host,
            "launcher": launcher,
            "state": "starting",
            "details": {},
            "token": _hash(token),
            "created": time.time(),
        }
        with suppress(IntegrityError), connection.begin_nested():
            connection.execute(insert(hosts), values)
            return host


def keep_details(connection: Connection, host: str, details: Details) -> None:
    """What finds a host again."""
    connection.execute(update(hosts).where(hosts.c.id == host), {"details": dict(details)})


def register(connection: Connection, host: str, token: str, address: str, secret: str) -> bool:
    """A host tells where it is; False if it was not expected with this token."""
    mine = hosts.c.id == host
    row = connection.execute(select(hosts.c.state, hosts.c.token).where(mine)).one_or_none()
    expected = row.token if row is not None and row.state == "starting" else None
    if not hmac.compare_digest(_hash(token), expected or ""):
        return False
    values = {"state": "running", "address": address, "secret": secret, "token": None}
    connection.execute(update(hosts).where(mine), values)
    return True


def note_drain(connection: Connection, host: str) -> None:
    """A host is to end as soon as it has no board."""
    connection.execute(update(hosts).where(hosts.c.id == host), {"state": "draining"})


def note_end(connection: Connection, host: str, code: int | None) -> None:
    """A host is gone."""
    values = {"state": "ended", "ended": time.time(), "exit_code": code}
    gone = {"token": None, "secret": None}
    connection.execute(update(hosts).where(hosts.c.id == host), {**values, **gone})


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
