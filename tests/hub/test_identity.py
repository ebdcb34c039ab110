"""Users, passwords, tokens and sessions."""

from __future__ import annotations

import time

import pytest

from tbhub.api.models import NewToken, NewUser, UserChange
from tbhub.api.problems import Conflict, Forbidden, NotAuthenticated, NotFound, TooManyRequests
from tbhub.database.engine import Database
from tbhub.database.tables import tokens
from tbhub.hub import users
from tbhub.hub.access import Caller
from tbhub.hub.attempts import Attempts
from tbhub.hub.identity import Identity
from tbhub.hub.passwords import hash_password, is_password
from tbhub.hub.settings import Settings
from tbhub.hub.tokens import create_token, delete_token, list_tokens

PASSWORD = "correct horse"


@pytest.fixture
def identity(database: Database) -> Identity:
    return Identity(database, Settings(auth="users", login_attempts=3))


def make_user(database: Database, name: str = "ada", **more: object) -> int:
    with database.begin() as connection:
        new = NewUser.model_validate({"name": name, "password": PASSWORD, **more})
        return users.create_user(connection, new).id


def caller(user_id: int, **more: object) -> Caller:
    fields = {"name": "ada", "role": "member", "scope": "write", **more}
    return Caller(user_id=user_id, **fields)  # type: ignore[arg-type]


# --- passwords


def test_a_password_is_known_again_and_not_kept() -> None:
    kept = hash_password(PASSWORD)
    assert PASSWORD not in kept
    assert is_password(PASSWORD, kept)
    assert not is_password(PASSWORD + " ", kept)
    assert hash_password(PASSWORD) != kept


@pytest.mark.parametrize("kept", [None, "", "scrypt$x", "scrypt$1$1$1$!$!", "plain"])
def test_without_a_password_there_is_no_way_in(kept: str | None) -> None:
    assert not is_password("", kept)
    assert not is_password(PASSWORD, kept)


@pytest.mark.parametrize("password", ["ünïcödé 🔑", "\x00" * 9, "a" * 1024, "\ud800 lonely"])
def test_any_text_can_be_a_password(password: str) -> None:
    assert is_password(password, hash_password(password))


# --- logging in


def test_a_session_stands_for_its_user(database: Database, identity: Identity) -> None:
    user_id = make_user(database, role="viewer")
    made = identity.log_in("ada", PASSWORD, "127.0.0.1")
    found = identity.identify(made.token)
    assert found is not None
    assert (found.user_id, found.name, found.role) == (user_id, "ada", "viewer")
    assert made.expires is not None
    assert made.token not in str(list(_rows(database)))
    identity.log_out(made.token)
    assert identity.identify(made.token) is None


def _rows(database: Database) -> list[object]:
    with database.read() as connection:
        return list(connection.execute(tokens.select()))


@pytest.mark.parametrize("name", ["ada", "nobody", "", "ada' or 1=1 --", "ADA"])
def test_a_wrong_password_and_a_wrong_name_are_answered_alike(
    database: Database, identity: Identity, name: str
) -> None:
    make_user(database)
    with pytest.raises(NotAuthenticated, match="The name or the password is wrong"):
        identity.log_in(name, "wrong password", "127.0.0.1")


def test_who_is_disabled_stays_out_at_once(database: Database, identity: Identity) -> None:
    make_user(database, "root", role="admin")
    make_user(database)
    made = identity.log_in("ada", PASSWORD, "127.0.0.1")
    assert identity.identify(made.token) is not None
    with database.begin() as connection:
        users.change_user(connection, "ada", UserChange(disabled=True))
    identity.forget()
    assert identity.identify(made.token) is None
    with pytest.raises(NotAuthenticated):
        identity.log_in("ada", PASSWORD, "127.0.0.1")


def test_a_new_password_ends_sessions_but_not_tokens(
    database: Database, identity: Identity
) -> None:
    user_id = make_user(database)
    session = identity.log_in("ada", PASSWORD, "127.0.0.1").token
    token = identity.create_token(caller(user_id), NewToken()).token
    with database.begin() as connection:
        users.change_user(connection, "ada", UserChange(password="another horse"))
    identity.forget()
    assert identity.identify(session) is None
    assert identity.identify(token) is not None
    identity.log_in("ada", "another horse", "127.0.0.1")


def test_too_many_attempts_have_to_wait(database: Database, identity: Identity) -> None:
    make_user(database)
    for _ in range(3):
        with pytest.raises(NotAuthenticated):
            identity.log_in("ada", "wrong password", "10.0.0.1")
    with pytest.raises(TooManyRequests) as refused:
        identity.log_in("ada", PASSWORD, "10.0.0.1")
    assert refused.value.details["retry_after"] > 0
    # From elsewhere it is still possible to come in.
    identity.log_in("ada", PASSWORD, "10.0.0.2")


def test_attempts_are_counted_per_name_per_address_and_both() -> None:
    now = [0.0]
    attempts = Attempts(2, 60, clock=lambda: now[0])
    attempts.count("ada", "1")
    attempts.count("ada", "1")
    with pytest.raises(TooManyRequests):
        attempts.count("ada", "1")
    for number in range(8):
        attempts.count(f"user {number}", "1")
    with pytest.raises(TooManyRequests):  # ten from one address
        attempts.count("another", "1")
    for number in range(18):
        attempts.count("ada", f"address {number}")
    with pytest.raises(TooManyRequests):  # twenty for one name
        attempts.count("ada", "somewhere else")
    now[0] = 61
    attempts.count("ada", "1")


