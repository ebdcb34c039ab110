"""The hub's front: problems, headers, cookies, and what is refused whoever asks."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.hub import PATIENCE, HubProcess
from tbhub import SummaryWriter
from tbhub.hub.forwarded import Forwarded
from tbhub.hub.routes.pages import local

HOSTILE = [
    "a b",
    "../../etc/passwd",
    "%2f..%2f",
    "'; drop table users; --",
    '"><script>alert(1)</script>',
    "{{7*7}}${7*7}",
    "ünïcödé 🦦 שלום",
    "\u202egnp.exe",
    "a/b",
    "-rf",
    "x" * 200,
]
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    where = tmp_path_factory.mktemp("app")
    with SummaryWriter(where / "runs" / "a") as writer:
        writer.add_scalar("loss", 1.0, 1)
    with HubProcess(
        where / "home", auth="users", logdirs=where / "runs", login_attempts=5, max_body=1 << 20
    ) as hub:
        hub.wait_for_runs(1)
        hub.create_user("ada", password=PASSWORD)
        yield hub


# --- problems


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/nothing", 404, "not_found"),
        ("GET", "/api/v1/runs/999999", 404, "not_found"),
        ("GET", "/api/v1/runs/x", 422, "bad_request"),
        ("GET", "/api/v1/runs?limit=-1", 422, "bad_request"),
        ("GET", "/api/v1/runs?select=where+lr+<", 422, "bad_request"),
        ("GET", "/api/v1/runs?select=no-such-run", 404, "not_found"),
        ("DELETE", "/api/v1/me", 405, "wrong_method"),
        ("POST", "/api/v1/boards", 422, "bad_request"),
        ("GET", "/api/v1/boards/%00", 422, "bad_request"),
        ("GET", "/api/v1/boards?limit=%00", 422, "bad_request"),
        ("GET", "/boards/nothing/", 404, "not_found"),
    ],
)
def test_problems_are_json_to_programs(
    hub: HubProcess, method: str, path: str, status: int, code: str
) -> None:
    answer = hub.ask(method, path)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["code"] == code
    assert error["message"]


def test_a_selector_says_where_it_went_wrong(hub: HubProcess) -> None:
    answer = hub.ask("GET", "/api/v1/runs", params={"select": "run1 where lr <"})
    details = answer.json()["error"]["details"]
    assert details["position"] == 15
    assert details["text"] == "run1 where lr <"


@pytest.mark.parametrize(
    ("path", "body", "chinese"),
    [
        ("workspaces", {"name": "a/b"}, "name：只能含字母、数字和 _ . -，且以字母、数字或 _ 开头"),
        ("shares", {"expires_in": 0}, "expires_in：应大于 0"),
        (
            "boards",
            {"runs": "all", "options": {"template": "{x"}},
            "名称模板 '{x'，第 1 列：{ 未闭合；请用 } 闭合，或用 {{ 表示花括号",
        ),
    ],
)
def test_a_refused_field_is_said_in_the_language_of_the_client(
    hub: HubProcess, path: str, body: dict[str, Any], chinese: str
) -> None:
    where = "boards/none/shares" if path == "shares" else path
    headers = {"accept-language": "zh-CN,zh;q=0.9"}
    answer = hub.ask("POST", f"/api/v1/{where}", json=body, headers=headers)
    assert answer.json()["error"]["message"] == chinese


def test_a_missing_log_directory_is_reported_in_the_language_of_the_client(
    hub: HubProcess, tmp_path: Path
) -> None:
    headers = {"accept-language": "zh"}
    new = {"path": str(tmp_path / "later"), "workspace": "default"}
    made = hub.json("POST", "/api/v1/logdirs", json=new, headers=headers)
    hub.json("DELETE", f"/api/v1/logdirs/{made['id']}")
    assert made["notice"] == f"hub 的机器上还没有目录 {new['path']}；hub 会等待它出现。"


def test_problems_are_pages_to_people(hub: HubProcess) -> None:
    accept = {"accept": "text/html"}
    for path in ("/nothing", "/boards/00000000/", "/boards/%3Cscript%3E/"):
        answer = hub.ask("GET", path, headers=accept)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "<script>" not in answer.text


def test_who_is_not_logged_in_is_asked_to(hub: HubProcess) -> None:
    for path in ("/", "/boards/12345678/?x=1"):
        page = hub.ask("GET", path, "", headers={"accept": "text/html"})
        assert page.status_code == 303
        assert page.headers["location"].startswith("/login?next=%2F")
    answer = hub.ask("GET", "/api/v1/me", "", headers={"accept": "text/html"})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "not_authenticated"


# --- headers


@pytest.mark.parametrize(
    "path", ["/", "/login", "/api/v1/me", "/api/v1/nothing", "/healthz", "/nothing", "/static/x/y"]
)
def test_browsers_are_told_to_be_careful(hub: HubProcess, path: str) -> None:
    for token in (None, ""):
        headers = hub.ask("GET", path, token).headers
        if "location" not in headers:
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["referrer-policy"] in ("same-origin", "no-referrer")
        assert "server" not in headers


def test_pages_may_not_be_framed_and_run_nothing(hub: HubProcess) -> None:
    headers = hub.ask("GET", "/login", "").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"


# --- cookies and where requests come from


def test_a_token_in_the_address_becomes_a_cookie(hub: HubProcess) -> None:
    with hub.client("") as client:
        answer = client.get(f"/?token={hub.token}&x=1")
        assert (answer.status_code, answer.headers["location"]) == (303, "/?x=1")
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        cookie = answer.headers["set-cookie"]
        for word in ("HttpOnly", "SameSite=Lax", "Path=/;"):
            assert word in cookie
        assert "Secure" not in cookie
        assert client.get("/api/v1/me").status_code == 200
    with hub.client("") as client:
        wrong = client.get("/?token=tbh_wrong")
        assert wrong.headers["location"] == "/"
        assert "set-cookie" not in wrong.headers
    # The API does not take it from there: it would be in somebody's log.
    assert hub.ask("GET", f"/api/v1/me?token={hub.token}", "").status_code == 401
    assert hub.token not in hub.log


def test_logging_in_by_the_page(hub: HubProcess) -> None:
    with hub.client("") as client:
        form = {"name": "ada", "password": PASSWORD, "next": "/boards/12345678/"}
        answer = client.post("/login", data=form)
        assert (answer.status_code, answer.headers["location"]) == (303, "/boards/12345678/")
        assert client.get("/api/v1/me").json()["user"]["name"] == "ada"
        assert client.get("/").status_code == 200
        assert client.get("/login").status_code == 303
        out = client.post("/logout")
        assert out.headers["location"] == "/login"
        assert client.get("/api/v1/me").status_code == 401


def test_logging_in_by_the_api(hub: HubProcess) -> None:
    with hub.client("") as client:
        made = client.post("/api/v1/login", json={"name": "ada", "password": PASSWORD}).json()
        client.cookies.clear()
        headers = {"authorization": f"Bearer {made['token']}"}
        assert client.get("/api/v1/me", headers=headers).json()["scope"] == "write"
        assert client.post("/api/v1/logout", headers=headers).status_code == 204
        assert client.get("/api/v1/me", headers=headers).status_code == 401
    # A token that somebody made is not ended by logging out.
    assert hub.ask("POST", "/api/v1/logout").status_code == 204
    assert hub.ask("GET", "/api/v1/me").status_code == 200


def test_a_wrong_password_says_so_and_keeps_the_name(hub: HubProcess) -> None:
    form = {"name": '"><b>bob', "password": "wrong"}
    answer = hub.ask("POST", "/login", "", data=form)
    assert answer.status_code == 401
    assert "The name or the password is wrong." in answer.text
    assert "&quot;&gt;&lt;b&gt;bob" in answer.text
    assert "wrong password" not in answer.text


def test_too_many_logins(hub: HubProcess) -> None:
    for _ in range(5):
        answer = hub.ask("POST", "/api/v1/login", "", json={"name": "guess", "password": "wrong"})
        assert answer.status_code == 401
    answer = hub.ask("POST", "/api/v1/login", "", json={"name": "guess", "password": "wrong"})
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["error"]["details"]["retry_after"] > 0
    page = hub.ask("POST", "/login", "", data={"name": "guess", "password": "wrong"})
    assert page.status_code == 429
    assert "Too many login attempts" in page.text


@pytest.mark.parametrize(
    ("headers", "is_own"),
    [
        ({}, True),
        ({"origin": "{url}"}, True),
        ({"origin": "{URL}"}, True),
        ({"origin": "https://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "null", "sec-fetch-site": "cross-site"}, False),
        ({"origin": "null", "sec-fetch-site": "same-site"}, False),
        ({"origin": "null", "sec-fetch-site": "none"}, False),
        ({"origin": "null", "sec-fetch-site": "same-origin"}, True),
        ({"origin": "https://evil.example", "sec-fetch-site": "same-origin"}, False),
        ({"origin": ""}, False),
        ({"origin": "{url}.evil.example"}, False),
        ({"origin": "http://127.0.0.1:1"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "same-origin"}, True),
    ],
)
def test_other_sites_pages_change_nothing(
    hub: HubProcess, headers: dict[str, str], is_own: bool
) -> None:
    sent = {name: value.format(url=hub.url, URL=hub.url.upper()) for name, value in headers.items()}
    with hub.client("") as client:
        client.get(f"/?token={hub.token}")
        answer = client.post("/api/v1/tokens", json={}, headers=sent)
        assert answer.status_code == (201 if is_own else 403)
        assert client.get("/api/v1/me", headers=sent).status_code == 200
        form = {"name": "ada", "password": PASSWORD}
        logged_in = client.post("/login", data=form, headers=sent)
        assert logged_in.status_code == (303 if is_own else 403)
    # Who shows a token does so on purpose.
    assert hub.ask("POST", "/api/v1/tokens", json={}, headers=sent).status_code == 201


@pytest.mark.parametrize(
    "path",
    ["//evil.example", "/\\evil.example", "https://evil", "", "x", "/a b", "/a\r\nb", "/\tx", None],
)
def test_nobody_is_sent_to_another_site_after_login(path: str | None) -> None:
    assert local(path, "") == "/"
    assert local(path, "/base") == "/base/"


def test_one_is_sent_where_one_wanted_to_go() -> None:
    assert local("/boards/12345678/?a=b#c", "") == "/boards/12345678/?a=b#c"
    assert local("/base/x", "/base") == "/base/x"
    assert local("/other/x", "/base") == "/base/"


# --- bodies


@pytest.mark.parametrize("path", ["/api/v1/boards", "/login", "/boards/12345678/data/x", "/none"])
def test_a_gigabyte_is_refused_before_it_is_sent(hub: HubProcess, path: str) -> None:
    host, port = hub.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as client:
        head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {hub.token}"
        head += f"\r\nContent-Type: application/json\r\nContent-Length: {1 << 30}\r\n\r\n"
        client.sendall(head.encode() + b"[")
        assert b" 413 " in client.recv(65536).split(b"\r\n")[0]


def test_a_body_without_an_end_is_cut_off(hub: HubProcess) -> None:
    host, port = hub.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as client:
        head = f"POST /api/v1/boards HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {hub.token}\r\n"
        head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.sendall(head.encode())
        sent = 0
        try:
            while sent < 256 << 20:
                client.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
                sent += 65536
        except OSError:
            pass
        assert sent < 128 << 20


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b'{"runs": "\\ud800"}',
        b'{"runs": "\\u0000"}',
        b'{"name": "a\\nb", "runs": "all"}',
        b'{"unknown": 1}',
        b"\xff\xfe",
        b'{"runs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"max_runtime": NaN, "runs": "all"}',
        b'{"max_runtime": 1e999, "runs": "all"}',
        b'{"experiments": [1e30]}',
        b'{"trials": [99999999999999999999999]}',
    ],
)
def test_nonsense_is_a_bad_request(hub: HubProcess, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = hub.ask("POST", "/api/v1/boards", content=body, headers=headers)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["code"] == "bad_request"


# --- hostile names


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_they_are(hub: HubProcess, name: str) -> None:
    user = hub.json("POST", "/api/v1/users", json={"name": name, "email": name})
    assert user["name"] == name
    with hub.client() as client:
        from urllib.parse import quote

        path = f"/api/v1/users/{quote(name, safe='')}"
        assert client.patch(path, json={"role": "viewer"}).json()["role"] == "viewer"
        member = f"/api/v1/workspaces/default/members/{quote(name, safe='')}"
        assert client.put(member, json={"role": "viewer"}).json()["user"] == name
        assert client.delete(member).status_code == 204
        assert client.delete(path).status_code == 204
    new = {"runs": "all", "name": name, "key": name}
    board = hub.json("POST", "/api/v1/boards", json=new)
    assert board["name"] == name
    found = hub.ask("GET", f"/api/v1/boards/{quote(name, safe='')}")
    assert found.json()["id"] == board["id"]
    assert hub.json("POST", f"/api/v1/boards/{quote(name, safe='')}/kill")["state"]
    token = hub.json("POST", "/api/v1/tokens", json={"name": name})
    assert token["name"] == name
    change: dict[str, Any] = {"note": name, "tags": [name]}
    (run,) = hub.json("GET", "/api/v1/runs")["runs"]
    changed = hub.json("PATCH", f"/api/v1/runs/{run['id']}", json=change)
    assert (changed["note"], changed["tags"]) == (name, [name])
    noted = hub.json("PATCH", f"/api/v1/experiments/{run['experiment_id']}", json={"note": name})
    assert noted["note"] == name
    page = hub.ask("GET", "/").text
    assert "<script>" not in page


# --- the web page


@pytest.mark.parametrize("path", ["/", "/runs/7", "/compare?runs=1", "/boards", "/settings/users"])
def test_the_web_page_has_many_addresses_and_runs_our_scripts_alone(
    hub: HubProcess, path: str
) -> None:
    page = hub.ask("GET", path, headers={"accept": "text/html"})
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert page.headers["cache-control"] == "no-store"
    assert '<base href="/">' in page.text


def test_files_of_the_web_page_are_kept_for_ever(hub: HubProcess) -> None:
    page = hub.ask("GET", "/").text
    (script,) = re.findall(r'src="\./(assets/[^"]+)"', page)
    for encoding, wanted in (("gzip", "gzip"), ("identity", None)):
        found = hub.ask("GET", f"/{script}", "", headers={"accept-encoding": encoding})
        assert found.status_code == 200
        assert found.headers.get("content-encoding") == wanted
        assert "immutable" in found.headers["cache-control"]
        assert found.headers["content-type"].startswith("text/javascript")
    assert hub.ask("GET", "/theme.js", "").headers["cache-control"] == "no-cache"
    for path in ("/assets/nothing.js", "/assets/../pages.py", "/assets/%2e%2e/%2e%2e/pages.py"):
        assert hub.ask("GET", path, "").status_code == 404


# --- events


def test_changes_are_told_as_they_happen(hub: HubProcess) -> None:
    with hub.client() as client, client.stream("GET", "/api/v1/events") as stream:
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("event: ")) == "event: hello"
        board = hub.json("POST", "/api/v1/boards", json={"runs": "all"})
        assert next(line for line in lines if board["id"] in line)


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/boards/{}/logs?follow=true"])
def test_who_may_no_longer_is_told_no_more(hub: HubProcess, path: str) -> None:
    board = hub.create_board(runs="all")
    made = hub.json("POST", "/api/v1/tokens", json={"name": "short", "scope": "read"})
    with hub.client(made["token"]) as client:
        with client.stream("GET", path.format(board["id"])) as stream:
            lines = stream.iter_lines()
            next(lines)
            hub.ask("DELETE", f"/api/v1/tokens/{made['id']}")
            hub.json("POST", f"/api/v1/boards/{board['id']}/stop")
            assert "stop" not in "".join(lines).lower()
        assert client.get("/api/v1/me").status_code == 401


def test_metrics_count_by_route(hub: HubProcess) -> None:
    hub.ask("GET", "/api/v1/runs/1")
    text = hub.ask("GET", "/metrics").text
    assert 'route="/api/v1/runs/{run}"' in text
    assert "tbhub_boards{" in text


# --- without authentication


def test_without_authentication_only_this_machines_names_are_answered(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home", auth="none") as hub:
        port = hub.url.rpartition(":")[2]
        assert hub.token == ""
        for name, status in (
            (f"127.0.0.1:{port}", 200),
            (f"localhost:{port}", 200),
            (f"[::1]:{port}", 200),
            ("evil.example", 403),
            (f"127.0.0.1.evil.example:{port}", 403),
            ("", 403),
            ("[", 403),
        ):
            for path in ("/api/v1/me", "/", "/healthz", "/static/x"):
                answer = hub.ask("GET", path, headers={"host": name})
                assert (answer.status_code == 403) == (status == 403), (name, path)
        headers = {"origin": "https://evil.example"}
        assert hub.ask("POST", "/api/v1/tokens", json={}, headers=headers).status_code == 403
        assert hub.ask("POST", "/api/v1/tokens", json={}).status_code == 201


# --- proxies in front


def test_what_proxies_say_is_believed_of_trusted_ones_only() -> None:
    headers = [
        (b"host", b"inside"),
        (b"x-forwarded-for", b"1.1.1.1, 8.8.8.8, 10.0.0.7"),
        (b"x-forwarded-proto", b"https"),
        (b"x-forwarded-host", b"hub.example"),
    ]
    scope = {"type": "http", "client": ("10.0.0.5", 1), "scheme": "http", "headers": headers}
    trusting = Forwarded(["10.0.0.0/8"]).apply(scope)
    assert trusting["client"] == ("8.8.8.8", 0)
    assert trusting["scheme"] == "https"
    assert (b"host", b"hub.example") in trusting["headers"]
    assert (b"host", b"inside") not in trusting["headers"]
    assert Forwarded([]).apply(scope) is scope
    assert Forwarded(["192.168.0.0/16"]).apply(scope) is scope
