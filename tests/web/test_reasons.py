"""Reasons on the web page: why a board is empty, what a key is good for, which run a name means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.hub import HubProcess, eventually
from support.pages import Open, Visit, log_runs
from support.seaweedfs import BUCKET, SECRET, SeaweedFS

pytestmark = pytest.mark.browser
WAITING = "The board is up, waiting for its first data."


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub with two runs of one name."""
    where: Path = tmp_path_factory.mktemp("reasons")
    log_runs(where / "runs", "a/run23", "b/run23", "run82")
    with HubProcess(where / "home", logdirs=where / "runs") as hub:
        hub.wait_for_runs(3)
        yield hub


@pytest.fixture(scope="module")
def unreadable(hub: HubProcess, seaweedfs: SeaweedFS) -> str:
    """Return the id of a board whose credentials the store refuses."""
    connect(hub, seaweedfs, "refused", f"s3://{BUCKET}/refused", "everything", "not the secret")
    board = hub.create_board(uris=[f"s3://{BUCKET}/refused/training"], name="unreadable")
    path = f"/api/v1/boards/{board['id']}"
    eventually(lambda: hub.json("GET", path)["problem"], "the problem is not reported")
    return str(board["id"])[:8]


def connect(
    hub: HubProcess, store: SeaweedFS, name: str, uri: str, key: str, secret: str = SECRET
) -> None:
    settings = {"access_key_id": key, "secret_access_key": secret, "endpoint": store.url}
    new = {"name": name, "uri": uri, "settings": settings | {"region": "us-east-1"}}
    hub.json("POST", "/api/v1/storage", json=new)


def in_chinese(one: Visit) -> Visit:
    one.context.add_cookies([{"name": "tbhub-language", "value": "zh", "url": one.hub.url}])
    return one


