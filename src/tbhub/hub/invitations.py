"""Single-use links by which users choose a password: new users, and those who forgot theirs.

An invitation is a login link with a purpose of its own, so that neither kind is accepted in place
of the other. A user has at most one; it ends when it is used, when a new one is created, when a
password is set in another way, and when the user is disabled or deleted.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import ValidationError

from tbhub.api.models import Invitation, NewInvitation, Role, UserChange
from tbhub.api.problems import BadRequest, Conflict, Gone
from tbhub.database.engine import Database
from tbhub.hub.attempts import Attempts
from tbhub.hub.login_links import create_link, find_link, redeem_link, revoke_links
from tbhub.hub.settings import Settings
from tbhub.hub.tokens import hash_token
from tbhub.hub.users import change_user, get_user
from tbhub.texts import text

PATH = "/login/invitation"


class Invitations:
    """The invitations of a hub. May be called from any thread."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._attempts = Attempts(settings.login_attempts, settings.login_window)

    def create(self, new: NewInvitation, address: str) -> Invitation:
        """Create an invitation in place of the one that the user may have.

        Args:
            address: Where the caller reaches the hub, without a slash at the end.

        Raises:
            NotFound: There is no such user.
            Conflict: The user is disabled, or the users of this hub have no passwords.
        """
        if self._settings.single_user:
            raise Conflict(text("invitation.no_passwords"))
        with self._database.begin() as connection:
            user = get_user(connection, new.user)
            if user.disabled:
                raise Conflict(text("invitation.disabled", name=user.name))
            revoke_links(connection, user.id, "password")
            code, expires = create_link(
                connection,
                user.id,
                purpose="password",
                scope="read",  # of no use: the session is that of a login with the password
                path=PATH,
                lifetime=new.expires_in,
            )
        return Invitation(
            user=user.name,
            url=f"{address}{PATH}#{code}",
            expires=datetime.fromtimestamp(expires, UTC),
        )

    def revoke(self, name: str) -> None:
        """Revoke the invitation of a user, if there is one."""
        with self._database.begin() as connection:
            revoke_links(connection, get_user(connection, name).id, "password")

    def find_user(self, code: str, address: str) -> str:
        """Return the name of the user whom a code invites, without using it up.

        Args:
            address: Where the request comes from, for the limit of attempts.

        Raises:
            Gone: The code was used, has expired, was revoked, or never existed.
            TooManyRequests: Too many wrong codes came from there.
        """
        attempted = hash_token(code)
        self._attempts.count(attempted, address)
        with self._database.read() as connection:
            found = find_link(connection, code, "password")
        if found is None:
            raise Gone(text("invitation.used"))
        self._attempts.forget(attempted, address)
        return found.user

    def accept(self, code: str, password: str, again: str, address: str) -> tuple[int, Role]:
        """Set the password of the invited user and use the code up; return the user's id and role.

        Raises:
            BadRequest: The password is too short or too long, or was not typed twice the same.
            Gone: The code was used, has expired, was revoked, or never existed.
            TooManyRequests: Too many wrong codes came from there.
        """
        self.find_user(code, address)
        if password != again:
            raise BadRequest(text("password.differ"))
        try:
            change = UserChange(password=password)
        except ValidationError:
            raise BadRequest(text("password.length")) from None
        with self._database.begin() as connection:
            found = redeem_link(connection, code, "password")
            if found is None:
                raise Gone(text("invitation.used"))
            change_user(connection, found.user, change)
        return found.user_id, found.role
