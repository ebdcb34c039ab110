"""Links that show one board to whoever has them, for a while: read-only, signed, revocable.

A link carries the number of its row, when it ends, and a signature over both and the board. It is
good as long as the row is there, its time has not come, and both its maker and the owner of the
board may see what the board shows.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, select

from tbhub.api.models import Share
from tbhub.api.problems import NotFound
from tbhub.database.engine import Database
from tbhub.database.tables import boards, shares
from tbhub.hub.access import Caller
from tbhub.hub.board_access import BoardAccess
from tbhub.hub.identity import Identity

_REMEMBERED = 5.0
_MOST_REMEMBERED = 10_000


@dataclass(frozen=True)
class _Known:
    caller: Caller
    expires: float
    until: float


class Shares:
    """The links of all boards. Any thread may ask."""

    def __init__(
        self, database: Database, identity: Identity, access: BoardAccess, secret: bytes
    ) -> None:
        self._database = database
        self._identity = identity
        self._access = access
        self._secret = secret
        self._known: dict[tuple[str, str], _Known] = {}
        self._lock = threading.Lock()

    def create(self, caller: Caller, board_id: str, expires_in: float) -> tuple[Share, str]:
        """A new link's row, and what its address ends with."""
        now = time.time()
        expires = int(now + expires_in)
        values = {
            "board_id": board_id,
            "created_by": caller.user_id,
            "created": now,
            "expires": float(expires),
        }
        with self._database.begin() as connection:
            chosen = shares.insert().values(values).returning(*shares.c)
            row = connection.execute(chosen).one()
        return _share(row), f"{row.id}.{expires}.{self._sign(row.id, board_id, expires)}"

    def list(self, board_id: str) -> list[Share]:
        """The links of a board that are still good."""
        chosen = select(shares).where(shares.c.board_id == board_id, shares.c.expires > time.time())
        with self._database.read() as connection:
            return [_share(row) for row in connection.execute(chosen.order_by(shares.c.id))]

    def delete(self, board_id: str, share_id: int) -> None:
        """Revoke a link, at once."""
        chosen = shares.delete().where(shares.c.board_id == board_id, shares.c.id == share_id)
        with self._database.begin() as connection:
            if connection.execute(chosen).rowcount == 0:
                raise NotFound(f"this board has no share link {share_id}")
        self.forget()

    def forget(self) -> None:
        """Look everything up again: links, or rights to boards, have changed."""
        with self._lock:
            self._known = {}

    def remembered(self, text: str, board_id: str) -> Caller | None:
        """Whom a link lets in, if that is known without asking the database."""
        known = self._known.get((text, board_id))
        if known is None or known.until < time.monotonic() or known.expires < time.time():
            return None
        return known.caller

    def open(self, text: str, board_id: str) -> Caller | None:
        """Whom a link lets in to a board; nobody if it is not good, or of another board."""
        caller = self.remembered(text, board_id)
        if caller is not None:
            return caller
        parts = text.split(".")
        if len(parts) != 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
            return None
        if not text.isascii() or len(parts[0]) > 18 or len(parts[1]) > 15:
            return None
        share_id, expires = int(parts[0]), int(parts[1])
        if not hmac.compare_digest(parts[2], self._sign(share_id, board_id, expires)):
            return None
        if expires <= time.time():
            return None
        generation = self._known
        chosen = select(shares.c.created_by, boards.c.owner_id).join_from(shares, boards)
        mine = shares.c.id == share_id, shares.c.board_id == board_id
        with self._database.read() as connection:
            row = connection.execute(chosen.where(*mine)).one_or_none()
        if row is None or not all(self._may_see(user_id, board_id) for user_id in set(row)):
            return None
        caller = Caller(row.created_by, "a share link", "viewer", "read", share=board_id)
        with self._lock:
            if self._known is generation:
                if len(generation) >= _MOST_REMEMBERED:
                    generation.clear()
                until = time.monotonic() + _REMEMBERED
                generation[text, board_id] = _Known(caller, expires, until)
        return caller

    def _may_see(self, user_id: int, board_id: str) -> bool:
        user = self._identity.caller_of(user_id)
        return user is not None and self._access.of(user, board_id).is_open

    def _sign(self, share_id: int, board_id: str, expires: int) -> str:
        text = f"share\0{share_id}\0{board_id}\0{expires}".encode()
        made = hmac.new(self._secret, text, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


def expiry_of(text: str) -> int:
    """When a link that was found good ends."""
    return int(text.split(".")[1])


def _share(row: Row[Any]) -> Share:
    return Share(
        id=row.id,
        board=row.board_id,
        expires=datetime.fromtimestamp(row.expires, UTC),
        created=datetime.fromtimestamp(row.created, UTC),
    )
