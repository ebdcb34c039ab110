"""Hosts as jobs of a real Slurm."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.hub import HubProcess, eventually
from support.launcher_contract import UP, Engine, LauncherContract, shown
from support.slurm import Slurm
from tbhub.launchers.base import Details
from tbhub.launchers.slurm import Slurm as SlurmOptions
from tbhub.launchers.slurm import SlurmLauncher

pytestmark = pytest.mark.slurm


def cancel(details: Details) -> None:
    subprocess.run(["scancel", str(details["job"])], check=True)


@pytest.fixture
def engine(slurm: Slurm) -> Engine:
    return Engine(
        "slurm", cancel, "being cancelled in Slurm (scancel)", cancels=True, verb="was cancelled"
    )


@contextmanager
def full(slurm: Slurm, *options: str) -> Iterator[str]:
    """A job that has all nodes for itself."""
    command = ["sbatch", "--parsable", "--exclusive", "--nodes=2", "--output=/dev/null", *options]
    job = subprocess.run(
        command, input="#!/bin/sh\nsleep 600\n", text=True, capture_output=True, check=True
    ).stdout.strip()
    try:
        eventually(lambda: slurm.ask("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING")
        yield job
    finally:
        subprocess.run(["scancel", job], check=True)


def lines(hub: HubProcess, board: str) -> list[str]:
    """What a board's log says, as `tbhub start` prints it."""
    return [each["text"] for each in hub.json("GET", f"/api/v1/boards/{board}/logs")["lines"]]


def test_logs_of_hosts_long_gone_are_deleted(tmp_path: Path) -> None:
    for number in range(150):
        (tmp_path / f"slurm-{number}.log").touch()
        os.utime(tmp_path / f"slurm-{number}.log", (number, number))
    (tmp_path / "else.log").touch()
    launcher = SlurmLauncher("0123456789ab", tmp_path, SlurmOptions(python="/no/such"))
    launcher._prune()
    left = sorted(int(each.stem.rpartition("-")[2]) for each in tmp_path.glob("slurm-*.log"))
    assert left == list(range(50, 150))
    assert (tmp_path / "else.log").exists()


class TestSlurm(LauncherContract):
    def test_who_waits_is_told_why(self, slurm: Slurm, engine: Engine, home: Path) -> None:
        with engine.hub(home, start_timeout=5) as hub:
            hub.wait_for_runs(1)
            with full(slurm):
                board = hub.json("POST", "/api/v1/boards", json={"runs": "all"})["id"]
                eventually(
                    lambda: any("until nodes are free" in each for each in lines(hub, board))
                )
                assert hub.json("GET", f"/api/v1/boards/{board}")["state"] == "QUEUED"
                other = hub.json("POST", "/api/v1/boards", json={"runs": "all"})["id"]
                eventually(lambda: len(engine.there(home)) == 2)
                # Who does not want it any more has no job in the queue.
                hub.json("POST", f"/api/v1/boards/{other}/kill")
                eventually(lambda: len(engine.there(home)) == 1)
            hub.wait_for(board, *UP)

    def test_boards_of_a_preempted_job_go_on_in_another(
        self, slurm: Slurm, engine: Engine, home: Path
    ) -> None:
        with engine.hub(home) as hub:
            hub.wait_for_runs(1)
            board = hub.create_board(runs="all")
            with full(slurm, "--partition=urgent"):
                eventually(lambda: any("preempted" in each for each in lines(hub, board["id"])))
            after = hub.wait_for(board["id"], *UP)
            assert after["host"] != board["host"]
            assert after["url"] == board["url"]
            eventually(lambda: shown(hub, board) == ["a"])

    def test_boards_of_a_node_that_fails_go_on_on_another(
        self, slurm: Slurm, engine: Engine, home: Path
    ) -> None:
        with engine.hub(home) as hub:
            hub.wait_for_runs(1)
            board = hub.create_board(runs="all")
            job = str(engine.there(home)[board["host"]]["job"])
            node = f"nodename={slurm.ask('squeue', '-h', '-j', job, '-o', '%N')}"
            slurm.run("scontrol", "update", node, "state=down", "reason=test")
            try:
                eventually(lambda: any("node failed" in each for each in lines(hub, board["id"])))
                after = hub.wait_for(board["id"], *UP)
            finally:
                # It may have come back by itself.
                slurm.run("scontrol", "update", node, "state=resume", check=False)
            assert after["host"] != board["host"]
            eventually(lambda: shown(hub, board) == ["a"])

    def test_what_slurm_does_not_take_is_told(self, engine: Engine, home: Path) -> None:
        options = json.dumps({"partition": "nope"})
        with engine.hub(home, launcher_options=options) as hub:
            hub.wait_for_runs(1)
            board = hub.json("POST", "/api/v1/boards", json={"runs": "all"})["id"]
            failed = hub.wait_for(board, "FAILED")
            assert failed["reason"] == "START_FAILED"
            assert "invalid partition specified: nope" in failed["message"].lower()

    def test_nobody_sees_the_token(self, slurm: Slurm, engine: Engine, home: Path) -> None:
        with engine.hub(home, hosts_url="http://127.0.0.1:9") as hub:
            hub.wait_for_runs(1)
            hub.json("POST", "/api/v1/boards", json={"runs": "all"})
            details = next(iter(eventually(lambda: engine.there(home)).values()))
            job = str(details["job"])
            told = slurm.ask("scontrol", "show", "job", job, "--details")
            script = slurm.ask("scontrol", "write", "batch_script", job, "-")
            token = script.partition("TBHUB_HOST_TOKEN=")[2].split()[0]
            assert len(token) > 30
            assert token not in told
            assert hub.token not in script
            assert "--" not in slurm.ask("squeue", "-h", "-j", job, "-o", "%k")
            log = home / "hosts" / f"{details['host']}.log"
            eventually(log.exists)
            assert token not in log.read_text()
            assert log.stat().st_mode & 0o77 == 0
