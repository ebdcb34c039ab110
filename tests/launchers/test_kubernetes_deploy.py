"""The hub's own manifests: what they name is there, and the hub may do what it does and no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube.codecs import from_dict

from tbhub.hub.settings import Settings
from tbhub.launchers.kubernetes_manifests import Kubernetes, children, deployment

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
OBJECTS: list[dict[str, Any]] = [
    each
    for path in sorted(DEPLOY.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for each in yaml.safe_load_all(path.read_text())
]


def one(kind: str, name: str = "tbhub") -> dict[str, Any]:
    (found,) = (
        each for each in OBJECTS if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found


@pytest.mark.parametrize(
    "each", OBJECTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}"
)
def test_every_object_is_one_that_kubernetes_knows(each: dict[str, Any]) -> None:
    # Fields that it does not know would be lost on the way.
    assert from_dict(each).to_dict() == json.loads(json.dumps(each))


def test_the_kustomization_names_every_file() -> None:
    named = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    assert sorted(named) == sorted(
        path.name for path in DEPLOY.glob("*.yaml") if path.name != "kustomization.yaml"
    )


def test_the_hub_takes_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    given = dict(one("ConfigMap")["data"])
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    given |= {each["name"]: each["value"] for each in container["env"] if "value" in each}
    for name, value in given.items():
        assert name.removeprefix("TBHUB_").lower() in Settings.model_fields
        monkeypatch.setenv(name, value)
    settings = Settings.load()
    assert (settings.launcher, settings.keep_hosts, settings.auth) == ("kubernetes", True, "users")
    assert Kubernetes(**settings.launcher_options).image == "tbhub:latest"


def test_hosts_let_the_hub_in_and_the_hub_is_found() -> None:
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert Kubernetes().hub_labels.items() <= labels.items()
    assert one("Service")["spec"]["selector"].items() <= labels.items()
    assert one("ConfigMap")["data"]["TBHUB_HOSTS_URL"] == "http://tbhub:6060"


def test_the_hub_may_make_what_a_host_consists_of_and_read_no_secret() -> None:
    rules = one("Role")["rules"]
    allowed = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    made = [
        deployment(Kubernetes(), "h", "k-1", {}, "n"),
        *children(Kubernetes(), "h", "k-1", {}, "n", "u"),
    ]
    plural = {"NetworkPolicy": "networkpolicies"}
    for each in made:
        group = each["apiVersion"].rpartition("/")[0]
        kind = plural.get(each["kind"], f"{each['kind'].lower()}s")
        assert (group, kind, "create") in allowed
    assert {verb for _, resource, verb in allowed if resource == "secrets"} == {"create"}
    assert not any("*" in each for each in allowed)
    # Nothing is allowed beyond this namespace.
    assert not any(each["kind"].startswith("ClusterRole") for each in OBJECTS)
