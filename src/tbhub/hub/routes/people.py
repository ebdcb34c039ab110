"""``/api/v1/users``, ``/api/v1/quotas`` and ``/api/v1/tokens``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from tbhub.api.models import (
    Invitation,
    NewInvitation,
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
from tbhub.hub.login_ways import with_login_ways
from tbhub.hub.name_templates import check_template
from tbhub.hub.routes.common import Admin, Number, Reader, TheHub, Word, problems

router = APIRouter(tags=["people"])

_OWN = frozenset({"password", "email", "name_template"})


@router.get("/users", responses=problems())
def list_users(hub: TheHub, caller: Admin) -> list[User]:
    """List all users."""
    with hub.database.read() as connection:
        found = users.list_users(connection)
        return with_login_ways(connection, found, sso=hub.oidc is not None)


@router.post("/users", status_code=201, responses=problems(Conflict))
def create_user(hub: TheHub, caller: Admin, new: NewUser) -> User:
    """Adds a user, as a member of the default workspace."""
    with hub.database.begin() as connection:
        made = users.create_user(connection, new)
        return with_login_ways(connection, [made], sso=hub.oidc is not None)[0]


@router.patch("/users/{name:path}", responses=problems(NotFound, Conflict))
def change_user(hub: TheHub, caller: Reader, name: Word, change: UserChange) -> User:
    """Changes a user. Everybody may change their own password, address and template."""
    if name != caller.name or not change.model_fields_set <= _OWN:
        caller.require("admin", "admin")
    caller.require("write")
    check_template(change.name_template)
    with hub.database.begin() as connection:
        changed = users.change_user(connection, name, change)
        found = with_login_ways(connection, [changed], sso=hub.oidc is not None)
    hub.rights_changed(changed.id)
    if change.password is not None:
        hub.identity.unlock(name)
    return found[0]


@router.delete("/users/{name:path}", status_code=204, responses=problems(NotFound, Conflict))
async def delete_user(hub: TheHub, caller: Admin, name: Word) -> None:
    """Deletes a user with their boards and tokens; runs stay."""
    await hub.delete_user(caller, name)


@router.post("/invitations", status_code=201, responses=problems(NotFound, Conflict))
def create_invitation(
    hub: TheHub, caller: Admin, request: Request, new: NewInvitation
) -> Invitation:
    """Create a link by which a user chooses a password; it works once."""
    return hub.invitations.create(new, hub.gate.address(request.scope) or hub.url)


@router.delete("/invitations/{name:path}", status_code=204, responses=problems(NotFound))
def revoke_invitation(hub: TheHub, caller: Admin, name: Word) -> None:
    """Revoke the invitation of a user."""
    hub.invitations.revoke(name)


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
