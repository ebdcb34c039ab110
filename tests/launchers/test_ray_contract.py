"""Actors of Ray keep the launchers' contract."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.hub import HubProcess, eventually
from support.launcher_contract import UP, Engine, LauncherContract, shown
from support.ray import RayCluster, RayEngine
from tbhub.hub.home import Home
from tbhub.launchers.base import Details
from tbhub.launchers.ray_options import actor_name

pytestmark = pytest.mark.ray


@pytest.fixture
def engine(ray_cluster: RayCluster, tmp_path: Path) -> Engine:
    def kill(details: Details) -> None:
        hub = Home.id_of(bytes.fromhex((tmp_path / "home" / "secret").read_text()))
        ray_cluster.tell("kill", actor_name(hub, details["host"]))

    options = {"address": ray_cluster.address, "num_cpus": 0.5}
    said = "its actor was killed (ray.kill)"
    verb = "was terminated"
    return RayEngine("ray", kill, said, options, verb=verb, link=ray_cluster.link)


def lines(hub: HubProcess, board: str) -> list[str]:
    """What a board's log says, as `tbhub start` prints it."""
    return [each["text"] for each in hub.json("GET", f"/api/v1/boards/{board}/logs")["lines"]]


class TestRay(LauncherContract):
    def test_boards_wait_for_a_node_and_go_on_on_another(
        self, ray_cluster: RayCluster, engine: Engine, home: Path
    ) -> None:
        options = json.dumps({**engine.options, "resources": {"data": 1}})
        with engine.hub(home, launcher_options=options, start_timeout=20) as hub:
            hub.wait_for_runs(1)
            board = hub.json("POST", "/api/v1/boards", json={"runs": "all"})
            eventually(
                lambda: any(
                    "1 data: none has that much" in each for each in lines(hub, board["id"])
                )
            )
            assert hub.json("GET", f"/api/v1/boards/{board['id']}")["state"] == "QUEUED"
            with ray_cluster.node(resources={"data": 1}) as node:
                before = hub.wait_for(board["id"], *UP)
                ray_cluster.tell("remove", node)
                eventually(
                    lambda: any("out of the cluster" in each for each in lines(hub, board["id"]))
                )
            with ray_cluster.node(resources={"data": 1}):
                after = hub.wait_for(board["id"], *UP)
                assert after["host"] != before["host"]
                assert after["url"] == before["url"]
                eventually(lambda: shown(hub, before) == ["a"])
                hub.stop()
