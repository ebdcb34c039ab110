"""Logging in by typing into the forms, in a real browser.

Each form is used on loopback and behind a proxy that ends TLS and serves the hub below a base path.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from support.hub import HubProcess
from support.openid_provider import openid_provider
from support.pages import log_runs, serious, shoot
from support.ports import free_port
from support.tls_proxy import tls_proxy

pytestmark = pytest.mark.browser
PASSWORD = "correct horse"
SITES = ["loopback", "proxy"]


@dataclass(frozen=True)
class Site:
    """A hub, and where its users find it."""

    hub: HubProcess
    url: str

    @property
    def is_secure(self) -> bool:
        return self.url.startswith("https:")


@contextmanager
def serve(where: Path, kind: str, **settings: object) -> Iterator[Site]:
    """Run a hub on loopback, or behind a proxy below /tbhub."""
    with ExitStack() as stack:
        if kind == "proxy":
            port, outside = free_port(), free_port()
            settings |= {"port": port, "base_path": "/tbhub", "trusted_proxies": "127.0.0.1"}
            # Hardened proxies send this header; forms then send `Origin: null`.
            hardened = {"referrer_policy": "no-referrer"}
            proxy = tls_proxy(where, outside, f"http://127.0.0.1:{port}", **hardened)
            url = f"{stack.enter_context(proxy)}/tbhub"
            hub = stack.enter_context(HubProcess(where / "home", **settings))
        else:
            hub = stack.enter_context(HubProcess(where / "home", **settings))
            url = hub.url
        yield Site(hub, url)


@pytest.fixture(scope="module", params=SITES)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A hub with users and a run, on a port that it keeps."""
    where = tmp_path_factory.mktemp("login")
    log_runs(where / "runs", "first")
    settings = {"auth": "users", "logdirs": where / "runs", "port": free_port()}
    with serve(where, request.param, **settings) as site:
        site.hub.wait_for_runs(1)
        site.hub.create_user("ada", password=PASSWORD)
        yield site


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of a browser that nobody has used before."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800},
        locale="en-GB",
        ignore_https_errors=True,
        permissions=["clipboard-read", "clipboard-write"],
    )
    made = context.new_page()
    made.set_default_timeout(30_000)
    yield made
    context.close()


def log_in(page: Any, name: str = "ada", password: str = PASSWORD) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def session_cookies(page: Any) -> list[dict[str, Any]]:
    return [each for each in page.context.cookies() if each["name"].startswith("tbhub-")]


def test_a_password_logs_in_and_leads_where_the_user_wanted_to_go(site: Site, page: Any) -> None:
    page.goto(f"{site.url}/settings")
    log_in(page, password="wrong password")
    page.get_by_role("alert").get_by_text("The name or the password is wrong.").wait_for()
    assert page.get_by_label("Name").input_value() == "ada"
    assert page.get_by_label("Password").input_value() == ""
    shoot(page, "login-wrong")
    assert serious(page) == []
    log_in(page)
    page.get_by_role("heading", name="Tokens", exact=True).wait_for()
    assert page.url == f"{site.url}/settings"
    (cookie,) = session_cookies(page)
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Lax"
    assert cookie["secure"] == site.is_secure
    assert cookie["path"] == f"{urlsplit(site.url).path}/"


def test_logging_out_ends_the_session(site: Site, page: Any) -> None:
    page.goto(f"{site.url}/settings")
    log_in(page)
    page.get_by_role("heading", name="Tokens", exact=True).wait_for()
    page.locator("nav.rail button").last.click()
    page.get_by_role("menuitem", name="Log out").click()
    page.get_by_role("heading", name="Log in to tbhub").wait_for()
    assert session_cookies(page) == []
    page.goto(f"{site.url}/settings")
    page.get_by_role("heading", name="Log in to tbhub").wait_for()


@pytest.mark.parametrize("after", ["//evil.example/", "https://evil.example/", "/\\evil.example"])
def test_logging_in_leads_to_no_other_site(site: Site, page: Any, after: str) -> None:
    page.goto(f"{site.url}/login?next={quote(after, safe='')}")
    log_in(page)
    page.get_by_role("heading", name="Runs").wait_for()
    assert page.url == f"{site.url}/"


def test_a_failed_board_is_started_again_from_its_page(site: Site, page: Any) -> None:
    board = site.hub.create_board(runs="all", name="again")
    _make_failed(site.hub, board["id"])
    page.goto(f"{site.url}/boards/{board['id'][:8]}/")
    log_in(page, "grace")
    page.get_by_role("button", name="Start it again").click()
    page.wait_for_selector("tb-webapp")
    assert site.hub.wait_for(board["id"], "RUNNING")["reason"] is None


def _make_failed(hub: HubProcess, board: str) -> None:
    """Add an admin who has a password, and leave the board as one whose process crashed."""
    hub.create_user("grace", "admin", PASSWORD)
    hub.stop()
    with sqlite3.connect(hub.home / "hub.db") as database:
        changed = "update boards set state = 'FAILED', reason = 'CRASHED', host_id = null"
        changed += " where id = ?"
        assert database.execute(changed, [board]).rowcount == 1
    database.close()
    hub.restart()


