"""The launcher on a real cluster: ``make test-kubernetes``.

What is asked is what no double can answer: whether a cluster takes our manifests, runs them, tells
how they end, and has nothing left. The cluster is one that is started for it, or, with KUBECONFIG
and TBHUB_TEST_IMAGE, any other.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Namespace, Pod, Secret, Service
from lightkube.resources.networking_v1 import NetworkPolicy

from support.conducted import running
from support.kubernetes_cluster import Cluster, OwnCluster, labels_of
from support.podman import ROOT
from tbhub.launchers import kubernetes_manifests
from tbhub.launchers.base import Details, Exited, LaunchError, Running, Site, Starting, Status
from tbhub.launchers.kubernetes import KubernetesLauncher
from tbhub.launchers.kubernetes_manifests import Kubernetes

pytestmark = pytest.mark.kubernetes
HOST = "kubernetes-1"
# No hub is there: a host tries to register for as long as it is let.
TOLD = {
    "TBHUB_HOST_ID": HOST,
    "TBHUB_HUB_URL": "http://127.0.0.1:9",
    "TBHUB_HOST_TOKEN": "once",
}
_PATIENCE = 110


@asynccontextmanager
async def launched(
    cluster: Cluster, **options: Any
) -> AsyncIterator[tuple[KubernetesLauncher, Details]]:
    """A host that is started, and at the end gone."""
    given = {"memory": "256Mi", "hub_labels": {}, **cluster.options, **options}
    site = Site(secrets.token_hex(6), Path("/"))
    launcher = KubernetesLauncher.make(site, Kubernetes(**given))
    try:
        details = await launcher.start(HOST, TOLD)
        try:
            yield launcher, details
        finally:
            await launcher.stop(details)
            assert await launcher.find() == {}
    finally:
        await launcher.close()


async def until(
    launcher: KubernetesLauncher, details: Details, is_so: Callable[[Status], bool]
) -> Status:
    """How a host is, as soon as it is so."""
    status: Status | None = None
    try:
        async with asyncio.timeout(_PATIENCE):
            while not is_so(status := await launcher.poll(details)):
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"it is {status}") from None
    return status


def is_running(status: Status) -> bool:
    return status == Running()


def has_ended(status: Status) -> bool:
    return isinstance(status, Exited)


def is_queued(status: Status) -> bool:
    return isinstance(status, Starting) and status.queued


async def left(cluster: Cluster, namespace: str, labels: dict[str, Any]) -> list[object]:
    """What a cluster still has after a while: it clears away what has lost its owner by itself."""
    found: list[object] = []
    for _ in range(100):
        found = [
            each
            for kind in (Deployment, Pod, Secret, Service, NetworkPolicy)
            for each in cluster.client.list(kind, namespace=namespace, labels=labels)
        ]
        if not found:
            break
        await asyncio.sleep(0.2)
    return found


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of a test's own."""
    name = f"tbhub-test-{secrets.token_hex(4)}"
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    cluster.client.delete(Namespace, name)


@running
async def test_a_host_runs_is_found_and_leaves_nothing(cluster: Cluster) -> None:
    async with launched(cluster) as (launcher, details):
        await until(launcher, details, is_running)
        async with asyncio.timeout(_PATIENCE):
            while not any("cannot register" in each for each in await launcher.logs(details, 9)):
                await asyncio.sleep(0.2)
        assert await launcher.find() == {HOST: details}
    assert not await left(cluster, details["namespace"], labels_of(details))


@running
async def test_how_a_host_ended_is_known(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_manifests, "MODULE", "no_such_module")
    async with launched(cluster) as (launcher, details):
        assert await until(launcher, details, has_ended) == Exited(1, "with exit code 1")
        assert any("no_such_module" in each for each in await launcher.logs(details, 9))


@running
async def test_an_image_that_is_missing_is_named(cluster: Cluster) -> None:
    async with launched(cluster, image="localhost/no-such-image:1") as (launcher, details):
        ended = await until(launcher, details, has_ended)
        assert isinstance(ended, Exited)
        assert "localhost/no-such-image:1 cannot be had" in ended.reason


@running
async def test_a_host_that_no_node_can_have_waits_and_says_why(cluster: Cluster) -> None:
    async with launched(cluster, memory="900Gi") as (launcher, details):
        waits = await until(launcher, details, is_queued)
        assert isinstance(waits, Starting)
        assert waits.text.startswith("its pod waits for a node: 0/")
        assert "Insufficient memory" in waits.text


@running
async def test_a_quota_of_pods_makes_a_host_wait(cluster: Cluster, namespace: str) -> None:
    quota(cluster, namespace, pods="0")
    async with launched(cluster, namespace=namespace, claims={}) as (launcher, details):
        waits = await until(launcher, details, is_queued)
        assert isinstance(waits, Starting)
        assert waits.text.startswith("no pod can be made: ")
        assert "exceeded quota: team" in waits.text


