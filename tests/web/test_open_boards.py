"""A board's own page that stays open while the board ends: it says what happened and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.hub import HubProcess
from support.pages import Open, Visit, log_runs

REFUSED = ["401", "403", "404", "410", "503", "ERROR"]  # the last is TensorBoard's word for them
STATUS = "tbhub-status"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    where: Path = tmp_path_factory.mktemp("open")
    log_runs(where / "runs", "mnist/a", "mnist/b")
    with HubProcess(where / "home", auth="users", logdirs=where / "runs") as hub:
        hub.wait_for_runs(2)
        yield hub


@pytest.fixture(scope="module")
def anna(hub: HubProcess) -> str:
    """Return the token of an admin."""
    return hub.create_user("anna", "admin")


def open_board(one: Visit, id_: str) -> Any:
    """Open a board's own page, and wait until it shows charts and gets events."""
    one.expected += REFUSED
    with one.page.expect_response(lambda answer: answer.url.endswith("/tbhub/events")):
        page = one.open(f"/boards/{id_[:8]}/")
    page.get_by_text("loss", exact=True).first.wait_for()
    return page


def test_a_stopped_board_says_by_whom_and_starts_again(
    hub: HubProcess, anna: str, visit: Open
) -> None:
    id_ = hub.create_board(runs="all")["id"]
    one = visit(hub)
    page = open_board(one, id_)
    hub.json("POST", f"/api/v1/boards/{id_}/stop", anna)
    status = page.locator(STATUS)
    status.get_by_text("This board is not running. It was stopped by anna;").wait_for()
    assert status.get_by_text("retrying").count() == 0
    one.picture("open-board-stopped")
    status.get_by_role("button", name="Start it again").click()
    page.get_by_text("loss", exact=True).first.wait_for()
    assert hub.wait_for(id_, "RUNNING")["reason"] is None


def test_a_stopped_board_that_another_user_starts_is_shown_again(
    hub: HubProcess, anna: str, visit: Open
) -> None:
    id_ = hub.create_board(runs="all")["id"]
    page = open_board(visit(hub), id_)
    page.evaluate("window.sameDocument = true")
    hub.json("POST", f"/api/v1/boards/{id_}/stop", anna)
    page.locator(STATUS).get_by_text("It was stopped by anna").wait_for()
    hub.json("POST", f"/api/v1/boards/{id_}/start", anna)
    page.locator(STATUS).get_by_text("It was stopped").wait_for(state="hidden", timeout=60_000)
    assert page.evaluate("window.sameDocument")


def test_a_killed_board_says_by_whom(hub: HubProcess, anna: str, visit: Open) -> None:
    id_ = hub.create_board(runs="all")["id"]
    one = visit(hub)
    page = open_board(one, id_)
    hub.json("POST", f"/api/v1/boards/{id_}/kill", anna)
    status = page.locator(STATUS)
    status.get_by_text("This board has ended. It was killed by anna.").wait_for()
    status.get_by_role("button", name="Details").click()
    page.get_by_text("tbhub start").wait_for()


def test_a_killed_board_says_so_in_chinese(hub: HubProcess, anna: str, visit: Open) -> None:
    id_ = hub.create_board(runs="all")["id"]
    one = visit(hub)
    one.context.add_cookies([{"name": "tbhub-language", "value": "zh", "url": hub.url}])
    page = open_board(one, id_)
    hub.json("POST", f"/api/v1/boards/{id_}/kill", anna)
    page.locator(STATUS).get_by_text("此看板已结束。被 anna 终止。").wait_for()
    page.locator(STATUS).get_by_role("button", name="详情").wait_for()


def test_a_deleted_board_says_by_whom(hub: HubProcess, anna: str, visit: Open) -> None:
    id_ = hub.create_board(runs="all")["id"]
    one = visit(hub)
    page = open_board(one, id_)
    assert hub.ask("DELETE", f"/api/v1/boards/{id_}", anna).status_code == 204
    status = page.locator(STATUS)
    status.get_by_text("This board was deleted by anna.").wait_for()
    status.get_by_role("button", name="All boards").click()
    page.wait_for_url("**/boards")


def test_a_user_who_loses_a_workspace_loses_its_open_boards(hub: HubProcess, visit: Open) -> None:
    token = hub.create_user("bob")
    hub.json("PUT", "/api/v1/workspaces/default/members/bob", json={"role": "member"})
    id_ = hub.create_board(token, runs="all")["id"]
    one = visit(hub, token)
    page = open_board(one, id_)
    answer = hub.ask("DELETE", "/api/v1/workspaces/default/members/bob")
    assert answer.is_success
    page.locator(STATUS).get_by_text("and you are not a member of it").wait_for()
    one.picture("open-board-no-access")


def test_a_revoked_link_closes_the_pages_it_has_opened(
    hub: HubProcess, visit: Open, browser: Any
) -> None:
    id_ = hub.create_board(runs="all")["id"]
    share = hub.json("POST", f"/api/v1/boards/{id_}/shares", json={"expires_in": 3600})
    stranger = browser.new_context()
    page = stranger.new_page()
    with page.expect_response(lambda answer: answer.url.endswith("/tbhub/events")):
        page.goto(share["url"])
    hub.ask("DELETE", f"/api/v1/boards/{id_}/shares/{share['id']}")
    page.locator(STATUS).get_by_text("You no longer have access to this board").wait_for()
    page.locator(STATUS).get_by_role("button", name="Log in").wait_for()
    stranger.close()


def test_what_was_deleted_is_told_to_those_only_who_could_see_it(
    hub: HubProcess, anna: str
) -> None:
    eve = hub.create_user("eve")
    id_ = hub.create_board(runs="all")["id"]
    events = f"/boards/{id_[:8]}/tbhub/events"
    before = hub.ask("GET", events, eve)
    hub.ask("DELETE", f"/api/v1/boards/{id_}", anna)
    after, other = hub.ask("GET", events, eve), hub.ask("GET", "/boards/00000000/tbhub/events", eve)
    assert before.status_code == 404
    assert before.json() == after.json() == other.json()
    assert hub.ask("GET", events).json()["error"]["message"] == "This board was deleted by anna."
