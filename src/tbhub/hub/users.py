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
from tbhub.database.tables import members, tokens, users, workspaces
from tbhub.hub.passwords import hash_password

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
        raise NotFound("no such user")
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
        raise Conflict(f"there is a user {new.name} already") from None
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
    return user_by_id(connection, row.id)


def delete_user(connection: Connection, name: str) -> None:
    """Deletes a user with their tokens and boards; runs stay."""
    row = _row(connection, name)
    _require_another_admin(connection, row)
    connection.execute(users.delete().where(users.c.id == row.id))


def ensure_first_user(connection: Connection) -> User:
    """The person whose hub this is: the first admin, made if there is nobody yet."""
    admins = select(users).where(users.c.role == "admin", ~users.c.disabled)
    row = connection.execute(admins.order_by(users.c.id).limit(1)).one_or_none()
    if row is not None:
        return _user(row)
    return create_user(connection, NewUser(name=_own_name(), role="admin"))


def user_of_subject(
    connection: Connection, subject: str, names: list[str], email: str | None
) -> User:
    """Who signs in from elsewhere; made as a member the first time.

    A name that somebody here has already is not theirs: they get it with a number.
    """
    row = connection.execute(select(users).where(users.c.subject == subject)).one_or_none()
    if row is not None:
        return _user(row)
    for name in names:
        taken = connection.execute(select(users.c.id).where(users.c.name == name)).first()
        if taken is None:
            return create_user(connection, NewUser(name=name, email=email), subject=subject)
    raise Conflict(f"there are users {', '.join(names[:3])}, … already")


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
        raise Conflict(f"{row.name} is the only admin; make somebody else one first")


def _row(connection: Connection, name: str) -> Row[Any]:
    row = connection.execute(select(users).where(users.c.name == name)).one_or_none()
    if row is None:
        raise NotFound(f"no user {name}")
    return row


def _user(row: Row[Any]) -> User:
    return User(
        id=row.id,
        name=row.name,
        email=row.email,
        role=row.role,
        disabled=row.disabled,
        max_boards=row.max_boards,
        created=datetime.fromtimestamp(row.created, UTC),
    )
