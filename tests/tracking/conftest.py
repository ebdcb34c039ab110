"""Every test has a hub of its own, and a spool; nothing of whoever runs the tests is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from client.conftest import nobody
from publisher.conftest import environment, spool_root
from storage.conftest import no_environment, proxy, s3
from support.hub import HubProcess
from support.ports import free_port
from support.seaweedfs import seaweedfs

__all__ = ["environment", "no_environment", "nobody", "proxy", "s3", "seaweedfs", "spool_root"]


@pytest.fixture
def hub(tmp_path: Path, nobody: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubProcess]:
    """A hub that runs of this test find, at the same address when it is started again."""
    with HubProcess(tmp_path / "hub", port=free_port()) as hub:
        monkeypatch.setenv("TBHUB_URL", hub.url)
        monkeypatch.setenv("TBHUB_TOKEN", hub.token)
        yield hub


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tests run in a directory of their own, and are no part of a job."""
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "TBHUB_LOGDIR", "TBHUB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work
