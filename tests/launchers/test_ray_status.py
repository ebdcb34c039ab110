"""What Ray says of an actor, in words."""

from __future__ import annotations

from typing import Any

import pytest

from tbhub.boards.life import Cause
from tbhub.launchers.base import Exited, Running, Starting
from tbhub.launchers.ray_options import Ray
from tbhub.launchers.ray_status import Node, Told, status_of, waiting


def dead(kind: str, reason: str = "", text: str = "", node: str = "", lives: bool = True) -> Told:
    cause: Any = {"kind": kind, "reason": reason, "text": text, "node": node}
    return {"state": "DEAD", "cause": cause, "node_lives": lives}


def ending(told: Told) -> Exited:
    status = status_of(told, Ray())
    assert isinstance(status, Exited)
    return status


def node(cpus: float, free: float | None = None, **labels: str) -> Node:
    there = cpus if free is None else free
    return {"total": {"CPU": cpus}, "free": {"CPU": there}, "labels": labels}


def test_an_actor_that_lives_is_as_its_host_is() -> None:
    assert status_of({"state": "ALIVE", "ending": None}, Ray()) == Running()
    ended: Told = {"state": "ALIVE", "ending": {"code": 7, "is_drained": False}}
    assert status_of(ended, Ray()) == Exited(7, "with exit code 7")
    drained: Told = {"state": "ALIVE", "ending": {"code": 143, "is_drained": True}}
    assert status_of(drained, Ray()) == Exited(143, "because its node is drained", Cause.DRAIN)


@pytest.mark.parametrize("state", ["DEPENDENCIES_UNREADY", "PENDING_CREATION"])
def test_one_that_waits_has_not_begun(state: str) -> None:
    status = status_of({"state": state, "nodes": [node(2, 0)]}, Ray())
    text = "its actor waits for resources: 1 CPU; those there are are in use"
    assert status == Starting(text, queued=True)


@pytest.mark.parametrize(
    ("options", "nodes", "said"),
    [
        (Ray(), [], "has a place"),
        (Ray(), [node(2)], "has a place"),
        (Ray(num_cpus=0), [node(0)], "has a place"),
        (Ray(num_cpus=4), [node(2), node(3)], "waits for a node with 4 CPU: none has that much"),
        (Ray(memory="2g"), [node(2)], "waits for a node with 1 CPU, 2 GB memory: none"),
        (Ray(resources={"data": 0.5}), [node(2)], "waits for a node with 1 CPU, 0.5 data: none"),
        (Ray(), [node(2, 0.5), node(1, 0)], "waits for resources: 1 CPU; those there are"),
        (Ray(label_selector={"z": "a"}), [node(2, z="a")], "has a place"),
        (Ray(label_selector={"z": "a"}), [node(2, z="b")], "a node with the labels z=a: there is"),
        (Ray(label_selector={"z": "a"}), [node(2, z="b"), node(2, 0, z="a")], "are in use"),
        (Ray(label_selector={"z": "!a"}), [node(2, z="a"), node(2)], "has a place"),
        (Ray(label_selector={"z": "!a"}), [node(2, z="a")], "the labels z=!a: there is none"),
        (Ray(label_selector={"z": "in(a, b)"}), [node(2, z="b")], "has a place"),
        (Ray(label_selector={"z": "in(a,b)"}), [node(2, z="c")], "there is none"),
        (Ray(label_selector={"z": "!in(a,b)"}), [node(2, z="b")], "there is none"),
        (Ray(label_selector={"z": "!in(a,b)"}), [node(2, z="c")], "has a place"),
    ],
)
def test_what_it_waits_for(options: Ray, nodes: list[Node], said: str) -> None:
    assert said in waiting(options, nodes)


@pytest.mark.parametrize(
    ("told", "cause", "reason"),
    [
        ("UNEXPECTED_TERMINATION", Cause.NODE_LOST, "because its node died"),
        ("EXPECTED_TERMINATION", Cause.NODE_LOST, "because its node was taken out of the cluster"),
        ("AUTOSCALER_DRAIN_PREEMPTED", Cause.PREEMPTION, "because its node was preempted"),
        ("AUTOSCALER_DRAIN_IDLE", Cause.DRAIN, "because its node was drained"),
        ("UNSPECIFIED", Cause.NODE_LOST, "because its node died"),
    ],
)
def test_a_node_that_is_gone_has_taken_its_hosts(told: str, cause: Cause, reason: str) -> None:
    status = ending(dead("actor_died_error_context", "NODE_DIED", node=told))
    assert status == Exited(None, reason, cause)
    assert status.taken


def test_a_worker_that_is_missed_before_its_node_was_taken_too() -> None:
    missed = dead("actor_died_error_context", "WORKER_DIED", node="UNSPECIFIED", lives=False)
    assert ending(missed) == Exited(None, "because its node died", Cause.NODE_LOST)


@pytest.mark.parametrize(
    ("kind", "reason", "text", "code", "said"),
    [
        (
            "actor_died_error_context",
            "WORKER_DIED",
            "… Worker exit type: SYSTEM_ERROR Worker exit detail: …",
            None,
            "the process of its actor died (SYSTEM_ERROR)",
        ),
        ("actor_died_error_context", "OWNER_DIED", "so it is", None, "its actor died: so it is"),
        (
            "creation_task_failure_context",
            "",
            "Traceback (most recent call last):\n  File …\nOSError: no space left\n",
            None,
            "its actor failed to start: OSError: no space left",
        ),
        (
            "runtime_env_failed_context",
            "",
            "Failed to install pip\npackages",
            None,
            "its runtime environment cannot be made: Failed to install pip packages",
        ),
        ("actor_unschedulable_context", "", "no", None, "Ray cannot place its actor: no"),
        ("oom_context", "", "9 GB of 10", 137, "its node ran out of memory: 9 GB of 10"),
    ],
)
def test_other_ends_are_its_own(
    kind: str, reason: str, text: str, code: int | None, said: str
) -> None:
    status = ending(dead(kind, reason, text))
    assert said in status.reason
    assert (status.code, status.taken) == (code, False)


def test_killed_actor_was_terminated() -> None:
    killed = dead("actor_died_error_context", "RAY_KILL")
    text = "because its actor was killed (ray.kill)"
    assert ending(killed) == Exited(None, text, Cause.TERMINATED)


def test_what_ray_says_at_length_is_cut() -> None:
    assert len(ending(dead("oom_context", text="word " * 1000)).reason) < 400


def test_what_is_not_known_is_said() -> None:
    assert ending({"state": ""}).reason == "unseen: Ray does not know its actor any more"
    assert "does not say why" in ending({"state": "DEAD"}).reason
    assert "does not say why" in ending(dead("creation_task_failure_context")).reason
    assert ending({"state": "RESTARTING"}).taken
