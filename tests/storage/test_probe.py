"""`tbhub storage test`: says exactly what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from storage.conftest import QUICK, Place
from support import clock
from support.fault_proxy import FaultProxy, Silent, Status
from support.ports import free_port
from support.up import COMMAND
from tbhub.storage.open import open_store
from tbhub.storage.probe import CHECKS, CHECKS_FOR, Finding, is_good, probe, usable_for
from tbhub.storage.roles import role


def by_check(findings: list[Finding]) -> dict[str, bool | None]:
    assert tuple(finding.check for finding in findings) == CHECKS
    return {finding.check: finding.good for finding in findings}


def text_of(findings: list[Finding], check: str) -> str:
    return next(finding.text for finding in findings if finding.check == check)


def test_all_is_well(place: Place) -> None:
    findings = probe(place.uri, place.credentials)
    # The server that stands for Google's store does not know its conditions, which is found.
    has_conditions = place.kind != "gs"
    assert by_check(findings) == {**dict.fromkeys(CHECKS, True), "create": has_conditions}
    assert is_good(findings) is has_conditions
    store, path = place.open()
    assert list(store.list(path)) == []
    store.close()
    if place.kind == "local":
        assert not Path(place.uri).exists()


@pytest.mark.parametrize(
    ("who", "verdicts"),
    [
        ("reads", {"list": True, "read": True, "write": False, "delete": None}),
        ("writes", {"list": False, "read": False, "write": True, "delete": True}),
        ("lists-not", {"list": False, "read": True, "write": True, "delete": True}),
    ],
)
def test_verbs_that_are_denied(
    s3: Callable[..., Place], who: str, verdicts: dict[str, bool | None]
) -> None:
    made = s3()
    store, path = made.open()
    store.put(f"{path}/something", b"x")
    findings = probe(made.uri, s3(who).credentials)
    found = by_check(findings)
    assert {verb: found[verb] for verb in verdicts} == verdicts
    for verb, good in verdicts.items():
        if good is False:
            assert f"no permission to {verb}" in text_of(findings, verb)
            needed = {"list": "s3:ListBucket", "read": "s3:GetObject", "write": "s3:PutObject"}
            assert f"needs {needed[verb]}" in text_of(findings, verb)
    assert not is_good(findings)
    assert [entry.path for entry in store.list(path)] == [f"{path}/something"]


def test_a_read_only_key_is_good_for_boards(s3: Callable[..., Place]) -> None:
    made = s3()
    empty = probe(made.uri, s3("reads").credentials, purpose="boards")
    assert is_good(empty)
    assert "nothing is there to read" in text_of(empty, "read")
    store, path = made.open()
    store.put(f"{path}/something", b"x")
    findings = probe(made.uri, s3("reads").credentials, purpose="boards")
    assert {each.check: each.good for each in findings} == dict.fromkeys(CHECKS_FOR["boards"], True)
    assert usable_for(findings) == ["boards"]
    whole = probe(made.uri, s3("reads").credentials)
    assert usable_for(whole) == ["boards"]
    assert "runs need this, boards do not" in text_of(whole, "write")
    assert usable_for(probe(made.uri, s3("writes").credentials)) == []


def test_for_runs_all_that_publishing_does_is_tried(place: Place) -> None:
    findings = probe(place.uri, place.credentials, purpose="runs")
    has_conditions = place.kind != "gs"
    expected = {**dict.fromkeys(CHECKS_FOR["runs"], True), "create": has_conditions}
    assert {each.check: each.good for each in findings} == expected
    assert usable_for(findings) == (["boards", "runs"] if has_conditions else ["boards"])
    store, path = place.open()
    assert list(store.list(path)) == []
    store.close()


@pytest.mark.parametrize(
    ("changed", "check", "says"),
    [
        ({"secret_access_key": "hunter2"}, "credentials", "check key and secret"),
        ({"endpoint": "http://127.0.0.1:{port}"}, "reach", "is the store up"),
        ({"nonsense": "hunter2"}, "credentials", "unknown settings nonsense"),
    ],
)
def test_one_thing_is_wrong(
    s3: Callable[..., Place], changed: dict[str, str], check: str, says: str
) -> None:
    made = s3()
    changed = {name: value.format(port=free_port()) for name, value in changed.items()}
    findings = probe(made.uri, {**made.credentials, **changed}, patience=QUICK)
    assert [finding.check for finding in findings if finding.good is False] == [check]
    assert says in text_of(findings, check)
    assert not any("hunter2" in finding.text for finding in findings)


def test_no_bucket_and_no_place(s3: Callable[..., Place]) -> None:
    findings = probe("s3://no-such-bucket/x", s3().credentials, patience=QUICK)
    assert by_check(findings)["bucket"] is False
    assert by_check(findings)["reach"] is True
    findings = probe("ftp://x/y")
    assert "unknown scheme" in text_of(findings, "bucket")


def test_faults_of_a_store(proxy: FaultProxy, s3: Callable[..., Place]) -> None:
    made = s3(endpoint=proxy.url)
    hasty = replace(QUICK, timeout=0.3)
    for fault, check, says in (
        (Silent(), "reach", "in time"),
        (Status(503), "reach", "fewer"),
        (Status(301, "PermanentRedirect"), "region", "another region"),
        (Status(403, "RequestTimeTooSkewed"), "clock", "clock is wrong"),
    ):
        proxy.heal()
        proxy.add(fault)
        findings = probe(made.uri, made.credentials, patience=hasty)
        assert [finding.check for finding in findings if finding.good is False] == [check]
        assert says in text_of(findings, check)


def test_deletes_that_are_denied(proxy: FaultProxy, s3: Callable[..., Place]) -> None:
    made = s3(endpoint=proxy.url)
    proxy.add(Status(403, "AccessDenied"), methods={"POST", "DELETE"})
    findings = probe(made.uri, made.credentials, patience=QUICK)
    assert [finding.check for finding in findings if finding.good is False] == ["delete"]
    assert ".storage-test-" in text_of(findings, "delete")


@pytest.mark.parametrize(
    ("skew", "good", "says"),
    [(400, False, "ahead"), (-400, False, "behind"), (-3600, False, "clock is wrong")],
)
def test_a_clock_that_is_wrong(
    s3: Callable[..., Place], tmp_path: Path, skew: int, good: bool, says: str
) -> None:
    made = s3()
    script = f"""
