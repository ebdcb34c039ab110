"""A host as a job of Slurm's: what is submitted, and what Slurm's answers mean."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbhub.boards.life import Cause
from tbhub.launchers.base import Exited, Running, Starting
from tbhub.launchers.choose import OptionsError, check
from tbhub.launchers.slurm import Slurm
from tbhub.launchers.slurm_job import Job, command, host_of, job_name, read_jobs, script, status_of

ENVIRONMENT = {"TBHUB_HOST_ID": "slurm-1", "TBHUB_HOST_TOKEN": "hidden"}


def test_the_command_names_what_is_asked_for_and_no_secret() -> None:
    options = Slurm(partition="cpu", account="lab", time_limit="2-0", memory="4G", cpus=2)
    made = command(options, "0123456789ab", "slurm-1", Path("/home/100%/hosts"))
    assert made[0] == "sbatch"
    assert {
        *("--partition=cpu", "--account=lab", "--time=2-0", "--mem=4G", "--cpus-per-task=2"),
        *("--gres=none", "--no-requeue", "--export=ALL"),
        "--job-name=tbhub-0123456789ab-slurm-1",
        "--output=/home/100%%/hosts/slurm-1.log",
    } <= set(made)
    plain = command(Slurm(extra=("--constraint=a b",)), "0123456789ab", "slurm-1", Path("/x"))
    assert plain[-1] == "--constraint=a b"
    assert not [each for each in plain if each.startswith(("--qos", "--mem", "--time"))]


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,9}", fullmatch=True), st.text(max_size=20)))
def test_values_reach_the_host_as_they_are(environment: dict[str, str]) -> None:
    told = {f"V_{name}": value for name, value in environment.items()}
    told = {name: value.replace("\0", "").replace("\r", "") for name, value in told.items()}
    told = {name: value.encode(errors="ignore").decode() for name, value in told.items()}
    made = script(Slurm(python="/bin/true"), told)
    exports = [line for line in made.split("\nexec ")[0].split("\n") if line]
    assert exports[0] == "#!/bin/sh"
    shell = "\n".join(exports) + "\n" + "\n".join(f'printf "%s\\0" "${name}"' for name in told)
    done = subprocess.run(["sh", "-c", shell], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == list(told.values())


def test_jobs_of_other_hubs_are_not_ours() -> None:
    name = job_name("0123456789ab", "slurm-12")
    assert host_of("0123456789ab", name) == "slurm-12"
    assert host_of("ba9876543210", name) is None
    assert host_of("0123456789ab", "train") is None


def old(state: str, **more: Any) -> dict[str, Any]:
    """As Slurm 22.05 writes a job."""
    told = {"job_id": 7, "name": "x", "job_state": state, "state_reason": "None", "exit_code": 0}
    return {**told, "restart_cnt": 0, **more}


def new(state: str, code: int = 0, number: int = 0) -> dict[str, Any]:
    """As Slurm 24.05 does."""
    exit_code = {
        "return_code": {"set": True, "infinite": False, "number": code},
        "signal": {"id": {"set": bool(number), "infinite": False, "number": number}},
    }
    return {
        **old(state, exit_code=exit_code),
        "job_state": [state],
        "restart_cnt": {"set": True, "infinite": False, "number": 0},
    }


@pytest.mark.parametrize(
    ("told", "job"),
    [
        (old("FAILED", exit_code=768), Job(7, "x", "FAILED", "None", exit_code=3)),
        (old("FAILED", exit_code=9), Job(7, "x", "FAILED", "None", signal=9)),
        (new("FAILED", code=3), Job(7, "x", "FAILED", "None", exit_code=3)),
        (new("FAILED", number=9), Job(7, "x", "FAILED", "None", signal=9)),
        (old("CANCELLED by 1000"), Job(7, "x", "CANCELLED", "None")),
    ],
)
def test_jobs_of_all_versions_are_read(told: dict[str, Any], job: Job) -> None:
    assert read_jobs(json.dumps({"jobs": [told]})) == {7: job}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"jobs": [{}]}', '{"jobs": 1}'])
def test_what_is_no_list_of_jobs_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_jobs(text)


@pytest.mark.parametrize(
    ("job", "status"),
    [
        (Job(7, "x", "PENDING"), Starting("job 7 is in Slurm's queue", queued=True)),
        (
            Job(7, "x", "PENDING", "Priority"),
            Starting(
                "job 7 waits in Slurm's queue behind jobs of higher priority (Priority)",
                queued=True,
            ),
        ),
        (Job(7, "x", "PENDING", "QOSLimit"), Starting("job 7 waits (QOSLimit)", queued=True)),
        (Job(7, "x", "RUNNING"), Running()),
        (Job(7, "x", "COMPLETING"), Running()),
        (Job(7, "x", "SUSPENDED"), Running()),
        (Job(7, "x", "COMPLETED"), Exited(0, "with exit code 0")),
        (Job(7, "x", "FAILED", exit_code=3), Exited(3, "with exit code 3")),
        (
            Job(7, "x", "FAILED", exit_code=137),
            Exited(137, "by signal SIGKILL (exit code 137)"),
        ),
        (Job(7, "x", "FAILED", signal=15), Exited(143, "by signal SIGTERM", Cause.TERMINATED)),
        (Job(7, "x", "FAILED", signal=11), Exited(139, "by signal SIGSEGV")),
        (
            Job(7, "x", "CANCELLED"),
            Exited(None, "by its job 7 being cancelled in Slurm (scancel)", Cause.CANCELLED),
        ),
        (
            Job(7, "x", "TIMEOUT"),
            Exited(None, "at its job's time limit (job 7, TIMEOUT)", Cause.TIME_LIMIT),
        ),
        (
            Job(7, "x", "NODE_FAIL"),
            Exited(None, "because its node failed (job 7, NODE_FAIL)", Cause.NODE_LOST),
        ),
        (
            Job(7, "x", "PENDING", restarts=1),
            Exited(None, "by being put back into Slurm's queue", Cause.PREEMPTION),
        ),
    ],
)
def test_what_slurm_says_is_told_to_people(job: Job, status: object) -> None:
    assert status_of(job) == status


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"partiton": "cpu"}, "did you mean partition?"),
        ({"partition": "a b"}, "option 'partition' of launcher slurm: a name"),
        ({"time_limit": "soon"}, "a time as Slurm writes it"),
        ({"memory": "much"}, "a size as Slurm writes it"),
        ({"directory": "logs"}, "a path that begins with /"),
        ({"extra": ["-p cpu"]}, "is to be like"),
        ({"extra": ["--export=ALL"]}, "--export is the hub's to say"),
        ({"environment": {"A B": "x"}}, "'A B' is not the name of a variable"),
        ({"cpus": 0}, "option 'cpus' of launcher slurm"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionsError) as caught:
        check("slurm", options)
    assert said in str(caught.value)
