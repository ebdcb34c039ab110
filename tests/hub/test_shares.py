"""Share links: one board, for a while, to look at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.hub import HubProcess
from tbhub import SummaryWriter


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("shares")
    with SummaryWriter(where / "runs" / "a") as writer:
        writer.add_scalar("loss", 1.0, 1)
    return where


@pytest.fixture(scope="module")
def hub(logdir: Path) -> Iterator[HubProcess]:
    with HubProcess(logdir / "home", auth="users", logdirs=logdir / "runs") as hub:
        hub.wait_for_runs(1)
        yield hub


@pytest.fixture(scope="module")
def board(hub: HubProcess) -> dict[str, Any]:
    return hub.create_board(runs="all")


def share(hub: HubProcess, board: dict[str, Any], token: str | None = None, **new: Any) -> Any:
    return hub.json("POST", f"/api/v1/boards/{board['id']}/shares", token, json=new)


@contextmanager
def open_link(hub: HubProcess, url: str) -> Iterator[httpx2.Client]:
    with hub.client("", headers={"accept": "text/html"}) as client:
        answer = client.get(url)
        assert answer.status_code == 303, answer.text
        yield client


def test_a_link_shows_its_board_and_nothing_else(hub: HubProcess, board: dict[str, Any]) -> None:
    other = hub.create_board(runs="all", name="another")
    made = share(hub, board)
    root = f"/boards/{board['id'][:8]}/"
    with hub.client("") as client:
        answer = client.get(made["url"] + "&tab=1#x")
        assert answer.headers["location"] == f"{root}?tab=1"
        assert answer.headers["referrer-policy"] == "no-referrer"
        cookie = answer.headers["set-cookie"]
        assert f"Path={root};" in cookie
        assert "HttpOnly" in cookie
        assert client.get(root).status_code == 200
        assert client.get(f"{root}data/runs").json() == ["a"]
        form = {"requests": "[]"}
        assert client.post(f"{root}data/plugin/timeseries/timeSeries", data=form).is_success
        cookies = {"cookie": cookie.split(";")[0]}
        for path in ("/", "/api/v1/me", "/api/v1/boards", f"/boards/{other['id'][:8]}/"):
            found = client.get(path, headers=cookies)
            assert found.status_code in (303, 401), path
        start = client.post(root, headers=cookies)
        assert start.status_code == 403


def test_links_are_listed_without_what_makes_them_work(
    hub: HubProcess, board: dict[str, Any]
) -> None:
    made = share(hub, board, expires_in=60)
    listed = hub.json("GET", f"/api/v1/boards/{board['id']}/shares")
    (found,) = [each for each in listed if each["id"] == made["id"]]
    assert found["url"] is None
    assert found["expires"] == made["expires"]


def test_a_revoked_link_is_worthless_at_once(hub: HubProcess, board: dict[str, Any]) -> None:
    made = share(hub, board)
    root = f"/boards/{board['id'][:8]}/"
    with open_link(hub, made["url"]) as client:
        assert client.get(root).status_code == 200
        hub.json("DELETE", f"/api/v1/boards/{board['id']}/shares/{made['id']}")
        assert client.get(root).status_code == 303
        assert client.get(made["url"]).status_code == 404
    assert hub.ask("DELETE", f"/api/v1/boards/{board['id']}/shares/{made['id']}").status_code == 404


def test_a_link_ends(hub: HubProcess, board: dict[str, Any]) -> None:
    made = share(hub, board, expires_in=1.0)
    with hub.client("") as client:
        deadline = time.monotonic() + 10
        while client.get(made["url"]).status_code == 303:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert client.get(f"/boards/{board['id'][:8]}/").status_code == 401


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "x",
        lambda text: text[:-1],
        lambda text: "",
        lambda text: "..",
        lambda text: "1.99999999999.x",
        lambda text: text.split(".")[0] + ".99999999999." + text.split(".")[2],
        lambda text: "9" * 30 + "." + ".".join(text.split(".")[1:]),
        lambda text: "٣.٣." + text.split(".")[2],
        lambda text: text + "%00",
    ],
)
def test_a_link_that_was_changed_is_no_link(
    hub: HubProcess, board: dict[str, Any], change: Any
) -> None:
    url, _, text = share(hub, board)["url"].partition("share=")
    with hub.client("") as client:
        assert client.get(f"{url}share={change(text)}").status_code in (401, 404, 422)


def test_a_link_is_for_its_own_board(hub: HubProcess, board: dict[str, Any]) -> None:
    other = hub.create_board(runs="all")
    text = share(hub, board)["url"].partition("share=")[2]
    with hub.client("") as client:
        assert client.get(f"/boards/{other['id'][:8]}/?share={text}").status_code == 404


def test_a_link_is_as_good_as_its_maker(hub: HubProcess) -> None:
    token = hub.create_user("maker")
    board = hub.create_board(token, runs="all")
    made = share(hub, board, token)
    root = f"/boards/{board['id'][:8]}/"
    with open_link(hub, made["url"]) as client:
        assert client.get(root).status_code == 200
        hub.json("PATCH", "/api/v1/users/maker", json={"disabled": True})
        deadline = time.monotonic() + 20  # it is remembered for some seconds
        while client.get(root).status_code == 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_a_link_survives_its_hub(tmp_path: Path, logdir: Path) -> None:
    with HubProcess(tmp_path / "home", logdirs=logdir / "runs", keep_hosts=True) as hub:
        hub.wait_for_runs(1)
        board = hub.create_board(runs="all")
        made = share(hub, board)
        hub.stop()
        hub.restart()
        moved = hub.url + made["url"][made["url"].index("/boards/") :]
        with open_link(hub, moved) as client:
            assert client.get(f"/boards/{board['id'][:8]}/").status_code == 200


def test_whoever_is_logged_in_needs_no_good_link(hub: HubProcess, board: dict[str, Any]) -> None:
    answer = hub.ask("GET", f"/boards/{board['id'][:8]}/?share=worthless")
    assert answer.status_code == 200


def test_links_are_not_in_the_log(hub: HubProcess, board: dict[str, Any]) -> None:
    text = share(hub, board)["url"].partition("share=")[2]
    with hub.client("") as client:
        client.get(f"/boards/{board['id'][:8]}/?share={text}")
    assert text not in hub.log
