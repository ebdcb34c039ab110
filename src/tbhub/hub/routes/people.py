"""``/api/v1/users``, ``/api/v1/quotas`` and ``/api/v1/tokens``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tbhub.api.models import (
    NewToken,
    NewUser,
    Quotas,
    Token,
    TokenWithSecret,
    User,
    UserChange,
)
from tbhub.api.problems import Conflict, NotFound
from tbhub.hub import quotas, tokens, users
from tbhub.hub.routes.common import Admin, Number, Reader, TheHub, Word, problems

router = APIRouter(tags=["people"])

_OWN = frozenset({"password", "email"})


@router.get("/users", responses=problems())
def list_users(hub: TheHub, caller: Admin) -> list[User]:
    """Everybody."""
    with hub.database.read() as connection:
        return users.list_users(connection)


@router.post("/users", status_code=201, responses=problems(Conflict))
def create_user(hub: TheHub, caller: Admin, new: NewUser) -> User:
    """Adds a user, as a member of the default workspace."""
    with hub.database.begin() as connection:
        return users.create_user(connection, new)


@router.patch("/users/{name:path}", responses=problems(NotFound, Conflict))
def change_user(hub: TheHub, caller: Reader, name: Word, change: UserChange) -> User:
    """Changes a user. Everybody may change their own password and address."""
    if name != caller.name or not change.model_fields_set <= _OWN:
        caller.require("admin", "admin")
    caller.require("write")
    with hub.database.begin() as connection:
        found = users.change_user(connection, name, change)
    hub.identity.forget()
    return found


@router.delete("/users/{name:path}", status_code=204, responses=problems(NotFound, Conflict))
async def delete_user(hub: TheHub, caller: Admin, name: Word) -> None:
    """Deletes a user with their boards and tokens; runs stay."""
    await hub.delete_user(caller, name)


@router.get("/quotas", responses=problems())
def list_quotas(hub: TheHub, caller: Reader) -> Quotas:
    """How many boards may run at once, and how many do."""
    with hub.database.read() as connection:
        return quotas.quotas(connection, hub.settings, caller)


@router.get("/tokens", responses=problems())
def list_tokens(
    hub: TheHub,
    caller: Reader,
    everyone: Annotated[bool, Query(alias="all", description="Everybody's; for admins.")] = False,
) -> list[Token]:
    """The caller's tokens; the tokens themselves are not known to anybody."""
    if everyone:
        caller.require("admin", "admin")
    with hub.database.read() as connection:
        return tokens.list_tokens(connection, None if everyone else caller.user_id)


@router.post("/tokens", status_code=201, responses=problems(NotFound))
def create_token(hub: TheHub, caller: Reader, new: NewToken) -> TokenWithSecret:
    """Makes a token, which is shown this once."""
    return hub.identity.create_token(caller, new)


@router.delete("/tokens/{token}", status_code=204, responses=problems(NotFound))
def delete_token(hub: TheHub, caller: Reader, token: Number) -> None:
    """Makes a token worthless, at once."""
    if token != caller.token_id:
        caller.require("write")
    with hub.database.begin() as connection:
        tokens.delete_token(connection, token, None if caller.is_admin else caller.user_id)
    hub.identity.forget()
