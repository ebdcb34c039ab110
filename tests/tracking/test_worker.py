"""Which workers are known to be dead, by real processes, and which only may be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tbhub.publisher.spool import make_spool
from tbhub.tracking.owed import Known, write_known
from tbhub.tracking.worker import Attempt, death_of, this_worker

ATTEMPT = Attempt("http://hub", 1, 1)
TELL = (
    "import json; from tbhub.tracking.worker import this_worker; print(json.dumps(this_worker()))"
)


@pytest.fixture
def worker() -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A process, and its record."""
    code = f"{TELL}; import sys; sys.stdout.flush(); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


Worker = tuple[subprocess.Popen[str], dict[str, Any]]


def test_a_process_is_dead_when_it_is_gone(worker: Worker) -> None:
    process, record = worker
    assert death_of(record, ATTEMPT) == ""
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie writes nothing
    assert death_of(record, ATTEMPT) == f"its process {process.pid} on this machine is gone"
    process.communicate()
    assert "is gone" in death_of(record, ATTEMPT)


def test_a_process_id_that_is_used_again_is_another_process(worker: Worker) -> None:
    _, record = worker
    assert "is gone" in death_of({**record, "started": record["started"] - 1}, ATTEMPT)


@pytest.mark.parametrize(
    "other",
    [
        {"host": "elsewhere"},
        {"machine": "another"},
        {"boot": "another"},  # nothing on this disk says that it is the same machine
        {"namespace": 1},
        {"processes": 2},
        {"started": None},
        {"spool": None},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_cannot_be_seen_may_be_alive(worker: Worker, other: dict[str, Any]) -> None:
    process, record = worker
    process.kill()
    process.communicate()
    assert death_of({**record, **other}, ATTEMPT) == ""
    assert death_of({}, ATTEMPT) == ""


def test_a_spool_that_is_written_to_means_life(worker: Worker) -> None:
    """The supervisor was killed, and the training trains on."""
    process, record = worker
    spool = make_spool("hub://runs/1")
    write_known(spool, Known(1, 1, "http://hub"))
    lock = spool.hold()
    process.kill()
    process.communicate()
    assert death_of(record, ATTEMPT) == ""
    os.close(lock)
    assert "is gone" in death_of(record, ATTEMPT)


def test_a_command_of_the_attempt_means_life(worker: Worker) -> None:
    process, record = worker
    process.kill()
    process.communicate()
    environment = {**os.environ, "TBHUB_RUN_ID": "71", "TBHUB_ATTEMPT": "3"}
    environment["TBHUB_URL"] = "http://hub"
    command = subprocess.Popen(["sleep", "60"], env=environment)
    try:
        assert death_of(record, Attempt("http://hub", 71, 3)) == ""
        assert "is gone" in death_of(record, Attempt("http://hub", 71, 2))
    finally:
        command.kill()
        command.wait()


def test_a_machine_that_was_rebooted_has_its_spool(worker: Worker) -> None:
    _, record = worker
    write_known(make_spool("hub://runs/1"), Known(1, 1, "http://hub"))
    rebooted = {**record, "boot": "another", "machine": this_worker()["machine"] or "m"}
    expected = "has been rebooted since" if this_worker()["machine"] else ""
    assert expected in death_of(rebooted, ATTEMPT)


def test_a_job_that_slurm_has_requeued() -> None:
    job = {"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "c"}
    record = {**this_worker(job), "host": "elsewhere"}
    assert death_of(record, ATTEMPT, job) == ""
    again = {**job, "SLURM_RESTART_COUNT": "1"}
    assert death_of(record, ATTEMPT, again) == "Slurm has requeued job 7"
    assert death_of(record, ATTEMPT, {**again, "SLURM_CLUSTER_NAME": "d"}) == ""
    assert death_of({**this_worker(again), "host": "elsewhere"}, ATTEMPT, again) == ""


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """What Slurm says of any job."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def say(text: str, code: int = 0) -> None:
        tool = tmp_path / "scontrol"
        tool.write_text(f"#!/bin/sh\necho '{text}'\necho '{text}' >&2\nexit {code}\n")
        tool.chmod(0o755)

    return say


@pytest.mark.parametrize(
    ("said", "code", "is_dead"),
    [
        ("JobId=7 JobState=RUNNING Restarts=0", 0, False),
        ("JobId=7 JobState=COMPLETING Restarts=0", 0, False),
        ("JobId=7 JobState=RUNNING Restarts=1", 0, True),
        ("JobId=7 JobState=PREEMPTED Restarts=0", 0, True),
        ("JobId=7 JobState=NODE_FAIL Restarts=0", 0, True),
        ("slurm_load_jobs error: Invalid job id specified", 1, True),
        ("slurm_load_jobs error: Unable to contact slurm controller", 1, False),
    ],
)
def test_what_slurm_says_of_another_job(
    scontrol: Callable[[str, int], None], said: str, code: int, is_dead: bool
) -> None:
    scontrol(said, code)
    record = {
        **this_worker({"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "c"}),
        "host": "elsewhere",
    }
    mine = {"SLURM_JOB_ID": "8", "SLURM_CLUSTER_NAME": "c"}
    assert bool(death_of(record, ATTEMPT, mine)) == is_dead


def test_workers_that_torchrun_has_restarted() -> None:
    elastic = {"TORCHELASTIC_RUN_ID": "job", "RANK": "0", "WORLD_SIZE": "4"}
    record = this_worker(elastic)
    assert death_of(record, ATTEMPT, elastic) == ""
    again = {**elastic, "TORCHELASTIC_RESTART_COUNT": "1"}
    assert "torchrun has restarted" in death_of(record, ATTEMPT, again)
    assert death_of(record, ATTEMPT, {**again, "TORCHELASTIC_RUN_ID": "other"}) == ""
