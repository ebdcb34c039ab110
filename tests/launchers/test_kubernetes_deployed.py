"""The hub's own manifests on a real cluster: it takes them, they suffice, and allow no more."""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from lightkube import ApiError
from lightkube.resources.authorization_v1 import SubjectAccessReview
from lightkube.resources.core_v1 import Namespace, PersistentVolume, Pod, Secret, ServiceAccount

from support.conducted import running
from support.hub import eventually
from support.kubernetes_cluster import Cluster, OwnCluster
from support.kubernetes_image import USER
from support.kubernetes_keys import kubeconfig
from support.kubernetes_names import Names
from support.podman import IMAGE, ROOT
from tbhub import SummaryWriter
from tbhub.launchers.base import Exited, Running, Site, Starting
from tbhub.launchers.kubernetes import KubernetesLauncher
from tbhub.launchers.kubernetes_manifests import Kubernetes

pytestmark = pytest.mark.kubernetes
DEPLOY = ROOT / "deploy" / "kubernetes"
ALLOWED = (
    "create apps deployments",
    "delete apps deployments",
    "get apps deployments",
    "list apps deployments",
    "patch apps deployments",
    "create - secrets",
    "create - services",
    "create networking.k8s.io networkpolicies",
    "list - pods",
    "watch - pods",
    "get - pods/log",
    "list - events",
)
FORBIDDEN = (
    "get - secrets",
    "list - secrets",
    "watch - secrets",
    "delete - secrets",
    "create - pods",
    "create - pods/exec",
    "create - pods/portforward",
    "delete - pods",
    "delete - services",
    "delete - persistentvolumeclaims",
    "get - configmaps",
    "deletecollection apps deployments",
    "create apps daemonsets",
    "create rbac.authorization.k8s.io rolebindings",
    "create - serviceaccounts/token",
    "impersonate - users",
    "list - nodes",
    "list - namespaces",
)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace with the hub's account and its rights."""
    name = f"tbhub-test-{secrets.token_hex(4)}"
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    cluster.kubectl("apply", f"--namespace={name}", f"--filename={DEPLOY / 'rbac.yaml'}")
    yield name
    cluster.client.delete(Namespace, name)


def may(cluster: Cluster, namespace: str, what: str, where: str = "") -> bool:
    """Whether the hub's account of a namespace may do something, there or elsewhere."""
    verb, group, resource = what.split()
    resource, _, subresource = resource.partition("/")
    attributes = {
        "namespace": where or namespace,
        "verb": verb,
        "group": "" if group == "-" else group,
        "resource": resource,
        "subresource": subresource,
    }
    user = f"system:serviceaccount:{namespace}:tbhub"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    spec = {"user": user, "groups": groups, "resourceAttributes": attributes}
    asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = cluster.client.create(SubjectAccessReview.from_dict(asked))
    assert answer.status is not None
    return bool(answer.status.allowed)


def test_the_hub_may_do_what_its_launcher_does_and_nothing_else(
    cluster: Cluster, namespace: str
) -> None:
    assert [each for each in ALLOWED if not may(cluster, namespace, each)] == []
    assert [each for each in FORBIDDEN if may(cluster, namespace, each)] == []
    assert [each for each in ALLOWED if may(cluster, namespace, each, "default")] == []


