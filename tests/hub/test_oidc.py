"""Signing in by OpenID Connect, with a real provider."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import httpx2
import pytest

from support.hub import HubProcess
from support.openid_provider import openid_provider
from tbhub.hub.settings import Settings, SettingsError

NAMES = {"ada@example.com": "ada", "eve@example.com": "ada"}


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    claims = {
        subject: {"email": subject, "preferred_username": name, "name": name.title()}
        for subject, name in NAMES.items()
    }
    with openid_provider(claims) as url:
        yield url


@pytest.fixture(scope="module")
def hub(provider: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    with HubProcess(
        tmp_path_factory.mktemp("oidc") / "home",
        auth="users",
        oidc_issuer=provider,
        oidc_client_id="tbhub",
        oidc_client_secret="client secret",
        oidc_name="Example Login",
    ) as hub:
        yield hub


def begin(client: httpx2.Client, after: str = "/") -> str:
    """Where somebody is sent to sign in."""
    answer = client.get("/login/oidc", params={"next": after})
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def authorize(where: str, subject: str) -> str:
    """Where the provider sends somebody who signs in."""
    answer = httpx2.post(where, data={"sub": subject})
    assert answer.status_code == 302, answer.text
    return str(answer.headers["location"])


def sign_in(client: httpx2.Client, subject: str, after: str = "/") -> httpx2.Response:
    return client.get(authorize(begin(client, after), subject))


def me(client: httpx2.Client) -> dict[str, Any]:
    answer = client.get("/api/v1/me")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def test_the_login_page_leads_there(hub: HubProcess) -> None:
    with hub.client("") as client:
        page = client.get("/login?next=/boards/12345678/")
    assert "Sign in with Example Login" in page.text
    assert "/login/oidc?next=%2Fboards%2F12345678%2F" in page.text


def test_who_signs_in_becomes_a_member_and_stays_the_same(hub: HubProcess) -> None:
    with hub.client("") as client:
        answer = sign_in(client, "ada@example.com", "/boards/12345678/?tab=1")
        assert (answer.status_code, answer.headers["location"]) == (303, "/boards/12345678/?tab=1")
        (session, over) = answer.headers.get_list("set-cookie")
        assert "HttpOnly" in session
        assert "SameSite=Lax" in session
        assert "Max-Age=0" in over
        first = me(client)
    with hub.client("") as client:
        sign_in(client, "ada@example.com")
        assert me(client)["user"] == first["user"]
    assert first["user"]["role"] == "member"
    assert first["user"]["email"] == "ada@example.com"


def test_a_name_that_is_taken_is_not_taken_over(hub: HubProcess) -> None:
    with hub.client("") as client:
        sign_in(client, "ada@example.com")
        ada = me(client)["user"]
    with hub.client("") as client:
        sign_in(client, "eve@example.com")
        eve = me(client)["user"]
    assert ada["name"] != eve["name"]
    assert ada["id"] != eve["id"]


def test_who_is_disabled_stays_out(hub: HubProcess) -> None:
    with hub.client("") as client:
        sign_in(client, "gone@example.com")
        name = me(client)["user"]["name"]
        hub.json("PATCH", f"/api/v1/users/{name}", json={"disabled": True})
        assert client.get("/api/v1/me").status_code == 401
        answer = sign_in(client, "gone@example.com")
        assert answer.status_code == 401
        assert "is disabled" in answer.text


def test_pkce_state_and_nonce_are_sent(hub: HubProcess, provider: str) -> None:
    with hub.client("") as client:
        where = begin(client)
    assert where.startswith(provider)
    query = parse_qs(urlsplit(where).query)
    assert query["code_challenge_method"] == ["S256"]
    assert len(query["code_challenge"][0]) == 43
    assert query["state"] != query["nonce"]
    assert query["redirect_uri"] == [f"{hub.url}/login/oidc/callback"]
    assert "client secret" not in where


def test_an_answer_to_another_browsers_sign_in_is_refused(hub: HubProcess) -> None:
    with hub.client("") as victim, hub.client("") as attacker:
        begin(victim)
        back = authorize(begin(attacker), "eve@example.com")
        answer = victim.get(back)
        assert answer.status_code == 401
        assert victim.get("/api/v1/me").status_code == 401
    with hub.client("") as nobody:
        assert nobody.get(back).status_code == 401


@pytest.mark.parametrize(
    "change",
    [
        {"state": "another"},
        {"state": None},
        {"code": "another"},
        {"code": None},
        {"error": "access_denied", "error_description": "<b>no</b>"},
        {"iss": "https://elsewhere.example"},
    ],
)
def test_an_answer_that_was_tampered_with_is_refused(
    hub: HubProcess, change: dict[str, str | None]
) -> None:
    with hub.client("") as client:
        parts = urlsplit(authorize(begin(client), "ada@example.com"))
        query = {name: values[0] for name, values in parse_qs(parts.query).items()} | change
        kept = {name: value for name, value in query.items() if value is not None}
        answer = client.get(urlunsplit(parts._replace(query=urlencode(kept))))
        assert answer.status_code == 401
        assert "<b>no</b>" not in answer.text
        assert client.get("/api/v1/me").status_code == 401


def test_a_code_is_good_once(hub: HubProcess) -> None:
    with hub.client("") as client:
        where = begin(client)
        cookie = client.cookies["tbhub-oidc"]
        back = authorize(where, "ada@example.com")
        assert client.get(back).status_code == 303
    with hub.client("", headers={"cookie": f"tbhub-oidc={cookie}"}) as again:
        assert again.get(back).status_code == 401


@pytest.mark.parametrize("after", ["//evil.example/", "https://evil.example/", "/\\evil.example"])
def test_nobody_is_sent_elsewhere_afterwards(hub: HubProcess, after: str) -> None:
    with hub.client("") as client:
        answer = sign_in(client, "ada@example.com", after)
    assert answer.headers["location"] == "/"


def test_a_provider_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    with HubProcess(
        tmp_path / "home",
        auth="users",
        oidc_issuer="http://127.0.0.1:9",
        oidc_client_id="tbhub",
    ) as hub:
        answer = hub.ask("GET", "/login/oidc", "")
        assert answer.status_code == 503
        assert "does not answer" in answer.json()["error"]["message"]
        assert hub.ask("GET", "/login", "").status_code == 200


def test_a_provider_that_anybody_could_play_is_refused() -> None:
    with pytest.raises(SettingsError, match="https://"):
        Settings.load(oidc_issuer="http://login.example", oidc_client_id="tbhub")
    with pytest.raises(SettingsError, match="oidc_client_id"):
        Settings.load(oidc_issuer="https://login.example")


def test_without_a_provider_there_is_no_such_page(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home", auth="users") as hub:
        assert hub.ask("GET", "/login/oidc", "").status_code == 404
        assert "Sign in with" not in hub.ask("GET", "/login", "").text
