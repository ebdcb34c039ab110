"""What a cluster is asked, in which order, and what becomes of it when the cluster fails.

Over the client library's own transport against a double of the API; a real cluster is asked by
``make test-kubernetes``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.conducted import PATIENCE, running
from support.kubernetes_api import KubernetesApi
from tbhub.launchers import kubernetes
from tbhub.launchers.base import Details, Exited, LaunchError, Running, Site, Starting, Status
from tbhub.launchers.kubernetes import KubernetesLauncher
from tbhub.launchers.kubernetes_manifests import Kubernetes

HUB = "0123456789ab"
HERE = "tbhub-0123456789ab-kubernetes-1"
TOLD = {"TBHUB_HOST_TOKEN": "hidden", "TBHUB_HUB_URL": "http://tbhub:6060"}
UP = {
    "phase": "Running",
    "containerStatuses": [
        {
            "name": "host",
            "image": "tbhub",
            "imageID": "sha256:1",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {}},
        }
    ],
}


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Says where the cluster is."""

    def write(url: str) -> None:
        path = tmp_path / "config"
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
            f"clusters: [{{name: here, cluster: {{server: '{url}'}}}}]\n"
            "contexts: [{name: here, context: {cluster: here, user: me, namespace: boards}}]\n"
            "users: [{name: me, user: {token: t}}]\n"
        )
        monkeypatch.setenv("KUBECONFIG", str(path))

    return write


@asynccontextmanager
async def cluster(
    kubeconfig: Callable[[str], None], **options: Any
) -> AsyncIterator[tuple[KubernetesApi, KubernetesLauncher]]:
    api = KubernetesApi()
    await api.start()
    kubeconfig(api.url)
    launcher = KubernetesLauncher.make(Site(HUB, Path("/")), Kubernetes(**options))
    try:
        yield api, launcher
    finally:
        await launcher.close()
        await api.close()


async def until(launcher: KubernetesLauncher, details: Details, expected: Status) -> None:
    """Waits until a host is known to be so."""
    found: object = None
    try:
        async with asyncio.timeout(PATIENCE):
            while found != expected:
                try:
                    found = await launcher.poll(details)
                except LaunchError as error:
                    found = error
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"it is {found}") from None


async def until_lost(launcher: KubernetesLauncher, details: Details) -> None:
    """Waits until nothing is known of a host."""
    async with asyncio.timeout(PATIENCE):
        with suppress(LaunchError):
            while await launcher.poll(details):
                await asyncio.sleep(0.01)


@running
async def test_a_host_comes_with_all_it_owns_and_goes_with_it(
    kubeconfig: Callable[[str], None],
) -> None:
    async with cluster(kubeconfig) as (api, launcher):
        details = await launcher.start("kubernetes-1", TOLD)
        assert details == {"host": "kubernetes-1", "deployment": HERE, "namespace": "boards"}
        assert {kind for kind, _ in api.objects} == {
            "deployments",
            "secrets",
            "services",
            "networkpolicies",
        }
        host = api.one("deployments")
        assert host["spec"]["replicas"] == 1
        assert await launcher.find() == {"kubernetes-1": details}
        assert await launcher.poll(details) == Starting("its pod is being made")

        await api.put_pod("p1", host, **UP)
        await until(launcher, details, Running())
        api.logs["p1"] = "one\ntwo\nthree\n"
        assert await launcher.logs(details, 2) == ["two", "three"]

        await launcher.stop(details)
        assert api.objects == {}
        await launcher.stop(details)  # which is no matter
        assert await launcher.find() == {}
        assert isinstance(await launcher.poll(details), Exited)
        assert await launcher.logs(details, 1) == ["three"]  # who deleted it remembers


@running
async def test_a_host_has_ended_with_its_processes_whatever_is_left_to_clear_up(
    kubeconfig: Callable[[str], None],
) -> None:
    async with cluster(kubeconfig) as (api, launcher):
        details = await launcher.start("kubernetes-1", TOLD)
        host = api.one("deployments")
        await api.put_pod("p1", host, **UP)
        await until(launcher, details, Running())
        api.lingers = True
        stopping = asyncio.create_task(launcher.stop(details))
        await api.put_pod("p1", host, leaves=True, **UP)
        await asyncio.sleep(0.3)
        assert not stopping.done()
        await api.put_pod("p1", host, leaves=True, phase="Succeeded")
        await stopping
        assert ("pods", "p1") in api.objects
        assert await launcher.find() == {}
        # Another by the same name waits until the old one has given it up.
        starting = asyncio.create_task(launcher.start("kubernetes-1", TOLD))
        await asyncio.sleep(0.3)
        assert not starting.done()
        await api.delete("deployments", HERE)
        assert await starting == details


@running
async def test_a_name_that_another_has_is_an_error(kubeconfig: Callable[[str], None]) -> None:
    async with cluster(kubeconfig) as (_, launcher):
        await launcher.start("kubernetes-1", TOLD)
        with pytest.raises(LaunchError, match=r"the cluster refuses \(409\)"):
            await launcher.start("kubernetes-1", TOLD)


@running
async def test_asking_often_asks_the_cluster_once(kubeconfig: Callable[[str], None]) -> None:
    async with cluster(kubeconfig) as (api, launcher):
        details = await launcher.start("kubernetes-1", TOLD)
        await api.put_pod("p1", api.one("deployments"), **UP)
        await until(launcher, details, Running())
        asked = api.asked.total()
        for _ in range(100):
            assert await launcher.poll(details) == Running()
        assert api.asked.total() == asked
        assert (api.asked["list pods"], api.asked["watch pods"]) == (1, 1)