@running
async def test_a_host_lives_and_ends_by_the_rights_of_the_hub(
    own_cluster: OwnCluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = own_cluster.client.get(ServiceAccount, "tbhub", namespace=namespace)
    secret = own_cluster.client.get(Secret, account.secrets[0].name, namespace=namespace)
    token = base64.b64decode(secret.data["token"]).decode()
    config = tmp_path / "config"
    authority = own_cluster.keys["ca.crt"]
    kubeconfig(config, own_cluster.box.inside, authority, token, namespace)
    monkeypatch.setenv("KUBECONFIG", str(config))
    site = Site(secrets.token_hex(6), Path("/"))
    # It has no volumes here, so that its process cannot be: which is an end, too.
    launcher = KubernetesLauncher.make(site, Kubernetes(image=IMAGE, memory="128Mi"))
    try:
        details = await launcher.start("kubernetes-1", {"TBHUB_HOST_TOKEN": "once"})
        assert details["namespace"] == namespace
        assert isinstance(await launcher.poll(details), Starting | Running | Exited)
        assert await launcher.find() == {"kubernetes-1": details}
        await launcher.logs(details, 5)
        await launcher.stop(details)
        assert await launcher.find() == {}
    finally:
        await launcher.close()
    with pytest.raises(ApiError):
        own_cluster.client.get(Secret, details["deployment"], namespace=namespace)


@pytest.fixture
def deployment(own_cluster: OwnCluster) -> Iterator[str]:
    """The namespace of the manifests; at the end all of it is gone."""
    own_cluster.kubectl("apply", f"--filename={DEPLOY / 'namespace.yaml'}")
    yield "tbhub"
    own_cluster.kubectl("delete", "namespace", "tbhub")  # and waits
    for volume in own_cluster.client.list(PersistentVolume):
        if volume.spec.claimRef.namespace == "tbhub":
            own_cluster.client.delete(PersistentVolume, volume.metadata.name)


def test_the_server_takes_every_manifest(own_cluster: OwnCluster, deployment: str) -> None:
    said = own_cluster.kubectl("apply", "--dry-run=server", f"--kustomize={DEPLOY}")
    kinds = {line.partition("/")[0].partition(".")[0] for line in said.splitlines()}
    assert kinds == {
        "namespace",
        "serviceaccount",
        "role",
        "rolebinding",
        "configmap",
        "service",
        "persistentvolumeclaim",
        "deployment",
        "statefulset",
        "networkpolicy",
        "ingress",
    }


def test_a_hub_in_the_cluster_has_boards_in_pods_beside_it(
    own_cluster: OwnCluster, deployment: str, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    with SummaryWriter(tmp_path / "runs" / "exp" / "a") as writer:
        writer.add_scalars_batch("loss", [3.0, 2.0, 1.0])
    for place, owner in {"home": USER, "data": 999}.items():
        (tmp_path / place).mkdir()
        os.chown(tmp_path / place, owner, owner)
    claims = {**own_cluster.claims, "runs": str(tmp_path / "runs")}
    own_cluster.claim(deployment, claims)
    for name, place in {"tbhub": "home", "data-tbhub-postgresql-0": "data"}.items():
        own_cluster.offer(deployment, name, str(tmp_path / place), "50Gi")
    password = f"--from-literal=password={secrets.token_hex(12)}"
    in_it = f"--namespace={deployment}"
    own_cluster.kubectl("create", in_it, "secret", "generic", "tbhub-postgresql", password)
    (tmp_path / "overlay").mkdir()
    overlay = {**OVERLAY, "resources": [os.path.relpath(DEPLOY, tmp_path / "overlay")]}
    overlay["patches"] = [{"patch": yaml.safe_dump(each)} for each in patches(claims)]
    (tmp_path / "overlay" / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    with Names(own_cluster.kubeconfig, deployment, own_cluster.names):
        own_cluster.kubectl("apply", f"--kustomize={tmp_path / 'overlay'}")
        wait = ("wait", in_it, "--for=condition=Available", "--timeout=100s", "deployment/tbhub")
        try:
            own_cluster.kubectl(*wait)
        except AssertionError as error:
            said = own_cluster.kubectl("logs", in_it, "deployment/tbhub", "--tail=30")
            raise AssertionError(f"{error}: {said}") from None
        (hub,) = own_cluster.client.list(
            Pod, namespace=deployment, labels={"app.kubernetes.io/name": "tbhub"}
        )
        token = json.loads((tmp_path / "home" / "connection.json").read_bytes())["token"]
        with httpx2.Client(
            base_url=f"http://{hub.status.podIP}:6060",
            headers={"authorization": f"Bearer {token}"},
            timeout=60,
        ) as client:
            try:
                a_board_is_served(client)
            except AssertionError as error:
                said = own_cluster.kubectl("logs", in_it, "deployment/tbhub", "--tail=30")
                raise AssertionError(f"{error}: {said}") from None
            (host,) = own_cluster.client.list(
                Pod, namespace=deployment, labels={"app.kubernetes.io/name": "tbhub-host"}
            )
            assert host.spec.serviceAccountName == "default"


def a_board_is_served(client: httpx2.Client) -> None:
    """Makes a board of all runs, and looks at it by way of the hub."""
    eventually(lambda: client.get("/api/v1/runs").json()["runs"], "there are no runs")
    board = client.post("/api/v1/boards", json={"runs": "all"}).raise_for_status().json()
    path = f"/api/v1/boards/{board['id']}"
    eventually(lambda: client.get(path).json()["state"] == "RUNNING", "it does not run")
    its = client.get(path).json()["url"].partition("/boards/")[2]
    eventually(lambda: client.get(f"/boards/{its}data/runs").json() == ["a"])


# --- what has to be another way here: images that no registry has, and little room

OVERLAY: dict[str, Any] = {
    "apiVersion": "kustomize.config.k8s.io/v1beta1",
    "kind": "Kustomization",
    "namespace": "tbhub",
    "images": [
        {"name": name, "newName": IMAGE.partition(":")[0], "newTag": IMAGE.partition(":")[2]}
        for name in ("tbhub", "postgres")
    ],
}
_POSTGRESQL = """
set -e
cd /tmp
bin=$(echo /usr/lib/postgresql/*/bin)
if [ ! -e $PGDATA ]; then
  echo "$POSTGRES_PASSWORD" > /tmp/password
  $bin/initdb -D $PGDATA -U $POSTGRES_USER --pwfile=/tmp/password --encoding=UTF8 \
    --auth-local=trust --auth-host=scram-sha-256
  echo 'host all all all scram-sha-256' >> $PGDATA/pg_hba.conf
  echo "CREATE DATABASE $POSTGRES_DB" | $bin/postgres --single -D $PGDATA postgres
fi
exec $bin/postgres -D $PGDATA -c listen_addresses='*'
"""


def patches(claims: dict[str, str]) -> list[dict[str, Any]]:
    """Both run this machine's programs, which are mounted; hosts do, too."""
    options = {"image": IMAGE, "memory": "512Mi", "cpus": 0.05, "claims": claims}
    data = {
        "TBHUB_LAUNCHER_OPTIONS": json.dumps(options),
        "TBHUB_LOGDIRS": claims["runs"],
        "TBHUB_HOME": "/var/lib/tbhub",
    }
    volumes = [
        {"name": name, "persistentVolumeClaim": {"claimName": name, "readOnly": True}}
        for name in claims
    ]
    mounts = [
        {"name": name, "mountPath": place, "readOnly": True} for name, place in claims.items()
    ]
    less = {"requests": {"cpu": "50m"}}
    hub = {"name": "hub", "command": ["tbhub"], "volumeMounts": mounts, "resources": less}
    postgresql = {
        "name": "postgresql",
        "command": ["/usr/bin/bash", "-c", _POSTGRESQL],
        "volumeMounts": [*mounts, {"name": "socket", "mountPath": "/var/run/postgresql"}],
        "resources": less,
    }
    sockets = [*volumes, {"name": "socket", "emptyDir": {}}]
    return [
        _patch("v1", "ConfigMap", "tbhub", data=data),
        _patch("apps/v1", "Deployment", "tbhub", spec=_pod(hub, volumes)),
        _patch("apps/v1", "StatefulSet", "tbhub-postgresql", spec=_pod(postgresql, sockets)),
    ]


def _patch(version: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def _pod(container: dict[str, Any], volumes: list[dict[str, Any]]) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [container], "volumes": volumes}}}
