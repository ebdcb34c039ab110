"""The people of a hub, in its database.

There is always an admin who can come in: the last one can be neither deleted nor disabled nor made
anything less.
"""

from __future__ import annotations

import getpass
import time
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, func, select
from sqlalchemy.exc import IntegrityError

from tbhub.api.models import NewUser, Role, User, UserChange
from tbhub.api.problems import Conflict, NotFound
from tbhub.database.tables import login_links, members, tokens, users, workspaces
from tbhub.hub.passwords import hash_password
from tbhub.texts import text

_DEFAULT_WORKSPACE = "default"


def list_users(connection: Connection) -> list[User]:
    """Everybody, by name."""
    return [_user(row) for row in connection.execute(select(users).order_by(users.c.name))]


def get_user(connection: Connection, name: str) -> User:
    """A user by name."""
    return _user(_row(connection, name))


def user_by_id(connection: Connection, user_id: int) -> User:
    """A user by number."""
    row = connection.execute(select(users).where(users.c.id == user_id)).one_or_none()
    if row is None:
        raise NotFound(text("missing.user", name=user_id))
    return _user(row)


def create_user(connection: Connection, new: NewUser, *, subject: str | None = None) -> User:
    """Adds a user, as a member of the default workspace."""
    values = {
        "name": new.name,
        "email": new.email,
        "role": new.role,
        "password": None if new.password is None else hash_password(new.password),
        "subject": subject,
        "disabled": False,
        "max_boards": new.max_boards,
        "created": time.time(),
    }
    try:
        with connection.begin_nested():
            insert = users.insert().values(values).returning(users.c.id)
            user_id = connection.execute(insert).scalar_one()
    except IntegrityError:
        raise Conflict(text("user.exists", name=new.name)) from None
    _join_default(connection, user_id, new.role)
    return user_by_id(connection, user_id)


def change_user(connection: Connection, name: str, change: UserChange) -> User:
    """Changes what is given; a new password ends the sessions there are."""
    row = _row(connection, name)
    values: dict[str, Any] = change.model_dump(exclude_unset=True, exclude={"password"})
    for required in ("role", "disabled"):
        if values.get(required, ...) is None:
            del values[required]
    if values.get("disabled") or values.get("role", "admin") != "admin":
        _require_another_admin(connection, row)
    if change.password is not None:
        values["password"] = hash_password(change.password)
    if values:
        connection.execute(users.update().where(users.c.id == row.id).values(values))
    if change.password is not None or values.get("disabled"):
        ended = (tokens.c.user_id == row.id) & (tokens.c.kind == "session")
        connection.execute(tokens.delete().where(ended))
        connection.execute(login_links.delete().where(login_links.c.user_id == row.id))
    return user_by_id(connection, row.id)


def delete_user(connection: Connection, name: str) -> None:
    """Deletes a user with their tokens and boards; runs stay."""
    require_deletable(connection, name)
    connection.execute(users.delete().where(users.c.name == name))


def require_deletable(connection: Connection, name: str) -> None:
    """Raise `Conflict` if a user is the only admin, `NotFound` if there is no such user."""
    _require_another_admin(connection, _row(connection, name))


def ensure_first_user(connection: Connection) -> User:
    """The person whose hub this is: the first admin, made if there is nobody yet."""
    admins = select(users).where(users.c.role == "admin", ~users.c.disabled)
    row = connection.execute(admins.order_by(users.c.id).limit(1)).one_or_none()
    if row is not None:
        return _user(row)
    return create_user(connection, NewUser(name=_own_name(), role="admin"))


def user_of_subject(
    connection: Connection,
    subject: str,
    names: list[str],
    email: str | None,
    *,
    is_verified: bool = False,
) -> User:
    """Return the user of an identity that a provider has confirmed; added as a member if new.

    A user whom an admin has added with this e-mail address, and who cannot log in otherwise,
    becomes the identity's user. A name alone proves nothing: one that is taken gets a number.

    Args:
        is_verified: Whether the provider has confirmed that the e-mail address is theirs.
    """
    row = connection.execute(select(users).where(users.c.subject == subject)).one_or_none()
    if row is not None:
        return _user(row)
    if email is not None and is_verified:
        same = select(users).where(func.lower(users.c.email) == email.lower())
        added = connection.execute(same.limit(2)).all()
        if len(added) == 1 and can_be_linked(connection, added[0]):
            mine = users.c.id == added[0].id
            connection.execute(users.update().where(mine).values(subject=subject))
            connection.execute(login_links.delete().where(login_links.c.user_id == added[0].id))
            return user_by_id(connection, added[0].id)
    for name in names:
        taken = connection.execute(select(users.c.id).where(users.c.name == name)).first()
        if taken is None:
            return create_user(connection, NewUser(name=name, email=email), subject=subject)
    raise Conflict(f"there are users {', '.join(names[:3])}, … already")


def can_be_linked(connection: Connection, row: Row[Any]) -> bool:
    """Return whether single sign-on may log in as a user by the e-mail address.

    Only one who has no other way to log in: users may change their own address, and could otherwise
    share their account with the address's owner.
    """
    if row.email is None or row.password is not None or row.subject is not None or row.disabled:
        return False
    known = select(tokens.c.id).where(tokens.c.user_id == row.id).limit(1)
    return connection.execute(known).first() is None


def _own_name() -> str:
    try:
        return getpass.getuser() or "admin"
    except (KeyError, OSError):
        return "admin"


def _join_default(connection: Connection, user_id: int, role: Role) -> None:
    default = select(workspaces.c.id).where(workspaces.c.name == _DEFAULT_WORKSPACE)
    workspace_id = connection.execute(default).scalar()
    if workspace_id is not None:
        values = {"workspace_id": workspace_id, "user_id": user_id, "role": role}
        connection.execute(members.insert().values(values))


def _require_another_admin(connection: Connection, row: Row[Any]) -> None:
    if row.role != "admin" or row.disabled:
        return
    others = select(func.count()).where(
        users.c.role == "admin", ~users.c.disabled, users.c.id != row.id
    )
    if connection.execute(others).scalar_one() == 0:
        raise Conflict(text("user.only_admin", name=row.name))


def _row(connection: Connection, name: str) -> Row[Any]:
    row = connection.execute(select(users).where(users.c.name == name)).one_or_none()
    if row is None:
        raise NotFound(text("missing.user", name=name))
    return row


def _user(row: Row[Any]) -> User:
    return User(
        id=row.id,
        name=row.name,
        email=row.email,
        role=row.role,
        disabled=row.disabled,
        max_boards=row.max_boards,
        name_template=row.name_template,
        created=datetime.fromtimestamp(row.created, UTC),
    )
