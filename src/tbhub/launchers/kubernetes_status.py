"""How a host is, by what Kubernetes knows of its pods. Pure; objects are as the API has them.

A host registers once: a pod that came to replace it is refused by the hub and ends, so whatever
ended the first pod has ended the host. An older pod that tells how it ended counts before a newer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tbhub.boards.life import Cause
from tbhub.launchers.base import Exited, Running, Starting, Status
from tbhub.launchers.endings import exited

REFUSED = 3  # the exit code of a host that the hub does not want, because it had another pod
# A first failure may be the network; when it is tried again, or cannot be, it will stay so.
_NO_IMAGE = ("ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_NOT_YET = ("ContainerCreating", "PodInitializing", "")
_TAKEN = {
    "Evicted": (Cause.EVICTION, "because its pod was evicted"),
    "Preempting": (Cause.PREEMPTION, "because its pod was preempted"),
    "NodeLost": (Cause.NODE_LOST, "because its node was lost"),
    "NodeShutdown": (Cause.NODE_LOST, "because its node was shut down"),
    "Terminated": (Cause.NODE_LOST, "because its node was shut down"),
    "Shutdown": (Cause.NODE_LOST, "because its node was shut down"),
    "NodeAffinity": (Cause.EVICTION, "because its node may not have it any more"),
}

Object = Mapping[str, Any]


def status(pods: Sequence[Object], deployment: Object | None) -> Status:
    """How a host is; `deployment` is asked where it has no pod."""
    made = sorted(pods, key=lambda pod: str(_at(pod, "metadata", "creationTimestamp")))
    for pod in made:
        ended = _ending(pod)
        if ended is not None:
            return ended
    if not made:
        return _without_pod(deployment)
    return _living(made[-1])


def is_over(pod: Object) -> bool:
    """Whether nothing runs of a pod that was told to go.

    The cluster may keep it for a minute more, while its node clears up; what has not begun by then
    will not.
    """
    if not _at(pod, "metadata", "deletionTimestamp"):
        return False
    return not any("running" in (each.get("state") or {}) for each in _containers(pod))


def last_words(pod: Object) -> list[str]:
    """The last lines of a container that has ended, kept with it though another was started."""
    for container in _containers(pod):
        for state in (container.get("state"), container.get("lastState")):
            message = _at(state, "terminated", "message")
            if message:
                return str(message).splitlines()
    return []


def last_warning(events: Iterable[Object]) -> str:
    """The newest thing that the cluster warns of: what a volume or a node lacks is told nowhere
    else."""
    warned = [each for each in events if each.get("type") == "Warning"]
    if not warned:
        return ""
    last = max(warned, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime")))
    return f"{last.get('reason')}{_with(str(last.get('message') or ''))}"


def _ending(pod: Object) -> Exited | None:
    """How a pod has ended; none if it has not."""
    for container in _containers(pod):
        for state in (container.get("state"), container.get("lastState")):
            over = (state or {}).get("terminated")
            if over:
                return _terminated(pod, over)
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _NO_IMAGE:
            why = _with(str(waiting.get("message") or waiting["reason"]))
            return Exited(None, f"because its image {container.get('image')} cannot be had{why}")
    if _at(pod, "status", "phase") == "Failed":
        return _taken(pod)
    if _at(pod, "metadata", "deletionTimestamp"):
        return Exited(None, "because its pod was deleted or its node drained", Cause.DRAIN)
    return None


def _terminated(pod: Object, over: Object) -> Exited:
    code = over.get("exitCode")
    reason = _at(pod, "status", "reason")
    if reason in _TAKEN:
        return _taken(pod, code)
    if over.get("reason") == "OOMKilled":
        limit = _memory(pod)
        size = f" of {limit}" if limit else ""
        text = f"because it ran out of its memory limit{size}"
        return Exited(code, text, Cause.OUT_OF_MEMORY)
    if code == REFUSED:
        return Exited(
            code, "because its pod was replaced: deleted, or its node drained", Cause.DRAIN
        )
    if _at(pod, "metadata", "deletionTimestamp"):
        return Exited(code, "because its pod was deleted or its node drained", Cause.DRAIN)
    return exited(code) if isinstance(code, int) else Exited(code, "for reasons unknown")


def _taken(pod: Object, code: int | None = None) -> Exited:
    reason = str(_at(pod, "status", "reason") or "")
    other = f"because its pod failed ({reason})" if reason else "with its pod"
    cause, text = _TAKEN.get(reason, (Cause.CRASH, other))
    message = str(_at(pod, "status", "message") or "")
    return Exited(code, f"{text}{_with(message)}", cause)


def _without_pod(deployment: Object | None) -> Status:
    if deployment is None:
        return Exited(None, "because its Deployment was deleted")
    for condition in _at(deployment, "status", "conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return Starting(f"no pod can be made: {condition.get('message')}", queued=True)
    return Starting("its pod is being made")


def _living(pod: Object) -> Status:
    for condition in _at(pod, "status", "conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            why = condition.get("message") or condition.get("reason") or ""
            return Starting(f"its pod waits for a node{_with(why)}", queued=True)
    for container in _containers(pod):
        state = container.get("state") or {}
        if "running" in state:
            return Running()
        waiting = state.get("waiting") or {}
        reason = waiting.get("reason") or ""
        if reason not in _NOT_YET:
            return Starting(f"{reason}{_with(waiting.get('message') or '')}")
    node = _at(pod, "spec", "nodeName")
    return Starting(f"its container is being made on {node}" if node else "its pod has been made")


def _containers(pod: Object) -> Iterator[Object]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from _at(pod, "status", kind) or ()


def _memory(pod: Object) -> str:
    for container in _at(pod, "spec", "containers") or ():
        limit = _at(container, "resources", "limits", "memory")
        if limit:
            return str(limit)
    return ""


def _with(message: str) -> str:
    text = " ".join(message.split()).rstrip(".")
    return f": {text}" if text else ""


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
