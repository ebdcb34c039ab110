"""Pods keep the launchers' contract: a hub outside of a real cluster, its hosts inside."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kubernetes_cluster import OwnCluster
from support.kubernetes_hub import kubernetes_engine
from support.launcher_contract import Engine, LauncherContract
from tbhub.launchers.base import Details

pytestmark = pytest.mark.kubernetes


class TestKubernetes(LauncherContract):
    @pytest.fixture
    def engine(self, own_cluster: OwnCluster, tmp_path: Path) -> Iterator[Engine]:
        def kill(details: Details) -> None:
            for process in own_cluster.processes_of(own_cluster.pod_of(details)):
                os.kill(process, signal.SIGKILL)

        with kubernetes_engine(own_cluster, tmp_path, kill) as engine:
            yield engine
