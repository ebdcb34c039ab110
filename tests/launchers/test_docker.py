"""Hosts as containers of a real engine: started, found again, ended, and what is left of them."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support import seaweedfs as weed
from support.buckets import Place, fresh_name, no_environment
from support.conducted import ADMIN, PATIENCE, Catalog, Conducted, log, running
from support.hub import HubProcess, eventually
from support.podman import IMAGE, Podman
from support.ports import free_port
from support.seaweedfs import SeaweedFS, seaweedfs
from tbhub.api.models import State
from tbhub.boards.life import Cause
from tbhub.database.engine import Database, open_database
from tbhub.hub import host_link
from tbhub.launchers import docker, docker_container
from tbhub.launchers.base import Details, Exited, LaunchError, Running, Site
from tbhub.launchers.docker import DockerLauncher
from tbhub.launchers.docker_container import DockerOptions
from tbhub.launchers.endings import exited

pytestmark = [
    pytest.mark.podman,
    # Docker's SDK forgets the socket by which it could not connect.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

__all__ = ["no_environment", "seaweedfs"]
HUB = "0123456789ab"
Make = Callable[..., DockerLauncher]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What was forgotten is found here, and not in the middle of another test."""
    yield
    gc.collect()


@pytest.fixture
def make(podman: Podman, tmp_path: Path) -> Iterator[Make]:
    """Launchers for the engine of the tests, which has nothing left when a test has ended."""

    every: list[DockerLauncher] = []

    def made(hub: str = HUB, **options: Any) -> DockerLauncher:
        volumes = {**podman.volumes, str(tmp_path): str(tmp_path)}
        given = {"image": IMAGE, "engine": podman.url, "volumes": volumes, **options}
        every.append(DockerLauncher(Site(hub, tmp_path / "hosts"), DockerOptions(**given)))
        return every[-1]

    yield made
    for each in every:
        asyncio.run(each.close())
    left = podman.run("ps", "--all", "--quiet")
    podman.run("rm", "--all", "--force", "--time", "0")
    assert left == ""
    assert podman.run("volume", "ls", "--quiet") == ""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that is run in the place of a host's; a test writes it."""
    monkeypatch.setattr(docker_container, "MODULE", "stand_in_host")
    monkeypatch.setattr(docker, "_STOP_SECONDS", 1)
    return tmp_path / "stand_in_host.py"


async def start(launcher: DockerLauncher, script: Path, host: str = "docker-1") -> Details:
    """A container in which the script of a test is run."""
    told = {"TBHUB_HOST_ID": host, "TBHUB_HOST_TOKEN": "hidden", "PYTHONPATH": str(script.parent)}
    return await launcher.start(host, told)


async def until_ended(launcher: DockerLauncher, details: Details) -> Exited:
    async with asyncio.timeout(PATIENCE):
        while not isinstance(status := await launcher.poll(details), Exited):
            await asyncio.sleep(0.02)
    return status


async def until_printed(launcher: DockerLauncher, details: Details, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while text not in await launcher.logs(details, 10):
            await asyncio.sleep(0.02)


@running
async def test_the_exit_code_and_the_last_lines_are_known(make: Make, script: Path) -> None:
    script.write_text("import sys\nfor n in range(9): print('line', n)\nsys.exit(7)")
    launcher = make()
    details = await start(launcher, script)
    assert await until_ended(launcher, details) == Exited(7, "with exit code 7")
    assert await launcher.logs(details, 2) == ["line 7", "line 8"]
    assert await launcher.logs(details, 0) == []
    # By another hub process, later.
    again = make()
    assert await again.poll(details) == Exited(7, "with exit code 7")
    await again.stop(details)
    assert await again.logs(details, 2) == ["line 7", "line 8"]  # who removed it remembers
    assert await make().logs(details, 2) == []


@running
async def test_a_host_gets_its_environment_and_no_secret_where_others_look(
    make: Make, script: Path, podman: Podman
) -> None:
    script.write_text(
        "import os, sys\n"
        "print(os.environ['TBHUB_HOST_TOKEN'], len(sys.argv), os.getcwd())\n"
        "print([l for l in open('/proc/self/status') if l.startswith('CapEff')][0].split()[1])"
    )
    launcher = make(labels={"team": "vision"}, memory="256m", cpus=0.5)
    details = await start(launcher, script)
    await until_ended(launcher, details)
    assert await launcher.logs(details, 9) == ["hidden 1 /", "0000000000000000"]
    assert "hidden" not in str(details)
    shown: Any = podman.inspect(details["container"])
    assert shown["Config"]["Labels"] == {
        "team": "vision",
        "tbhub.hub": HUB,
        "tbhub.host": "docker-1",
    }
    assert "hidden" not in json.dumps([shown["Config"]["Labels"], shown["Args"], shown["Path"]])
    assert shown["HostConfig"]["Memory"] == 256 << 20
    assert shown["HostConfig"]["NanoCpus"] == 500_000_000
    assert not any(each["RW"] for each in shown["Mounts"])
    await launcher.stop(details)


@running
async def test_stopping_asks_first_and_then_kills(make: Make, script: Path) -> None:
    launcher = make()
    polite = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))"
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    for host, line, code in (("docker-1", polite, 3), ("docker-2", stubborn, 137)):
        script.write_text(
            f"import signal, sys, time\n{line}\nprint('up', flush=True)\ntime.sleep(600)"
        )
        details = await start(launcher, script, host)
        await until_printed(launcher, details, "up")
        assert await launcher.poll(details) == Running()
        await launcher.stop(details)
        status = await launcher.poll(details)
        assert isinstance(status, Exited)
        assert status.code == code
        await launcher.stop(details)  # which is no matter
    assert await launcher.find() == {}


