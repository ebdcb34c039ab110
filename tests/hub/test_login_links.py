"""Single-use login links: whom they log in, how often, until when, and where they lead."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.browser import browser  # noqa: F401
from support.hub import HubProcess
from tbhub.database.engine import Database
from tbhub.database.tables import login_links, tokens, users
from tbhub.hub.login_links import MAX_LINKS_PER_USER, create_link, find_link, redeem_link
from tbhub.hub.tokens import create_token

PASSWORD = "correct horse battery"


# --- the table, on SQLite and PostgreSQL


def add_user(database: Database, name: str = "ada") -> int:
    values = {"name": name, "role": "member", "created": time.time(), "disabled": False}
    with database.begin() as connection:
        made = connection.execute(users.insert().values(values).returning(users.c.id))
        return int(made.scalar_one())


def new_link(database: Database, user: int, **options: Any) -> str:
    given = {"purpose": "session", "scope": "write", "path": "/", **options}
    with database.begin() as connection:
        return create_link(connection, user, **given)[0]


def redeem(database: Database, code: str, purpose: Any = "session") -> str | None:
    with database.begin() as connection:
        found = redeem_link(connection, code, purpose)
    return None if found is None else found.user


def test_a_code_is_redeemed_once_however_many_try_at_once(database: Database) -> None:
    code = new_link(database, add_user(database))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: redeem(database, code), range(8)))
    assert sorted(map(str, found)) == [*["None"] * 7, "ada"]
    assert redeem(database, code) is None


def test_a_code_is_for_one_purpose(database: Database) -> None:
    code = new_link(database, add_user(database), purpose="password")
    assert redeem(database, code) is None
    assert redeem(database, code, "password") == "ada"


def test_codes_are_stored_as_hashes_and_end_with_time_token_and_user(database: Database) -> None:
    user = add_user(database)
    assert redeem(database, new_link(database, user, lifetime=-1)) is None
    with database.begin() as connection:
        made = create_token(
            connection, user, kind="api", name="x", scope="write", expires=time.time() + 60
        )
    code = new_link(database, user, token_id=made.id)
    with database.read() as connection:
        assert find_link(connection, code, "session") is not None
        (row,) = connection.execute(login_links.select())
    assert code not in str(row)
    assert row.expires <= time.time() + 60
    with database.begin() as connection:
        connection.execute(tokens.delete())
    assert redeem(database, code) is None
    code = new_link(database, user)
    with database.begin() as connection:
        connection.execute(users.update().values(disabled=True))
    assert redeem(database, code) is None


def test_a_user_has_a_bounded_number_of_links(database: Database) -> None:
    user = add_user(database)
    other = new_link(database, add_user(database, "bob"))
    codes = [new_link(database, user) for _ in range(MAX_LINKS_PER_USER + 2)]
    assert [redeem(database, code) for code in (codes[1], codes[2], other)] == [None, "ada", "bob"]


# --- a hub


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    home = tmp_path_factory.mktemp("links") / "home"
    with HubProcess(home, auth="users", base_path="/tb", log_level="debug") as made:
        yield made


def link(hub: HubProcess, token: str | None = None, path: str | None = None) -> tuple[str, str]:
    """A link's page and its code."""
    made = hub.json("POST", "/api/v1/login-links", token, json={"path": path} if path else {})
    address, _, code = made["url"].partition("#")
    assert address == f"{hub.url}/login/link"
    return address, code


def post(client: httpx2.Client, code: str, **form: str) -> httpx2.Response:
    return client.post("/login/link", data={"code": code, **form})


def test_a_link_logs_in_once_and_opens_its_page(hub: HubProcess) -> None:
    token = hub.create_user("ada", password=PASSWORD)
    address, code = link(hub, token, "/tb/boards/12345678/?darkMode=true")
    with hub.client("") as client:
        # Whatever fetches the address, the link still works afterwards.
        for method in ("GET", "HEAD", "GET"):
            page = client.request(method, address)
            assert page.status_code == 200
            assert "set-cookie" not in page.headers
        answer = post(client, code)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/tb/boards/12345678/?darkMode=true"
        assert answer.headers["referrer-policy"] == "no-referrer"
        for word in ("HttpOnly", "SameSite=Lax", "Path=/tb/"):
            assert word in answer.headers["set-cookie"]
        assert client.get("/api/v1/me").json()["user"]["name"] == "ada"
    with hub.client("") as client:
        again = post(client, code)
        assert again.status_code == 410
        assert "set-cookie" not in again.headers
        assert "works once" in again.text
    assert code not in hub.log