def fits(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize("size", ["phone", "normal"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_board_that_cannot_be_read_says_why_and_what_to_do(
    hub: HubProcess, unreadable: str, visit: Open, theme: str, size: str
) -> None:
    one = visit(hub, theme=theme, size=size)
    page = one.open(f"/board/{unreadable}")
    note = page.locator(".note")
    note.get_by_text("cannot be read: the credentials are not accepted").wait_for()
    note.get_by_text("Hint:").wait_for()
    assert note.locator("code").first.inner_text().startswith("tbhub storage test")
    assert page.get_by_text(WAITING).count() == 0
    assert fits(page)
    one.picture(f"board-unreadable-{theme}-{size}")
    assert one.axe() == []
    page = one.open("/boards")
    why = page.get_by_role("row").filter(has_text="unreadable").locator(".why")
    why.wait_for()
    assert why.inner_text().startswith("…/training cannot be read: the credentials")
    assert "tbhub storage test" in why.get_attribute("title")
    assert fits(page)
    one.picture(f"boards-unreadable-{theme}-{size}")
    assert one.axe() == []


def test_a_board_that_cannot_be_read_says_why_in_chinese(
    hub: HubProcess, unreadable: str, visit: Open
) -> None:
    one = in_chinese(visit(hub, size="phone"))
    page = one.open(f"/board/{unreadable}")
    note = page.locator(".note")
    note.get_by_text("凭据未被接受").wait_for()
    note.get_by_text("提示：").wait_for()
    assert note.locator("code").first.inner_text() == "tbhub storage test refused --for boards"
    one.picture("board-unreadable-zh")
    page = one.open("/boards")
    why = page.get_by_role("row").filter(has_text="unreadable").locator(".why")
    why.wait_for()
    assert why.inner_text().startswith("无法读取 …/training：凭据未被接受")
    assert "tbhub" not in why.inner_text()
    assert f"`tbhub storage add NAME s3://{BUCKET}/refused/training`" in why.get_attribute("title")
    one.picture("boards-unreadable-zh")


def test_a_running_board_with_a_problem_says_so_quietly(hub: HubProcess, visit: Open) -> None:
    id_ = str(hub.create_board(runs="run82", name="partly")["id"])
    hub.wait_for(id_, "RUNNING")
    one = visit(hub)

    def add_problem(route: Any) -> None:
        found = route.fetch()
        route.fulfill(response=found, json={**found.json(), "problem": "/x cannot be read: no."})

    one.page.route("**/api/v1/boards/*", add_problem)
    page = one.open(f"/board/{id_[:8]}")
    page.locator(".note:not(.waits)").get_by_text("/x cannot be read: no.").wait_for()
    board = page.frame_locator("iframe").locator("tf-dashboard, tb-webapp").first
    board.wait_for(timeout=60_000)  # without the browser's cache, which routes turn off
    one.picture("board-partly-unreadable")


@pytest.mark.parametrize("size", ["phone", "normal"])
def test_a_key_that_reads_is_usable_for_boards_and_not_for_runs(
    hub: HubProcess, seaweedfs: SeaweedFS, visit: Open, size: str
) -> None:
    connect(hub, seaweedfs, f"reads-{size}", f"s3://{BUCKET}/{size}", "reads")
    one = visit(hub, size=size, theme="dark" if size == "phone" else "light")
    page = one.open("/settings/storage")
    item = page.get_by_role("listitem").filter(has_text=f"reads-{size}")
    item.get_by_role("button", name="Test").click()
    uses = item.locator(".uses li")
    uses.nth(1).wait_for()
    assert "For boards: usable" in uses.first.inner_text()
    assert "For runs: not usable" in uses.nth(1).inner_text()
    assert "AmazonS3FullAccess" in uses.nth(1).inner_text()
    assert fits(page)
    one.picture(f"settings-storage-reads-{size}")
    assert one.axe() == []
    in_chinese(one)
    page.reload()
    item.get_by_role("button", name="测试").click()
    item.get_by_text("没有写入权限").first.wait_for()
    one.picture(f"settings-storage-reads-{size}-zh")


def test_a_name_of_several_runs_in_a_link_is_repeated_as_typed(
    hub: HubProcess, visit: Open
) -> None:
    one = visit(hub)
    one.expected.append("409")
    page = one.open("/?q=run23")
    alert = page.get_by_role("alert")
    alert.get_by_text("run23 names 2 runs").wait_for()
    assert alert.inner_text().startswith("run23 names 2 runs")
    page.get_by_role("heading", name="The filter names several runs").wait_for()
    assert page.locator("[role=row].unknown").count() == 0
    one.picture("runs-ambiguous")
    assert one.axe() == []
    page.get_by_role("button", name="Show these 2 runs").click()
    eventually(lambda: page.locator("[role=row].run").count() == 2)


@pytest.mark.parametrize("typed", ["run23", "nosuchrun", "where status = runing"])
def test_what_a_filter_does_not_find_is_said_in_chinese(
    hub: HubProcess, visit: Open, typed: str
) -> None:
    one = in_chinese(visit(hub, size="phone"))
    one.expected.extend(["404", "409", "422"])
    page = one.open(f"/?q={typed}")
    expected = {
        "run23": "run23 对应 2 个运行：",
        "nosuchrun": "没有运行 nosuchrun。",
        "where status = runing": "没有状态 'runing'；是否指 running？",
    }
    eventually(lambda: page.get_by_role("alert").inner_text().startswith(expected[typed]))
    one.picture(f"runs-filter-zh-{typed.partition(' ')[0]}")


def test_the_address_of_a_run_may_have_its_name(hub: HubProcess, visit: Open) -> None:
    (run,) = hub.json("GET", "/api/v1/runs?select=run82")["runs"]
    one = visit(hub)
    one.expected.extend(["404", "409"])
    page = one.open("/runs/run82/files")
    page.wait_for_url(f"**/runs/{run['id']}/files")
    page.get_by_role("heading", name="run82").wait_for()
    page.goto(f"{hub.url}/runs/a%2Frun23")
    page.wait_for_url(lambda url: url.rpartition("/")[2].isdigit())
    page.get_by_role("heading", name="run23").wait_for()
    page.goto(f"{hub.url}/runs/nosuchrun")
    page.get_by_role("heading", name="There is no run nosuchrun").wait_for()
    one.picture("run-missing-name")
    assert one.axe() == []
    page.goto(f"{hub.url}/runs/run23")
    page.get_by_role("heading", name="Several runs are called run23").wait_for()
    one.picture("run-ambiguous-name")
    assert one.axe() == []
    page.get_by_role("link", name="Show these 2 runs").click()
    eventually(lambda: page.locator("[role=row].run").count() == 2)


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub with runs whose names contain slashes."""
    where: Path = tmp_path_factory.mktemp("nested")
    names = ("exp2/run82", "exp8/run82", "exp8/log", "run91/train", "run91/test", "303/train")
    log_runs(where / "runs", *names)
    with HubProcess(where / "home", logdirs=where / "runs") as hub:
        hub.wait_for_runs(len(names))
        yield hub


@pytest.mark.parametrize(
    ("address", "path", "tab"),
    [
        ("exp8/run82", "exp8/run82", ""),
        ("exp8%2Frun82", "exp8/run82", ""),
        ("exp8/run82/files", "exp8/run82", "/files"),
        ("exp8/log", "exp8/log", ""),
        ("exp8/log/log", "exp8/log", "/log"),
        ("run91/train", "run91/train", ""),
        ("303/train", "303/train", ""),
    ],
)
def test_the_address_of_a_run_may_have_a_name_with_slashes(
    nested: HubProcess, visit: Open, address: str, path: str, tab: str
) -> None:
    (run,) = nested.json("GET", f"/api/v1/runs?select=where+path='{path}'")["runs"]
    one = visit(nested)
    one.expected.append("404")
    page = one.open(f"/runs/{address}")
    page.wait_for_url(f"**/runs/{run['id']}{tab}")
    page.get_by_role("heading", name=run["name"], exact=True).wait_for()


@pytest.mark.parametrize(
    ("address", "heading"),
    [
        ("exp8/run83", "There is no run exp8/run83"),
        ("nosuch/log", "There is no run nosuch"),
        ("exp8/run82/nope", "There is no run exp8/run82/nope"),
        ("1/nope", "There is no page at this address"),
    ],
)
def test_an_address_of_no_run_names_all_of_what_is_missing(
    nested: HubProcess, visit: Open, address: str, heading: str
) -> None:
    one = visit(nested)
    one.expected.append("404")
    page = one.open(f"/runs/{address}")
    page.get_by_role("heading", name=heading, exact=True).wait_for()
    assert page.get_by_role("link", name="All runs").count() == 1


def test_a_directory_of_several_runs_in_an_address_lists_and_shows_them(
    nested: HubProcess, visit: Open
) -> None:
    one = visit(nested)
    page = one.open("/runs/run91")
    page.get_by_role("heading", name="Several runs are called run91").wait_for()
    for name in ("run91/train (#", "run91/test (#"):
        page.get_by_text(name).wait_for()
    one.picture("run-directory-of-several")
    assert one.axe() == []
    page.get_by_role("link", name="Show these 2 runs").click()
    eventually(lambda: page.locator("[role=row].run").count() == 2)
    shown = page.locator("[role=grid]").inner_text()
    assert "run91/train" in shown
    assert "run91/test" in shown
