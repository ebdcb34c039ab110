"""Invitations: single-use links by which users choose a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hub import HubProcess
from tbhub.api.models import NewInvitation, NewUser, UserChange
from tbhub.api.problems import BadRequest, Conflict, Gone, NotFound, TooManyRequests
from tbhub.database.engine import Database
from tbhub.database.tables import login_links
from tbhub.hub import users
from tbhub.hub.identity import Identity
from tbhub.hub.invitations import PATH, Invitations
from tbhub.hub.login_links import find_link
from tbhub.hub.login_ways import with_login_ways
from tbhub.hub.settings import Settings
from tbhub.hub.users import user_of_subject

PASSWORD = "correct horse"
SETTINGS = Settings(auth="users", login_attempts=3)


@pytest.fixture
def invitations(database: Database) -> Invitations:
    return Invitations(database, SETTINGS)


def add_user(database: Database, name: str = "ada", **more: object) -> int:
    with database.begin() as connection:
        return users.create_user(connection, NewUser.model_validate({"name": name, **more})).id


def invite(invitations: Invitations, name: str = "ada", seconds: float = 3600) -> str:
    """Return the code of a new invitation."""
    new = NewInvitation(user=name, expires_in=seconds)
    made = invitations.create(new, "https://hub.example")
    address, _, code = made.url.partition("#")
    assert address == f"https://hub.example{PATH}"
    return code


def accept(invitations: Invitations, code: str, password: str = PASSWORD) -> int:
    return invitations.accept(code, password, password, "10.0.0.1")[0]


def test_an_invited_user_chooses_a_password_once(
    database: Database, invitations: Invitations
) -> None:
    user_id = add_user(database)
    code = invite(invitations)
    assert invitations.find_user(code, "10.0.0.1") == "ada"
    assert accept(invitations, code) == user_id
    Identity(database, SETTINGS).log_in("ada", PASSWORD, "10.0.0.1")
    with pytest.raises(Gone, match="used already"):
        accept(invitations, code, "another horse")


def test_a_code_is_stored_as_a_hash_and_opens_no_session(
    database: Database, invitations: Invitations
) -> None:
    add_user(database)
    code = invite(invitations)
    with database.read() as connection:
        assert code not in str(list(connection.execute(login_links.select())))
        assert find_link(connection, code, "session") is None
    assert Identity(database, SETTINGS).identify(code) is None


def test_a_new_invitation_revokes_the_one_before(
    database: Database, invitations: Invitations
) -> None:
    add_user(database)
    first, second = invite(invitations), invite(invitations)
    with pytest.raises(Gone):
        accept(invitations, first)
    accept(invitations, second)


@pytest.mark.parametrize(
    "change", [UserChange(disabled=True), UserChange(password="set by an admin")]
)
def test_disabling_and_setting_a_password_revoke_an_invitation(
    database: Database, invitations: Invitations, change: UserChange
) -> None:
    add_user(database)
    code = invite(invitations)
    with database.begin() as connection:
        users.change_user(connection, "ada", change)
        users.change_user(connection, "ada", UserChange(disabled=False))
    with pytest.raises(Gone):
        accept(invitations, code)


def test_an_invitation_is_revoked_and_expires(database: Database, invitations: Invitations) -> None:
    add_user(database)
    code = invite(invitations)
    invitations.revoke("ada")
    with pytest.raises(Gone):
        accept(invitations, code)
    late = invite(invitations)
    with database.begin() as connection:
        connection.execute(login_links.update().values(expires=1.0))
    with pytest.raises(Gone):
        accept(invitations, late)


@pytest.mark.parametrize(
    ("password", "again", "message"),
    [("short", "short", "8 to 1024"), ("x" * 1025, "x" * 1025, "8 to"), (PASSWORD, "x", "same")],
)
def test_a_refused_password_leaves_the_invitation_valid(
    database: Database, invitations: Invitations, password: str, again: str, message: str
) -> None:
    add_user(database)
    code = invite(invitations)
    with pytest.raises(BadRequest, match=message):
        invitations.accept(code, password, again, "10.0.0.1")
    accept(invitations, code)


def test_guessing_codes_is_limited_by_address(database: Database, invitations: Invitations) -> None:
    add_user(database)
    code = invite(invitations)
    for number in range(15):
        with pytest.raises(Gone):
            invitations.find_user(f"tbh_link_{number:032}", "10.0.0.9")
    with pytest.raises(TooManyRequests):
        invitations.find_user(code, "10.0.0.9")
    assert invitations.find_user(code, "10.0.0.1") == "ada"


def test_unknown_and_disabled_users_are_not_invited(
    database: Database, invitations: Invitations
) -> None:
    add_user(database, "root", role="admin")
    add_user(database)
    with pytest.raises(NotFound, match="There is no user bob"):
        invite(invitations, "bob")
    with database.begin() as connection:
        users.change_user(connection, "ada", UserChange(disabled=True))
    with pytest.raises(Conflict, match="disabled"):
        invite(invitations)


def test_a_hub_of_one_user_has_no_invitations(database: Database) -> None:
    add_user(database)
    with pytest.raises(Conflict, match="--auth users"):
        invite(Invitations(database, Settings(auth="token")))


# --- how users can log in


def ways(database: Database, name: str, *, sso: bool = False) -> list[str]:
    with database.read() as connection:
        found = with_login_ways(connection, [users.get_user(connection, name)], sso=sso)
    return list(found[0].login_ways)


def test_ways_to_log_in_are_those_that_work(database: Database, invitations: Invitations) -> None:
    add_user(database, "root", role="admin", password=PASSWORD)
    add_user(database, email="ada@example.com")
    assert ways(database, "root", sso=True) == ["password"]
    assert ways(database, "ada") == []
    assert ways(database, "ada", sso=True) == ["sso"]
    code = invite(invitations)
    assert ways(database, "ada") == ["invitation"]
    accept(invitations, code)
    assert ways(database, "ada", sso=True) == ["password"]
    with database.begin() as connection:
        users.change_user(connection, "ada", UserChange(disabled=True))
    assert ways(database, "ada") == []


@pytest.mark.parametrize(
    ("user", "email", "is_verified", "is_linked"),
    [
        ({"email": "Ada@Example.com"}, "ada@example.com", True, True),
        ({"email": "ada@example.com"}, "ada@example.com", False, False),
        ({"email": "ada@example.com"}, "eve@example.com", True, False),
        ({"email": "ada@example.com", "password": PASSWORD}, "ada@example.com", True, False),
        ({}, "ada@example.com", True, False),
    ],
)
def test_single_sign_on_finds_users_by_a_verified_address_alone(
    database: Database, user: dict[str, object], email: str, is_verified: bool, is_linked: bool
) -> None:
    user_id = add_user(database, **user)
    with database.begin() as connection:
        found = user_of_subject(
            connection, "issuer 1", ["ada", "ada-2"], email, is_verified=is_verified
        )
        assert (found.id == user_id) is is_linked
        again = user_of_subject(connection, "issuer 1", ["x"], None)
    assert again.id == found.id


def test_a_user_with_a_token_is_not_found_by_address(
    database: Database,
) -> None:
    """Otherwise a user could set another's address, and share an account with its owner."""
    user_id = add_user(database, email="ada@example.com")
    Identity(database, SETTINGS).open_session(user_id, "member")
    with database.begin() as connection:
        email = "ada@example.com"
        found = user_of_subject(connection, "issuer 1", ["ada-2"], email, is_verified=True)
    assert found.id != user_id
    assert ways(database, "ada", sso=True) == []


