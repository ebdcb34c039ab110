"""Curves of the machine. No graphics card is here: `NVIDIA_SMI_DOUBLE` stands in for its tool."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.hub import eventually
from tbhub.series.load import load
from tbhub.tracking import system
from tbhub.tracking.system import SystemMetrics, graphics_cards

# Prints what the real tool would for `--query-gpu=index,utilization.gpu,memory.used`.
NVIDIA_SMI_DOUBLE = """#!/bin/sh
test "$1" = --query-gpu=index,utilization.gpu,memory.used || exit 9
test "$2" = --format=csv,noheader,nounits || exit 9
cat <<'END'
{said}
END
exit {code}
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory where programs are found first."""
    made = tmp_path / "tools"
    made.mkdir()
    monkeypatch.setenv("PATH", f"{made}:{os.environ['PATH']}")
    return made


def install_double(tools: Path, said: str, code: int = 0) -> None:
    double = tools / "nvidia-smi"
    double.write_text(NVIDIA_SMI_DOUBLE.format(said=said, code=code))
    double.chmod(0o755)


def test_cards_are_told_apart_and_tell_what_they_know(tools: Path) -> None:
    install_double(tools, "0, 97, 40536\n1, [N/A], 1\n3, 0, [Not Supported]")
    assert graphics_cards() == {
        "gpu0_percent": 97.0,
        "gpu0_memory_bytes": 40536 * 2**20,
        "gpu1_memory_bytes": 2**20,
        "gpu3_percent": 0.0,
    }


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9),
        ("No devices were found", 6),
        ("", 0),
    ],
)
def test_a_tool_that_has_nothing_to_tell(tools: Path, said: str, code: int) -> None:
    install_double(tools, said, code)
    assert graphics_cards() == {}


def test_no_tool_and_one_that_hangs(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = tools / "nvidia-smi"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(system, "_GPU_TIMEOUT", 0.1)
    assert graphics_cards() == {}
    monkeypatch.setenv("PATH", str(tools / "none"))
    assert graphics_cards() == {}


def test_a_short_command_has_a_point_of_its_start_and_one_of_its_end(tmp_path: Path) -> None:
    code = "import time; x = b'x' * (64 << 20); end = time.process_time() + 0.5\n"
    busy = subprocess.Popen([sys.executable, "-c", f"{code}while time.process_time() < end: pass"])
    metrics = SystemMetrics(tmp_path / "run", busy.pid)
    os.waitid(os.P_PID, busy.pid, os.WEXITED | os.WNOWAIT)
    metrics.close()
    busy.wait()
    curves = load(tmp_path / "run")["system"].scalars
    assert {"cpu_percent", "memory_bytes"} <= set(curves)
    for curve in (curves["cpu_percent"], curves["memory_bytes"]):
        assert len(curve.steps) >= 2
        assert sorted(set(curve.steps)) == list(curve.steps)
    assert curves["cpu_percent"].values[-1] > 0
    assert min(curves["memory_bytes"].values) > 0


def test_a_command_that_ends_at_once_has_used_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "_INTERVAL", 0.05)
    quick = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    metrics = SystemMetrics(tmp_path / "run", quick.pid)
    assert quick.stdin is not None
    with quick.stdin as told:
        told.write(b"\n")
    os.waitid(os.P_PID, quick.pid, os.WEXITED | os.WNOWAIT)

    def has_points() -> bool:
        metrics._writer.flush()
        points = load(tmp_path / "run")["system"].scalars.get("memory_bytes")
        return points is not None and len(points.steps) > 2

    eventually(has_points)
    metrics.close()
    quick.wait()
    assert min(load(tmp_path / "run")["system"].scalars["memory_bytes"].values) > 0


def test_curves_of_a_command(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_double(tools, "0, 50, 100")
    monkeypatch.setattr(system, "_INTERVAL", 0.05)
    command = [sys.executable, "-c", "x = b'x' * (64 << 20)\nwhile True: pass"]
    busy = subprocess.Popen(command)
    metrics = SystemMetrics(tmp_path / "run", busy.pid, first_step=40)

    def has_points() -> bool:
        metrics._writer.flush()
        points = load(tmp_path / "run")["system"].scalars.get("gpu0_memory_bytes")
        return points is not None and len(points.steps) > 3

    try:
        eventually(has_points)
    finally:
        busy.kill()
        busy.wait()
        metrics.close()
    curves = load(tmp_path / "run")["system"].scalars
    assert set(curves) == {
        "cpu_percent",
        "memory_bytes",
        "gpu0_percent",
        "gpu0_memory_bytes",
    }
    assert max(curves["memory_bytes"].values) > 64 << 20
    assert max(curves["cpu_percent"].values) > 0
    assert set(curves["gpu0_memory_bytes"].values) == {100 * 2**20}
    assert min(curves["cpu_percent"].steps) >= 40
