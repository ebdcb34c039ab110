"""How a host on Ray is, by what Ray says of its actor. Pure.

`ray_cluster` asks Ray and hands over `Told`; here it becomes words: what a host waits for as long
as it has no node, and how it ended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NotRequired, TypedDict

from tbhub.boards import life
from tbhub.launchers.base import Exited, Running, Starting, Status
from tbhub.launchers.endings import exited
from tbhub.launchers.ray_options import Ray
from tbhub.launchers.sizes import as_size

_KILLED = 137
_LONGEST = 300  # of what is said of an error
# Why a node is gone. All of them are no fault of a host's.
_NODE_ENDS = {
    "EXPECTED_TERMINATION": (life.Cause.NODE_LOST, "was taken out of the cluster"),
    "UNEXPECTED_TERMINATION": (life.Cause.NODE_LOST, "died"),
    "AUTOSCALER_DRAIN_PREEMPTED": (life.Cause.PREEMPTION, "was preempted"),
    "AUTOSCALER_DRAIN_IDLE": (life.Cause.DRAIN, "was drained"),
}


class Node(TypedDict):
    """What a node has in all, what of it is free, and its labels."""

    total: Mapping[str, float]
    free: Mapping[str, float]
    labels: Mapping[str, str]


class Cause(TypedDict):
    """Why an actor is dead: the kind as Ray's GCS knows it, its reason and its text."""

    kind: str
    reason: str
    text: str
    node: str


class Ending(TypedDict):
    """How the process of a host ended: its exit code, and whether because its node is drained."""

    code: int
    is_drained: bool


class Told(TypedDict):
    """What Ray says of an actor.

    Attributes:
        state: As Ray's GCS knows it; empty if it does not know the actor.
        ending: Of the host's process, if it has ended and its actor lives.
        node_lives: Whether the node that had it is there.
        cause: Why it is dead.
        nodes: Those there are, of one that waits.
    """

    state: str
    ending: NotRequired[Ending | None]
    node_lives: NotRequired[bool]
    cause: NotRequired[Cause]
    nodes: NotRequired[list[Node]]


def status_of(told: Told, options: Ray) -> Status:
    """How a host is whose actor Ray says this of."""
    state = told["state"]
    if not state:
        return Exited(None, "unseen: Ray does not know its actor any more")
    if state == "DEAD":
        return _death(told)
    if state == "RESTARTING":  # which nobody has asked Ray for
        return Exited(None, "by being started anew by Ray", life.Cause.NODE_LOST)
    if state != "ALIVE":
        return Starting(f"its actor {waiting(options, told.get('nodes', []))}", queued=True)
    ending = told.get("ending")
    return Running() if ending is None else ended(ending)


def ended(ending: Ending) -> Exited:
    """How a host's process ended."""
    if ending["is_drained"]:
        return Exited(ending["code"], "because its node is drained", life.Cause.DRAIN)
    return exited(ending["code"])


def waiting(options: Ray, nodes: list[Node]) -> str:
    """What an actor that Ray has not begun with waits for."""
    needs = options.needs
    wanted = _amounts(needs)
    fitting = [each for each in nodes if _matches(options.label_selector, each["labels"])]
    if nodes and not fitting:
        labels = ", ".join(f"{name}={value}" for name, value in options.label_selector.items())
        return f"waits for a node with the labels {labels}: there is none"
    if nodes and not any(_has(each["total"], needs) for each in fitting):
        return f"waits for a node with {wanted}: none has that much"
    if nodes and not any(_has(each["free"], needs) for each in fitting):
        return f"waits for resources: {wanted}; those there are are in use"
    return "has a place, and its worker is being started"


def _has(there: Mapping[str, float], needs: Mapping[str, float]) -> bool:
    return all(there.get(name, 0.0) >= amount for name, amount in needs.items())


def _amounts(needs: Mapping[str, float]) -> str:
    def text(name: str, amount: float) -> str:
        return f"{as_size(int(amount))} memory" if name == "memory" else f"{amount:g} {name}"

    return ", ".join(text(name, amount) for name, amount in needs.items()) or "nothing"


def _matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """As Ray does: a value, ``!value``, ``in(a,b)`` or ``!in(a,b)``."""
    for name, wanted in selector.items():
        found = re.fullmatch(r"(!?)(?:in\((.*)\)|(.*))", wanted)
        assert found is not None
        negated, several, one = found.groups()
        values = [one] if several is None else [each.strip() for each in several.split(",")]
        if (labels.get(name) in values) == bool(negated):
            return False
    return True


def _death(told: Told) -> Exited:
    cause = told.get("cause")
    if cause is None:
        return Exited(None, "as its actor is dead; Ray does not say why")
    text = _short(cause["text"])
    match cause["kind"]:
        case "creation_task_failure_context":
            return Exited(None, f"because its actor failed to start: {_last(cause['text'])}")
        case "runtime_env_failed_context":
            return Exited(None, f"because its runtime environment cannot be made: {text}")
        case "actor_unschedulable_context":
            return Exited(None, f"because Ray cannot place its actor: {text}")
        case "oom_context":
            why = f"because Ray ended it when its node ran out of memory: {text}"
            return Exited(_KILLED, why, life.Cause.OUT_OF_MEMORY)
    # A node that ends takes its workers with it, and they may be missed before it is.
    if cause["reason"] == "NODE_DIED" or not told.get("node_lives", True):
        why, text = _NODE_ENDS.get(cause["node"], (life.Cause.NODE_LOST, "died"))
        return Exited(None, f"because its node {text}", why)
    if cause["reason"] == "RAY_KILL":
        return Exited(None, "because its actor was killed (ray.kill)", life.Cause.TERMINATED)
    if cause["reason"] == "WORKER_DIED":
        return Exited(None, f"because the process of its actor died{_detail(text)}")
    return Exited(None, f"because its actor died: {text}")


def _detail(text: str) -> str:
    found = re.search(r"Worker exit type: (\w+)", text)
    return f" ({found[1]})" if found else ""


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


def _last(text: str) -> str:
    """What a traceback says in its end."""
    lines = [each.strip() for each in text.splitlines() if each.strip()]
    return _short(lines[-1]) if lines else "it does not say why"