@running
async def test_a_quota_of_all_else_is_an_error_that_leaves_nothing(
    cluster: Cluster, namespace: str
) -> None:
    quota(cluster, namespace, services="0")
    with pytest.raises(LaunchError, match=r"the cluster refuses \(403\).*exceeded quota: team"):
        async with launched(cluster, namespace=namespace, claims={}):
            pass
    assert not await left(cluster, namespace, {"app.kubernetes.io/managed-by": "tbhub"})


@running
async def test_a_pod_that_somebody_deletes_is_taken(cluster: Cluster) -> None:
    async with launched(cluster) as (launcher, details):
        await until(launcher, details, is_running)
        cluster.client.delete(
            Pod, cluster.pod_of(details)["metadata"]["name"], namespace=details["namespace"]
        )
        ended = await until(launcher, details, has_ended)
        assert isinstance(ended, Exited)
        assert ended.taken
        assert ended.reason == "because its pod was deleted or its node drained"


@running
async def test_a_pod_that_is_evicted_is_taken(cluster: Cluster) -> None:
    async with launched(cluster) as (launcher, details):
        await until(launcher, details, is_running)
        evict(cluster, details)
        ended = await until(launcher, details, has_ended)
        assert isinstance(ended, Exited)
        assert ended.taken
        assert ended.reason == "because its pod was deleted or its node drained"


@running
async def test_a_host_that_takes_too_much_memory_says_how_much_it_had(
    own_cluster: OwnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_manifests, "MODULE", "support.hungry")
    found = {"PYTHONPATH": str(ROOT / "tests")}
    async with launched(own_cluster, memory="128Mi", environment=found) as (launcher, details):
        ended = await until(launcher, details, has_ended)
        assert ended == Exited(137, "because it ran out of its memory limit of 128Mi")


@running
async def test_a_watch_that_is_dropped_goes_on(
    own_cluster: OwnCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with passed_on(own_cluster, tmp_path / "config") as wire:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        async with launched(own_cluster) as (launcher, details):
            await until(launcher, details, is_running)
            wire.cut()
            own_cluster.client.delete(Pod, own_cluster.pod_of(details)["metadata"]["name"])
            async with asyncio.timeout(_PATIENCE):
                while not has_ended(await answered(launcher, details)):
                    await asyncio.sleep(0.05)
            assert wire.connections > 1


@running
async def test_credentials_that_are_not_good_any_more_are_named(
    own_cluster: OwnCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = Path(own_cluster.kubeconfig).read_text()
    token = text.rpartition("token: ")[2].strip()
    (tmp_path / "config").write_text(text.replace(token, "expired"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with pytest.raises(LaunchError, match=r"the cluster refuses \(401\): Unauthorized"):
        async with launched(own_cluster):
            pass


# --- what is done to a cluster


def quota(cluster: Cluster, namespace: str, **hard: str) -> None:
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "team", "namespace": namespace},
            "spec": {"hard": hard},
        }
    )


def evict(cluster: Cluster, details: Details) -> None:
    """Asks for a pod to go, as draining a node does."""
    pod = cluster.pod_of(details)["metadata"]["name"]
    # In the version that clusters of every age know.
    where = {"name": pod, "namespace": details["namespace"]}
    asked = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": where}
    path = f"/api/v1/namespaces/{details['namespace']}/pods/{pod}/eviction"
    cluster.kubectl("create", f"--raw={path}", "--filename=-", given=json.dumps(asked))


async def answered(launcher: KubernetesLauncher, details: Details) -> Status:
    """How a host is, once that is known."""
    while True:
        try:
            return await launcher.poll(details)
        except LaunchError:
            await asyncio.sleep(0.05)


class Wire:
    """What lies between a launcher and its cluster, and can be cut."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._open: set[asyncio.StreamWriter] = set()
        self.connections = 0

    def cut(self) -> None:
        for each in self._open:
            each.transport.abort()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there, back = await asyncio.open_connection(self._address, 6443)
        self._open |= {writer, back}
        await asyncio.gather(_pass(reader, back), _pass(there, writer))
        self._open -= {writer, back}


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def passed_on(cluster: OwnCluster, config: Path) -> AsyncIterator[Wire]:
    """A wire to the cluster; `config` becomes a kubeconfig that leads through it."""
    wire = Wire(cluster.box.inside)
    server = await asyncio.start_server(wire.connect, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    there = f"https://{cluster.box.inside}:6443"
    text = Path(cluster.kubeconfig).read_text()
    config.write_text(text.replace(there, f"https://127.0.0.1:{port}"))
    try:
        yield wire
    finally:
        server.close()
        wire.cut()
