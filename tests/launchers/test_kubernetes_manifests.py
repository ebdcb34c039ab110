"""What a cluster is told to create: owners, limits, probes, and where the token is."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightkube.codecs import from_dict

from tbhub.launchers.kubernetes_manifests import (
    HOST_LABEL,
    HUB_LABEL,
    Kubernetes,
    Manifest,
    children,
    deployment,
    name,
)

HUB = "0123456789ab"
TOLD = {"TBHUB_HOST_TOKEN": "hidden", "TBHUB_HUB_URL": "http://tbhub.boards:6060"}
HERE = "tbhub-0123456789ab-kubernetes-1"


def made(**options: Any) -> list[Manifest]:
    asked = Kubernetes(**options)
    return [
        deployment(asked, HUB, "kubernetes-1", TOLD, "boards"),
        *children(asked, HUB, "kubernetes-1", TOLD, "boards", "the-uid"),
    ]


def pod(**options: Any) -> dict[str, Any]:
    spec: dict[str, Any] = made(**options)[0]["spec"]["template"]["spec"]
    return spec


def test_a_host_is_a_deployment_that_owns_all_else() -> None:
    owner, *others = made()
    assert [each["kind"] for each in others] == ["Secret", "Service", "NetworkPolicy"]
    assert owner["spec"]["replicas"] == 0  # until all else is there
    for each in [owner, *others]:
        assert (each["metadata"]["name"], each["metadata"]["namespace"]) == (HERE, "boards")
        assert each["metadata"]["labels"] == {
            "app.kubernetes.io/name": "tbhub-host",
            "app.kubernetes.io/managed-by": "tbhub",
            HUB_LABEL: HUB,
            HOST_LABEL: "kubernetes-1",
        }
    for each in others:
        (reference,) = each["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["name"], reference["uid"]) == (
            "Deployment",
            HERE,
            "the-uid",
        )
    mine = {HUB_LABEL: HUB, HOST_LABEL: "kubernetes-1"}
    assert owner["spec"]["selector"]["matchLabels"] == mine
    assert others[1]["spec"]["selector"] == mine
    assert others[2]["spec"]["podSelector"]["matchLabels"] == mine
    assert mine.items() <= owner["spec"]["template"]["metadata"]["labels"].items()


def test_only_the_hub_may_ask_a_host() -> None:
    policy = made()[3]["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [
        {
            "ports": [{"protocol": "TCP", "port": 6006}],
            "from": [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "tbhub"}}}],
        }
    ]
    # A host is none of the hub's pods, whatever its labels.
    assert made()[0]["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"] != "tbhub"
    assert "from" not in made(hub_labels={})[3]["spec"]["ingress"][0]


def test_the_token_is_in_the_secret_alone() -> None:
    owner, secret, *others = made(environment={"KEY": "value"})
    assert base64.b64decode(secret["data"]["TBHUB_HOST_TOKEN"]) == b"hidden"
    assert "hidden" not in json.dumps([owner, *others])
    (container,) = owner["spec"]["template"]["spec"]["containers"]
    assert container["env"][-1] == {
        "name": "TBHUB_HOST_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": HERE, "key": "TBHUB_HOST_TOKEN"}},
    }
    values = {each["name"]: each.get("value") for each in container["env"][:-1]}
    assert values == {
        "HOME": "/tmp",
        "TBHUB_CACHE_DIR": "/tmp/tbhub",
        "KEY": "value",
        "TBHUB_HUB_URL": "http://tbhub.boards:6060",
        "TBHUB_HOST_BIND": "0.0.0.0",
        "TBHUB_HOST_PORT": "6006",
        "TBHUB_HOST_CONNECT": f"{HERE}.boards.svc:6006",
        "TBHUB_HOST_MEMORY": str(1 << 30),
    }


def test_a_hub_outside_reaches_pods_by_their_own_address() -> None:
    (container,) = pod(address="pod")["containers"]
    values = {each["name"]: each.get("value") for each in container["env"]}
    assert (values["TBHUB_HOST_BIND"], values["TBHUB_HOST_CONNECT"]) == ("auto", "")


def test_a_pod_has_no_rights_and_no_gpu() -> None:
    for written, meant in (("4g", 4 << 30), ("512MB", 512 << 20), ("4096m", 4 << 30)):
        limits = pod(memory=written)["containers"][0]["resources"]["limits"]
        assert limits == {"memory": str(meant)}
    spec = pod(memory="4Gi", cpus=0.5, cpu_limit=2)
    (container,) = spec["containers"]
    assert container["resources"] == {
        "requests": {"memory": "4Gi", "cpu": "500m"},
        "limits": {"memory": "4Gi", "cpu": "2000m"},
    }
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert not spec["automountServiceAccountToken"]
    assert {
        probe: container[probe]["httpGet"]["path"] for probe in container if "Probe" in probe
    } == {
        "startupProbe": "/healthz",
        "readinessProbe": "/healthz",
        "livenessProbe": "/healthz",
    }


@pytest.mark.parametrize(("tls", "scheme"), [("0", "http"), ("1", "https")])
def test_a_host_is_probed_as_it_serves(tls: str, scheme: str) -> None:
    told = {**TOLD, "TBHUB_HOST_TLS": tls}
    owner = deployment(Kubernetes(), HUB, "kubernetes-1", told, "boards")
    (container,) = owner["spec"]["template"]["spec"]["containers"]
    probes = [value for name, value in container.items() if name.endswith("Probe")]
    assert [each["httpGet"]["scheme"] for each in probes] == [scheme.upper()] * 3
    assert container["ports"][0]["name"] == scheme
    service = children(Kubernetes(), HUB, "kubernetes-1", told, "boards", "the-uid")[1]
    assert service["spec"]["ports"][0]["name"] == scheme


def test_what_a_cluster_needs_is_handed_on() -> None:
    toleration = {"key": "team", "operator": "Equal", "value": "vision", "effect": "NoSchedule"}
    spec = pod(
        image="team/tbhub:7",
        image_pull_policy="Always",
        image_pull_secrets=["registry"],
        service_account="reader",
        node_selector={"zone": "a"},
        tolerations=[toleration],
        priority_class="low",
        claims={"runs": "/data/runs", "scratch": "/scratch:rw"},
    )
    (container,) = spec["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("team/tbhub:7", "Always")
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert (spec["serviceAccountName"], spec["priorityClassName"]) == ("reader", "low")
    assert (spec["nodeSelector"], spec["tolerations"]) == ({"zone": "a"}, [toleration])
    assert [each["persistentVolumeClaim"]["claimName"] for each in spec["volumes"][1:]] == [
        "runs",
        "scratch",
    ]
    assert container["volumeMounts"][1:] == [
        {"name": "claim-0", "mountPath": "/data/runs", "readOnly": True},
        {"name": "claim-1", "mountPath": "/scratch", "readOnly": False},
    ]


@given(
    st.builds(
        dict,
        image=st.text(min_size=1, max_size=20),
        service_account=st.text(max_size=9),
        image_pull_secrets=st.lists(st.text(max_size=9), max_size=2),
        node_selector=st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=2),
        claims=st.dictionaries(st.text(max_size=9), st.just("/data"), max_size=3),
        cpus=st.floats(0.01, 64),
        cpu_limit=st.floats(0, 64),
        environment=st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
        annotations=st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
    )
)
def test_every_manifest_is_one_that_kubernetes_knows(options: dict[str, Any]) -> None:
    for each in made(**options):
        # Fields that it does not know would be lost on the way.
        assert _without_empty(from_dict(each).to_dict()) == _without_empty(each)


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_empty(each) for key, each in value.items() if each not in ({}, [])}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value


@given(st.text(max_size=80), st.text(max_size=80))
def test_names_are_ones_that_dns_takes(hub: str, host: str) -> None:
    assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name(hub, host))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"image": ""}, "image"),
        ({"memory": "much"}, "no size"),
        ({"memory": "1Mi"}, "128Mi or more"),
        ({"cpus": 0}, "cpus"),
        ({"claims": {"runs": "data"}}, "whole path"),
        ({"labels": {HUB_LABEL: "mine"}}, "the launcher's own"),
        ({"gpus": 1}, "gpus"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Kubernetes(**options)
