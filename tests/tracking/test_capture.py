"""`tbhub run` adopts event files that unchanged scripts write wherever they like."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tbhub
from support.hub import HubProcess, eventually
from tbhub.publisher.spool import all_spools
from tracking.test_command import known, python, run, start

TORCH = """
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter({directory})
for step in range(5):
    writer.add_scalar("loss", 1 / (step + 1), step)
writer.close()
"""
TENSORBOARDX = TORCH.replace("torch.utils.tensorboard", "tensorboardX")
WAIT = """
writer.flush()
print("ready", flush=True)
import sys
sys.stdin.readline()
"""
# Logs a point, waits for a line on stdin, and logs another.
SLOW = """
import sys
from tensorboardX import SummaryWriter
writer = SummaryWriter(sys.argv[1])
writer.add_scalar(sys.argv[2], 1, 1)
writer.flush()
print("ready", flush=True)
sys.stdin.readline()
writer.add_scalar(sys.argv[2], 2, 2)
writer.close()
"""


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for /tmp/tensorboard; temporary files are the test's own as well."""
    place = tmp_path / "tensorboard"
    monkeypatch.setenv("TBHUB_CAPTURE_DIRS", str(place))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    return place


@pytest.mark.parametrize("code", [TORCH, TENSORBOARDX], ids=["torch", "tensorboardX"])
def test_default_directory_of_a_writer_is_adopted(hub: HubProcess, code: str) -> None:
    done = run("run", *python(code.format(directory="")))
    assert done.returncode == 0, done.stderr
    assert "adopted 1 event file from runs/" in done.stderr
    eventually(lambda: known(hub)["metrics"].get("loss", {}).get("count") == 5)
    assert len(list(Path("runs").rglob("*tfevents*"))) == 1
    assert all_spools() == []
