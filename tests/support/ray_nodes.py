"""The nodes of a Ray cluster, in a process of their own: ``python -m support.ray_nodes``.

Told by lines of JSON on stdin, it answers with lines of JSON on stdout; the first is the address.
When stdin ends, so do all nodes.

    {"add": {…}}        starts a node, as `ray.cluster_utils.Cluster.add_node` takes it; its id
    {"remove": id}      ends a node as a machine ends that is shut down
    {"lose": id}        ends all of a node at once, as a machine does that has lost its power
    {"drain": id}       tells that a node is to go, as a cloud does of one that is preempted
    {"kill": name}      kills an actor of tbhub's, as anybody can
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import ray
from ray._raylet import GcsClient
from ray.cluster_utils import Cluster
from ray.core.generated import autoscaler_pb2

from tbhub.launchers.ray_options import NAMESPACE

_MEMORY = 80 << 20  # bytes of the object store; Ray takes no less
_ALL = {
    "node_ip_address": "127.0.0.2",  # Ray takes 127.0.0.1 for "the address others know"
    "num_cpus": 2,
    "memory": 2 << 30,
    "object_store_memory": _MEMORY,
    "include_dashboard": False,
    "include_log_monitor": False,
}


def main(client_port: int, dashboard_port: int) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(what: Any) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    first = {
        **_ALL,
        "labels": {"zone": "a"},
        "ray_client_server_port": client_port,
        "dashboard_port": dashboard_port,
        "no_monitor": True,
    }
    cluster = Cluster(initialize_head=True, head_node_args=first)
    nodes: dict[str, Any] = {}
    say(cluster.address)
    for line in sys.stdin:
        ((what, given),) = json.loads(line).items()
        answer = None
        if what == "add":
            node = cluster.add_node(**{**_ALL, **given})
            answer = node.node_id
            nodes[node.node_id] = node
        elif what == "drain":
            preempted = autoscaler_pb2.DrainNodeReason.DRAIN_NODE_REASON_PREEMPTION
            deadline = int(time.time() * 1000) + 60_000
            gcs = GcsClient(address=cluster.address)
            answer = gcs.drain_node(given, preempted, "preempted", deadline)
        elif what == "kill":
            ray.init(cluster.address, ignore_reinit_error=True, log_to_driver=False)
            ray.kill(ray.get_actor(given, namespace=NAMESPACE))
        else:
            node = nodes.pop(given, None)  # one that was lost is no matter
            if node is not None:
                cluster.remove_node(node, allow_graceful=what == "remove")
        say(answer)
    cluster.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