import json
from tbhub.storage.probe import probe
found = probe({made.uri!r}, {made.credentials!r})
print(json.dumps([(finding.check, finding.good, finding.text) for finding in found]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=clock.environment(tmp_path, skew),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = {check: (verdict, text) for check, verdict, text in json.loads(done.stdout)}
    verdict, text = found["clock"]
    assert verdict is good
    assert says in text


def test_files_that_may_not_be_written(tmp_path: Path) -> None:
    findings = probe(str(tmp_path))
    assert is_good(findings)
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_bytes(b"")
    findings = probe(str(tmp_path / "file/below"))
    assert not is_good(findings)


def test_the_test_leaves_what_is_there(s3: Callable[..., Place]) -> None:
    made = s3()
    store, path = open_store(made.uri, made.credentials)
    store.put(f"{path}/keep", b"keep")
    probe(made.uri, made.credentials)
    assert [(entry.path, store.read(entry.path)) for entry in store.list(path)] == [
        (f"{path}/keep", b"keep")
    ]


def test_a_machine_without_ca_certificates_is_told_so(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "SSL_CERT_FILE": str(tmp_path / "none"),
        "SSL_CERT_DIR": str(tmp_path),
        "AWS_ENDPOINT_URL": "https://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    done = subprocess.run(
        [*COMMAND, "storage", "test", "s3://bucket/runs"],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 1
    assert "install the package ca-certificates" in done.stdout
    assert "the store failed" not in done.stdout


def test_the_command_names_roles_and_takes_a_read_only_key_for_boards(
    s3: Callable[..., Place],
) -> None:
    made, reads = s3(), s3("reads").credentials
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": reads["endpoint"],
        "AWS_ACCESS_KEY_ID": reads["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": reads["secret_access_key"],
    }

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, "storage", "test", made.uri, *options]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    boards = run("--for", "boards")
    assert boards.returncode == 0, boards.stdout + boards.stderr
    assert "for boards   ok   needs AmazonS3ReadOnlyAccess: s3:ListBucket, s3:GetObject" in (
        boards.stdout
    )
    whole = run()
    assert whole.returncode == 1
    assert "for runs     BAD  needs AmazonS3FullAccess" in whole.stdout
    assert "--for boards" in whole.stdout


@pytest.mark.parametrize(
    ("uri", "environment", "unknown", "bad"),
    [
        ("oss://bucket/x", {}, ["reach", "credentials", "bucket"], "region"),
        (
            "s3://bucket/x",
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "x"}
            | {"AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"},
            [],
            "reach",
        ),
    ],
)
def test_only_checks_below_the_failed_one_name_it_and_no_role_is_named_without_a_connection(
    uri: str, environment: dict[str, str], unknown: list[str], bad: str
) -> None:
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "OSS_"))
    }
    command = [*COMMAND, "storage", "test", uri]
    done = subprocess.run(command, capture_output=True, text=True, env=clean | environment)
    assert done.returncode == 1
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    checks = [line for line in lines if line[0] != "for"]
    at = [line[0] for line in checks].index(bad)
    assert [line[0] for line in checks[:at]] == unknown
    assert {line[2] for line in checks[:at]} <= {"not known"}
    assert checks[at][1] == "BAD"
    assert {line[2] for line in checks[at + 1 :]} == {"not tried, because of the above"}
    assert "needs" not in done.stdout


def test_every_cloud_has_roles() -> None:
    assert role("gs", "boards").startswith("Storage Object Viewer (")
    assert role("gs", "runs").startswith("Storage Object User (")
    assert role("oss", "boards").startswith("AliyunOSSReadOnlyAccess: oss:ListObjects")
    assert role("az", "runs").startswith("Storage Blob Data Contributor: ")
    assert role("file", "boards") == ""