@running
async def test_a_host_may_be_stopped_by_several_at_once(make: Make, script: Path) -> None:
    script.write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        "print('up', flush=True)\ntime.sleep(600)"
    )
    launcher = make()
    details = await start(launcher, script)
    await until_printed(launcher, details, "up")
    await asyncio.gather(*(launcher.stop(details) for _ in range(4)))
    assert await launcher.poll(details) == Exited(3, "with exit code 3")
    assert await launcher.logs(details, 1) == ["up"]
    assert await launcher.find() == {}


@running
async def test_a_host_that_finds_no_hub_ends_when_it_is_asked(make: Make) -> None:
    launcher = make()
    told = {"TBHUB_HOST_ID": "docker-1", "TBHUB_HOST_TOKEN": "once"}
    details = await launcher.start("docker-1", {**told, "TBHUB_HUB_URL": "http://127.0.0.1:9"})
    async with asyncio.timeout(PATIENCE):
        while not any("cannot register" in line for line in await launcher.logs(details, 10)):
            await asyncio.sleep(0.02)
    await launcher.stop(details)
    assert await launcher.poll(details) == exited(143)


@running
async def test_a_host_that_takes_more_memory_than_it_may_is_said_to(
    make: Make, script: Path
) -> None:
    script.write_text("all = []\nwhile True: all.append(bytes([1]) * (8 << 20))")
    launcher = make(memory="128m")
    details = await start(launcher, script)
    status = await until_ended(launcher, details)
    assert status.code == 137
    assert status.reason.endswith("because it ran out of its memory limit of 128 MB")
    await launcher.stop(details)


@running
async def test_hosts_of_a_hub_are_found_and_those_of_another_are_not(
    make: Make, script: Path
) -> None:
    script.write_text("import time\nprint('up', flush=True)\ntime.sleep(600)")
    launcher, other = make(), make(hub="ffffffffffff")
    one = await start(launcher, script, "docker-1")
    two = await start(launcher, script, "docker-2")
    theirs = await start(other, script, "docker-1")
    again = make()
    assert await again.find() == {"docker-1": one, "docker-2": two}
    assert await other.find() == {"docker-1": theirs}
    assert await again.poll(one) == Running()
    for each in (one, two):
        await again.stop(each)
    assert await again.find() == {}
    assert await other.poll(theirs) == Running()
    await other.stop(theirs)


@running
async def test_a_container_that_was_removed_is_gone(
    make: Make, script: Path, podman: Podman
) -> None:
    script.write_text("import time\ntime.sleep(600)")
    launcher = make()
    details = await start(launcher, script)
    podman.run("rm", "--force", "--time", "0", details["container"])
    status = await until_ended(launcher, details)
    assert status == Exited(None, "when its container was removed", Cause.TERMINATED)
    await launcher.stop(details)


@running
async def test_an_image_that_is_missing_is_named(make: Make) -> None:
    with pytest.raises(LaunchError, match=r"no image localhost/none:1: build it \(`make image`\)"):
        await make(image="localhost/none:1", pull="never").start("docker-1", {})
    with pytest.raises(LaunchError, match=r"no image no-such-image and cannot pull it: "):
        await make(image="no-such-image").start("docker-1", {})


