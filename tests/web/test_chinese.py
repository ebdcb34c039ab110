"""What the hub itself says, in Chinese: its own pages, problems, logs of boards, storage tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.hub import HubProcess
from support.pages import log_runs, serious, shoot

pytestmark = pytest.mark.browser
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub whose users may have one board at once."""
    where = tmp_path_factory.mktemp("chinese")
    log_runs(where / "runs", "first")
    settings = {"auth": "users", "logdirs": where / "runs", "max_boards_per_user": 1}
    with HubProcess(where / "home", **settings) as hub:
        hub.wait_for_runs(1)
        hub.create_user("ada", "admin", PASSWORD)
        yield hub


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="zh-CN")
    made = context.new_page()
    made.set_default_timeout(30_000)
    yield made
    context.close()


def english(text: str) -> list[str]:
    """Return the English words of a text, except those that are names."""
    names = {"tbhub", "TensorBoard", "hub", "ada", "local", "boards"}
    return [word for word in re.findall(r"[A-Za-z]{3,}", text) if word not in names]


def test_login_and_missing_pages_are_chinese(hub: HubProcess, page: Any) -> None:
    page.goto(f"{hub.url}/")
    page.get_by_role("heading", name="登录 tbhub").wait_for()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    page.get_by_label("用户名").fill("ada")
    page.get_by_label("密码").fill("wrong password")
    page.get_by_role("button", name="登录").click()
    page.get_by_role("alert").get_by_text("用户名或密码错误。").wait_for()
    shoot(page, "login-zh")
    assert serious(page) == []
    page.get_by_label("密码").fill(PASSWORD)
    page.get_by_role("button", name="登录").click()
    page.get_by_role("heading", name="运行").wait_for()
    for path in ("/nonsense", "/boards/00000000/"):
        page.goto(f"{hub.url}{path}")
        page.get_by_role("heading", name="未找到").wait_for()
        assert english(page.locator("main").inner_text()) == []


def test_headings_do_not_break_inside_a_word(hub: HubProcess, page: Any) -> None:
    for status in ("finished", "failed", "killed", None):
        run = hub.json("POST", "/api/v1/runs", json={})["run"]["id"]
        if status is not None:
            ended = {"attempt": 1, "status": status}
            hub.json("POST", f"/api/v1/runs/{run}/finish", json=ended)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{hub.url}/?token={hub.token}")
    heading = page.get_by_role("heading", name="运行")
    page.locator(".counts button").nth(3).wait_for()
    shoot(page, "runs-zh-390")
    assert heading.bounding_box()["height"] < 2 * 18  # one line of 18 px
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert serious(page) == []


def test_badges_of_columns_are_chinese(hub: HubProcess, page: Any) -> None:
    page.goto(f"{hub.url}/?token={hub.token}")
    page.get_by_role("button", name="列", exact=True).click()
    for word in ("最新", "最小", "最大"):
        page.get_by_label(f"loss {word}", exact=True).wait_for()
    page.get_by_label("loss 最小", exact=True).click()
    shoot(page, "runs-columns-zh")
    page.keyboard.press("Escape")
    page.get_by_role("columnheader").filter(has_text="最小").wait_for()
    assert page.get_by_text("min", exact=True).count() == 0


def test_sentences_end_with_a_chinese_full_stop(hub: HubProcess, page: Any) -> None:
    page.goto(f"{hub.url}/?token={hub.token}&q=where+lr+%3D")
    said = page.get_by_role("alert").filter(has_text="要加引号")
    said.wait_for()
    assert said.inner_text().strip().endswith("要加引号。")


def test_a_board_over_a_uri_is_explained_in_chinese(hub: HubProcess, page: Any) -> None:
    page.goto(f"{hub.url}/boards?token={hub.token}")
    page.get_by_role("button", name="启动看板").first.click()
    field = page.get_by_label("哪些运行")
    page.get_by_text("路径或 URI").wait_for()
    field.fill("oss://bucket/prefix")
    page.get_by_text("看板显示 oss://bucket/prefix 及其下的全部内容。").wait_for()
    shoot(page, "boards-start-uri-zh")


