"""What an engine is told to create: limits, mounts, addresses, and where no secret is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbhub.boards.life import Cause
from tbhub.launchers.base import Exited
from tbhub.launchers.docker_container import (
    HOST_LABEL,
    HUB_LABEL,
    DockerOptions,
    Endpoint,
    choose_port,
    container,
    ending,
    endpoint,
    name,
)
from tbhub.launchers.sizes import as_bytes, as_size

HERE = Endpoint("127.0.0.1")
TOLD = {"TBHUB_HOST_TOKEN": "hidden", "TBHUB_HUB_URL": "http://10.0.0.1:6060"}


def made(**options: Any) -> dict[str, Any]:
    return container(DockerOptions(**options), "hub", "docker-1", TOLD, HERE)


def test_a_host_without_options_is_one_of_the_machines_network_with_no_rights() -> None:
    found = made()
    environment = found.pop("environment")
    assert found == {
        "image": "tbhub",
        "name": "tbhub-hub-docker-1",
        "entrypoint": ["python3", "-P", "-m", "tbhub.boards.host_process"],
        "command": [],
        "working_dir": "/",
        "labels": {HUB_LABEL: "hub", HOST_LABEL: "docker-1"},
        "network": "host",
        "mounts": [],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "detach": True,
    }
    assert environment == {
        **TOLD,
        "HOME": "/tmp",
        "TBHUB_CACHE_DIR": "/tmp/tbhub",
        "TBHUB_HOST_BIND": "127.0.0.1",
        "TBHUB_HOST_CONNECT": "",
        "TBHUB_HOST_PORT": "0",
    }


# Hypothesis knows the words of the code that it tests, such as the launcher's own labels.
LABELS = st.text(max_size=9).filter(lambda name: not name.startswith("tbhub."))


@given(
    st.dictionaries(LABELS, st.text(max_size=9), max_size=3),
    st.text(max_size=9),
    st.text(max_size=9),
)
def test_what_is_secret_is_in_the_environment_alone(
    labels: dict[str, str], hub: str, host: str
) -> None:
    found = container(DockerOptions(labels=labels), hub, host, TOLD, HERE)
    assert found.pop("environment")["TBHUB_HOST_TOKEN"] == "hidden"
    assert "hidden" not in json.dumps(found)
    assert found["labels"] == {**labels, HUB_LABEL: hub, HOST_LABEL: host}
    assert "hidden" not in repr(DockerOptions(environment={"KEY": "hidden"}))


def test_limits_are_the_engines_and_leave_room_for_more_than_points() -> None:
    found = made(memory="1g", cpus=1.5, user="1000:1000")
    assert found["mem_limit"] == found["memswap_limit"] == 1 << 30
    assert found["nano_cpus"] == 1_500_000_000
    assert found["user"] == "1000:1000"
    assert found["environment"]["TBHUB_HOST_MEMORY"] == str(1 << 29)
    told = {**TOLD, "TBHUB_HOST_MEMORY": "1000"}
    small = container(DockerOptions(memory="1g"), "hub", "docker-1", told, HERE)
    assert small["environment"]["TBHUB_HOST_MEMORY"] == "1000"


def test_what_is_mounted_is_only_read_unless_told() -> None:
    found = made(volumes={"/runs": "/runs", "cache": "/cache:rw"})
    assert found["mounts"] == [
        {"Type": "bind", "Source": "/runs", "Target": "/runs", "ReadOnly": True},
        {"Type": "volume", "Source": "cache", "Target": "/cache", "ReadOnly": False},
    ]


@pytest.mark.parametrize(
    ("options", "engine", "expected"),
    [
        ({}, "", Endpoint("127.0.0.1")),
        ({"network": "team"}, "", Endpoint("auto")),
        (
            {"network": "team", "ports": {6006: 0}},
            "unix:///run/docker.sock",
            Endpoint("0.0.0.0", 6006, "127.0.0.1:20001", ("127.0.0.1", 20001)),
        ),
        (
            {"network": "team", "ports": {6006: ("10.1.1.1", 80)}},
            "tcp://gpu7:2375",
            Endpoint("0.0.0.0", 6006, "gpu7:80", ("10.1.1.1", 80)),
        ),
        (
            {"network": "team", "ports": {6006: 80}, "connect": "fd00::7"},
            "tcp://gpu7:2375",
            Endpoint("0.0.0.0", 6006, "[fd00::7]:80", ("127.0.0.1", 80)),
        ),
    ],
)
def test_where_a_host_listens_and_where_it_is_found(
    options: dict[str, Any], engine: str, expected: Endpoint
) -> None:
    made = DockerOptions(**options)
    port = (choose_port(made, ()) if made.ports != {6006: 0} else 20001) if made.ports else None
    assert endpoint(made, engine, port) == expected


@pytest.mark.parametrize(
    ("place", "taken", "ports"),
    [
        (0, {20000}, range(20001, 30000)),
        (("0.0.0.0", 0), range(20000, 29999), [29999]),
        (8006, (), [8006]),
        (8006, {8006}, range(20000, 30000)),
        ("8006-8008", (), [8006]),
        ("8006-8008", {8006, 8007}, [8008]),
        (("10.0.0.1", "8006-8008"), {8006, 8007, 8008}, [None]),
        (0, range(20000, 30000), [None]),
    ],
)
def test_a_host_is_published_at_a_port_that_is_free(place: Any, taken: Any, ports: Any) -> None:
    assert choose_port(DockerOptions(network="team", ports={6006: place}), taken) in ports


@pytest.mark.parametrize("there", ["~/.config/gcloud", "/root/.config/gcloud:rw", "/home/ada/.aws"])
def test_settings_in_a_home_are_seen_in_the_containers_home(
    there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    found = made(volumes={"~/.x": there})
    assert {each["Source"] for each in found["mounts"]} == {"/home/me/.x"}
    targets = [each["Target"] for each in found["mounts"]]
    place = there.removesuffix(":rw")
    seen = f"{found['environment']['HOME']}/{place[place.index('/.') + 1 :]}"
    assert targets == ([seen] if there.startswith("~") else [place, seen])
    # Log directories below a home stay where they are.
    (mount,) = made(volumes={"/home/ada/runs": "/home/ada/runs"})["mounts"]
    assert mount["Target"] == "/home/ada/runs"


@pytest.mark.parametrize(
    ("state", "limit", "reason"),
    [
        ({"ExitCode": 0}, 0, "with exit code 0"),
        ({"ExitCode": 143}, 1 << 30, "by signal SIGTERM (exit code 143)"),
        (
            {"ExitCode": 137, "OOMKilled": True},
            2 << 30,
            "because it ran out of its memory limit of 2 GB",
        ),
        ({"ExitCode": 137}, 0, "by signal SIGKILL (exit code 137)"),
        (
            {"ExitCode": 137},
            1 << 30,
            "by signal SIGKILL (exit code 137), likely because it ran out of its memory limit of "
            "1 GB",
        ),
        (
            {"ExitCode": 127, "Error": "python3: not found"},
            0,
            "because its container failed: python3: not found",
        ),
        ({"Status": "dead"}, 0, "as its container is dead"),
    ],
)
def test_how_a_container_ended_is_said(state: dict[str, Any], limit: int, reason: str) -> None:
    cause = Cause.OUT_OF_MEMORY if state.get("OOMKilled") else Cause.CRASH
    if state.get("ExitCode") == 143:
        cause = Cause.TERMINATED
    assert ending(state, limit) == Exited(state.get("ExitCode"), reason, cause)


@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30))
def test_names_are_ones_that_engines_take(hub: str, host: str) -> None:
    assert set(name(hub, host)) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [("512m", 512 << 20), ("1.5g", 3 << 29), ("2 GiB", 2 << 30), ("2Gi", 2 << 30), (4096, 4096)],
)
def test_sizes_are_read_as_people_write_them(text: str | int, size: int) -> None:
    assert as_bytes(text) == size


@given(st.integers(min_value=1, max_value=1 << 50))
def test_a_size_that_is_written_can_be_read_again(size: int) -> None:
    assert as_bytes(as_size(size).replace(" bytes", "")) == pytest.approx(size, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"image": ""}, "image"),
        ({"memory": "much"}, "512m or 2g"),
        ({"memory": "1m"}, "128 MB or more"),
        ({"cpus": -1}, "cpus"),
        ({"ports": {6006: 0}}, "name a network"),
        ({"ports": {1: 0, 2: 0}, "network": "team"}, "one port"),
        ({"ports": {1: "9-8"}, "network": "team"}, "not a port"),
        ({"ports": {1: ("0.0.0.0", 70000)}, "network": "team"}, "not a port"),
        ({"volumes": {"/runs": "runs"}}, "whole paths"),
        ({"volumes": {"./runs": "/runs"}}, "whole paths"),
        ({"labels": {HOST_LABEL: "mine"}}, "the launcher's own"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        DockerOptions(**options)
