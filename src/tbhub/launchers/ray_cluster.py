"""What is asked of Ray, by a process that is connected to it; never by the hub's own.

Everything comes and goes as JSON. Ray's GCS is asked what it knows of an actor: its public state
API would need the dashboard, and of an actor that is dead nothing else tells why.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import ray
from ray import cloudpickle
from ray._private import state as gcs
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tbhub.launchers import ray_actor
from tbhub.launchers.ray_actor import HostActor, read_log
from tbhub.launchers.ray_options import NAMESPACE
from tbhub.launchers.ray_status import Cause, Node, Told

_ANSWER_SECONDS = 5.0  # for an actor that lives
_READ_SECONDS = 15.0  # for a worker to be started that reads a log
_GONE_SECONDS = 10.0  # until an actor that was killed must be
_NODES_SECONDS = 1.0  # for which what nodes have is believed

# Ray keeps an actor's class for whoever asks for its handle: a hub of another version may.
cloudpickle.register_pickle_by_value(ray_actor)


class Cluster:
    """A cluster that this process is connected to."""

    def __init__(self) -> None:
        self._handles: dict[str, Any] = {}
        self._nodes: tuple[float, list[Node]] = (0.0, [])

    def start(self, options: Mapping[str, Any], environment: Mapping[str, str], module: str) -> str:
        """Has Ray make an actor for a host; its id."""
        actor = ray.remote(HostActor).options(**options)
        handle = actor.remote(options["name"], dict(environment), module)
        number: str = handle._actor_id.hex()
        self._handles[number] = handle
        return number

    def find(self, prefix: str) -> dict[str, str]:
        """The ids of actors that are not dead, by what follows in their names."""
        found = {}
        for each in ray.util.list_named_actors(all_namespaces=True):
            name = each["name"]
            if each["namespace"] == NAMESPACE and name.startswith(prefix):
                with suppress(ValueError):  # it has just gone
                    handle = ray.get_actor(name, namespace=NAMESPACE)
                    found[name.removeprefix(prefix)] = handle._actor_id.hex()
        return found

    def poll(self, name: str, actor: str) -> Told:
        """How an actor is."""
        known = gcs.actors(actor)
        if not known:
            return {"state": ""}
        told: Told = {"state": known["State"]}
        if told["state"] == "ALIVE":
            handle = self._handle(name, actor)
            with suppress(ActorDiedError):
                if handle is not None:
                    told["ending"] = ray.get(handle.ending.remote(), timeout=_ANSWER_SECONDS)
                    return told
            known = gcs.actors(actor)  # it has died meanwhile
            told = {"state": known["State"]}
        if told["state"] == "DEAD":
            self._handles.pop(actor, None)
            told["cause"] = _cause(known["DeathCause"])
            told["node_lives"] = _lives(known["Address"]["NodeID"])
        elif told["state"] != "ALIVE":
            told["nodes"] = self._looked_at()
        return told

    def stop(self, name: str, actor: str, seconds: float, tail: int) -> dict[str, Any] | None:
        """Ends a host and its actor; how it ended, if it came to that."""
        handle = self._handle(name, actor)
        if handle is None:
            return None
        number = handle._actor_id.hex()
        left = None
        if gcs.actors(number).get("State") == "ALIVE":
            with suppress(RayActorError, GetTimeoutError):  # it is killed, and its host with it
                asked = handle.stop.remote(seconds, tail)
                left = ray.get(asked, timeout=seconds + _ANSWER_SECONDS)
        ray.kill(handle)
        self._handles.pop(number, None)
        deadline = time.monotonic() + _GONE_SECONDS
        while gcs.actors(number).get("State", "DEAD") != "DEAD":
            if time.monotonic() > deadline:
                raise RayError(f"actor {name} was killed and is not gone yet")
            time.sleep(0.02)
        return left

    def logs(self, name: str, actor: str, tail: int) -> list[str]:
        """The last lines of a host; where its actor is dead, as long as its node lives."""
        handle = self._handle(name, actor)
        known = gcs.actors(actor) if actor else {}
        if handle is not None and known.get("State") == "ALIVE":
            with suppress(ActorDiedError):
                alive: list[str] = ray.get(handle.logs.remote(tail), timeout=_ANSWER_SECONDS)
                return alive
            known = gcs.actors(actor)
        has_been = known.get("State") == "DEAD" and known["Pid"]
        if not has_been or not _lives(node := known["Address"]["NodeID"]):
            return []
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        reader = ray.remote(read_log).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
        lines: list[str] = ray.get(reader.remote(name, tail), timeout=_READ_SECONDS)
        return lines

    def _handle(self, name: str, actor: str) -> Any:
        """An actor's handle; none if it is dead. Without an id it is whichever has the name."""
        if actor in self._handles:
            return self._handles[actor]
        try:
            handle = ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            return None
        number = handle._actor_id.hex()
        if actor and number != actor:
            return None
        self._handles[number] = handle
        return handle

    def _looked_at(self) -> list[Node]:
        asked, nodes = self._nodes
        if time.monotonic() - asked > _NODES_SECONDS:
            free = gcs.available_resources_per_node()
            nodes = [
                {
                    "total": each["Resources"],
                    "free": free.get(each["NodeID"], {}),
                    "labels": each["Labels"],
                }
                for each in ray.nodes()
                if each["Alive"]
            ]
            self._nodes = time.monotonic(), nodes
        return nodes


def _lives(node: str) -> bool:
    return any(each["NodeID"] == node and each["Alive"] for each in ray.nodes())


def _cause(told: Any) -> Cause:
    """Of Ray's message what is said to people."""
    kind = told.WhichOneof("context") or ""
    context: Any = getattr(told, kind) if kind else None
    if kind == "actor_died_error_context":
        reason = type(context).Reason.Name(context.reason)
        died = context.node_death_info
        node = type(died).Reason.Name(died.reason)
        return {"kind": kind, "reason": reason, "text": context.error_message, "node": node}
    field = "formatted_exception_string" if kind.startswith("creation") else "error_message"
    return {"kind": kind, "reason": "", "text": getattr(context, field, ""), "node": ""}