@pytest.mark.parametrize("kind", SITES)
def test_a_token_logs_in(tmp_path: Path, page: Any, kind: str) -> None:
    with serve(tmp_path, kind, auth="token") as site:
        page.goto(f"{site.url}/compare?q=all")
        page.get_by_label("Token").fill("tbh_" + "x" * 32)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("alert").get_by_text("unknown, expired or revoked").wait_for()
        page.get_by_label("Token").fill(site.hub.token)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="Compare").wait_for()
        assert page.url == f"{site.url}/compare?q=all"
        (cookie,) = session_cookies(page)
        assert (cookie["httpOnly"], cookie["secure"]) == (True, site.is_secure)


@pytest.mark.parametrize("kind", SITES)
def test_openid_connect_logs_in(tmp_path: Path, page: Any, kind: str) -> None:
    claims = {"ada@example.com": {"email": "ada@example.com", "preferred_username": "ada"}}
    # The provider is another site than the hub.
    host = "127.0.0.1" if kind == "proxy" else "localhost"
    with openid_provider(claims, host=host) as provider:
        settings = {
            "oidc_issuer": provider,
            "oidc_client_id": "tbhub",
            "oidc_client_secret": "client secret",
            "oidc_name": "Example",
        }
        with serve(tmp_path, kind, auth="users", **settings) as site:
            page.goto(f"{site.url}/settings")
            page.get_by_role("link", name="Sign in with Example").click()
            page.wait_for_url(f"{provider}/**")
            page.locator("input[name=sub]").fill("ada@example.com")
            page.locator("button[type=submit], input[type=submit]").first.click()
            page.get_by_role("heading", name="Tokens", exact=True).wait_for()
            assert page.url == f"{site.url}/settings"
            page.get_by_text("ada@example.com").wait_for()
            (cookie,) = session_cookies(page)
            assert (cookie["httpOnly"], cookie["secure"]) == (True, site.is_secure)


def test_a_form_of_another_site_does_not_log_in(site: Site, page: Any) -> None:
    """A page with an opaque origin sends `Origin: null`, as one in a sandboxed frame does."""
    fields = f"<input name=name value=ada><input name=password value='{PASSWORD}'>"
    form = f"<form method=post action='{site.url}/login'>{fields}<button>Go</button></form>"
    page.goto(f"data:text/html,{quote(form)}")
    with page.expect_navigation() as navigation:
        page.get_by_role("button", name="Go").click()
    assert navigation.value.status == 403
    page.get_by_text("page of another site").wait_for()
    assert session_cookies(page) == []


def test_a_proxy_that_is_not_trusted_is_named_where_the_form_is_refused(
    tmp_path: Path, page: Any
) -> None:
    with serve(tmp_path, "loopback", auth="users", base_path="/tbhub") as site:
        site.hub.create_user("ada", password=PASSWORD)
        inside = "{0.scheme}://{0.netloc}".format(urlsplit(site.url))
        with tls_proxy(tmp_path, free_port(), inside) as outside:
            page.goto(f"{outside}/tbhub/login")
            log_in(page)
            page.get_by_text("TBHUB_TRUSTED_PROXIES").wait_for()
            assert session_cookies(page) == []


