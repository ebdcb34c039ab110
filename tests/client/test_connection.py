"""Which hub is asked, and with which token."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tbhub.client import logins
from tbhub.client.connection import Connection, find_connection, is_loopback, split_token
from tbhub.client.errors import HubUnreachable
from tbhub.client.logins import StoredLogin


@pytest.fixture
def running(tmp_path: Path) -> str:
    """A hub that runs in the home."""
    (tmp_path / "home").mkdir()
    content = {"url": "http://127.0.0.1:6060/", "token": "tbh_home"}
    (tmp_path / "home" / "connection.json").write_text(json.dumps(content))
    return "http://127.0.0.1:6060"


def test_without_any_hub_it_says_what_to_do() -> None:
    with pytest.raises(HubUnreachable, match=r"tbhub up.*tbhub login URL.*TBHUB_URL"):
        find_connection()


def test_the_hub_of_this_machine(running: str, tmp_path: Path) -> None:
    found = find_connection()
    assert (found.url, found.token, found.home) == (running, "tbh_home", tmp_path / "home")
    assert found.is_local
    assert not found.is_encrypted


def test_a_login_counts_more_than_this_machine(running: str) -> None:
    logins.remember(StoredLogin("https://hub.example", "tbh_login", "maria"))
    assert find_connection().url == "https://hub.example"
    assert find_connection().token == "tbh_login"


def test_a_home_that_is_named_counts_more_than_a_login(running: str, tmp_path: Path) -> None:
    logins.remember(StoredLogin("https://hub.example", "tbh_login", "maria"))
    assert find_connection(home=tmp_path / "home").url == running


def test_the_environment_counts_more_than_a_login(running: str) -> None:
    logins.remember(StoredLogin("https://hub.example", "tbh_login", "maria"))
    environment = {"TBHUB_URL": "http://other:1/base/", "TBHUB_TOKEN": "tbh_env"}
    found = find_connection(environment=environment)
    assert (found.url, found.token) == ("http://other:1/base", "tbh_env")
    found = find_connection("http://given:2", "tbh_given", environment=environment)
    assert (found.url, found.token) == ("http://given:2", "tbh_given")


def test_a_token_is_sent_only_where_it_belongs(running: str) -> None:
    logins.remember(StoredLogin("https://hub.example", "tbh_login", "maria"))
    assert find_connection("https://hub.example/").token == "tbh_login"
    assert find_connection(running).token == "tbh_home"
    assert find_connection("https://evil.example").token is None
    assert find_connection(environment={"TBHUB_URL": "http://127.0.0.1:6061"}).token is None


def test_token_origin_follows_the_token(running: str, tmp_path: Path) -> None:
    logins.remember(StoredLogin("https://hub.example", "tbh_login", "maria"))
    environment = {"TBHUB_TOKEN": "tbh_env"}
    home = str(tmp_path / "home")
    origins = [
        find_connection(environment=environment).token_origin,
        find_connection(token="tbh_given", environment=environment).token_origin,
        find_connection(environment={}).token_origin,
        find_connection(running + "?token=tbh_a").token_origin,
        find_connection(running).token_origin,
        find_connection(home=home).token_origin,
    ]
    assert [each.text for each in origins] == [
        "the token in the environment variable TBHUB_TOKEN",
        "the token that was given",
        f"the login that `tbhub login` has stored in {logins.path()}",
        "the token in the address that was given",
        f"the token in {home}/connection.json",
        f"the token in {home}/connection.json",
    ]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"url": 1}', '{"url": "x"}', "null"])
def test_a_damaged_file_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "connection.json").write_text(content)
    logins.path().parent.mkdir(parents=True)
    logins.path().write_text(content)
    with pytest.raises(HubUnreachable):
        find_connection()


def test_addresses_as_people_paste_them() -> None:
    assert split_token("http://127.0.0.1:6060/?token=tbh_a%2Bb") == (
        "http://127.0.0.1:6060",
        "tbh_a+b",
    )
    assert split_token(" HTTPS://Hub.Example/team/ ") == ("https://hub.example/team", None)
    for bad in ("", "hub", "hub:6060", "ftp://hub", "http://", "http://u:p@hub", "http://h:99999"):
        with pytest.raises(ValueError, match=r"http://127\.0\.0\.1:6060"):
            split_token(bad)


def test_what_is_on_this_machine() -> None:
    assert all(map(is_loopback, ("http://localhost:1", "http://127.0.0.9", "http://[::1]:80")))
    assert not any(map(is_loopback, ("http://10.0.0.1", "http://localhost.example", "http://x")))


def test_logins_are_for_their_owner_alone() -> None:
    old = os.umask(0)
    try:
        logins.remember(StoredLogin("https://a", "tbh_1", "maria"))
    finally:
        os.umask(old)
    assert stat.S_IMODE(logins.path().stat().st_mode) == 0o600
    assert stat.S_IMODE(logins.path().parent.stat().st_mode) == 0o700


def test_logins_come_and_go() -> None:
    logins.remember(StoredLogin("https://a", "tbh_1", "maria"))
    logins.remember(StoredLogin("https://b", "tbh_2", "maria"))
    logins.remember(StoredLogin("https://a", "tbh_3", "maria"))
    assert [each.url for each in logins.stored()] == ["https://b", "https://a"]
    assert logins.current() == StoredLogin("https://a", "tbh_3", "maria")
    logins.forget("https://a")
    assert logins.current() == StoredLogin("https://b", "tbh_2", "maria")
    assert os.listdir(logins.path().parent) == ["logins.json"]


def test_tokens_are_not_in_what_is_printed() -> None:
    assert "tbh_" not in repr(Connection("http://a", "tbh_secret"))
    assert "tbh_" not in repr(StoredLogin("http://a", "tbh_secret", "maria"))
