"""Credentials: given ones stand alone; what is missing comes from the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.conftest import QUICK, Place
from support import azurite as azure
from support import seaweedfs as weed
from support.azurite import Azurite
from support.fault_proxy import fault_proxy
from support.seaweedfs import SeaweedFS
from tbhub.client.connection import find_connection
from tbhub.storage.credentials import Known
from tbhub.storage.errors import BadCredentials, NotFound, Unreachable, WrongRegion
from tbhub.storage.known_hub import known_hub
from tbhub.storage.open import SETTINGS, open_store, plan_for
from tbhub.storage.uri import parse

DOCUMENT = Path(__file__).parents[2] / "docs/storage.md"


def test_s3_from_the_environment(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", seaweedfs.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "everything")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", weed.SECRET)
    store, path = open_store(f"s3://{weed.BUCKET}/from/environment", patience=QUICK)
    store.put(f"{path}/a", b"x")
    assert store.read("from/environment/a") == b"x"


def test_given_keys_are_not_mixed_with_the_environments(
    s3: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "else")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "tied to these")
    store, path = s3().open()
    store.put(f"{path}/a", b"x")


def test_azure_from_the_environment(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AZURE_STORAGE_CONNECTION_STRING",
        f"AccountName={azure.ACCOUNT};AccountKey={azure.KEY};BlobEndpoint={azurite.url}",
    )
    store, path = open_store(f"az://{azure.CONTAINER}/from/environment", patience=QUICK)
    store.put(f"{path}/a", b"x")
    assert store.read("from/environment/a") == b"x"
    monkeypatch.setenv("AZURE_STORAGE_TOKEN", "someone else's")
    given = {"account_key": azure.KEY, "endpoint": azurite.url}
    store, _ = open_store(f"az://{azure.CONTAINER}@{azure.ACCOUNT}/x", given, patience=QUICK)
    assert store.read("from/environment/a") == b"x"


def test_google_from_the_environment(
    open_seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", open_seaweedfs.url.removeprefix("http://"))
    store, path = open_store(f"gs://{weed.BUCKET}/from/environment", patience=QUICK)
    store.put(f"{path}/a", b"x")
    assert store.read("from/environment/a") == b"x"


@pytest.mark.parametrize("named", [True, False])
def test_a_google_login_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    login = {"type": "authorized_user", "client_id": "hunter2"}
    login |= {"client_secret": "hunter2", "refresh_token": "hunter2"}
    file = tmp_path / ".config/gcloud/application_default_credentials.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(login))
    for name in ("HTTPS_PROXY", "https_proxy"):  # Google's token server is out of reach
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    if named:
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    monkeypatch.setenv("HOME", str(tmp_path))
    store, path = open_store("gs://b/x", patience=QUICK)
    with pytest.raises(Unreachable) as caught:
        store.read(f"{path}/a")
    where = str(file) if named else "~/.config/gcloud/application_default_credentials.json"
    assert f"the login in {where} could not be used: Google's token server" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_google_login_file_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/login.json")
    with pytest.raises(BadCredentials, match=r"login in /nowhere/login\.json could not be used"):
        open_store("gs://b/x", patience=QUICK)


def test_no_credentials_at_all(seaweedfs: SeaweedFS) -> None:
    store, path = open_store(f"s3://{weed.BUCKET}/x", {"endpoint": seaweedfs.url}, patience=QUICK)
    with pytest.raises(BadCredentials, match=r"no credentials.*docs/storage\.md"):
        store.read(f"{path}/a")


@pytest.mark.parametrize(
    ("uri", "given", "says"),
    [
        ("s3://b/p", {"secret": "hunter2"}, "unknown settings secret; there are access_key_id"),
        ("/tmp/x", {"region": "eu"}, "there are none"),
        ("az://box/p", {"account_key": azure.KEY}, "no account"),
        ("az://box@acct/p", {"account_key": "hunter2 is no key"}, "cannot be used"),
        ("gs://b/p", {"service_account_key": '{"private_key": "hunter2"}'}, "cannot be used"),
        ("oss://b/p", {"access_key_id": "a", "secret_access_key": "hunter2"}, "OSS_REGION"),
        ("oss://b/p", {"region": "cn-hangzhou"}, "OSS_ACCESS_KEY_ID"),
    ],
)
def test_what_cannot_be_opened(uri: str, given: dict[str, str], says: str) -> None:
    def read() -> None:
        store, path = open_store(uri, given, patience=QUICK)
        store.read(f"{path}/a")

    with pytest.raises((BadCredentials, WrongRegion), match=says) as caught:
        read()
    assert "hunter2" not in str(caught.value)
    assert caught.value.__context__ is None


def test_where_oss_is() -> None:
    keys = {"access_key_id": "a", "secret_access_key": "b"}
    plan = plan_for(parse("oss://box/p"), {**keys, "region": "cn-hangzhou"}, {})
    assert plan.endpoint == "https://box.s3.oss-cn-hangzhou.aliyuncs.com"
    assert plan.config["region"] == "oss-cn-hangzhou"
    environ = {
        "OSS_ENDPOINT": "oss-cn-beijing.aliyuncs.com",
        "OSS_REGION": "cn-beijing",
        "ALIBABA_CLOUD_ACCESS_KEY_ID": "c",
        "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "d",
    }
    plan = plan_for(parse("oss://box/p"), {}, environ)
    assert plan.endpoint == "https://box.oss-cn-beijing.aliyuncs.com"
    assert plan.secret is not None
    assert plan.secret["access_key_id"] == "c"


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("box.oss-cn-hangzhou.aliyuncs.com", "https://box.s3.oss-cn-hangzhou.aliyuncs.com"),
        (
            "box.oss-cn-hangzhou-internal.aliyuncs.com",
            "https://box.s3.oss-cn-hangzhou-internal.aliyuncs.com",
        ),
    ],
)
def test_a_uri_may_name_the_region_of_oss(host: str, asked: str) -> None:
    keys = {"access_key_id": "a", "secret_access_key": "b"}
    place = parse(f"oss://{host}/logs/")
    plan = plan_for(place, keys, {"OSS_REGION": "cn-beijing"})
    assert (plan.endpoint, plan.config["region"]) == (asked, "oss-cn-hangzhou")
    # Which address is asked is for who runs this process, and not for who writes a URI.
    said = plan_for(place, keys, {"OSS_ENDPOINT": "http://127.0.0.1:9"})
    assert said.endpoint == "http://127.0.0.1:9"
    assert plan_for(place, {**keys, "region": "cn-x"}, {}).config["region"] == "oss-cn-x"


@pytest.mark.parametrize(
    ("endpoint", "asked"),
    [
        ("http://127.0.0.1:8333", "http://127.0.0.1:8333"),
        ("10.0.0.7", "https://10.0.0.7"),
        ("http://[::1]:8333/", "http://[::1]:8333"),
        ("http://[::ffff:10.0.0.7]", "http://[::ffff:10.0.0.7]"),
        ("http://localhost:9000", "http://localhost:9000"),
        ("http://minio", "http://minio"),
        ("http://oss.test:9000", "http://box.oss.test:9000"),
        ("https://10.0.0.7.nip.io", "https://box.10.0.0.7.nip.io"),
    ],
)
def test_the_bucket_of_oss_is_in_the_host_where_that_is_a_domain_name(
    endpoint: str, asked: str
) -> None:
    keys = {"access_key_id": "a", "secret_access_key": "b"}
    plan = plan_for(parse("oss://box/p"), {**keys, "endpoint": endpoint}, {})
    assert (plan.endpoint, plan.config["endpoint"]) == (asked, asked)
    assert plan.config["virtual_hosted_style_request"] == ("//box." in asked)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_oss_at_an_address(
    seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("OSS_ENDPOINT", f"http://{host}:{seaweedfs.port}")
    monkeypatch.setenv("OSS_ACCESS_KEY_ID", "everything")
    monkeypatch.setenv("OSS_ACCESS_KEY_SECRET", weed.SECRET)
    store, path = open_store(f"oss://{weed.BUCKET}/{host}", patience=QUICK)
    store.put(f"{path}/a", b"x")
    store.put_if_absent(f"{path}/b", b"y")
    assert store.read(f"{path}/a") == b"x"
    assert {entry.path for entry in store.list(path)} == {f"{path}/a", f"{path}/b"}
    assert store.delete_below(path) == 2


def test_a_connection_is_for_a_bucket_of_oss_however_it_is_written() -> None:
    known = Known("team", parse("oss://box/logs"), None, {})
    assert known.holds(parse("oss://box.oss-cn-hangzhou.aliyuncs.com/logs/a"))
    assert not known.holds(parse("oss://box2.oss-cn-hangzhou.aliyuncs.com/logs/a"))
    with_region = Known("team", parse("oss://box.oss-cn-hangzhou.aliyuncs.com/logs"), None, {})
    assert with_region.holds(parse("oss://box/logs/a"))


@pytest.mark.parametrize("place", ["oss"], indirect=True)
def test_oss_is_told_not_to_replace(
    place: Place, seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fault_proxy("127.0.0.1", seaweedfs.port) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        store, path = place.open()
        store.put(f"{path}/a", b"")
        store.put_if_absent(f"{path}/b", b"")
    asked = [b"x-oss-forbid-overwrite: true" in request.raw for request in proxy.requests]
    assert asked == [False, False, True]  # put, look, create


def test_where_azure_is() -> None:
    given = {"account_key": azure.KEY}
    plan = plan_for(parse("abfs://box@acct.dfs.core.chinacloudapi.cn/p"), given, {})
    assert plan.endpoint == "https://acct.blob.core.chinacloudapi.cn"
    plan = plan_for(parse("abfs://box@acct.dfs.core.windows.net/p"), given, {})
    assert (plan.endpoint, plan.config["account_name"]) == ("", "acct")
    text = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=k==;EndpointSuffix=core.x.net"
    plan = plan_for(parse("az://box/p"), {"connection_string": text}, {})
    assert plan.endpoint == "https://a.blob.core.x.net"
    assert plan.secret == {"access_key": "k==", "expires_at": None}


def test_a_store_shows_no_secrets(s3: Callable[..., Place]) -> None:
    store, path = s3().open()
    shown = [repr(store), str(vars(store)), repr(store.__dict__["_clients"])]
    assert not any(weed.SECRET in text for text in shown)
    with pytest.raises(NotFound) as caught:
        store.read(f"{path}/none")
    assert caught.value.__context__ is None


def test_every_setting_is_documented() -> None:
    text = DOCUMENT.read_text()
    for scheme, names in SETTINGS.items():
        for name in names:
            assert f"`{name}`" in text, (scheme, name)


def test_files_need_no_obstore(tmp_path: Path) -> None:
    script = f"""
import sys
from tbhub.storage.open import open_store
store, path = open_store({str(tmp_path)!r})
store.put(path + "/a", b"x")
print([name for name in ("obstore", "numpy", "ssl") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_hub_that_commands_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TBHUB_URL", "TBHUB_TOKEN", "TBHUB_ATTEMPT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TBHUB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with pytest.raises(BadCredentials, match="`tbhub login URL` or TBHUB_URL"):
        open_store("hub://runs/1")
    (tmp_path / "home").mkdir()
    running = {"url": "http://127.0.0.1:1", "token": "a"}
    (tmp_path / "home" / "connection.json").write_text(json.dumps(running))
    assert known_hub(os.environ) == running
    logins = tmp_path / "config" / "tbhub" / "logins.json"
    logins.parent.mkdir(parents=True)
    logins.write_text(json.dumps([{"url": "https://hub", "token": "b", "user": "u"}]))
    assert known_hub(os.environ) == {"url": "https://hub", "token": "b"}
    assert find_connection().url == "https://hub"
    open_store("hub://runs/1")[0].close()
