"""Single-use links that log a browser in.

The code of a link stands in the fragment of its address (``…/login/link#tbh_link_…``). Browsers
send a fragment to no server: the code is in no access log and no ``Referer``, and programs that
fetch addresses to preview them cannot use it. The page at the address posts the code, which is
deleted as it is redeemed: of two requests with one code, one succeeds. The database holds hashes of
codes only.

A link ends with the token it was created with, and its session may do what that token may.
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import unquote

from sqlalchemy import Connection, select

from tbhub.api.models import LoginLink, Role, Scope, TokenWithSecret
from tbhub.api.problems import BadRequest, Gone
from tbhub.database.engine import Database
from tbhub.database.tables import login_links, users
from tbhub.hub.access import Caller
from tbhub.hub.settings import Settings
from tbhub.hub.tokens import create_token, expiry_of, hash_token

Purpose = Literal["session", "password"]

PATH = "/login/link"
LIFETIME_SECONDS = 600.0
MAX_LINKS_PER_USER = 100
_PREFIX = "tbh_link_"  # begins like a token, so that logs blot it out
_CODE_LENGTH = len(_PREFIX) + 32
# A path of this hub: two slashes, or a slash and a backslash, would lead to another server.
_LOCAL_PATH = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*\Z|/\Z")


@dataclass(frozen=True)
class Redeemed:
    """A valid link.

    Attributes:
        token_id: The token it was created with, if any.
        path: The page it opens.
    """

    user_id: int
    user: str
    role: Role
    scope: Scope
    token_id: int | None
    path: str


def local_path(path: str | None, base: str) -> str | None:
    """Return a path if it leads to a page below the hub's base path, else None."""
    if path is None or not _LOCAL_PATH.match(path) or not path.startswith(f"{base}/"):
        return None
    names = unquote(path.partition("?")[0]).split("/")
    return None if ".." in names else path


def create_link(
    connection: Connection,
    user_id: int,
    *,
    purpose: Purpose,
    scope: Scope,
    path: str,
    token_id: int | None = None,
    lifetime: float = LIFETIME_SECONDS,
) -> tuple[str, float]:
    """Create a link and return its code and when it expires; the code is not stored."""
    now = time.time()
    connection.execute(login_links.delete().where(login_links.c.expires <= now))
    own = select(login_links.c.id).where(login_links.c.user_id == user_id)
    kept = own.order_by(login_links.c.id.desc()).limit(MAX_LINKS_PER_USER - 1)
    older = (login_links.c.user_id == user_id) & login_links.c.id.not_in(kept)
    connection.execute(login_links.delete().where(older))
    code = _PREFIX + secrets.token_urlsafe(24)
    expires = now + lifetime
    ends_with = expiry_of(connection, token_id)
    if ends_with is not None:
        expires = min(expires, ends_with)
    values = {
        "user_id": user_id,
        "token_id": token_id,
        "purpose": purpose,
        "hash": hash_token(code),
        "scope": scope,
        "path": path,
        "created": now,
        "expires": expires,
    }
    connection.execute(login_links.insert().values(values))
    return code, expires


def find_link(connection: Connection, code: str, purpose: Purpose) -> Redeemed | None:
    """Return what a code stands for without using it up; None if it is not valid."""
    if len(code) != _CODE_LENGTH or not code.startswith(_PREFIX):
        return None
    columns = (
        login_links.c.user_id,
        users.c.name,
        users.c.role,
        login_links.c.scope,
        login_links.c.token_id,
        login_links.c.path,
    )
    chosen = (
        select(*columns)
        .join(users, users.c.id == login_links.c.user_id)
        .where(login_links.c.hash == hash_token(code), login_links.c.purpose == purpose)
        .where(login_links.c.expires > time.time(), users.c.disabled.is_(False))
    )
    row = connection.execute(chosen).one_or_none()
    return None if row is None else Redeemed(*row)


def redeem_link(connection: Connection, code: str, purpose: Purpose) -> Redeemed | None:
    """Use a code up and return what it stands for; None if it is not valid any more.

    Of several that redeem one code at once, the one whose deletion finds the row has it.
    """
    found = find_link(connection, code, purpose)
    if found is None:
        return None
    used = login_links.delete().where(login_links.c.hash == hash_token(code))
    return found if connection.execute(used).rowcount == 1 else None


def revoke_links(connection: Connection, user_id: int, purpose: Purpose) -> None:
    """Delete the links of a user that are for one purpose."""
    mine = (login_links.c.user_id == user_id) & (login_links.c.purpose == purpose)
    connection.execute(login_links.delete().where(mine))


class LoginLinks:
    """Links that open a session in a browser. May be called from any thread."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def create(self, caller: Caller, path: str | None, address: str) -> LoginLink:
        """Create a link for the caller.

        Args:
            path: The page it opens; the hub's first page unless given.
            address: Where the caller reaches the hub, without a slash at the end.

        Raises:
            BadRequest: The path is not one of this hub.
        """
        base = self._settings.base_path
        page = f"{base}/" if path is None else local_path(path, base)
        if page is None:
            raise BadRequest(f"path: expected a path below {base}/")
        address = address.removesuffix(base)
        if self._settings.auth == "none":
            return LoginLink(url=f"{address}{page}")
        with self._database.begin() as connection:
            code, expires = create_link(
                connection,
                caller.user_id,
                purpose="session",
                scope=caller.scope,
                path=page,
                token_id=caller.token_id,
            )
        return LoginLink(
            url=f"{address}{base}{PATH}#{code}", expires=datetime.fromtimestamp(expires, UTC)
        )

    def user_of(self, code: str) -> str | None:
        """Return the user that a code logs in; None if it is not valid."""
        with self._database.read() as connection:
            found = find_link(connection, code, "session")
        return None if found is None else found.user

    def redeem(self, code: str) -> tuple[TokenWithSecret, str]:
        """Use a code up; return a new session and the page to open.

        Raises:
            Gone: The code was used, has expired, was revoked, or never existed.
        """
        with self._database.begin() as connection:
            found = redeem_link(connection, code, "session")
            if found is None:
                raise Gone("this login link was used already or has expired")
            expires = time.time() + self._settings.session_hours * 3600
            ends_with = expiry_of(connection, found.token_id)
            session = create_token(
                connection,
                found.user_id,
                kind="session",
                name="session",
                scope=found.scope,
                expires=expires if ends_with is None else min(expires, ends_with),
            )
        return session, found.path
