"""A host as objects of Kubernetes. Pure; nothing here asks a cluster.

A host is a Deployment of one pod, and below it what it needs: the Secret with its token, the
Service by which the hub reaches it, the NetworkPolicy that lets nobody else. All of these name the
Deployment as their owner, so that they go with it, whoever deletes it. It is created without a pod,
then come those below it, then its pod: at no moment is there something that has no owner.

No host asks for a GPU: it only reads.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, field_validator

from tbhub.boards.host_process import AUTO
from tbhub.launchers.base import Options
from tbhub.launchers.sizes import as_bytes

MODULE = "tbhub.boards.host_process"
HUB_LABEL = "tbhub.dev/hub"
HOST_LABEL = "tbhub.dev/host"
PORT = 6006
CONTAINER = "host"
_TOKEN = "TBHUB_HOST_TOKEN"
_TLS = "TBHUB_HOST_TLS"
_GRACE_SECONDS = 5
_BUDGET = 0.5  # the share of a limit that points may take; TensorBoard and charts need the rest

Manifest = dict[str, Any]


class Kubernetes(Options):
    """How hosts run in a cluster.

    Attributes:
        namespace: Where; the hub's own, or the one that the kubeconfig names, unless given.
        context: Of the kubeconfig, where the hub is outside of the cluster.
        image: What hosts run; any image in which ``python3`` finds tbhub.
        image_pull_policy: When it is fetched; as the cluster has it unless given.
        image_pull_secrets: Names of secrets with the registry's credentials.
        service_account: As whom hosts ask other services (workload identity).
        claims: Which PersistentVolumeClaims are mounted where; only read, unless the path ends with
            ``:rw``.
        memory: What a host asks for and may take, ``"2Gi"`` or ``"2g"``.
        cpus: How many processors it asks for.
        cpu_limit: How many it may keep busy; 0 for no limit.
        node_selector: Labels of the nodes that may have hosts, e.g. of those close to the data.
        tolerations: Taints that hosts put up with, as Kubernetes writes them.
        priority_class: Of hosts, among other pods.
        address: How the hub reaches hosts: by their Service, or, where the hub is outside of the
            cluster and its network reaches that of pods, by the pod's own address.
        hub_labels: What the hub's pods are known by, the only ones that may ask a host. None: any
            may try, and be refused without the hub's secret.
        labels: More labels, e.g. for accounting.
        annotations: Of pods.
        environment: More variables.
    """

    launcher = "kubernetes"
    namespace: str = ""
    context: str = ""
    image: str = Field(default="tbhub", min_length=1)
    image_pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""
    image_pull_secrets: Sequence[str] = ()
    service_account: str = ""
    claims: Mapping[str, str] = Field(default_factory=dict)
    memory: str = "2Gi"
    cpus: float = Field(default=0.25, gt=0)
    cpu_limit: float = Field(default=0.0, ge=0)
    node_selector: Mapping[str, str] = Field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    priority_class: str = ""
    address: Literal["service", "pod"] = "service"
    hub_labels: Mapping[str, str] = Field(
        default_factory=lambda: {"app.kubernetes.io/name": "tbhub"}
    )
    labels: Mapping[str, str] = Field(default_factory=dict)
    annotations: Mapping[str, str] = Field(default_factory=dict)
    environment: Mapping[str, str] = Field(default_factory=dict, repr=False)

    @field_validator("memory")
    @classmethod
    def _size(cls, value: str) -> str:
        if as_bytes(value) < 128 << 20:
            raise ValueError("a host needs 128Mi or more")
        return value

    @field_validator("claims")
    @classmethod
    def _whole_paths(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for claim, place in value.items():
            if not os.path.isabs(place):
                raise ValueError(f"{claim}: {place} has to be a whole path, beginning with /")
        return value

    @field_validator("labels")
    @classmethod
    def _not_ours(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name in (HUB_LABEL, HOST_LABEL):
            if name in value:
                raise ValueError(f"{name} is the launcher's own")
        return value


def name(hub: str, host_id: str) -> str:
    """What all objects of a host are called; a name that DNS takes."""
    return re.sub(r"[^a-z0-9-]+", "-", f"tbhub-{hub}-{host_id}".lower())[:63].strip("-")


def selector(hub: str, host_id: str | None = None) -> dict[str, str]:
    """The labels of what belongs to a hub, or to one of its hosts."""
    return {HUB_LABEL: hub} | ({HOST_LABEL: host_id} if host_id is not None else {})


def deployment(
    options: Kubernetes, hub: str, host_id: str, environment: Mapping[str, str], namespace: str
) -> Manifest:
    """The owner of all else, yet without a pod."""
    labels = _labels(options, hub, host_id)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name(hub, host_id), "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 0,
            "revisionHistoryLimit": 0,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": selector(hub, host_id)},
            "template": {
                "metadata": {"labels": labels, "annotations": dict(options.annotations)},
                "spec": _pod(options, hub, host_id, environment, namespace),
            },
        },
    }


def children(
    options: Kubernetes,
    hub: str,
    host_id: str,
    environment: Mapping[str, str],
    namespace: str,
    uid: str,
) -> list[Manifest]:
    """What goes with the Deployment of a uid."""
    here = name(hub, host_id)
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": here,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    metadata = {
        "name": here,
        "namespace": namespace,
        "labels": _labels(options, hub, host_id),
        "ownerReferences": [owner],
    }
    mine = selector(hub, host_id)
    port = {"protocol": "TCP", "port": PORT}
    ingress: Manifest = {"ports": [port]}
    if options.hub_labels:
        ingress["from"] = [{"podSelector": {"matchLabels": dict(options.hub_labels)}}]
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "type": "Opaque",
            "data": {_TOKEN: base64.b64encode(environment.get(_TOKEN, "").encode()).decode()},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "type": "ClusterIP",
                "selector": mine,
                "ports": [{"name": _scheme(environment), **port, "targetPort": PORT}],
                # The hub may ask as soon as a host has told it where it is.
                "publishNotReadyAddresses": True,
            },
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata,
            "spec": {
                "podSelector": {"matchLabels": mine},
                "policyTypes": ["Ingress"],
                "ingress": [ingress],
            },
        },
    ]


def _labels(options: Kubernetes, hub: str, host_id: str) -> dict[str, str]:
    return {
        **options.labels,
        "app.kubernetes.io/name": "tbhub-host",
        "app.kubernetes.io/managed-by": "tbhub",
        **selector(hub, host_id),
    }


def _pod(
    options: Kubernetes, hub: str, host_id: str, environment: Mapping[str, str], namespace: str
) -> Manifest:
    pod: Manifest = {
        "containers": [_container(options, hub, host_id, environment, namespace)],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            *(
                {"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": claim}}
                for number, claim in enumerate(options.claims)
            ),
        ],
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    if options.service_account:
        pod["serviceAccountName"] = options.service_account
    if options.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": each} for each in options.image_pull_secrets]
    if options.node_selector:
        pod["nodeSelector"] = dict(options.node_selector)
    if options.tolerations:
        pod["tolerations"] = [dict(each) for each in options.tolerations]
    if options.priority_class:
        pod["priorityClassName"] = options.priority_class
    return pod


def _container(
    options: Kubernetes, hub: str, host_id: str, environment: Mapping[str, str], namespace: str
) -> Manifest:
    here = name(hub, host_id)
    memory = _quantity(options.memory)
    limits = {"memory": memory}
    if options.cpu_limit:
        limits["cpu"] = _cpus(options.cpu_limit)
    scheme = _scheme(environment)
    # Certificates are not looked at by whoever probes.
    health = {"httpGet": {"path": "/healthz", "port": PORT, "scheme": scheme.upper()}}
    container: Manifest = {
        "name": CONTAINER,
        "image": options.image,
        "command": ["python3", "-P", "-m", MODULE],
        "workingDir": "/",
        "ports": [{"name": scheme, "containerPort": PORT}],
        "env": [
            *(
                {"name": key, "value": value}
                for key, value in _environment(options, environment, f"{here}.{namespace}").items()
            ),
            {"name": _TOKEN, "valueFrom": {"secretKeyRef": {"name": here, "key": _TOKEN}}},
        ],
        "resources": {
            "requests": {"memory": memory, "cpu": _cpus(options.cpus)},
            "limits": limits,
        },
        # It answers once it has registered, for which the hub gives it time; then it is asked.
        "startupProbe": {**health, "periodSeconds": 2, "failureThreshold": 300},
        "readinessProbe": {**health, "periodSeconds": 10},
        "livenessProbe": {**health, "periodSeconds": 20, "timeoutSeconds": 10},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *_mounts(options)],
        # The last lines of a host that ended badly are kept with it.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if options.image_pull_policy:
        container["imagePullPolicy"] = options.image_pull_policy
    return container


def _quantity(size: str) -> str:
    """A size as Kubernetes has them, to which 4g is nothing and 4096m are four bytes."""
    return size if re.fullmatch(r"\d+[KMGT]i", size) else str(as_bytes(size))


def _environment(options: Kubernetes, given: Mapping[str, str], service: str) -> dict[str, str]:
    budget = int(as_bytes(options.memory) * _BUDGET)
    asked = int(given.get("TBHUB_HOST_MEMORY") or budget)
    by_service = options.address == "service"
    made = {
        "HOME": "/tmp",
        "TBHUB_CACHE_DIR": "/tmp/tbhub",
        **options.environment,
        **given,
        "TBHUB_HOST_BIND": "0.0.0.0" if by_service else AUTO,
        "TBHUB_HOST_PORT": str(PORT),
        "TBHUB_HOST_CONNECT": f"{service}.svc:{PORT}" if by_service else "",
        "TBHUB_HOST_MEMORY": str(min(asked, budget)),
    }
    made.pop(_TOKEN, None)
    return made


def _scheme(environment: Mapping[str, str]) -> str:
    return "https" if environment.get(_TLS) == "1" else "http"


def _mounts(options: Kubernetes) -> list[Manifest]:
    found = []
    for number, text in enumerate(options.claims.values()):
        place, _, mode = text.partition(":")
        found.append({"name": f"claim-{number}", "mountPath": place, "readOnly": mode != "rw"})
    return found


def _cpus(number: float) -> str:
    return f"{round(number * 1000)}m"