def test_a_browser_is_sent_from_a_refused_link_to_a_page_that_it_can_reload(
    hub: HubProcess,
) -> None:
    with hub.client("", headers={"accept": "text/html"}) as client:
        refused = post(client, "tbh_link_old")
        assert refused.status_code == 303
        assert "set-cookie" not in refused.headers
        assert refused.headers["location"] == "/tb/login/link?expired"
        over = client.get("/login/link?expired")
        assert over.status_code == 410
        assert "works once" in over.text
        assert "script-src 'sha256-" in over.headers["content-security-policy"]


def test_a_links_session_may_do_what_its_token_may_and_ends_with_it(hub: HubProcess) -> None:
    new = {"name": "short", "scope": "read", "expires_in": 3600}
    token = hub.json("POST", "/api/v1/tokens", json=new)["token"]
    _, code = link(hub, token)
    with hub.client("") as client:
        answer = post(client, code)
        (age,) = re.findall(r"Max-Age=(\d+)", answer.headers["set-cookie"])
        assert int(age) <= 3600
        assert client.get("/api/v1/me").json()["scope"] == "read"
    made = hub.json("POST", "/api/v1/tokens", json={"name": "gone"})
    _, code = link(hub, made["token"])
    hub.json("DELETE", f"/api/v1/tokens/{made['id']}")
    with hub.client("") as client:
        assert post(client, code).status_code == 410


@pytest.mark.parametrize(
    "path",
    [
        *("https://example.com/", "//example.com/", "/\\example.com", "/elsewhere", "/tb"),
        *("/tb/../x", "/tb/%2e%2E/x", "/tb/..%2fx", "/tb/x y"),
    ],
)
def test_a_link_leads_to_pages_of_the_hub_only(hub: HubProcess, path: str) -> None:
    answer = hub.ask("POST", "/api/v1/login-links", json={"path": path})
    assert answer.status_code == 422


def test_another_sites_page_cannot_redeem_a_link(hub: HubProcess) -> None:
    _, code = link(hub)
    with hub.client("", headers={"origin": "https://example.com"}) as client:
        assert post(client, code).status_code == 403
    with hub.client("") as client:
        assert post(client, code).status_code == 303


def test_a_user_is_asked_before_a_link_makes_them_another(hub: HubProcess) -> None:
    token = hub.create_user("mallory")
    _, code = link(hub, token)
    _, own = link(hub)
    with hub.client("") as client:
        assert post(client, own).status_code == 303
        asked = post(client, code)
        assert asked.status_code == 200
        assert "Log in as mallory?" in asked.text
        assert client.get("/api/v1/me").json()["user"]["name"] != "mallory"
        assert post(client, code, switch="yes").status_code == 303
        assert client.get("/api/v1/me").json()["user"]["name"] == "mallory"


def test_without_authentication_a_link_is_the_address(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home", auth="none") as hub:
        made = hub.json("POST", "/api/v1/login-links", json={"path": "/boards"})
        assert made == {"url": f"{hub.url}/boards", "expires": None}


def test_a_link_survives_a_restart_of_the_hub(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home") as hub:
        code = hub.json("POST", "/api/v1/login-links", json={})["url"].partition("#")[2]
        hub.kill()
        hub.restart()
        with hub.client("") as client:
            assert post(client, code).status_code == 303


def test_pasting_a_link_opens_the_page_logged_in(hub: HubProcess, browser: Any) -> None:  # noqa: F811
    address, code = link(hub, path="/tb/boards")
    context = browser.new_context()
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    seen: list[str] = []
    page.on("request", lambda request: seen.append(f"{request.url} {request.headers}"))
    page.goto(f"{address}#{code}")
    page.wait_for_url(f"{hub.url}/boards")
    assert page.evaluate("document.referrer") == ""
    assert problems == []
    assert not any(code in each for each in seen)
    # The second time it says why, and a page without a code what to do.
    page.goto("about:blank")
    page.goto(f"{address}#{code}")
    page.get_by_text("This link no longer works").wait_for()
    page.goto(address)
    page.get_by_text("lacks the code of a login link").wait_for()
    context.close()