@running
async def test_what_the_engine_refuses_is_said_and_leaves_nothing(make: Make, script: Path) -> None:
    with pytest.raises(LaunchError, match="python3"):
        await start(make(volumes={}), script)  # an image without Python
    with pytest.raises(LaunchError, match="no-such-network"):
        await start(make(network="no-such-network"), script)


async def refusal(ask: Awaitable[object]) -> str:
    """What is said instead of an answer."""
    try:
        await ask
    except LaunchError as error:
        return str(error)
    raise AssertionError("it was answered")


@running
async def test_an_engine_that_is_away_tells_nothing(
    make: Make, script: Path, podman: Podman
) -> None:
    script.write_text("import time\ntime.sleep(600)")
    launcher = make()
    details = await start(launcher, script)
    podman.stop()
    try:
        for ask in (launcher.poll, launcher.stop):
            assert "podman.sock cannot be reached: No such file" in await refusal(ask(details))
        assert "cannot be reached" in await refusal(start(launcher, script, "docker-2"))
    finally:
        podman.start()
    assert await launcher.poll(details) == Running()
    await launcher.stop(details)


@running
async def test_a_hub_that_containers_cannot_reach_is_told_before(make: Make) -> None:
    told = {"TBHUB_HUB_URL": "http://127.0.0.1:6060"}
    with pytest.raises(LaunchError, match="in the network podman cannot reach the hub at"):
        await make(network="podman").start("docker-1", told)


# --- with boards


@pytest.fixture
def sqlite(tmp_path: Path, sqlite_template: Path) -> Iterator[Database]:
    """A hub's database."""
    path = tmp_path / "hub.db"
    path.write_bytes(sqlite_template.read_bytes())
    opened = open_database(f"sqlite:///{path}")
    yield opened
    opened.close()


def bridge_address(podman: Podman) -> str:
    """This machine's address in the engine's own network."""
    subnet = json.loads(podman.run("network", "inspect", "podman"))[0]["subnets"][0]
    return str(subnet["gateway"])


@pytest.mark.network
@pytest.mark.parametrize("ports", [{}, {6006: 0}], ids=["own-address", "published-port"])
@running
async def test_a_board_is_reached_in_the_engines_network(
    make: Make, sqlite: Database, tmp_path: Path, podman: Podman, ports: dict[int, int]
) -> None:
    Catalog(sqlite).run(log(tmp_path / "runs" / "one", 1.0, 2.0))
    launcher = make(network="podman", ports=ports)
    conducted = Conducted(sqlite, tmp_path / "home", launcher)
    conducted.address = bridge_address(podman)
    async with conducted:
        board = await conducted.create(ADMIN, runs="all")
        assert board.state == State.RUNNING
        assert len(await conducted.names(board.id)) == 1


@pytest.mark.network
@running
async def test_boards_with_a_fixed_port_leave_each_other_alone(
    make: Make, sqlite: Database, tmp_path: Path, podman: Podman
) -> None:
    Catalog(sqlite).run(log(tmp_path / "runs" / "one", 1.0, 2.0))
    port = free_port()
    launcher = make(network="podman", ports={6006: port})
    conducted = Conducted(sqlite, tmp_path / "home", launcher, host_linger=0)
    conducted.address = bridge_address(podman)
    async with conducted:
        boards = [await conducted.create(ADMIN, runs="all", name=name) for name in ("one", "two")]
        assert [board.state for board in boards] == [State.RUNNING, State.RUNNING]
        for board in boards:
            assert len(await conducted.names(board.id)) == 1
        published = podman.run("ps", "--format", "{{.Ports}}")
        assert f":{port}->" in published
        for board in boards:
            await conducted.conductor.kill(ADMIN, board.id)
        async with asyncio.timeout(PATIENCE):
            while podman.run("ps", "--all", "--quiet"):
                await asyncio.sleep(0.05)


@pytest.mark.network
@running
async def test_a_range_of_ports_is_kept_to(make: Make, script: Path) -> None:
    script.write_text("import time\ntime.sleep(600)")
    port = free_port()
    launcher = make(network="podman", ports={6006: f"{port}-{port}"})
    details = await start(launcher, script)
    with pytest.raises(LaunchError, match=f"every port of {port}-{port} is in use.*larger range"):
        await start(launcher, script, "docker-2")
    await launcher.stop(details)


