"""What environment variables hold for a place, as settings that can be sent elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tbhub.storage.environment import google_login_file, settings_from
from tbhub.storage.uri import parse


@pytest.mark.parametrize(
    ("uri", "environ", "expected"),
    [
        ("s3://b/x", {}, {}),
        (
            "s3://b/x",
            {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "r"},
            {"access_key_id": "a", "secret_access_key": "b", "region": "r"},
        ),
        (
            "oss://b/x",
            {"ALIBABA_CLOUD_ACCESS_KEY_ID": "a", "OSS_ENDPOINT": "e", "AWS_ACCESS_KEY_ID": "no"},
            {"access_key_id": "a", "endpoint": "e"},
        ),
        (
            "gs://b/x",
            {"STORAGE_EMULATOR_HOST": "127.0.0.1:9"},
            {"endpoint": "http://127.0.0.1:9", "token": "any"},
        ),
        ("gs://b/x", {"GOOGLE_APPLICATION_CREDENTIALS": "/no/such/file"}, {}),
        (
            "az://c@acct/x",
            {"AZURE_STORAGE_ACCOUNT": "acct", "AZURE_STORAGE_SAS_KEY": "s"},
            {"account_name": "acct", "sas_key": "s"},
        ),
        ("az://c@other/x", {"AZURE_STORAGE_ACCOUNT": "acct", "AZURE_STORAGE_SAS_KEY": "s"}, {}),
        ("az://c@acct.evil.example/x", {"AZURE_STORAGE_SAS_KEY": "s"}, {}),
        ("runs/a", {"AWS_ACCESS_KEY_ID": "a"}, {}),
    ],
)
def test_variables_become_settings(
    uri: str, environ: dict[str, str], expected: dict[str, str]
) -> None:
    assert settings_from(environ, parse(uri)) == expected


def test_a_key_file_is_sent_as_its_text(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(path)}
    for kind, is_sent in (("service_account", True), ("authorized_user", False)):
        path.write_text(json.dumps({"type": kind}))
        found = settings_from(environ, parse("gs://b/x"))
        assert found == ({"service_account_key": path.read_text()} if is_sent else {})


def test_the_file_of_a_google_login_is_known(tmp_path: Path) -> None:
    assert google_login_file({"HOME": str(tmp_path)}) == ""
    file = tmp_path / ".config/gcloud/application_default_credentials.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    home = {"HOME": str(tmp_path)}
    assert google_login_file(home) == "~/.config/gcloud/application_default_credentials.json"
    assert google_login_file({**home, "GOOGLE_APPLICATION_CREDENTIALS": "/a"}) == "/a"
    assert google_login_file({**home, "GOOGLE_SERVICE_ACCOUNT_KEY": "{}"}) == ""
    assert google_login_file({**home, "STORAGE_EMULATOR_HOST": "127.0.0.1:9"}) == ""
