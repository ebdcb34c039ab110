"""What Ray is told of a host: options that can be, its actor's, its variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tbhub.launchers
from tbhub.launchers.base import LaunchError, Site
from tbhub.launchers.choose import OptionsError, check, make_launcher
from tbhub.launchers.ray_options import Ray, actor_name, actor_options, place, prefix, variables

TOLD = {"TBHUB_HOST_TOKEN": "hidden", "TBHUB_HUB_URL": "http://10.0.0.1:6060"}


def test_a_host_without_options_is_a_detached_actor_without_gpus() -> None:
    assert actor_options(Ray(), "0123456789ab", "ray-1") == {
        "name": "tbhub-0123456789ab-ray-1",
        "namespace": "tbhub",
        "lifetime": "detached",
        "max_restarts": 0,
        "max_task_retries": 0,
        "max_concurrency": 8,
        "num_cpus": 1.0,
        "num_gpus": 0,
    }
    assert variables(Ray(), TOLD) == {**TOLD, "TBHUB_HOST_BIND": "auto"}


def test_what_is_set_is_told() -> None:
    options = Ray(
        num_cpus=0.5,
        memory="2g",
        resources={"data": 0.01},
        label_selector={"zone": "in(a,b)"},
        runtime_env={"pip": ["tbhub"]},
        environment={"AWS_PROFILE": "lab"},
        bind="0.0.0.0",
        connect="node7",
    )
    made = actor_options(options, "hub", "ray-1")
    assert json.loads(json.dumps(made)) == made
    assert {name: made[name] for name in ("num_cpus", "memory", "resources", "num_gpus")} == {
        "num_cpus": 0.5,
        "memory": 2 << 30,
        "resources": {"data": 0.01},
        "num_gpus": 0,
    }
    assert made["label_selector"] == {"zone": "in(a,b)"}
    assert made["runtime_env"] == {"pip": ["tbhub"]}
    assert options.needs == {"CPU": 0.5, "memory": 2.0 * (1 << 30), "data": 0.01}
    assert variables(options, TOLD) == {
        **TOLD,
        "AWS_PROFILE": "lab",
        "TBHUB_HOST_BIND": "0.0.0.0",
        "TBHUB_HOST_CONNECT": "node7",
        "TBHUB_HOST_MEMORY": str(1 << 30),
    }


def test_points_take_half_of_the_memory_at_most() -> None:
    options = Ray(memory="2g")
    assert variables(options, {"TBHUB_HOST_MEMORY": "1000"})["TBHUB_HOST_MEMORY"] == "1000"
    many = variables(options, {"TBHUB_HOST_MEMORY": str(8 << 30)})
    assert many["TBHUB_HOST_MEMORY"] == str(1 << 30)


def test_the_token_is_where_nobody_lists_it() -> None:
    assert "hidden" not in json.dumps(actor_options(Ray(), "hub", "ray-1"))
    assert "s3cret" not in repr(Ray(environment={"KEY": "s3cret"}, runtime_env={"x": "s3cret"}))


def test_a_host_is_known_by_its_actors_name() -> None:
    assert actor_name("hub", "ray-1").removeprefix(prefix("hub")) == "ray-1"
    assert not actor_name("hub2", "ray-1").startswith(prefix("hub"))


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("10.0.0.1:6379", ("10.0.0.1", 6379)),
        ("ray://head:10001", ("head", 10001)),
        ("[::1]:6379", ("::1", 6379)),
        ("head", None),
        ("ray://head", None),
        ("http://head:1/x", None),
        ("head:port", None),
        ("head:99999", None),
        ("", None),
    ],
)
def test_addresses(address: str, found: tuple[str, int] | None) -> None:
    assert place(address) == found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"address": "head"}, '"auto", "host:6379" or "ray://host:10001"'),
        ({"memory": "1m"}, "a host needs 128 MB or more"),
        ({"memory": "much"}, "is no size"),
        ({"num_cpus": -1}, "greater than or equal to 0"),
        ({"resources": {"GPU": 1}}, "GPU: hosts use none"),
        ({"resources": {"CPU": 1}}, "CPU: num_cpus says how many"),
        ({"resources": {"data": 1.5}}, "data: a whole number, or a part of one"),
        ({"resources": {"data": 0}}, "data: a whole number, or a part of one"),
        ({"environment": {"a b": "c"}}, "'a b' is not the name of a variable"),
        ({"runtime_env": {"pip": {1, 2}}}, "it has to be JSON"),
        ({"num_gpus": 1}, "launcher ray has no option 'num_gpus'"),
    ],
)
def test_options_that_cannot_be_are_refused_in_a_sentence(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionsError) as caught:
        check("ray", options)
    assert said in str(caught.value)


def test_without_ray_it_is_said_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LaunchError, match=r"needs Ray: pip install 'tbhub\[ray\]'"):
        make_launcher("ray", {}, Site("0123456789ab", tmp_path))


def test_it_is_one_of_the_launchers() -> None:
    assert tbhub.launchers.Ray is Ray
    assert check("ray", {"num_cpus": 2}) == Ray(num_cpus=2)
