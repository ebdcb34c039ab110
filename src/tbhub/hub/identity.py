"""Who somebody is: from a password, a token, or by being on this machine.

What a token stands for is remembered for some seconds, so that a board's hundred requests ask the
database once. Whoever changes users, tokens or members through the hub calls `forget`, and it is
looked up anew at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from sqlalchemy import Connection, select

from tbhub.api.models import NewToken, Role, Scope, TokenWithSecret, User
from tbhub.api.problems import Forbidden, NotAuthenticated, Unavailable
from tbhub.database.engine import Database
from tbhub.database.tables import members, tokens, users
from tbhub.hub.access import Caller
from tbhub.hub.attempts import Attempts
from tbhub.hub.passwords import is_password
from tbhub.hub.settings import Settings
from tbhub.hub.tokens import create_token, end_session, expiry_of, hash_token, looks_like_token
from tbhub.hub.users import ensure_first_user, get_user
from tbhub.texts import text

_REMEMBERED = 5.0  # seconds
_MOST_REMEMBERED = 10_000
_USED_EVERY = 300.0
_MACHINE = "this machine"


@dataclass(frozen=True)
class _Known:
    caller: Caller
    expires: float  # of the token
    until: float  # on the monotonic clock


class Identity:
    """Callers, by what they bring. Any thread may ask."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()
        self._attempts = Attempts(settings.login_attempts, settings.login_window)
        self._subscribers: list[Callable[[], None]] = []

    # --- tokens

    def remembered(self, token: str) -> Caller | None:
        """Who has a token, if that is known without asking the database."""
        known = self._known.get(token)
        if known is None or known.until < time.monotonic() or known.expires < time.time():
            return None
        return known.caller

    def identify(self, token: str) -> Caller | None:
        """Who has a token; nobody if it is unknown, expired or revoked, or its user disabled."""
        caller = self.remembered(token)
        if caller is not None or not looks_like_token(token):
            return caller
        generation = self._known
        with self._database.read() as connection:
            row = connection.execute(
                select(tokens, users.c.name.label("user"), users.c.role, users.c.disabled)
                .join(users, users.c.id == tokens.c.user_id)
                .where(tokens.c.hash == hash_token(token))
            ).one_or_none()
            now = time.time()
            if row is None or row.disabled or (row.expires is not None and row.expires <= now):
                return None
            workspaces = _workspaces(connection, row.user_id)
        caller = Caller(row.user_id, row.user, row.role, row.scope, workspaces, token_id=row.id)
        with self._lock:
            # What was forgotten meanwhile must not come back.
            if self._known is generation:
                if len(generation) >= _MOST_REMEMBERED:
                    generation.clear()
                expires = float("inf") if row.expires is None else row.expires
                until = time.monotonic() + _REMEMBERED
                generation[token] = _Known(caller, expires, until)
        if row.used is None or row.used < now - _USED_EVERY:
            self._note_use(row.id, now)
        return caller

    def forget(self) -> None:
        """Users, tokens or members have changed."""
        with self._lock:
            self._known = {}
        for each in self._subscribers:
            each()

    def subscribe(self, subscriber: Callable[[], None]) -> None:
        """Call a subscriber, in any thread, whenever users, tokens or members have changed."""
        self._subscribers.append(subscriber)

    def _note_use(self, token_id: int, now: float) -> None:
        with suppress(Unavailable), self._database.begin() as connection:
            connection.execute(tokens.update().where(tokens.c.id == token_id).values(used=now))

    def create_token(self, caller: Caller, new: NewToken) -> TokenWithSecret:
        """A token for the caller, or by an admin for another; never worth more than its maker."""
        caller.require("admin" if new.scope == "admin" and caller.role == "admin" else "write")
        with self._database.begin() as connection:
            user_id, role = caller.user_id, caller.role
            if new.user is not None and new.user != caller.name:
                caller.require("admin", "admin")
                user = get_user(connection, new.user)
                user_id, role = user.id, user.role
            if new.scope == "admin" and role != "admin":
                raise Forbidden("a token with scope admin is of use to admins only", scope="admin")
            expires = None if new.expires_in is None else time.time() + new.expires_in
            own_end = expiry_of(connection, caller.token_id)
            if own_end is not None:
                expires = own_end if expires is None else min(expires, own_end)
            return create_token(
                connection, user_id, kind="api", name=new.name, scope=new.scope, expires=expires
            )

    # --- people

    def log_in(self, name: str, password: str, address: str) -> TokenWithSecret:
        """A session for a name and a password.

        Raises:
            NotAuthenticated: They do not belong together.
            TooManyRequests: There were too many attempts.
        """
        self._attempts.count(name, address)
        with self._database.read() as connection:
            row = connection.execute(select(users).where(users.c.name == name)).one_or_none()
        right = is_password(password, None if row is None else row.password)
        if row is None or not right or row.disabled:
            raise NotAuthenticated(text("login.wrong"))
        self._attempts.forget(name, address)
        return self.open_session(row.id, row.role)

    def unlock(self, name: str) -> None:
        """Let a user log in at once, however often a password was mistyped before."""
        self._attempts.forget_name(name)

    def open_session(self, user_id: int, role: Role) -> TokenWithSecret:
        """A session for somebody who has shown who they are."""
        expires = time.time() + self._settings.session_hours * 3600
        scope: Scope = "admin" if role == "admin" else "write"
        with self._database.begin() as connection:
            return create_token(
                connection, user_id, kind="session", name="session", scope=scope, expires=expires
            )

    def log_out(self, token: str) -> None:
        """Ends a session."""
        with self._database.begin() as connection:
            end_session(connection, token)
        self.forget()

    def whoever_is_here(self) -> Caller:
        """The caller of every request where nobody has to show anything: the first user."""
        caller = self.remembered("")
        if caller is None:
            with self._database.begin() as connection:
                user = ensure_first_user(connection)
            caller = Caller(user.id, user.name, "admin", "admin")
            with self._lock:
                until = time.monotonic() + _REMEMBERED
                self._known[""] = _Known(caller, float("inf"), until)
        return caller

    def caller_of(self, user_id: int) -> Caller | None:
        """What a user may read, for what they have shared; nobody if they are disabled."""
        with self._database.read() as connection:
            row = connection.execute(select(users).where(users.c.id == user_id)).one_or_none()
            if row is None or row.disabled:
                return None
            return Caller(row.id, row.name, row.role, "read", _workspaces(connection, row.id))

    def first_user(self, known_token: str | None) -> tuple[User, str]:
        """The hub's own person with a token for this machine; the one they had, if it is good."""
        with self._database.begin() as connection:
            user = ensure_first_user(connection)
            mine = (tokens.c.user_id == user.id) & (tokens.c.name == _MACHINE)
            if known_token is not None:
                good = mine & (tokens.c.hash == hash_token(known_token))
                if connection.execute(select(tokens.c.id).where(good)).first():
                    return user, known_token
            connection.execute(tokens.delete().where(mine))
            made = create_token(
                connection, user.id, kind="api", name=_MACHINE, scope="admin", expires=None
            )
        return user, made.token


def _workspaces(connection: Connection, user_id: int) -> Mapping[int, Role]:
    own = select(members.c.workspace_id, members.c.role).where(members.c.user_id == user_id)
    return MappingProxyType({row.workspace_id: row.role for row in connection.execute(own)})
