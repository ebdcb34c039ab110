"""Containers keep the launchers' contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.launcher_contract import Engine, LauncherContract
from support.podman import IMAGE, Podman
from tbhub.launchers.base import Details

pytestmark = pytest.mark.podman


class TestDocker(LauncherContract):
    @pytest.fixture
    def engine(self, podman: Podman, tmp_path: Path) -> Engine:
        def kill(details: Details) -> None:
            podman.run("kill", "--signal", "KILL", details["container"])

        volumes = {**podman.volumes, str(tmp_path): str(tmp_path)}
        options = {"image": IMAGE, "engine": podman.url, "volumes": volumes}
        return Engine("docker", kill, "by signal SIGKILL (exit code 137)", options)
