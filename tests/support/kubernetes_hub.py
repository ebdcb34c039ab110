"""A hub outside of a cluster whose hosts run inside of it, and see its runs by a volume claim."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.kubernetes_cluster import NAMESPACE, OwnCluster
from support.launcher_contract import Engine
from tbhub.launchers.base import Details


@contextmanager
def kubernetes_engine(
    cluster: OwnCluster,
    directory: Path,
    kill: Callable[[Details], None] = lambda _: None,
    **options: object,
) -> Iterator[Engine]:
    """What makes hubs whose runs are in a directory; ``kill`` as the launchers' contract has it."""
    runs = directory / "runs"
    runs.mkdir(exist_ok=True)
    claims = {f"runs-{secrets.token_hex(4)}": str(runs)}
    with cluster.claimed(NAMESPACE, claims):
        given = {**cluster.options, "claims": {**cluster.claims, **claims}, **options}
        settings = {"host": cluster.outside}
        yield Engine("kubernetes", kill, "by signal SIGKILL (exit code 137)", given, settings)
