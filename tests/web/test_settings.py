"""Settings in the web page: people, tokens, workspaces, storage, log directories, quotas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hub import HubProcess, eventually
from support.pages import Open, log_runs
from support.seaweedfs import BUCKET, SECRET, SeaweedFS

TABS = ["settings", "settings/users", "settings/workspaces", "settings/quotas"]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    where: Path = tmp_path_factory.mktemp("settings")
    log_runs(where / "runs", "mnist/a", "mnist/b")
    log_runs(where / "more", "late/c")
    with HubProcess(where / "home", auth="users", logdirs=where / "runs") as hub:
        hub.wait_for_runs(2)
        hub.create_user("ada", password="correct horse")
        yield hub


def test_a_token_is_shown_once_and_works_until_it_is_revoked(hub: HubProcess, visit: Open) -> None:
    one = visit(hub)
    page = one.open("/settings")
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name").fill("laptop")
    page.get_by_label("Access").select_option("read")
    page.get_by_role("button", name="Create token").click()
    page.get_by_text("cannot show it again").wait_for()
    page.get_by_role("button", name="Copy the token").click()
    token = page.evaluate("navigator.clipboard.readText()")
    assert hub.json("GET", "/api/v1/me", token)["scope"] == "read"
    one.picture("settings-token")
    assert one.axe() == []
    page.get_by_role("button", name="I have copied it").click()
    assert page.get_by_text(token).count() == 0
    row = page.get_by_role("row").filter(has_text="laptop")
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    page.get_by_text("laptop is revoked").wait_for()
    assert hub.ask("GET", "/api/v1/me", token).status_code == 401


def test_a_user_is_added_given_a_role_disabled_and_deleted(hub: HubProcess, visit: Open) -> None:
    one = visit(hub)
    one.expected.append("409")
    page = one.open("/settings/users")
    page.get_by_role("button", name="Add a user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("ada")
    dialog.get_by_role("button", name="Add a user").click()
    dialog.get_by_text("There is a user ada already").wait_for()
    dialog.get_by_label("Name").fill("grace")
    dialog.get_by_label("First login").select_option("password")
    dialog.get_by_label("Password", exact=True).fill("battery staple")
    dialog.get_by_role("button", name="Add a user").click()
    page.get_by_label("Role of grace").select_option("viewer")
    page.get_by_text("grace is changed").wait_for()

    def grace() -> dict[str, object]:
        found = [each for each in hub.json("GET", "/api/v1/users") if each["name"] == "grace"]
        return found[0] if found else {}

    assert grace()["role"] == "viewer"
    page.get_by_role("button", name="Actions for grace").click()
    page.get_by_role("menuitem", name="Disable").click()
    page.get_by_text("disabled").wait_for()
    assert grace()["disabled"]
    page.get_by_role("button", name="Actions for grace").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("grace is deleted").wait_for()
    assert not grace()


def test_a_workspace_gets_members(hub: HubProcess, visit: Open) -> None:
    one = visit(hub)
    page = one.open("/settings/workspaces")
    page.get_by_role("button", name="Add a workspace").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("vision")
    dialog.get_by_label("Note").fill("Everything that looks at pictures")
    dialog.get_by_role("button", name="Add a workspace").click()
    row = page.get_by_role("row").filter(has_text="vision")
    row.get_by_role("button", name="Members").click()
    page.get_by_label("User name").fill("ada")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_label("Role of ada").select_option("viewer")
    members = "/api/v1/workspaces/vision/members"
    wanted = {"user": "ada", "role": "viewer"}
    eventually(lambda: wanted in hub.json("GET", members))
    one.picture("settings-members")
    assert one.axe() == []
    page.get_by_role("button", name="Remove ada").click()
    eventually(lambda: wanted not in hub.json("GET", members))
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Delete vision").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    eventually(lambda: len(hub.json("GET", "/api/v1/workspaces")) == 1)


def test_a_connection_is_tested_and_says_exactly_what_is_wrong(
    hub: HubProcess, visit: Open, seaweedfs: SeaweedFS
) -> None:
    one = visit(hub)
    page = one.open("/settings/storage")
    page.get_by_role("heading", name="No connections").wait_for()
    one.picture("settings-storage-empty")

    def add(name: str, key: str, secret: str) -> None:
        page.get_by_role("button", name="Add a connection").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name", exact=True).fill(name)
        dialog.get_by_label("Prefix").fill(f"s3://{BUCKET}/web")
        for label, value in (
            ("access_key_id", key),
            ("secret_access_key", secret),
            ("region", "us-east-1"),
            ("endpoint", seaweedfs.url),
        ):
            dialog.get_by_label(label, exact=True).fill(value)
        dialog.get_by_role("button", name="Test and add").click()

    add("wrong", "everything", "not the secret")
    refused = page.get_by_role("dialog").get_by_role("alert")
    refused.filter(has_text="cannot be read with these settings").wait_for()
    one.problems.clear()  # the hub has refused it
    assert hub.json("GET", "/api/v1/storage") == []
    one.picture("settings-storage-refused")
    page.get_by_role("dialog").get_by_role("button", name="Add it all the same").click()
    page.get_by_text("For boards: not usable").wait_for()
    page.get_by_text(re.compile("credentials|signature", re.IGNORECASE)).nth(1).wait_for()
    one.picture("settings-storage-wrong")
    assert one.axe() == []
    page.get_by_role("button", name="Delete wrong").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("wrong is deleted").wait_for()
    add("bucket", "everything", SECRET)
    page.get_by_text("For boards: usable").wait_for()
    page.get_by_text("For runs: usable").wait_for()
    assert SECRET not in page.content()
    one.picture("settings-storage-good")
    assert one.axe() == []


def test_a_directory_is_looked_at_and_no_more(hub: HubProcess, visit: Open) -> None:
    one = visit(hub)
    page = one.open("/settings/logdirs")
    more = hub.home.parent / "more"
    page.get_by_role("button", name="Add a directory").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Path").fill(str(more))
    dialog.get_by_role("button", name="Add a directory").click()
    row = page.get_by_role("row").filter(has_text=str(more))
    row.get_by_role("cell", name="1", exact=True).wait_for()
    one.picture("settings-logdirs")
    assert one.axe() == []
    page.get_by_role("button", name=f"Delete {more}").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop looking").click()
    eventually(lambda: row.count() == 0)


def test_a_quota_is_set_and_taken_back(hub: HubProcess, visit: Open) -> None:
    page = visit(hub).open("/settings/quotas")
    field = page.get_by_label("Limit of ada")
    field.fill("3")
    field.press("Tab")
    page.get_by_text("The limit of ada is changed").first.wait_for()

    def own() -> object:
        users = hub.json("GET", "/api/v1/quotas")["users"]
        return next(each["own"] for each in users if each["name"] == "ada")

    assert own() == 3
    field.fill("")
    field.press("Tab")
    eventually(lambda: own() is None)


def test_a_member_sees_what_is_theirs(hub: HubProcess, visit: Open) -> None:
    token = hub.create_user("member")
    one = visit(hub, token)
    page = one.open("/settings")
    page.get_by_role("heading", name="Tokens", exact=True).wait_for()
    assert page.get_by_role("link", name="Users").count() == 0
    page.get_by_role("link", name="Quotas").click()
    page.get_by_role("cell", name="member", exact=True).wait_for()
    assert page.get_by_role("spinbutton").count() == 0
    new = {"name": "ours", "uri": "s3://bucket/runs", "workspace": "default"}
    hub.json("POST", "/api/v1/storage", json={**new, "settings": {"region": "nowhere-1"}})
    page.get_by_role("link", name="Storage").click()
    page.get_by_text("s3://bucket/runs", exact=True).wait_for()
    assert page.get_by_role("button", name="Test", exact=True).count() == 0
    assert page.get_by_text("region").count() == 0
    hub.json("DELETE", "/api/v1/storage/ours")
    one.expected.append("403")
    page = one.open("/settings/users")
    page.get_by_role("alert").wait_for()
    one.picture("settings-forbidden")
    assert one.axe() == []


def test_a_viewer_is_not_told_to_add_storage(hub: HubProcess, visit: Open) -> None:
    token = hub.create_user("looker", "viewer")
    hub.json("DELETE", "/api/v1/workspaces/default/members/looker")
    page = visit(hub, token).open("/settings/storage")
    page.get_by_role("heading", name="No connections").wait_for()
    page.get_by_text("Admins of the hub or of a workspace can add one").wait_for()
    assert page.get_by_text("tbhub storage add").count() == 0
    page.goto(f"{hub.url}/settings/logdirs")
    page.get_by_role("heading", name="No log directories").wait_for()
    page.get_by_text("Admins of the hub can add one").wait_for()
    assert page.get_by_text("tbhub logdirs add").count() == 0


@pytest.mark.parametrize("size", ["phone", "normal", "wide"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_settings_are_readable_at_every_size(
    hub: HubProcess, visit: Open, theme: str, size: str
) -> None:
    one = visit(hub, theme=theme, size=size)
    for tab in TABS:
        page = one.open(f"/{tab}")
        page.locator("section table, section dl").first.wait_for()
        one.picture(f"{tab.replace('/', '-')}-{theme}-{size}")
        assert one.axe() == []
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_settings_in_chinese(hub: HubProcess, visit: Open) -> None:
    one = visit(hub)
    page = one.open("/settings")
    page.evaluate("document.cookie = 'tbhub-language=zh; Path=/'")
    page.reload()
    page.get_by_role("heading", name="令牌").wait_for()
    one.picture("settings-zh")
