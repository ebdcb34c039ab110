"""The documented launch scripts of XManager and PAI, with a real hub and real boards.

XManager itself is stood in for by classes of the same shape: `support/xmanager_double`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.conftest import no_environment
from support import seaweedfs as weed
from support.buckets import fresh_name
from support.hub import HubProcess, eventually
from support.seaweedfs import SeaweedFS, seaweedfs
from support.vertex_server import VertexServer, vertex_server
from tbhub import SummaryWriter

__all__ = ["no_environment", "seaweedfs", "vertex_server"]
EXAMPLES = Path(__file__).parents[2] / "examples"
DOUBLE = Path(__file__).parents[1] / "support" / "xmanager_double"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubProcess]:
    with HubProcess(tmp_path / "hub", cache_dir=tmp_path / "cache") as running:
        yield running


@pytest.fixture
def known(environment: dict[str, str], hub: HubProcess, tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has XManager and a hub."""
    return {
        **environment,
        "TBHUB_URL": hub.url,
        "TBHUB_TOKEN": hub.token,
        "PYTHONPATH": str(DOUBLE),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }


def launch(
    example: str, *flags: str, env: dict[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / f"{example}.py"), *flags]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def board_at(hub: HubProcess, url: str) -> dict[str, Any]:
    boards = hub.json("GET", "/api/v1/boards")["boards"]
    (found,) = (each for each in boards if each["url"] == url)
    return dict(found)


def shows(hub: HubProcess, url: str, *runs: str) -> bool:
    """Whether TensorBoard itself lists runs that end so."""
    listed = hub.ask("GET", f"/boards/{board_at(hub, url)['id'][:8]}/data/runs").json()
    return all(any(name.endswith(run) for name in listed) for run in runs)


def test_xmanagers_example_of_a_local_container(
    hub: HubProcess, known: dict[str, str], tmp_path: Path
) -> None:
    done = launch(
        "xmanager_local",
        f"--tensorboard_log_dir={tmp_path / 'logs'}",
        "--tensorboard_timeout_secs=3600",
        env=known,
        cwd=tmp_path,
    )
    assert "docker_options.ports, docker_options.volumes of Local" in done.stderr
    (url,) = done.stdout.split()
    eventually(lambda: shows(hub, url, "0", "1"))
    board = board_at(hub, url)
    assert (board["name"], board["max_runtime"]) == ("7 logs", 3600)


def test_xmanagers_example_on_kubernetes(
    hub: HubProcess, known: dict[str, str], tmp_path: Path
) -> None:
    flag = f"--tensorboard_log_dir={tmp_path / 'logs'}"
    done = launch("xmanager_kubernetes", flag, env=known, cwd=tmp_path)
    assert "by its launcher local, not by kubernetes" in done.stderr
    (url,) = done.stdout.split()
    eventually(lambda: shows(hub, url, "0", "1"))


def test_xmanagers_example_on_vertex(
    hub: HubProcess, known: dict[str, str], vertex_server: VertexServer, tmp_path: Path
) -> None:
    vertex = {
        "TBHUB_VERTEX_EMULATOR": vertex_server.address,
        "GOOGLE_CLOUD_PROJECT": "team",
        "GOOGLE_CLOUD_BUCKET_NAME": str(tmp_path / "bucket"),
    }
    done = launch("xmanager_vertex", env={**known, **vertex}, cwd=tmp_path)
    (url,) = done.stdout.split()
    eventually(lambda: shows(hub, url, "0/logs", "1/logs"))
    assert board_at(hub, url)["name"] == "cifar10"
    (managed,) = vertex_server.tensorboards.values()
    assert managed.display_name == "cifar10"


def test_a_launch_script_goes_on_without_a_hub(environment: dict[str, str], tmp_path: Path) -> None:
    alone = {**environment, "PYTHONPATH": str(DOUBLE), "TBHUB_URL": "http://127.0.0.1:9"}
    flag = f"--tensorboard_log_dir={tmp_path / 'logs'}"
    done = launch("xmanager_kubernetes", flag, env=alone, cwd=tmp_path)
    assert "goes on without a TensorBoard" in done.stderr
    assert len(list((tmp_path / "logs").rglob("*tfevents*"))) == 2


@pytest.mark.frameworks
def test_pais_example_of_a_job(hub: HubProcess, known: dict[str, str], tmp_path: Path) -> None:
    done = launch("pai_job", env=known, cwd=tmp_path)
    url, said = done.stdout.splitlines()
    assert url.startswith(hub.url)
    assert said == "job 1 is finished"
    found = hub.json("GET", "/api/v1/runs/1")
    assert (found["experiment"], found["status"]) == ("pai", "finished")
    assert hub.json("GET", "/api/v1/boards")["boards"] == []  # the example has deleted it


@pytest.fixture
def oss(
    seaweedfs: SeaweedFS, no_environment: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> dict[str, str]:
    """A store as OSS is found by whoever runs the hub; requested before the hub is started."""
    said = {
        "TBHUB_SPOOL_DIR": str(tmp_path / "spool"),
        "OSS_ENDPOINT": f"http://{weed.DOMAIN}",
        "OSS_ACCESS_KEY_ID": "everything",
        "OSS_ACCESS_KEY_SECRET": weed.SECRET,
    }
    for name, value in (("HTTP_PROXY", seaweedfs.url), ("NO_PROXY", "127.0.0.1")):
        said |= {name: value, name.lower(): value}
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    return said


def test_pais_example_over_logs_in_oss_with_their_region(
    oss: dict[str, str], hub: HubProcess, known: dict[str, str], tmp_path: Path
) -> None:
    uri = f"oss://{weed.BUCKET}.oss-cn-hangzhou.aliyuncs.com/{fresh_name()}"
    with SummaryWriter(f"{uri}/job1") as writer:
        writer.add_scalar("loss", 0.1, 1)
    url, is_running = launch("pai_job", f"{uri}/", env=known, cwd=tmp_path).stdout.splitlines()
    assert is_running == "True"
    eventually(lambda: shows(hub, url, "job1"))