def test_quotas_logs_and_endings_are_chinese(hub: HubProcess, page: Any) -> None:
    page.goto(f"{hub.url}/login?token={hub.token}")
    board = hub.create_board(runs="all", name="看板一")
    headers = {"accept-language": "zh-CN"}
    refused = hub.ask("POST", "/api/v1/boards", json={"runs": "all"}, headers=headers)
    assert refused.json()["error"]["message"] == (
        "你有 1 个看板正在运行，同时最多允许 1 个。请先停止一个：看板一。"
    )
    hub.json("POST", f"/api/v1/boards/{board['id']}/kill")
    page.goto(f"{hub.url}/boards/{board['id'][:8]}/")
    page.get_by_text("已被终止。").wait_for()
    shoot(page, "board-ended-zh")
    lines = hub.ask("GET", f"/api/v1/boards/{board['id']}/logs", headers=headers).json()["lines"]
    left = {line["text"]: english(line["text"].replace("root", "")) for line in lines}
    assert not any(left.values()), left
    spoken = hub.json("GET", f"/api/v1/boards/{board['id']}/logs")["lines"]
    assert "is running" in [line["text"] for line in spoken]


def test_a_storage_test_is_chinese(hub: HubProcess) -> None:
    settings = {"endpoint": "http://127.0.0.1:9", "access_key_id": "x", "secret_access_key": "y"}
    new = {"name": "away", "uri": "s3://bucket/x", "settings": settings}
    hub.json("POST", "/api/v1/storage", json=new)
    headers = {"cookie": "tbhub-language=zh"}
    found = hub.ask("POST", "/api/v1/storage/away/test", headers=headers).json()["findings"]
    texts = {each["check"]: each["text"] for each in found}
    assert texts["reach"].startswith("无法连接；")
    assert texts["read"] == "因上述问题未测试"


def test_a_storage_test_without_a_region_is_chinese(hub: HubProcess) -> None:
    settings = {"access_key_id": "x", "secret_access_key": "y"}
    new = {"name": "nowhere", "uri": "oss://bucket/x", "settings": settings}
    hub.json("POST", "/api/v1/storage", json=new)
    headers = {"cookie": "tbhub-language=zh"}
    found = hub.ask("POST", "/api/v1/storage/nowhere/test", headers=headers).json()["findings"]
    texts = [each["text"] for each in found if each["good"] is False]
    assert [text.partition("，")[0] for text in texts] == ["请提供 region 或 endpoint"]
    again = hub.ask("POST", "/api/v1/storage", json=new, headers=headers)
    assert again.status_code == 409
    assert again.json()["error"]["message"] == "已有存储连接 nowhere；请先删除它。"


def test_boards_that_cannot_be_are_refused_in_chinese(hub: HubProcess) -> None:
    headers = {"cookie": "tbhub-language=zh"}
    refused = hub.ask("POST", "/api/v1/boards", json={}, headers=headers)
    assert refused.status_code == 422
    assert refused.json()["error"]["message"] == (
        "没有要显示的内容：请提供选择器、实验、运行或位置。"
    )
    board = hub.create_board(runs="all", name="看板二")
    path = f"/api/v1/boards/{board['id']}"
    hub.json("POST", f"{path}/kill")
    refused = hub.ask("POST", f"{path}/start", headers=headers)
    assert refused.status_code == 409
    assert refused.json()["error"]["message"].startswith("看板已永久结束（USER_KILLED）：被 ")
    assert english(refused.json()["error"]["message"].replace("root", "")) == ["USER", "KILLED"]


def test_a_board_of_an_unknown_scheme_fails_in_chinese(hub: HubProcess) -> None:
    new = {"uris": ["http://example.com/x"], "name": "看板三"}
    board = hub.json("POST", "/api/v1/boards", json=new)
    hub.wait_for(str(board["id"]), "FAILED")
    headers = {"cookie": "tbhub-language=zh"}
    path = f"/api/v1/boards/{board['id']}"
    message = hub.ask("GET", path, headers=headers).json()["message"]
    assert message.startswith("无法打开 http://…：未知的协议；")
    lines = hub.ask("GET", f"{path}/logs", headers=headers).json()["lines"]
    assert any(line["text"].startswith("启动失败：无法打开 http://…：") for line in lines)


def test_a_choice_on_the_page_counts_for_the_hubs_own_pages(hub: HubProcess, page: Any) -> None:
    page.goto(f"{hub.url}/?token={hub.token}")
    page.get_by_role("heading", name="运行").wait_for()
    page.locator("nav.rail button").last.click()
    page.get_by_role("menuitemcheckbox", name="English").click()
    page.get_by_role("heading", name="Runs").wait_for()
    page.goto(f"{hub.url}/nonsense")
    page.get_by_role("heading", name="Not found").wait_for()
