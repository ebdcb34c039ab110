"""Which of several hubs leads: whoever holds a lock in their PostgreSQL.

The lock belongs to a connection, and goes when that does: a hub that dies, hangs, or is cut off
from the database leads no more. The connection's name is the address of the hub that holds it, so
that the others know where to pass requests on to; nothing has to be written, and nothing grows old.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import psycopg
from sqlalchemy.engine import make_url

from tbhub.api.problems import Unavailable

_LOCK = 0x7462_6875  # any number that all hubs of a database agree on
_NAME = "tbhub "
_LONGEST = 63 - len(_NAME)  # as PostgreSQL has names
_LOOK_SECONDS = 0.25
_PATIENCE = 10.0
# A machine that is gone must not keep the lock for the two hours a system waits by itself.
_SESSION = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "statement_timeout": "10s",
    # Nor a hub that hangs: who leads asks several times a second. PostgreSQL 14 or later.
    "idle_session_timeout": "10s",
}
_WHO = """
    SELECT activity.application_name FROM pg_locks JOIN pg_stat_activity AS activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND objid = %s AND classid = 0
    AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Lease:
    """The lock, held or wanted. Belongs to one event loop.

    Args:
        url: The database.
        address: Where the other hubs reach this one: ``host:port``.
    """

    def __init__(self, url: str, address: str) -> None:
        if len(address) > _LONGEST:
            raise ValueError(f"replica_address may have {_LONGEST} letters: {address}")
        plain = make_url(url).set(drivername="postgresql")
        self._conninfo = plain.render_as_string(hide_password=False)
        self._name = _NAME + address
        self._connection: psycopg.AsyncConnection[tuple[str | bool]] | None = None

    async def take(self) -> bool:
        """Whether it is ours now.

        Raises:
            Unavailable: The database does not answer.
        """
        return bool(await self._ask("SELECT pg_try_advisory_lock(%s)", _LOCK))

    async def leader(self) -> str | None:
        """The address of the hub that leads; none if there is no such hub just now.

        Raises:
            Unavailable: The database does not answer.
        """
        found = await self._ask(_WHO, _LOCK)
        return str(found).removeprefix(_NAME) if found else None

    async def until_lost(self) -> None:
        """Returns when it is no longer sure that the lock is ours."""
        with suppress(Unavailable):
            while self._connection is not None:
                await self._ask("SELECT 1")
                await asyncio.sleep(_LOOK_SECONDS)

    async def close(self) -> None:
        """Gives it up."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _ask(self, query: str, *values: int) -> str | bool | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                if self._connection is None:
                    self._connection = await self._connect()
                answer = await self._connection.execute(query.encode(), values)
                row = await answer.fetchone()
        except (psycopg.Error, OSError, TimeoutError) as error:
            await self.close()
            raise Unavailable(f"the database does not answer: {error}") from error
        return row[0] if row else None

    async def _connect(self) -> psycopg.AsyncConnection[tuple[str | bool]]:
        options = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
        return await psycopg.AsyncConnection.connect(
            self._conninfo,
            autocommit=True,
            application_name=self._name,
            options=options,
            keepalives_idle=5,
            tcp_user_timeout=int(_PATIENCE * 1000),
        )