# --- the pages


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    where = tmp_path_factory.mktemp("invitations")
    with HubProcess(where / "home", auth="users", log_level="debug") as hub:
        yield hub


def test_the_code_of_an_invitation_is_not_logged(hub: HubProcess) -> None:
    hub.json("POST", "/api/v1/users", json={"name": "logged"})
    made = hub.json("POST", "/api/v1/invitations", json={"user": "logged"})
    code = made["url"].partition("#")[2]
    with hub.client("") as client:
        assert client.get(PATH).status_code == 200
        page = client.post(PATH, data={"code": code})
        assert "Welcome to tbhub, logged" in page.text
        form = {"code": code, "password": PASSWORD, "again": PASSWORD}
        answer = client.post(PATH, data=form)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert client.get("/api/v1/me").json()["user"]["login_ways"] == ["password"]
        assert client.post(PATH, data=form).status_code == 410
        refused = client.post(PATH, data=form, headers={"accept": "text/html"})
        assert (refused.status_code, refused.headers["location"]) == (303, f"{PATH}?expired")
        over = client.get(f"{PATH}?expired")
        assert over.status_code == 410
        assert "used already" in over.text
    assert code not in hub.log
    assert PASSWORD not in hub.log


def test_a_browser_with_too_many_wrong_codes_gets_a_page_that_it_can_reload(tmp_path: Path) -> None:
    with (
        HubProcess(tmp_path / "home", auth="users", login_attempts=1) as hub,
        hub.client("", headers={"accept": "text/html"}) as client,
    ):
        codes = [f"tbh_link_{number:032}" for number in range(6)]
        found = [client.post(PATH, data={"code": code}) for code in codes]
    assert [each.status_code for each in found] == [*[303] * 5, 429]
    assert f'id="posted" value="{codes[-1]}"' in found[-1].text
    assert "script-src 'sha256-" in found[-1].headers["content-security-policy"]


def test_a_page_of_another_site_cannot_use_an_invitation(hub: HubProcess) -> None:
    hub.json("POST", "/api/v1/users", json={"name": "foreign"})
    made = hub.json("POST", "/api/v1/invitations", json={"user": "foreign"})
    form = {"code": made["url"].partition("#")[2], "password": PASSWORD, "again": PASSWORD}
    headers = {"origin": "https://evil.example"}
    assert hub.ask("POST", PATH, "", data=form, headers=headers).status_code == 403
    assert hub.ask("POST", PATH, "", data=form).status_code == 303


def test_invitations_are_for_admins(hub: HubProcess, tmp_path: Path) -> None:
    token = hub.create_user("member")
    new = {"user": "member"}
    answer = hub.ask("POST", "/api/v1/invitations", token, json=new)
    assert answer.status_code == 403
    expected = "Requires role admin; member has role member."
    assert answer.json()["error"]["message"] == expected
    assert hub.ask("DELETE", "/api/v1/invitations/member", token).status_code == 403
    assert hub.ask("DELETE", "/api/v1/invitations/member").status_code == 204
