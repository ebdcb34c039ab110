"""Boards in the web page: started, opened in the hub's frame, shared, changed and ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.hub import HubProcess, eventually
from support.pages import Open, log_runs

TENSORBOARD = "tf-dashboard, tb-webapp"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    where: Path = tmp_path_factory.mktemp("boards")
    log_runs(where / "runs", "mnist/a", "mnist/b", "cifar/deep", "cifar/wide")
    with HubProcess(where / "home", auth="users", logdirs=where / "runs") as hub:
        hub.wait_for_runs(4)
        yield hub


def board(hub: HubProcess, name: str, **new: Any) -> str:
    """A board that is up; its short id."""
    return str(hub.create_board(name=name, **({"runs": "all"} | new))["id"])[:8]


def row(page: Any, name: str) -> Any:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def choose(page: Any, name: str, item: str) -> None:
    page.get_by_role("button", name=f"Actions for {name}").click()
    page.get_by_role("menuitem", name=item, exact=True).click()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[HubProcess]:
    with HubProcess(tmp_path / "home") as hub:
        yield hub


def test_a_hub_without_boards_teaches_how_to_start_one(empty: HubProcess, visit: Open) -> None:
    one = visit(empty)
    page = one.open("/boards")
    page.get_by_role("heading", name="No boards yet").wait_for()
    assert page.get_by_text("tbhub start all").is_visible()
    one.picture("boards-empty")
    assert one.axe() == []


def test_a_board_is_started_from_a_query_and_opens_in_the_frame(
    hub: HubProcess, visit: Open
) -> None:
    one = visit(hub)
    one.expected.append("422")
    page = one.open("/boards")
    page.get_by_role("button", name="Start a board").first.click()
    field = page.get_by_label("Which runs")
    field.fill("where experiment <")
    page.get_by_text("a value is missing").wait_for()
    field.fill("experiment = mnist")
    page.get_by_text("2 runs: ").wait_for()
    page.get_by_label("Name", exact=True).fill("two of mnist")
    one.picture("boards-start")
    assert one.axe() == []
    page.get_by_role("button", name="Start with 2 runs").click()
    page.wait_for_url(re.compile(r"/board/[0-9a-f]{8}$"))
    frame = page.frame_locator("iframe")
    frame.locator(TENSORBOARD).first.wait_for()
    page.get_by_text("running", exact=True).wait_for()
    frame.get_by_text("loss", exact=True).first.wait_for()
    one.picture("board-frame")
    page.get_by_role("link", name="All boards").click()
    row(page, "two of mnist").get_by_text("running").wait_for()


def test_a_path_or_uri_without_known_runs_is_no_mistake(hub: HubProcess, visit: Open) -> None:
    one = visit(hub)
    one.expected += ["400", "404", "422"]
    page = one.open("/boards")
    page.get_by_role("button", name="Start a board").first.click()
    field = page.get_by_label("Which runs")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("paths or URIs").wait_for()
    for place in ("oss://bucket/prefix", "s3://bucket/lr=0.01", "/no/such/place"):
        field.fill(place)
        dialog.get_by_text(f"everything at and below {place}.").wait_for()
        assert dialog.locator(".problem").count() == 0
        assert field.get_attribute("aria-invalid") is None
    one.picture("boards-start-uri")
    assert one.axe() == []
    root = hub.json("GET", "/api/v1/logdirs")[0]["path"]
    field.fill(f"{root}/mnist")
    dialog.get_by_text("2 runs are known so far: ").wait_for()
    uri = "oss://bucket/prefix"
    for wrong, why in (
        (f"{uri}, no-such-run", "There is no run"),
        (f"{uri} where lr < 1", "There is no run"),
        ("./relative", "./relative: the hub needs the whole path"),
    ):
        field.fill(wrong)
        dialog.locator(".problem").get_by_text(why).wait_for()
    field.fill(f"{root}/mnist, /no/such/place")
    dialog.get_by_text(f"below {root}/mnist, /no/such/place.").wait_for()
    dialog.get_by_role("button", name="Start a board").click()
    page.wait_for_url(re.compile(r"/board/[0-9a-f]{8}$"))
    page.frame_locator("iframe").locator(TENSORBOARD).first.wait_for()


def test_a_uri_is_added_to_a_board(hub: HubProcess, visit: Open) -> None:
    short = board(hub, "reaches out", runs="exp:mnist")
    one = visit(hub)
    one.expected.append("404")
    page = one.open(f"/board/{short}")
    page.get_by_role("button", name="Add runs").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Add runs").fill("/no/such/place")
    dialog.get_by_role("button", name="Add", exact=True).click()
    page.get_by_text("Added.").wait_for()
    assert hub.json("GET", f"/api/v1/boards/{short}")["uris"] == ["/no/such/place"]


def test_the_list_tells_how_boards_are(hub: HubProcess, visit: Open) -> None:
    board(hub, "told", runs="exp:cifar")
    stopped = board(hub, "resting")
    hub.json("POST", f"/api/v1/boards/{stopped}/stop")
    hub.wait_for(stopped, "STOPPED")
    one = visit(hub)
    page = one.open("/boards?show=all")
    told = row(page, "told")
    told.get_by_text("running").wait_for()
    cells = told.get_by_role("cell").all_inner_texts()
    assert cells[3].strip() == "2"
    assert "exp:cifar" in cells[0]
    assert "30m" in cells[5]
    row(page, "resting").get_by_text("stopped", exact=True).wait_for()
    page.get_by_label("Search boards").fill("rest")
    assert row(page, "told").count() == 0
    page.get_by_label("Search boards").fill("")
    page.get_by_role("radio", name="Live").click()
    eventually(lambda: row(page, "resting").count() == 0)


def test_what_others_do_is_asked_for_board_by_board(hub: HubProcess, visit: Open) -> None:
    board(hub, "of old")
    one = visit(hub)
    page = one.open("/boards")
    row(page, "of old").wait_for()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    id_ = board(hub, "by another")
    row(page, "by another").get_by_text("running").wait_for()
    assert row(page, "by another").evaluate("row => row.rowIndex") == 1
    hub.json("PATCH", f"/api/v1/boards/{id_}", json={"name": "renamed"})
    row(page, "renamed").wait_for()
    assert hub.ask("DELETE", f"/api/v1/boards/{id_}").status_code == 204
    row(page, "renamed").wait_for(state="detached")
    assert row(page, "of old").count() == 1
    assert any(f"/api/v1/boards/{id_}" in url for url in asked)
    assert not [url for url in asked if "/api/v1/boards?" in url]


def test_a_board_is_renamed_stopped_started_again_killed_and_deleted(
    hub: HubProcess, visit: Open
) -> None:
    short = board(hub, "first name")
    one = visit(hub)
    page = one.open("/boards?show=all")
    choose(page, "first name", "Rename")
    page.get_by_role("dialog").get_by_label("Name").fill("second name")
    page.get_by_role("button", name="Save").click()
    mine = row(page, "second name")
    mine.wait_for()
    choose(page, "second name", "Stop")
    mine.get_by_text("stopped", exact=True).wait_for()
    assert hub.json("GET", f"/api/v1/boards/{short}")["reason"] == "USER_STOPPED"
    choose(page, "second name", "Start again")
    mine.get_by_text("running", exact=True).wait_for()
    choose(page, "second name", "Restart")
    hub.wait_for(short, "RUNNING")
    choose(page, "second name", "Kill")
    page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    mine.get_by_text("ended", exact=True).wait_for()
    choose(page, "second name", "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    eventually(lambda: mine.count() == 0)


def test_a_link_is_shown_once_and_opens_the_board(
    hub: HubProcess, visit: Open, browser: Any
) -> None:
    short = board(hub, "shared")
    one = visit(hub)
    page = one.open(f"/board/{short}")
    page.get_by_role("button", name="Share", exact=True).click()
    page.get_by_role("button", name="Create link").click()
    page.get_by_text("shown only once").wait_for()
    one.picture("boards-share")
    assert one.axe() == []
    page.get_by_role("button", name="Copy the link").click()
    link = page.evaluate("navigator.clipboard.readText()")
    assert f"/boards/{short}/?share=" in link
    stranger = browser.new_context()
    other = stranger.new_page()
    other.goto(link)
    other.locator(TENSORBOARD).first.wait_for()
    stranger.close()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Share", exact=True).click()
    page.get_by_text("Links", exact=True).wait_for()
    assert page.get_by_text("?share=").count() == 0
    page.get_by_role("button", name="Revoke").click()
    page.get_by_text("no longer works").wait_for()
    assert hub.json("GET", f"/api/v1/boards/{short}/shares") == []


def test_runs_are_added_and_taken_out(hub: HubProcess, visit: Open) -> None:
    short = board(hub, "grows", runs="exp:mnist")
    one = visit(hub)
    page = one.open(f"/board/{short}")
    page.get_by_role("button", name="Add runs").click()
    page.get_by_role("dialog").get_by_label("Add runs").fill("exp:cifar")
    page.get_by_role("button", name="Add 2 runs").click()
    page.get_by_text("It shows 4 runs").wait_for()
    one.picture("boards-runs")
    assert one.axe() == []
    page.get_by_role("button", name=re.compile("^Remove run")).first.click()
    page.get_by_text("It shows 3 runs").wait_for()
    assert hub.json("GET", f"/api/v1/boards/{short}/runs")["total"] == 3


def test_logs_come_as_they_are_written(hub: HubProcess, visit: Open) -> None:
    short = board(hub, "talks")
    one = visit(hub)
    page = one.open("/boards")
    choose(page, "talks", "Logs")
    log = page.get_by_role("log")
    log.get_by_text("is running").wait_for()
    hub.json("POST", f"/api/v1/boards/{short}/stop")
    log.get_by_text("stopped", exact=False).first.wait_for()
    row(page, "talks").get_by_text("stopped", exact=True).wait_for()
    assert log.get_by_text("is running").is_visible()  # the window stays when the board ends
    one.picture("boards-logs")
    assert one.axe() == []
    page.keyboard.press("Escape")
    row(page, "talks").wait_for(state="hidden")  # the list has boards that are up


def test_an_end_is_put_off(hub: HubProcess, visit: Open) -> None:
    short = board(hub, "ends", max_runtime=3600)
    before = hub.json("GET", f"/api/v1/boards/{short}")["deadline"]
    page = visit(hub).open("/boards")
    row(page, "ends").get_by_text("ends in").wait_for()
    choose(page, "ends", "Extend")
    page.get_by_label("Hours to add").fill("5")
    page.get_by_role("dialog").get_by_role("button", name="Extend").click()
    page.get_by_text("Extended.").wait_for()
    assert hub.json("GET", f"/api/v1/boards/{short}")["deadline"] > before


def test_a_stopped_board_tells_why_and_starts_again(hub: HubProcess, visit: Open) -> None:
    short = board(hub, "sleeps")
    hub.json("POST", f"/api/v1/boards/{short}/stop")
    hub.wait_for(short, "STOPPED")
    one = visit(hub)
    page = one.open(f"/board/{short}")
    page.get_by_role("heading", name="The board is not running").wait_for()
    page.get_by_role("log").get_by_text("stopped", exact=False).first.wait_for()
    one.picture("board-stopped")
    assert one.axe() == []
    page.get_by_role("button", name="Start again").click()
    page.frame_locator("iframe").locator(TENSORBOARD).first.wait_for()


def test_a_board_that_is_not_there_says_so(hub: HubProcess, visit: Open) -> None:
    one = visit(hub)
    one.expected.append("404")
    page = one.open("/board/00000000")
    page.get_by_role("heading", name="Not found").wait_for()
    one.picture("board-missing")
    assert one.axe() == []


def test_a_closed_board_says_which_right_is_missing_and_is_killed(
    hub: HubProcess, visit: Open
) -> None:
    token = hub.create_user("leaver")
    made = hub.create_board(token, name="closes", runs="all")
    one = visit(hub, token)
    page = one.open("/boards")
    row(page, "closes").get_by_text("Running").wait_for()
    hub.json("DELETE", "/api/v1/workspaces/default/members/leaver")
    row(page, "closes").get_by_text("runs of the workspace default").wait_for()  # without a reload
    page.get_by_role("button", name="Actions for closes").click()
    items = page.get_by_role("menuitem").all_inner_texts()
    assert [item.strip() for item in items] == ["Open", "Stop", "Kill", "Delete"]
    page.keyboard.press("Escape")
    page = one.open(f"/board/{made['id'][:8]}")
    page.get_by_role("heading", name="You may not see what this board shows").wait_for()
    page.get_by_text("you are not a member of it", exact=False).wait_for()
    assert page.locator("iframe").count() == 0
    one.picture("board-closed")
    assert one.axe() == []
    page.get_by_role("button", name="Kill", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Kill", exact=True).click()
    hub.wait_for(made["id"], "TERMINATED")


def test_a_viewer_looks_and_changes_nothing(hub: HubProcess, visit: Open) -> None:
    token = hub.create_user("watcher", "viewer")
    page = visit(hub, token).open("/boards")
    page.get_by_role("heading", name="No boards yet").wait_for()
    assert page.get_by_role("button", name="Start a board").count() == 0
    page.get_by_text("ask a member for a link to a board").wait_for()
    assert page.get_by_text("tbhub start all").count() == 0
    page.get_by_role("link", name="Choose runs").click()
    page.get_by_role("heading", name="Runs", exact=True).wait_for()


def keys_in_help(page: Any) -> str:
    page.keyboard.press("?")
    found = str(page.get_by_role("dialog").inner_text())
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    return found


def commands(page: Any, typed: str) -> list[str]:
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").fill(typed)
    page.get_by_role("option").first.wait_for()
    found = [str(each) for each in page.get_by_role("option").all_inner_texts()]
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    return [each for each in found if "Open in TensorBoard" in each]


@pytest.mark.parametrize("role", ["viewer", "member"])
def test_only_members_are_offered_to_open_runs_in_tensorboard(
    hub: HubProcess, visit: Open, role: str
) -> None:
    may = role == "member"
    token = hub.create_user(f"opens-{role}", role)
    hub.json("PUT", f"/api/v1/workspaces/default/members/opens-{role}", json={"role": role})
    page = visit(hub, token).open("/")
    page.get_by_role("row").filter(has_text="deep").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.get_by_text("1 selected").wait_for()
    assert page.get_by_role("button", name="Open in TensorBoard").is_enabled() == may
    assert ("Open in TensorBoard" in keys_in_help(page)) == may
    assert bool(commands(page, "TensorBoard")) == may
    if not may:
        page.keyboard.press("o")
        page.keyboard.press("t")
        page.keyboard.press("d")
        page.goto(f"{hub.url}/runs/1")
        page.get_by_role("button", name="Open in TensorBoard").wait_for()
        assert "Open in TensorBoard" not in keys_in_help(page)
        page.keyboard.press("o")
        page.keyboard.press("e")
        page.wait_for_timeout(300)
        assert page.get_by_role("dialog").count() == 0
        assert page.url.endswith("/runs/1")
        assert hub.json("GET", "/api/v1/boards", token)["total"] == 0


def test_a_viewer_sees_the_runs_of_an_own_board_and_changes_none(
    hub: HubProcess, visit: Open
) -> None:
    token = hub.create_user("looks-in")
    made = hub.create_board(token, name="looked into", runs="exp:mnist")
    hub.json("PATCH", "/api/v1/users/looks-in", json={"role": "viewer"})
    page = visit(hub, token).open(f"/board/{made['id'][:8]}")
    page.frame_locator("iframe").locator(TENSORBOARD).first.wait_for()
    page.get_by_role("button", name="2 runs", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("link", name="mnist/a").or_(dialog.get_by_role("link", name="a")).wait_for()
    assert dialog.get_by_role("button", name=re.compile("Add|Remove")).count() == 0


def test_a_viewer_is_told_why_an_own_stopped_board_does_not_start(
    hub: HubProcess, visit: Open
) -> None:
    token = hub.create_user("sleepy")
    made = hub.create_board(token, name="stays", runs="all")
    hub.json("PATCH", "/api/v1/users/sleepy", json={"role": "viewer"})
    hub.json("POST", f"/api/v1/boards/{made['id']}/stop")
    hub.wait_for(made["id"], "STOPPED")
    one = visit(hub, token)
    one.expected.append("410")
    page = one.open(f"/board/{made['id'][:8]}")
    page.get_by_text("You cannot start it: viewers").wait_for()
    assert page.get_by_role("button", name="Start again").count() == 0
    assert one.axe() == []
    page = one.open(f"/boards/{made['id'][:8]}/")
    page.get_by_text("You cannot start this board. Requires role member").wait_for()
    one.picture("board-stopped-viewer")
    assert one.axe() == []


def items_of(page: Any, name: str) -> list[str]:
    page.get_by_role("button", name=f"Actions for {name}").click()
    found = [item.strip() for item in page.get_by_role("menuitem").all_inner_texts()]
    page.keyboard.press("Escape")
    return found


def test_a_member_who_is_made_viewer_stops_kills_and_deletes_own_boards(
    hub: HubProcess, visit: Open
) -> None:
    token = hub.create_user("demoted")
    first = hub.create_board(token, name="to stop", runs="exp:mnist")
    second = hub.create_board(token, name="to kill", runs="exp:cifar")
    share = {"expires_in": 3600}
    hub.json("POST", f"/api/v1/boards/{first['id']}/shares", token, json=share)
    hub.json("PATCH", "/api/v1/users/demoted", json={"role": "viewer"})
    one = visit(hub, token)
    page = one.open("/boards")
    ends = ["Links", "Stop", "Kill", "Delete"]
    assert items_of(page, "to stop") == ["Open", "Logs", *ends]
    choose(page, "to stop", "Links")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Revoke").click()
    dialog.get_by_text("There are no links to this board").wait_for()
    assert dialog.get_by_role("button", name="Create link").count() == 0
    assert one.axe() == []
    page.keyboard.press("Escape")
    choose(page, "to stop", "Stop")
    hub.wait_for(first["id"], "STOPPED")
    page = one.open(f"/board/{second['id'][:8]}")
    page.frame_locator("iframe").locator(TENSORBOARD).first.wait_for()
    assert items_of(page, "to kill") == ["Logs", *ends]
    page = one.open("/boards")
    choose(page, "to kill", "Kill")
    dialog.get_by_role("button", name="Kill", exact=True).click()
    hub.wait_for(second["id"], "TERMINATED")
    page = one.open("/boards?show=all")
    for name in ("to stop", "to kill"):
        choose(page, name, "Delete")
        dialog.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("heading", name="No boards yet").wait_for()


def test_a_viewer_ends_a_closed_board(hub: HubProcess, visit: Open) -> None:
    token = hub.create_user("demoted-leaver")
    made = hub.create_board(token, name="closes too", runs="all")
    hub.json("PATCH", "/api/v1/users/demoted-leaver", json={"role": "viewer"})
    hub.json("DELETE", "/api/v1/workspaces/default/members/demoted-leaver")
    one = visit(hub, token)
    one.expected.append("404")
    page = one.open(f"/board/{made['id'][:8]}")
    page.get_by_role("heading", name="You may not see what this board shows").wait_for()
    page.get_by_role("button", name="Kill", exact=True).wait_for()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    eventually(lambda: hub.ask("GET", f"/api/v1/boards/{made['id']}").status_code == 404)


def test_a_token_that_only_reads_ends_no_board(hub: HubProcess, visit: Open) -> None:
    made = hub.create_board(hub.create_user("reader"), name="only read", runs="all")
    new = {"user": "reader", "name": "looks", "scope": "read"}
    token = hub.json("POST", "/api/v1/tokens", json=new)["token"]
    one = visit(hub, token)
    page = one.open("/boards")
    assert items_of(page, "only read") == ["Open", "Logs"]
    page = one.open(f"/board/{made['id'][:8]}")
    page.frame_locator("iframe").locator(TENSORBOARD).first.wait_for()
    assert items_of(page, "only read") == ["Logs"]


@pytest.mark.parametrize("size", ["phone", "normal", "wide"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_boards_are_readable_at_every_size(
    hub: HubProcess, visit: Open, theme: str, size: str
) -> None:
    if not any(each["name"] == "in view" for each in hub.json("GET", "/api/v1/boards")["boards"]):
        board(hub, "in view")
    one = visit(hub, theme=theme, size=size)
    page = one.open("/boards?show=all")
    row(page, "in view").wait_for()
    one.picture(f"boards-{theme}-{size}")
    assert one.axe() == []
    width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert width <= 0


def test_boards_in_chinese(hub: HubProcess, visit: Open) -> None:
    one = visit(hub)
    page = one.open("/boards")
    page.evaluate("document.cookie = 'tbhub-language=zh; Path=/'")
    page.reload()
    page.get_by_role("heading", name="看板").first.wait_for()
    page.get_by_role("button", name="启动看板").first.wait_for()
    one.picture("boards-zh")