def test_a_changed_password_ends_the_wait(database: Database, identity: Identity) -> None:
    make_user(database)
    for address in ("10.0.0.1", "10.0.0.2"):
        for _ in range(3):
            with pytest.raises(NotAuthenticated):
                identity.log_in("ada", "wrong password", address)
        with pytest.raises(TooManyRequests):
            identity.log_in("ada", PASSWORD, address)
    identity.unlock("ada")
    identity.log_in("ada", PASSWORD, "10.0.0.1")


def test_who_comes_in_has_a_clean_slate() -> None:
    attempts = Attempts(2, 60)
    for _ in range(10):
        attempts.count("ada", "1")
        attempts.forget("ada", "1")


# --- tokens


def test_a_token_is_shown_once_and_kept_as_its_hash(database: Database, identity: Identity) -> None:
    user_id = make_user(database)
    made = identity.create_token(caller(user_id), NewToken(name="laptop", scope="read"))
    assert made.token.startswith("tbh_")
    assert len(made.token) == 36
    assert made.token not in str(_rows(database))
    with database.read() as connection:
        (listed,) = list_tokens(connection, user_id)
    assert (listed.name, listed.scope, listed.user) == ("laptop", "read", "ada")
    assert "token" not in listed.model_dump()
    found = identity.identify(made.token)
    assert found is not None
    assert found.scope == "read"


def test_a_revoked_token_is_worthless_at_once(database: Database, identity: Identity) -> None:
    user_id = make_user(database)
    made = identity.create_token(caller(user_id), NewToken())
    assert identity.identify(made.token) is not None
    with database.begin() as connection:
        delete_token(connection, made.id, user_id)
    identity.forget()
    assert identity.identify(made.token) is None


def test_an_expired_token_is_worthless_even_while_it_is_remembered(
    database: Database, identity: Identity
) -> None:
    user_id = make_user(database)
    with database.begin() as connection:
        soon = time.time() + 0.3
        made = create_token(
            connection, user_id, kind="api", name="short", scope="read", expires=soon
        )
    assert identity.identify(made.token) is not None
    time.sleep(max(0.0, soon - time.time()) + 0.01)
    assert identity.remembered(made.token) is None
    assert identity.identify(made.token) is None


def test_another_persons_token_cannot_be_revoked(database: Database, identity: Identity) -> None:
    made = identity.create_token(caller(make_user(database)), NewToken())
    other = make_user(database, "bob")
    with database.begin() as connection, pytest.raises(NotFound):
        delete_token(connection, made.id, other)
    assert identity.identify(made.token) is not None


def test_a_token_makes_none_that_is_worth_more(database: Database, identity: Identity) -> None:
    user_id = make_user(database)
    with pytest.raises(Forbidden):
        identity.create_token(caller(user_id, scope="read"), NewToken(scope="read"))
    with pytest.raises(Forbidden):
        identity.create_token(caller(user_id), NewToken(scope="admin"))
    make_user(database, "bob")
    with pytest.raises(Forbidden):
        identity.create_token(caller(user_id, scope="admin"), NewToken(user="bob"))
    short = identity.create_token(caller(user_id), NewToken(expires_in=60))
    from_short = identity.create_token(caller(user_id, token_id=short.id), NewToken())
    assert from_short.expires == short.expires


@pytest.mark.parametrize(
    "text", ["", "tbh_", "x" * 36, "tbh_" + "é" * 32, "tbh_" + "\x00" * 32, "tbh_" + "'" * 32]
)
def test_what_is_no_token_is_nobody(identity: Identity, text: str) -> None:
    assert identity.identify(text) is None


# --- users


def test_there_is_always_an_admin(database: Database) -> None:
    make_user(database, "root", role="admin")
    with database.begin() as connection:
        for change in (UserChange(role="member"), UserChange(disabled=True)):
            with pytest.raises(Conflict, match="only admin"):
                users.change_user(connection, "root", change)
        with pytest.raises(Conflict, match="only admin"):
            users.delete_user(connection, "root")
        users.create_user(connection, NewUser(name="second", role="admin"))
        users.delete_user(connection, "root")


def test_the_first_user_is_made_once_and_keeps_their_token(
    database: Database, identity: Identity
) -> None:
    user, token = identity.first_user(None)
    assert user.role == "admin"
    assert identity.first_user(token) == (user, token)
    again, other = identity.first_user("tbh_" + "x" * 32)
    assert again == user
    assert other != token
    identity.forget()
    assert identity.identify(token) is None
    found = identity.identify(other)
    assert found is not None
    assert found.is_admin


def test_a_name_is_taken_once(database: Database) -> None:
    make_user(database)
    with pytest.raises(Conflict, match="ada"):
        make_user(database)
    with database.read() as connection:
        assert [each.name for each in users.list_users(connection)] == ["ada"]


@pytest.mark.parametrize("name", ["a b", "ünï", "../..", "%2f", "'; drop table users; --", "<b>"])
def test_hostile_names_are_names(database: Database, identity: Identity, name: str) -> None:
    make_user(database, name)
    made = identity.log_in(name, PASSWORD, "127.0.0.1")
    found = identity.identify(made.token)
    assert found is not None
    assert found.name == name