def test_an_invited_user_chooses_a_password_and_is_logged_in(
    site: Site, page: Any, browser: Any
) -> None:
    page.goto(f"{site.url}/login?token={site.hub.token}")
    page.goto(f"{site.url}/settings/users")
    page.get_by_role("button", name="Add a user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("maria")
    dialog.get_by_role("button", name="Add a user").click()
    page.get_by_text("It works once").wait_for()
    page.get_by_role("button", name="Copy the link").click()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{site.url}/login/invitation#")
    shoot(page, "settings-invitation")
    assert serious(page) == []
    page.get_by_role("button", name="I have copied it").click()
    row = page.get_by_role("row").filter(has_text="maria")
    row.get_by_text("link not used yet").wait_for()

    context = browser.new_context(ignore_https_errors=True, locale="en-GB")
    maria = context.new_page()
    maria.goto(link)
    maria.get_by_role("heading", name="Welcome to tbhub, maria").wait_for()
    assert "#" not in maria.url
    shoot(maria, "invitation")
    assert serious(maria) == []
    maria.get_by_label("Password", exact=True).fill("battery staple")
    maria.get_by_label("Password again").fill("battery stable")
    maria.get_by_role("button", name="Set password and log in").click()
    maria.get_by_role("alert").get_by_text("not the same").wait_for()
    maria.get_by_label("Password", exact=True).fill("battery staple")
    maria.get_by_label("Password again").fill("battery staple")
    maria.get_by_role("button", name="Set password and log in").click()
    maria.get_by_role("heading", name="Runs").wait_for()
    (cookie,) = session_cookies(maria)
    assert (cookie["httpOnly"], cookie["secure"]) == (True, site.is_secure)
    context.clear_cookies()
    maria.goto(link)
    maria.get_by_text("used already").wait_for()
    maria.goto(f"{site.url}/")
    log_in(maria, "maria", "battery staple")
    maria.get_by_role("heading", name="Runs").wait_for()
    context.close()
    page.reload()
    row.get_by_text("password").wait_for()


def paste(page: Any, address: str) -> None:
    """Open an address in the tab as typing it does: nothing is loaded if the fragment differs."""
    page.evaluate("window.isSameDocument = true")
    page.goto(address)


def new_link(site: Site, path: str, **body: object) -> str:
    """Create a link and return its address as users of the site have it."""
    made = site.hub.json("POST", f"/api/v1/{path}", json=body)
    return f"{site.url}/login/{made['url'].rpartition('/')[2]}"


def test_a_new_login_link_works_in_the_tab_of_an_old_one(site: Site, page: Any) -> None:
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    page.goto(f"{site.url}/login/link#tbh_link_old")
    page.get_by_role("heading", name="This link no longer works").wait_for()
    page.reload()
    page.get_by_role("heading", name="This link no longer works").wait_for()
    shoot(page, "link-over")
    assert serious(page) == []
    link = new_link(site, "login-links")
    paste(page, link)
    page.get_by_role("heading", name="Runs").wait_for()
    assert session_cookies(page) != []
    code = link.partition("#")[2]
    assert not any(code in url or "tbh_link_old" in url for url in seen)


@pytest.mark.parametrize("address", ["/login/link", "/login/link?expired"])
def test_a_fragment_typed_into_a_page_of_links_is_redeemed(
    site: Site, page: Any, address: str
) -> None:
    page.goto(f"{site.url}{address}")
    page.locator("main h1").wait_for()
    code = new_link(site, "login-links").partition("#")[2]
    paste(page, f"{site.url}{address}#{code}")
    page.get_by_role("heading", name="Runs").wait_for()


def test_reloading_a_question_about_a_login_link_asks_again(site: Site, page: Any) -> None:
    page.goto(f"{site.url}/login")
    log_in(page)
    page.get_by_role("heading", name="Runs").wait_for()
    page.goto(new_link(site, "login-links"))
    page.get_by_role("heading", name="Log in as root?").wait_for()
    page.reload()
    page.get_by_role("heading", name="Log in as root?").wait_for()
    assert "#" not in page.url
    page.get_by_role("button", name="Log in as root").click()
    page.get_by_role("heading", name="Runs").wait_for()


def test_invitations_survive_reloads_and_a_new_one_works_in_the_tab_of_an_old_one(
    site: Site, page: Any
) -> None:
    site.hub.create_user("hopper")
    page.goto(f"{site.url}/login/invitation#tbh_link_old")
    page.get_by_role("heading", name="This link no longer works").wait_for()
    page.reload()
    page.get_by_text("used already").wait_for()
    first = new_link(site, "invitations", user="hopper")
    paste(page, first)
    page.get_by_role("heading", name="Welcome to tbhub, hopper").wait_for()
    page.reload()
    page.get_by_role("heading", name="Welcome to tbhub, hopper").wait_for()
    assert "#" not in page.url
    second = new_link(site, "invitations", user="hopper")  # which revokes the first
    page.reload()
    page.get_by_role("heading", name="This link no longer works").wait_for()
    paste(page, second)
    page.get_by_role("heading", name="Welcome to tbhub, hopper").wait_for()
    third = new_link(site, "invitations", user="hopper")
    paste(page, third)
    page.wait_for_function("!window.isSameDocument")
    page.get_by_label("Password", exact=True).fill("battery staple")
    page.get_by_label("Password again").fill("battery stable")
    page.get_by_role("button", name="Set password and log in").click()
    page.get_by_role("alert").get_by_text("not the same").wait_for()
    page.reload()
    page.get_by_role("heading", name="Welcome to tbhub, hopper").wait_for()
    page.get_by_label("Password", exact=True).fill("battery staple")
    page.get_by_label("Password again").fill("battery staple")
    page.get_by_role("button", name="Set password and log in").click()
    page.get_by_role("heading", name="Runs").wait_for()


def test_an_admin_sets_the_password_of_a_user_who_could_not_log_in(site: Site, page: Any) -> None:
    page.goto(f"{site.url}/login?token={site.hub.token}")
    page.goto(f"{site.url}/settings/users")
    page.get_by_role("button", name="Add a user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("noether")
    dialog.get_by_label("First login").select_option("none")
    dialog.get_by_role("button", name="Add a user").click()
    page.get_by_text("noether is added, and cannot log in yet.").wait_for()
    row = page.get_by_role("row").filter(has_text="noether")
    row.get_by_text("cannot log in").wait_for()
    shoot(page, "settings-users")
    page.get_by_role("button", name="Actions for noether").click()
    page.get_by_role("menuitem", name="Set password").click()
    page.get_by_role("dialog").get_by_label("New password").fill("battery staple")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.get_by_text("The password of noether is set.").wait_for()
    row.get_by_text("password").wait_for()
    page.context.clear_cookies()
    page.goto(f"{site.url}/")
    log_in(page, "noether", "battery staple")
    page.get_by_role("heading", name="Runs").wait_for()
