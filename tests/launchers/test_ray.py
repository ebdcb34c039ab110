"""Hosts as actors of a real Ray: started, found again, ended, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.conducted import PATIENCE, running
from support.ray import RayCluster
from tbhub.boards.life import Cause
from tbhub.launchers import ray, ray_options
from tbhub.launchers.base import Details, Exited, LaunchError, Running, Site, Starting
from tbhub.launchers.endings import exited
from tbhub.launchers.ray import RayLauncher
from tbhub.launchers.ray_options import Ray, actor_name

pytestmark = pytest.mark.ray

HUB = "0123456789ab"
STAYS = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"
Make = Callable[..., RayLauncher]


@pytest.fixture
def make(ray_cluster: RayCluster, tmp_path: Path) -> Iterator[Make]:
    """Launchers for the cluster of the tests, which has nothing left when a test has ended."""

    def made(hub: str = HUB, **options: Any) -> RayLauncher:
        launcher = RayLauncher(Site(hub, tmp_path), Ray(address=ray_cluster.address, **options))
        launcher._link = ray_cluster.link
        return launcher

    yield made
    left = asyncio.run(ray_cluster.link.ask("find", prefix="tbhub-"))
    for name in left:
        ray_cluster.tell("kill", f"tbhub-{name}")
    assert left == {}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that is run in the place of a host's; a test writes it."""
    monkeypatch.setattr(ray_options, "MODULE", "stand_in_host")
    monkeypatch.setattr(ray, "_STOP_SECONDS", 1)
    return tmp_path / "stand_in_host.py"


async def start(launcher: RayLauncher, script: Path, host: str = "ray-1") -> Details:
    """An actor that runs the script of a test."""
    told = {"TBHUB_HOST_ID": host, "TBHUB_HOST_TOKEN": "hidden", "PYTHONPATH": str(script.parent)}
    return await launcher.start(host, told)


async def until_ended(launcher: RayLauncher, details: Details) -> Exited:
    """How it ended; while Ray cannot tell, nothing is concluded."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(LaunchError):
                if isinstance(status := await launcher.poll(details), Exited):
                    return status
            await asyncio.sleep(0.05)


async def until_printed(launcher: RayLauncher, details: Details, text: str = "up") -> None:
    async with asyncio.timeout(PATIENCE):
        while text not in await launcher.logs(details, 10):
            await asyncio.sleep(0.05)


async def until_let_in(launcher: RayLauncher) -> None:
    """Ray's proxy for clients now and then loses the process it starts for one: asked again."""
    async with asyncio.timeout(2 * PATIENCE):
        while True:
            with suppress(LaunchError):
                await launcher.find()
                return
            await asyncio.sleep(0.5)


async def until_waiting(launcher: RayLauncher, details: Details, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while text not in getattr(await launcher.poll(details), "text", ""):
            await asyncio.sleep(0.05)


def processes(script: Path) -> list[int]:
    """Those of hosts that run a script, with their actors' behind them."""
    found = []
    wanted = f"PYTHONPATH={script.parent}".encode()
    for each in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            if wanted in Path(f"/proc/{int(each)}/environ").read_bytes().split(b"\0"):
                found.append(int(each))
    return found


async def until_no_process(script: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        while processes(script):
            await asyncio.sleep(0.02)


@running
async def test_the_exit_code_and_the_last_lines_are_known(make: Make, script: Path) -> None:
    script.write_text("import sys\nfor n in range(9): print('line', n)\nsys.exit(7)")
    launcher = make()
    details = await start(launcher, script)
    assert await until_ended(launcher, details) == Exited(7, "with exit code 7")
    assert await launcher.logs(details, 2) == ["line 7", "line 8"]
    assert await make().find() == {"ray-1": details}  # for whoever wants to know
    await launcher.stop(details)
    assert await launcher.poll(details) == Exited(7, "with exit code 7")
    assert await launcher.logs(details, 1) == ["line 8"]
    assert await launcher.logs(details, 0) == []
    await launcher.stop(details)  # which is no matter


@running
async def test_stopping_asks_first_and_then_kills(make: Make, script: Path) -> None:
    launcher = make()
    polite = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))"
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    for host, line, code in (("ray-1", polite, 3), ("ray-2", stubborn, 137)):
        script.write_text(f"import signal, sys\n{line}\n{STAYS}")
        details = await start(launcher, script, host)
        await until_printed(launcher, details)
        assert await launcher.poll(details) == Running()
        await asyncio.gather(*(launcher.stop(details) for _ in range(3)))
        status = await launcher.poll(details)
        assert isinstance(status, Exited)
        assert status.code == code
    assert await launcher.find() == {}
    assert processes(script) == []


