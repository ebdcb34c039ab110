"""What a pod's status means for its host, in words a person understands."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbhub.boards.life import Cause
from tbhub.launchers.base import Exited, Running, Starting, Status
from tbhub.launchers.endings import exited
from tbhub.launchers.kubernetes_status import is_over, last_words, status

IMAGE = "team/tbhub:7"


def pod(
    made: str = "2026-01-01T00:00:00Z", *, deleted: bool = False, **more: Any
) -> dict[str, Any]:
    """A pod; `state` and `last` are those of its container."""
    metadata = {"name": "p", "creationTimestamp": made}
    if deleted:
        metadata["deletionTimestamp"] = made
    container = {"name": "host", "image": IMAGE, "state": more.pop("state", {})}
    container["lastState"] = more.pop("last", {})
    limits = {"resources": {"limits": {"memory": "2Gi"}}}
    return {
        "metadata": metadata,
        "spec": {"containers": [limits], **more.pop("spec", {})},
        "status": {"containerStatuses": [container], **more},
    }


def over(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason}}


def waits(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient memory.",
}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (pod(state={"running": {"startedAt": "now"}}, phase="Running"), Running()),
        (pod(phase="Pending"), Starting("its pod has been made")),
        (
            pod(state=waits("ContainerCreating"), spec={"nodeName": "n1"}),
            Starting("its container is being made on n1"),
        ),
        (
            pod(conditions=[UNSCHEDULABLE]),
            Starting(
                "its pod waits for a node: 0/3 nodes are available: 3 Insufficient memory",
                queued=True,
            ),
        ),
        (
            pod(state=waits("ErrImagePull", "not found")),
            Starting("ErrImagePull: not found"),
        ),
        (
            pod(state=waits("ImagePullBackOff", 'Back-off pulling image "team/tbhub:7"')),
            Exited(
                None,
                f'because its image {IMAGE} cannot be had: Back-off pulling image "{IMAGE}"',
            ),
        ),
        (
            pod(state=waits("CreateContainerConfigError", 'secret "x" not found')),
            Starting('CreateContainerConfigError: secret "x" not found'),
        ),
        (pod(state=over(1)), Exited(1, "with exit code 1")),
        (pod(state=over(143)), exited(143)),
        (
            pod(state=over(137, "OOMKilled")),
            Exited(137, "because it ran out of its memory limit of 2Gi", Cause.OUT_OF_MEMORY),
        ),
        (
            # It was started anew by then, which does not help the host.
            pod(state=waits("CrashLoopBackOff"), last=over(137, "OOMKilled")),
            Exited(137, "because it ran out of its memory limit of 2Gi", Cause.OUT_OF_MEMORY),
        ),
        (
            pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
            Exited(
                None,
                "because its pod was evicted: The node was low on resource: memory",
                Cause.EVICTION,
            ),
        ),
        (
            pod(phase="Failed", reason="Evicted", state=over(137)),
            Exited(137, "because its pod was evicted", Cause.EVICTION),
        ),
        (
            pod(deleted=True, state={"running": {}}),
            Exited(None, "because its pod was deleted or its node drained", Cause.DRAIN),
        ),
        (
            pod(state=over(3)),
            Exited(3, "because its pod was replaced: deleted, or its node drained", Cause.DRAIN),
        ),
    ],
)
def test_how_a_host_is(one: dict[str, Any], expected: Status) -> None:
    assert status([one], None) == expected


def test_of_several_pods_the_one_that_ended_tells() -> None:
    first = pod("2026-01-01T00:00:00Z", phase="Failed", reason="Evicted")
    second = pod("2026-01-01T00:00:09Z", state={"running": {}})
    for pods in ([first, second], [second, first]):
        found = status(pods, None)
        assert isinstance(found, Exited)
        assert found.taken


def test_a_host_without_a_pod_is_known_by_its_deployment() -> None:
    assert status([], None) == Exited(None, "because its Deployment was deleted")
    assert status([], {"status": {}}) == Starting("its pod is being made")
    quota = 'pods "p" is forbidden: exceeded quota: team'
    failure = {"type": "ReplicaFailure", "status": "True", "message": quota}
    refused = {"status": {"conditions": [failure]}}
    assert status([], refused) == Starting(f"no pod can be made: {quota}", queued=True)


def test_the_last_lines_outlive_the_container() -> None:
    kept = {"terminated": {"exitCode": 1, "message": "one\nImportError: tbhub\n"}}
    assert last_words(pod(last=kept)) == ["one", "ImportError: tbhub"]
    assert last_words(pod(state={"running": {}})) == []


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.dictionaries(
        st.sampled_from(
            ["status", "metadata", "spec", "phase", "conditions", "state", "reason", "message"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec"]), anything, max_size=2))
def test_a_pod_that_says_little_is_no_error(one: dict[str, Any]) -> None:
    assert isinstance(status([one], None), Starting | Exited)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (pod(state={"running": {}}), False),
        (pod(state={"running": {}}, deleted=True), False),
        (pod(state=over(143), deleted=True), True),
        (pod(state=waits("ContainerCreating"), deleted=True), True),
        (pod(state=over(1)), False),  # and will be started again
    ],
)
def test_a_pod_that_goes_is_over_when_nothing_of_it_runs(
    one: dict[str, Any], expected: bool
) -> None:
    assert is_over(one) is expected
