"""A hub outside of a real cluster, and what becomes of its boards when the cluster is hurt."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lightkube.resources.core_v1 import Node, Pod, Secret

from support.hub import HubProcess, eventually
from support.kubernetes_cluster import NAMESPACE, NODE, OwnCluster, labels_of
from support.kubernetes_hub import kubernetes_engine
from support.launcher_contract import UP, Engine, shown
from tbhub import SummaryWriter
from tbhub.launchers.base import Running
from tbhub.launchers.kubernetes_manifests import Kubernetes, children, deployment

pytestmark = pytest.mark.kubernetes
_AWAY_SECONDS = 60
_CLEARED_SECONDS = 200.0  # a kubelet looks again by the minute


@pytest.fixture
def engine(own_cluster: OwnCluster, tmp_path: Path) -> Iterator[Engine]:
    with SummaryWriter(tmp_path / "runs" / "exp" / "a") as writer:
        writer.add_scalars_batch("loss", [3.0, 2.0, 1.0])
    with kubernetes_engine(own_cluster, tmp_path) as engine:
        yield engine


@pytest.fixture
def hub(engine: Engine, tmp_path: Path) -> Iterator[HubProcess]:
    with engine.hub(tmp_path / "home") as hub:
        hub.wait_for_runs(1)
        yield hub
    eventually(lambda: not engine.there(tmp_path / "home"), "a host is left")


@pytest.fixture
def cordon(own_cluster: OwnCluster) -> Iterator[Callable[[bool], None]]:
    """Says whether the only node takes no more pods."""

    def set_to(closed: bool) -> None:
        own_cluster.client.patch(Node, NODE, {"spec": {"unschedulable": closed}})

    yield set_to
    set_to(False)


def messages(hub: HubProcess, board: str) -> str:
    """All that a board has been told."""
    lines = hub.json("GET", f"/api/v1/boards/{board}/logs")["lines"]
    return "\n".join(each["text"] for each in lines)


def settled_board(engine: Engine, hub: HubProcess) -> dict[str, Any]:
    """A board whose host the cluster knows to run, too: what has just begun is slow to go."""
    board = hub.create_board(runs="all")
    details = engine.there(hub.home)[board["host"]]
    eventually(lambda: engine.poll(hub.home, details) == Running())
    return board


def test_boards_of_a_drained_node_wait_for_another(
    own_cluster: OwnCluster, engine: Engine, hub: HubProcess, cordon: Callable[[bool], None]
) -> None:
    board = settled_board(engine, hub)
    labels = labels_of(engine.there(hub.home)[board["host"]])
    chosen = ",".join(f"{name}={value}" for name, value in labels.items())
    own_cluster.kubectl("drain", NODE, "--delete-emptydir-data", f"--pod-selector={chosen}")

    def waits() -> bool:
        return "its pod waits for a node" in messages(hub, board["id"])

    eventually(waits, "nobody is told that there is no node")
    assert "unschedulable" in messages(hub, board["id"])
    cordon(False)
    again = hub.wait_for(board["id"], *UP)
    assert (again["id"], again["url"]) == (board["id"], board["url"])
    assert again["host"] != board["host"]
    eventually(lambda: shown(hub, board) == ["a"])


def test_boards_of_a_pod_that_is_deleted_go_to_another(
    own_cluster: OwnCluster, engine: Engine, hub: HubProcess
) -> None:
    board = settled_board(engine, hub)
    pod = own_cluster.pod_of(engine.there(hub.home)[board["host"]])
    own_cluster.client.delete(Pod, pod["metadata"]["name"])

    def has_moved() -> bool:
        found = hub.json("GET", f"/api/v1/boards/{board['id']}")
        return found["host"] not in (None, board["host"]) and found["state"] in UP

    eventually(has_moved, "it has not moved")
    eventually(lambda: shown(hub, board) == ["a"])


def test_an_image_that_is_missing_is_told_to_who_waits(
    own_cluster: OwnCluster, tmp_path: Path
) -> None:
    with SummaryWriter(tmp_path / "runs" / "a") as writer:
        writer.add_scalar("loss", 1.0, 0)
    missing = "localhost/no-such-image:1"
    with (
        kubernetes_engine(own_cluster, tmp_path, image=missing) as engine,
        engine.hub(tmp_path / "home") as hub,
    ):
        hub.wait_for_runs(1)
        board = hub.json("POST", "/api/v1/boards", json={"runs": "all"})
        failed = hub.wait_for(board["id"], "FAILED")
        assert failed["reason"] == "START_FAILED"
        assert f"because its image {missing} cannot be had" in failed["message"]
        hub.stop()
        eventually(lambda: not engine.there(tmp_path / "home"), "a host is left")


def test_boards_stay_up_while_the_api_server_is_away(
    own_cluster: OwnCluster, engine: Engine, hub: HubProcess
) -> None:
    board = settled_board(engine, hub)
    own_cluster.stop_api()
    try:
        waiting = hub.json("POST", "/api/v1/boards", json={"runs": "all"})
        until = time.monotonic() + _AWAY_SECONDS
        while time.monotonic() < until:
            assert shown(hub, board) == ["a"]
            assert hub.json("GET", f"/api/v1/boards/{board['id']}")["state"] in UP
            time.sleep(1)
        # What was asked meanwhile waits, or has been told why not.
        later = hub.json("GET", f"/api/v1/boards/{waiting['id']}")
        assert later["state"] not in UP
    finally:
        own_cluster.start_api()
        own_cluster.wait_for_api()
    same = hub.wait_for(board["id"], *UP)
    assert same["host"] == board["host"]
    assert shown(hub, board) == ["a"]
    # News come again: the watch has begun anew, for the server knows of no older versions.
    pod = own_cluster.pod_of(engine.there(hub.home)[board["host"]])
    own_cluster.client.delete(Pod, pod["metadata"]["name"])
    eventually(lambda: hub.json("GET", f"/api/v1/boards/{board['id']}")["host"] != board["host"])
    hub.wait_for(board["id"], *UP)


def test_a_hub_that_is_started_while_the_api_server_is_away_finds_its_boards(
    own_cluster: OwnCluster, hub: HubProcess
) -> None:
    board = hub.create_board(runs="all")
    hub.kill()
    own_cluster.stop_api()
    try:
        hub.restart()
        eventually(lambda: shown(hub, board) == ["a"])
    finally:
        own_cluster.start_api()
        own_cluster.wait_for_api()
    assert hub.wait_for(board["id"], *UP)["host"] == board["host"]


def test_how_long_a_board_takes_and_how_long_its_pod(
    own_cluster: OwnCluster,
    engine: Engine,
    hub: HubProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pods, boards = [], []
    for _ in range(5):
        until_at_rest(own_cluster)
        pods.append(seconds_of_a_pod(own_cluster, Kubernetes(**engine.options)))
        until_at_rest(own_cluster)
        begun = time.monotonic()
        board = hub.create_board(runs="all")
        boards.append(time.monotonic() - begun)
        hub.json("POST", f"/api/v1/boards/{board['id']}/kill")
    pod, up = sorted(pods)[2], sorted(boards)[2]
    with capsys.disabled():
        print(
            f"\na pod's first word {pod:.2f} s, a board RUNNING {up:.2f} s: {up - pod:.2f} s more"
        )
        print("pods", *(f"{each:.2f}" for each in pods))
        print("boards", *(f"{each:.2f}" for each in boards))


def until_at_rest(cluster: OwnCluster) -> None:
    """Waits until the node has cleared up: who starts meanwhile is held up by it."""
    deadline = time.monotonic() + _CLEARED_SECONDS
    while list(cluster.client.list(Pod)):
        assert time.monotonic() < deadline, "a pod is left"
        time.sleep(0.1)


def seconds_of_a_pod(cluster: OwnCluster, options: Kubernetes) -> float:
    """From asking for a host's pod, with a shell in its place, until that says a word."""
    with socket.create_server((cluster.outside, 0)) as server:
        port = server.getsockname()[1]
        made = deployment(options, "word", str(port), {}, NAMESPACE)
        pod = made["spec"]["template"]["spec"]
        speak = f"exec 3<>/dev/tcp/{cluster.outside}/{port}; sleep 600"
        pod["containers"][0]["command"] = ["/usr/bin/bash", "-c", speak]
        # With 0 it would be gone from the list before the node had cleared it up.
        pod["terminationGracePeriodSeconds"] = 1
        token = {"TBHUB_HOST_TOKEN": "a word"}
        secret = children(options, "word", str(port), token, NAMESPACE, "")[0]
        del secret["metadata"]["ownerReferences"]
        cluster.create(secret)
        here = {"name": made["metadata"]["name"], "namespace": NAMESPACE}
        begun = time.monotonic()
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": here, "spec": pod})
        server.settimeout(60)
        server.accept()[0].close()
        took = time.monotonic() - begun
    cluster.client.delete(Pod, here["name"])
    cluster.client.delete(Secret, here["name"])
    return took