@running
async def test_a_killed_boards_container_is_removed_though_it_does_not_answer(
    make: Make,
    sqlite: Database,
    tmp_path: Path,
    podman: Podman,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_link, "_QUICK", aiohttp.ClientTimeout(total=0.5))
    Catalog(sqlite).run(log(tmp_path / "runs" / "one", 1.0, 2.0))
    async with Conducted(sqlite, tmp_path / "home", make(), host_linger=0) as conducted:
        board = await conducted.create(ADMIN, runs="all")
        (container,) = podman.run("ps", "--quiet").split()
        podman.run("pause", container)
        await conducted.conductor.kill(ADMIN, board.id)
        async with asyncio.timeout(PATIENCE):
            while podman.run("ps", "--all", "--quiet"):
                await asyncio.sleep(0.05)
    said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len([each for each in said if "does not answer" in each]) <= 1, said


@running
async def test_settings_of_a_home_are_found_by_programs_in_a_container(
    make: Make, script: Path, tmp_path: Path, podman: Podman
) -> None:
    gcloud = tmp_path / "gcloud"
    gcloud.mkdir()
    (gcloud / "application_default_credentials.json").write_text("mine")
    script.write_text(
        "from pathlib import Path\n"
        "print(Path('~/.config/gcloud/application_default_credentials.json').expanduser()"
        ".read_text())"
    )
    volumes = {**podman.volumes, str(tmp_path): str(tmp_path)}
    launcher = make(volumes={**volumes, str(gcloud): "/root/.config/gcloud"})
    details = await start(launcher, script)
    await until_ended(launcher, details)
    assert await launcher.logs(details, 1) == ["mine"]
    await launcher.stop(details)


@pytest.fixture
def bucket(
    seaweedfs: SeaweedFS,
    tmp_path: Path,
    no_environment: None,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """The address of a run in a bucket, whose keys are in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "everything")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", weed.SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", seaweedfs.url)
    place = Place("s3", f"s3://{weed.BUCKET}/{fresh_name()}", {})
    log(tmp_path / "runs" / "one", 1.0, 2.0)
    place.upload(tmp_path / "runs")
    return place.uri


def start_hub(
    podman: Podman, home: Path, volumes: dict[str, str], **environment: str
) -> HubProcess:
    """A hub whose boards are containers."""
    options = {
        "image": IMAGE,
        "engine": podman.url,
        "volumes": {**podman.volumes, **volumes},
        "environment": environment,
    }
    return HubProcess(home, launcher="docker", launcher_options=json.dumps(options), host_linger=0)


def test_the_hubs_own_keys_reach_containers_unseen(
    podman: Podman, bucket: str, tmp_path: Path
) -> None:
    with start_hub(podman, tmp_path / "home", {"/etc/ssl": "/etc/ssl"}) as hub:
        board = hub.create_board(uris=[bucket])
        runs = eventually(lambda: hub.json("GET", f"/boards/{board['id'][:8]}/data/runs"))
        assert runs == ["one"]
        (container,) = podman.run("ps", "--quiet").split()
        assert weed.SECRET not in json.dumps(podman.inspect(container))
        hub.json("POST", f"/api/v1/boards/{board['id']}/kill")
        eventually(lambda: not podman.run("ps", "--all", "--quiet"))


def test_an_image_without_ca_certificates_is_told_so(
    podman: Podman, bucket: str, tmp_path: Path
) -> None:
    with start_hub(podman, tmp_path / "home", {}) as hub:
        board = hub.create_board(uris=[bucket])
        lines = f"/api/v1/boards/{board['id']}/logs"
        eventually(lambda: "install the package ca-certificates" in hub.ask("GET", lines).text)
        hub.json("POST", f"/api/v1/boards/{board['id']}/kill")
        eventually(lambda: not podman.run("ps", "--all", "--quiet"))


def test_an_image_whose_tensorboard_cannot_be_imported_fails_its_boards(
    podman: Podman, tmp_path: Path
) -> None:
    broken = tmp_path / "broken" / "tensorboard"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('libfoo.so.7 is missing')")
    volumes = {str(broken.parent): "/broken"}
    with start_hub(podman, tmp_path / "home", volumes, PYTHONPATH="/broken") as hub:
        board = hub.json("POST", "/api/v1/boards", json={"uris": [str(tmp_path)]})
        failed = hub.wait_for(board["id"], "FAILED")
        assert failed["reason"] == "START_FAILED"
        assert "libfoo.so.7 is missing" in failed["message"]
        eventually(lambda: not podman.run("ps", "--all", "--quiet"))
