"""Tokens, in the database as their hashes: who has one is its user, as far as its scope goes.

A session of a browser is a token, too, that ends by itself.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, select

from tbhub.api.models import Scope, Token, TokenWithSecret
from tbhub.api.problems import NotFound
from tbhub.database.tables import tokens, users
from tbhub.texts import text

_PREFIX = "tbh_"
Kind = Literal["api", "session"]


def hash_token(token: str) -> str:
    """What is kept of a token. It is random: it needs no salt and nothing slow."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def looks_like_token(text: str) -> bool:
    """Whether this may be a token at all; what is not needs no database."""
    return text.startswith(_PREFIX) and len(text) == len(_PREFIX) + 32


def create_token(
    connection: Connection,
    user_id: int,
    *,
    kind: Kind,
    name: str,
    scope: Scope,
    expires: float | None,
) -> TokenWithSecret:
    """A new token; this is the only time it is known."""
    token = _PREFIX + secrets.token_urlsafe(24)
    now = time.time()
    if kind == "session":
        connection.execute(tokens.delete().where(tokens.c.expires < now))
    values = {
        "user_id": user_id,
        "kind": kind,
        "name": name,
        "hash": hash_token(token),
        "scope": scope,
        "created": now,
        "expires": expires,
    }
    insert = tokens.insert().values(values).returning(tokens.c.id)
    token_id = connection.execute(insert).scalar_one()
    row = connection.execute(_select().where(tokens.c.id == token_id)).one()
    return TokenWithSecret(**_token(row).model_dump(), token=token)


def list_tokens(connection: Connection, user_id: int | None) -> list[Token]:
    """A person's tokens, or everybody's, without sessions."""
    chosen = _select().where(tokens.c.kind == "api").order_by(tokens.c.id)
    if user_id is not None:
        chosen = chosen.where(tokens.c.user_id == user_id)
    return [_token(row) for row in connection.execute(chosen)]


def delete_token(connection: Connection, token_id: int, user_id: int | None) -> None:
    """Revokes a token; of `user_id` if given."""
    chosen = tokens.delete().where(tokens.c.id == token_id)
    if user_id is not None:
        chosen = chosen.where(tokens.c.user_id == user_id)
    if connection.execute(chosen).rowcount == 0:
        raise NotFound(text("missing.token", id=token_id))


def end_session(connection: Connection, token: str) -> None:
    """Ends a session. A token that somebody made stays."""
    mine = (tokens.c.hash == hash_token(token)) & (tokens.c.kind == "session")
    connection.execute(tokens.delete().where(mine))


def expiry_of(connection: Connection, token_id: int | None) -> float | None:
    """When what was made with a token has to end: with it, unless it is a session."""
    if token_id is None:
        return None
    chosen = select(tokens.c.expires).where(tokens.c.id == token_id, tokens.c.kind == "api")
    return connection.execute(chosen).scalar()


def _select() -> Select[Any]:
    return select(tokens, users.c.name.label("user")).join(users, users.c.id == tokens.c.user_id)


def _token(row: Row[Any]) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        scope=row.scope,
        user=row.user,
        created=_time(row.created),
        expires=None if row.expires is None else _time(row.expires),
        used=None if row.used is None else _time(row.used),
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