@running
async def test_hosts_of_a_hub_are_found_and_those_of_another_are_not(
    make: Make, script: Path
) -> None:
    script.write_text(STAYS)
    launcher, other = make(num_cpus=0.1), make(hub="ffffffffffff", num_cpus=0.1)
    mine = await start(launcher, script)
    theirs = await start(other, script)
    assert await make().find() == {"ray-1": mine}
    assert await other.find() == {"ray-1": theirs}
    with pytest.raises(LaunchError, match="is already taken"):
        await start(launcher, script)
    await launcher.stop({"host": "ray-1"})  # whose start was not answered
    assert await launcher.find() == {}
    assert isinstance(await launcher.poll(mine), Exited)
    await until_printed(other, theirs)
    assert await other.poll(theirs) == Running()
    await other.stop(theirs)


@running
async def test_an_actor_that_is_killed_takes_its_host_along(
    make: Make, script: Path, ray_cluster: RayCluster
) -> None:
    script.write_text(STAYS)
    launcher = make()
    details = await start(launcher, script, "ray-1")
    await until_printed(launcher, details)
    ray_cluster.tell("kill", actor_name(HUB, "ray-1"))
    killed = Exited(None, "because its actor was killed (ray.kill)", Cause.TERMINATED)
    assert await until_ended(launcher, details) == killed
    await until_no_process(script)
    assert await launcher.logs(details, 5) == ["up"]

    details = await start(launcher, script, "ray-2")
    await until_printed(launcher, details)
    (host,) = processes(script)
    parent = int(Path(f"/proc/{host}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    status = await until_ended(launcher, details)
    assert not status.taken
    assert status.reason == "because the process of its actor died (SYSTEM_ERROR)"
    await until_no_process(script)
    assert await launcher.logs(details, 5) == ["up"]
    await launcher.stop(details)


@running
async def test_who_waits_is_told_for_what(
    make: Make, script: Path, ray_cluster: RayCluster
) -> None:
    script.write_text(STAYS)
    launcher, elsewhere = make(resources={"data": 1}), make(label_selector={"zone": "!a"})
    waiting, far = await start(launcher, script), await start(elsewhere, script, "ray-2")
    assert isinstance(status := await launcher.poll(waiting), Starting)
    assert status.queued
    await until_waiting(launcher, waiting, "a node with 1 CPU, 1 data: none has that much")
    await until_waiting(elsewhere, far, "a node with the labels zone=!a: there is none")
    await launcher.stop(waiting)
    with ray_cluster.node(resources={"data": 1}, labels={"zone": "b"}):
        await until_printed(elsewhere, far)  # there is one now
        await elsewhere.stop(far)
        first = await start(launcher, script)
        await until_printed(launcher, first)
        second = await start(launcher, script, "ray-2")
        await until_waiting(launcher, second, "1 CPU, 1 data; those there are are in use")
        await launcher.stop(first)
        await until_printed(launcher, second)
        await launcher.stop(second)


@running
async def test_a_node_that_goes_has_taken_its_hosts(
    make: Make, script: Path, ray_cluster: RayCluster
) -> None:
    script.write_text(STAYS)
    launcher = make(resources={"data": 1})
    for how, reason in (
        ("drain", "because its node is drained"),
        ("remove", "because its node was taken out of the cluster"),
        ("lose", "because its node died"),
    ):
        with ray_cluster.node(resources={"data": 1}) as node:
            details = await start(launcher, script)
            await until_printed(launcher, details)
            ray_cluster.tell(how, node)
            status = await until_ended(launcher, details)
            assert (status.reason, status.taken) == (reason, True)
            await until_no_process(script)
            await launcher.stop(details)


@pytest.mark.parametrize("kind", ["client", "auto"])
@running
async def test_a_cluster_is_asked_from_outside_and_from_within(
    script: Path, ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(ray_cluster.directory))
    address = ray_cluster.client if kind == "client" else "auto"
    launcher = RayLauncher(Site(HUB, script.parent), Ray(address=address))
    script.write_text(STAYS)
    try:
        await until_let_in(launcher)
        details = await start(launcher, script)
        assert await launcher.find() == {"ray-1": details}
        await until_printed(launcher, details)
        assert await launcher.poll(details) == Running()
        await launcher.stop(details)
        assert await launcher.find() == {}
        assert await launcher.poll(details) == exited(143)
    finally:
        await launcher.close()


@running
async def test_the_process_that_talks_to_ray_is_started_again(
    script: Path, ray_cluster: RayCluster
) -> None:
    script.write_text(STAYS)
    launcher = RayLauncher(Site(HUB, script.parent), Ray(address=ray_cluster.address))
    try:
        details = await start(launcher, script)
        await until_printed(launcher, details)
        agent = launcher._link._agent
        assert agent is not None
        agent.kill()
        with suppress(LaunchError):
            await launcher.poll(details)
        assert await launcher.poll(details) == Running()
        await launcher.stop(details)
        assert processes(script) == []
    finally:
        await launcher.close()


@running
async def test_what_ray_does_not_take_is_told(make: Make, script: Path) -> None:
    nowhere = {"working_dir": "/no/such/directory"}
    with pytest.raises(LaunchError, match="/no/such/directory"):
        await start(make(runtime_env=nowhere), script)
