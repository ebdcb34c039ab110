"""The hub's home: whose it is, who may look into it, and what is found there again."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tbhub.hub.home import Home, HomeError, HomeTakenError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nobody_else_may_look_into_it(tmp_path: Path) -> None:
    with Home(tmp_path / "a" / "home") as home:
        home.announce("http://127.0.0.1:1", "tbh_token")
        assert mode(home.path) == 0o700
        assert mode(home.path / "secret") == 0o600
        assert mode(home.path / "connection.json") == 0o600
        assert mode(home.path / "hub.lock") == 0o600


def test_a_directory_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "home"
    path.mkdir(mode=0o755)
    with Home(path):
        assert mode(path) == 0o700


def test_a_second_hub_is_told_of_the_first(tmp_path: Path) -> None:
    with Home(tmp_path) as first:
        with pytest.raises(HomeTakenError) as early:
            Home(tmp_path)
        assert early.value.pid == os.getpid()
        assert early.value.url is None
        first.announce("http://127.0.0.1:4711", "tbh_secret")
        with pytest.raises(HomeTakenError) as late:
            Home(tmp_path)
    assert late.value.url == "http://127.0.0.1:4711"
    for text in (str(os.getpid()), "http://127.0.0.1:4711", "--home"):
        assert text in str(late.value)
    assert "tbh_secret" not in str(late.value)


def test_replicas_share_a_home_with_each_other_alone(tmp_path: Path) -> None:
    with Home(tmp_path, is_replica=True) as first, Home(tmp_path, is_replica=True) as second:
        assert first.id == second.id
        with pytest.raises(HomeTakenError):
            Home(tmp_path)
    with Home(tmp_path), pytest.raises(HomeTakenError):
        Home(tmp_path, is_replica=True)


def test_it_is_free_again_when_its_hub_has_ended_or_was_killed(tmp_path: Path) -> None:
    script = "import os, sys, pathlib; from tbhub.hub.home import Home; "
    script += "home = Home(pathlib.Path(sys.argv[1])); home.announce('http://x', 't'); "
    killed = [sys.executable, "-c", script + "os.kill(os.getpid(), 9)", str(tmp_path)]
    assert subprocess.run(killed).returncode == -9
    with Home(tmp_path) as home:
        assert home.known_token == "t"
    with Home(tmp_path):
        pass


def test_what_it_keeps_is_there_again(tmp_path: Path) -> None:
    with Home(tmp_path) as home:
        secret = home.secret
        home.announce("http://127.0.0.1:1", "tbh_kept")
    with Home(tmp_path) as home:
        assert home.secret == secret
        assert home.known_token == "tbh_kept"
        assert json.loads((tmp_path / "connection.json").read_text())["url"] == "http://127.0.0.1:1"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"token": 7}', "\x00"])
def test_a_damaged_connection_file_is_no_obstacle(tmp_path: Path, content: str) -> None:
    (tmp_path / "connection.json").write_text(content)
    with Home(tmp_path) as home:
        assert home.known_token is None


def test_a_damaged_secret_is_not_silently_replaced(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not hex")
    with pytest.raises(HomeError, match="secret"):
        Home(tmp_path)
    (tmp_path / "secret").unlink()
    with Home(tmp_path):
        pass


def test_a_home_that_cannot_be_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeError, match="TBHUB_HOME"):
        Home(tmp_path / "file" / "home")