def event(kind: str, reason: str, message: str, second: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"e{second}", "namespace": "boards"},
        "involvedObject": {"uid": "uid-p1"},
        "type": kind,
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-01-01T00:00:{second:02}Z",
    }


@running
async def test_what_the_cluster_warns_of_is_told_while_a_host_is_slow_to_start(
    kubeconfig: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "_EVENT_SECONDS", 0.05)
    async with cluster(kubeconfig) as (api, launcher):
        details = await launcher.start("kubernetes-1", TOLD)
        host = api.one("deployments")
        await api.put_pod("p1", host, phase="Pending")
        await until(launcher, details, Starting("its pod has been made"))
        api.events["uid-p1"] = [
            event("Warning", "FailedMount", 'secret "x" not found', 1),
            event("Warning", "FailedMount", 'volume "runs" is not there.', 3),
            event("Normal", "Scheduled", "on node-1", 4),
        ]
        told = 'its pod has been made: FailedMount: volume "runs" is not there'
        await until(launcher, details, Starting(told))
        api.refuse["list events"] = "events is forbidden"
        await until(launcher, details, Starting(told))  # what is known stays
        await api.put_pod("p1", host, **UP)
        await until(launcher, details, Running())
        asked = api.asked["list events"]
        assert await launcher.poll(details) == Running()
        assert api.asked["list events"] == asked


@running
async def test_a_dropped_watch_goes_on_where_it_was(kubeconfig: Callable[[str], None]) -> None:
    async with cluster(kubeconfig) as (api, launcher):
        details = await launcher.start("kubernetes-1", TOLD)
        host = api.one("deployments")
        await api.put_pod("p1", host, phase="Pending")
        await until(launcher, details, Starting("its pod has been made"))
        await api.drop_watches()
        await api.put_pod("p1", host, **UP)
        await until(launcher, details, Running())
        assert api.asked["list pods"] == 1
        assert api.asked["watch pods"] >= 2


@running
async def test_a_watch_that_is_too_old_begins_anew(kubeconfig: Callable[[str], None]) -> None:
    async with cluster(kubeconfig) as (api, launcher):
        details = await launcher.start("kubernetes-1", TOLD)
        host = api.one("deployments")
        await api.put_pod("p1", host, **UP)
        await until(launcher, details, Running())
        await api.drop_watches()
        # What happens now is seen in no watch: the pod goes, another comes.
        await api.delete("pods", "p1")
        await api.put_pod("p2", host, phase="Pending")
        api.forget()
        await until(launcher, details, Starting("its pod has been made"))
        assert api.asked["list pods"] == 2


@running
async def test_a_cluster_that_is_away_tells_nothing_and_is_back(
    kubeconfig: Callable[[str], None],
) -> None:
    async with cluster(kubeconfig) as (api, launcher):
        details = await launcher.start("kubernetes-1", TOLD)
        await api.put_pod("p1", api.one("deployments"), **UP)
        await until(launcher, details, Running())
        await api.close()
        await until_lost(launcher, details)
        with pytest.raises(LaunchError, match="the cluster cannot be reached"):
            await launcher.start("kubernetes-2", TOLD)
        await api.start()
        await until(launcher, details, Running())


@running
async def test_what_is_refused_is_said_and_leaves_nothing(
    kubeconfig: Callable[[str], None],
) -> None:
    async with cluster(kubeconfig) as (api, launcher):
        api.refuse["create services"] = "exceeded quota: team"
        with pytest.raises(LaunchError, match=r"the cluster refuses \(403\): exceeded quota: team"):
            await launcher.start("kubernetes-1", TOLD)
        assert api.objects == {}
        api.refuse = {"list pods": "pods is forbidden: User t cannot list"}
        details = await launcher.start("kubernetes-1", TOLD)
        with pytest.raises(LaunchError, match="pods is forbidden"):
            await launcher.poll(details)


@running
async def test_a_deployment_that_somebody_deleted_is_gone(
    kubeconfig: Callable[[str], None],
) -> None:
    async with cluster(kubeconfig) as (api, launcher):
        details = await launcher.start("kubernetes-1", TOLD)
        await api.put_pod("p1", api.one("deployments"), **UP)
        await until(launcher, details, Running())
        await api.delete("deployments", HERE)
        gone = Exited(None, "because its Deployment was deleted")
        await until(launcher, details, gone)
        assert api.objects == {}


@running
async def test_an_answer_that_is_not_understood_is_said_and_asked_for_again(
    kubeconfig: Callable[[str], None],
) -> None:
    async with cluster(kubeconfig) as (api, launcher):
        details = await launcher.start("kubernetes-1", TOLD)
        host = api.one("deployments")
        await api.put_pod("p1", host, phase="Pending")
        await until(launcher, details, Starting("its pod has been made"))
        await api.put_pod("p1", host, containerStatuses="none")
        await until_lost(launcher, details)
        await api.put_pod("p1", host, **UP)
        await until(launcher, details, Running())


@running
async def test_without_a_cluster_it_is_said_where_one_was_looked_for(
    kubeconfig: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    launcher = KubernetesLauncher.make(Site(HUB, tmp_path), Kubernetes())
    with pytest.raises(LaunchError, match="KUBECONFIG"):
        await launcher.start("kubernetes-1", TOLD)
