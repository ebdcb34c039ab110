"""Processes of this machine keep the launchers' contract."""

from __future__ import annotations

import psutil
import pytest

from support.launcher_contract import Engine, LauncherContract
from tbhub.launchers.base import Details


def kill(details: Details) -> None:
    """Kills what the shell around a host has started."""
    for each in psutil.Process(details["pid"]).children():
        each.kill()


class TestLocal(LauncherContract):
    @pytest.fixture
    def engine(self) -> Engine:
        return Engine("local", kill, "by signal SIGKILL (exit code 137)")
