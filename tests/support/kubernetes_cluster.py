"""A real Kubernetes of one node, from the programs that ``scripts/build-kubernetes`` has built.

etcd, the API server, the controllers, the scheduler, a kubelet on containerd, kube-proxy, and
dnsmasq for names, all in a box. Pods have addresses that this machine reaches, and reach this
machine; they see its programs and this environment, read-only, by volume claims. What others
have and it has not: a network that enforces policies, and registries.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from lightkube import ApiError, Client, KubeConfig
from lightkube.codecs import from_dict
from lightkube.resources.core_v1 import (
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ServiceAccount,
)

from support.kubernetes_box import CGROUPS, Box
from support.kubernetes_image import PAUSE, bare_image, pause_image, programs
from support.kubernetes_keys import Keys
from support.podman import IMAGE
from tbhub.launchers.base import Details
from tbhub.launchers.kubernetes_manifests import selector

NODE = "one"
NAMESPACE = "default"
_PATIENCE = 120.0
_LIMITS = {"memory.available": "64Mi", "nodefs.available": "1%", "imagefs.available": "1%"}


def labels_of(details: Details) -> dict[str, str]:
    """What everything of a host bears; hosts of other hubs have the same names."""
    hub = details["deployment"].removeprefix("tbhub-").partition("-")[0]
    return selector(hub, details["host"])


class Cluster:
    """A cluster, ours or another's.

    Attributes:
        kubeconfig: Who may do everything there.
        image: What its nodes have of the package.
        options: What the launcher has to be told for its hosts to run there.
    """

    image: str
    options: dict[str, Any]

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig
        self.client = Client(config=KubeConfig.from_file(kubeconfig), timeout=httpx2.Timeout(20))

    def create(self, manifest: dict[str, Any]) -> None:
        """Makes an object."""
        self.client.create(from_dict(manifest))

    def pod_of(self, details: Details) -> dict[str, Any]:
        """The only pod of a host."""
        where = details["namespace"]
        (found,) = self.client.list(Pod, namespace=where, labels={**labels_of(details)})
        return found.to_dict()

    def kubectl(self, *arguments: str, given: str = "") -> str:
        """What kubectl prints, with something to read."""
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={self.kubeconfig}", *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=2 * _PATIENCE,
        )
        assert done.returncode == 0, f"kubectl {arguments}: {done.stderr}"
        return done.stdout

    def close(self) -> None:
        """Leaves it."""
        self.client.close()


class OthersCluster(Cluster):
    """The cluster of KUBECONFIG, with an image that its nodes can have."""

    def __init__(self) -> None:
        super().__init__(os.environ["KUBECONFIG"])
        self.image = os.environ.get("TBHUB_TEST_IMAGE", "tbhub:latest")
        self.options = {"image": self.image}


class OwnCluster(Cluster):
    """A cluster that is started here, and can be hurt.

    Attributes:
        outside: The address of this machine, as pods have it.
    """

    def __init__(self, built: Path) -> None:
        self._bin = built.resolve() / "bin"
        self.directory = Path(tempfile.mkdtemp(prefix="tbhub-kubernetes-"))
        self.box = Box(self.directory)
        self.outside = self.box.outside
        try:
            self._start()
        except BaseException:
            self.box.close()
            raise

    def _start(self) -> None:
        first_service = self.box.services.replace(".0/24", ".1")
        self.keys = Keys.make(self.directory / "keys", self.box.inside, first_service, NODE)
        self._start_containerd()
        self.box.start(
            "etcd",
            "etcd",
            "--data-dir=/run/etcd",
            "--listen-client-urls=http://127.0.0.1:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
        )
        self.start_api()
        super().__init__(self.keys["admin.conf"])
        self._until(self._is_ready, "kube-apiserver")
        self._start_controllers()
        self._start_node()
        account = lambda: self._has(ServiceAccount, "default")  # noqa: E731
        self._until(account, "kube-controller-manager")
        self._until(self._node_is_ready, "kubelet")
        places = programs()
        self.claims = {f"programs-{number}": place for number, place in enumerate(places)}
        self.claim(NAMESPACE, self.claims)
        self.image = IMAGE
        self.options = {
            "image": IMAGE,
            "claims": self.claims,
            "address": "pod",
            "memory": "512Mi",
            "cpus": 0.05,
            "hub_labels": {},
        }

    # --- what is done to it

    def start_api(self) -> None:
        """Starts the API server, where it has been stopped."""
        services = self.box.services
        self.box.start(
            "kube-apiserver",
            str(self._bin / "kube-apiserver"),
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={self.box.inside}",
            f"--service-cluster-ip-range={services}",
            f"--tls-cert-file={self.keys['server.crt']}",
            f"--tls-private-key-file={self.keys['server.key']}",
            f"--client-ca-file={self.keys['ca.crt']}",
            f"--token-auth-file={self.keys['tokens']}",
            "--anonymous-auth=false",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.keys['accounts.key']}",
            f"--service-account-signing-key-file={self.keys['accounts.key']}",
            f"--kubelet-certificate-authority={self.keys['ca.crt']}",
            f"--kubelet-client-certificate={self.keys['server.crt']}",
            f"--kubelet-client-key={self.keys['server.key']}",
            "--kubelet-preferred-address-types=InternalIP",
        )

    def stop_api(self) -> None:
        """The API server is away; what runs goes on."""
        self.box.stop("kube-apiserver")

    def wait_for_api(self) -> None:
        """Waits until the API server answers again."""
        self._until(self._is_ready, "kube-apiserver")

    def processes_of(self, pod: dict[str, Any]) -> list[int]:
        """The processes of a pod's containers, as this machine numbers them."""
        uid = pod["metadata"]["uid"]
        found: list[int] = []
        for status in pod["status"].get("containerStatuses", ()):
            container = status.get("containerID", "").rpartition("/")[2]
            for path in (CGROUPS / "memory" / self.box.cgroup, CGROUPS / self.box.cgroup):
                for procs in path.glob(f"**/pod{uid}/{container}/cgroup.procs"):
                    found += [int(each) for each in procs.read_text().split()]
        return found

    @contextmanager
    def claimed(self, namespace: str, claims: dict[str, str]) -> Iterator[None]:
        """Claims, as `claim` makes them, for as long as they are needed."""
        self.claim(namespace, claims)
        try:
            yield
        finally:
            for name in claims:
                self.client.delete(PersistentVolumeClaim, name, namespace=namespace)
                self.client.delete(PersistentVolume, f"{namespace}-{name}")

    def claim(self, namespace: str, claims: dict[str, str], size: str = "1Gi") -> None:
        """Makes directories of this machine volumes, and claims them by name."""
        for name, place in claims.items():
            self.offer(namespace, name, place, size)
            self.create(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": name, "namespace": namespace},
                    "spec": {
                        "accessModes": ["ReadWriteMany"],
                        "storageClassName": "",
                        "resources": {"requests": {"storage": size}},
                    },
                }
            )

        def are_bound() -> bool:
            found = self.client.list(PersistentVolumeClaim, namespace=namespace)
            states = {each.metadata.name: each.status.phase for each in found}
            return all(states.get(name) == "Bound" for name in claims)

        self._until(are_bound, "a volume claim")

    def offer(self, namespace: str, claim: str, place: str, size: str) -> None:
        """Makes a directory of this machine a volume for a claim that comes by that name."""
        self.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"{namespace}-{claim}"},
                "spec": {
                    "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                    "capacity": {"storage": size},
                    "hostPath": {"path": place},
                    "claimRef": {"name": claim, "namespace": namespace},
                    "persistentVolumeReclaimPolicy": "Retain",
                },
            }
        )

    def close(self) -> None:
        """Ends it, with all that runs in it."""
        super().close()
        self.box.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # --- its parts

    def _start_containerd(self) -> None:
        config = _CONTAINERD.format(pause=PAUSE, directory=self.directory)
        (self.directory / "containerd.toml").write_text(config)
        networks = self.directory / "networks"
        networks.mkdir()
        (networks / "10-pods.conflist").write_text(_NETWORK.replace("PODS", self.box.pods))
        self.box.start(
            "containerd", "containerd", "--config", str(self.directory / "containerd.toml")
        )
        control = ("ctr", "--address=/run/containerd.sock", "--namespace=k8s.io", "images")
        self._until(lambda: _succeeds(lambda: self.box.run(*control, "list")), "containerd")
        bare_image(self.directory / "bare.tar")
        pause_image(self.directory / "pause.tar", self._bin / "pause")
        for name in ("bare", "pause"):
            self.box.run(*control, "import", str(self.directory / f"{name}.tar"))

    def _start_controllers(self) -> None:
        self.box.start(
            "kube-controller-manager",
            str(self._bin / "kube-controller-manager"),
            f"--kubeconfig={self.keys['controller-manager.conf']}",
            f"--service-account-private-key-file={self.keys['accounts.key']}",
            f"--root-ca-file={self.keys['ca.crt']}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
        )
        self.box.start(
            "kube-scheduler",
            str(self._bin / "kube-scheduler"),
            f"--kubeconfig={self.keys['scheduler.conf']}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
        )

    def _start_node(self) -> None:
        config = self.directory / "kubelet.yaml"
        config.write_text(yaml.safe_dump(self._kubelet()))
        (self.directory / "resolv.conf").write_text("")
        self.box.start(
            "kubelet",
            str(self._bin / "kubelet"),
            f"--config={config}",
            f"--kubeconfig={self.keys['kubelet.conf']}",
            "--container-runtime=remote",
            "--container-runtime-endpoint=unix:///run/containerd.sock",
            "--root-dir=/var/lib/kubelet",
            f"--hostname-override={NODE}",
            f"--node-ip={self.box.inside}",
        )
        self.box.start(
            "kube-proxy",
            str(self._bin / "kube-proxy"),
            f"--kubeconfig={self.keys['proxy.conf']}",
            f"--hostname-override={NODE}",
            f"--cluster-cidr={self.box.pods}",
            "--proxy-mode=iptables",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s",
        )
        self.names = self.directory / "names"
        self.names.mkdir()
        self.box.start(
            "dnsmasq",
            "dnsmasq",
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--user=root",
            "--no-resolv",
            "--no-hosts",
            "--local=/cluster.local/",  # what it does not know there is not
            f"--hostsdir={self.names}",
            f"--listen-address={self.box.inside}",
            "--bind-interfaces",
        )

    def _kubelet(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "x509": {"clientCAFile": self.keys["ca.crt"]},
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "tlsCertFile": self.keys["server.crt"],
            "tlsPrivateKeyFile": self.keys["server.key"],
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.box.cgroup}",
            "clusterDNS": [self.box.inside],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.directory / "resolv.conf"),
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "evictionHard": _LIMITS,
            "imageGCHighThresholdPercent": 100,
            # As newer kubelets have it by themselves; with 5 each volume claim is waited for.
            "kubeAPIQPS": 50,
            "kubeAPIBurst": 100,
            "volumePluginDir": "/var/lib/kubelet/plugins",
        }

    # --- how it is

    def _is_ready(self) -> bool:
        return _succeeds(lambda: self.client.get(Node, "none"), but=404)

    def _node_is_ready(self) -> bool:
        if not self._has(Node, NODE):
            return False
        node = self.client.get(Node, NODE).to_dict()
        conditions = node.get("status", {}).get("conditions", ())
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        return ready and not node.get("spec", {}).get("taints")

    def _has(self, kind: Any, name: str) -> bool:
        return _succeeds(lambda: self.client.get(kind, name))

    def _until(self, ask: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not ask():
            ended = [name for name, each in self.box.processes.items() if each.poll() is not None]
            if ended or time.monotonic() > deadline:
                said = "\n".join(self.last_words(each) for each in ended or [what])
                pytest.fail(f"{ended or what} did not start: {said}")
            time.sleep(0.1)

    def last_words(self, daemon: str) -> str:
        """What a daemon has said last."""
        path = self.directory / f"{daemon}.log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""


def _succeeds(ask: Callable[[], object], but: int = 0) -> bool:
    try:
        ask()
    except ApiError as error:
        return error.status.code == but
    except (httpx2.HTTPError, AssertionError):
        return False
    return True


_CONTAINERD = """
version = 2
root = "{directory}/containers"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "/run/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "/run/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{directory}/networks"
"""

# Pods are routed, not bridged, so that a service's answers come back by the way they went.
_NETWORK = """
{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "ptp",
      "ipam": {"type": "host-local", "subnet": "PODS", "routes": [{"dst": "0.0.0.0/0"}]}
    }
  ]
}
"""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster of KUBECONFIG, or one of our own where ``make test-kubernetes`` has built it."""
    made: Cluster
    if os.environ.get("KUBECONFIG"):
        made = OthersCluster()
    elif os.environ.get("TBHUB_TEST_KUBERNETES"):
        made = OwnCluster(Path(os.environ["TBHUB_TEST_KUBERNETES"]))
        os.environ["KUBECONFIG"] = made.kubeconfig
    else:
        pytest.skip("NO CLUSTER WAS ASKED: `make test-kubernetes` builds and starts one")
    yield made
    made.close()
    if isinstance(made, OwnCluster):
        del os.environ["KUBECONFIG"]


@pytest.fixture(scope="session")
def own_cluster(cluster: Cluster) -> OwnCluster:
    """A cluster that tests may hurt, and whose pods see this machine's files."""
    if not isinstance(cluster, OwnCluster):
        pytest.skip("NOT ON THIS CLUSTER: it is somebody's; without KUBECONFIG one is started")
    return cluster
