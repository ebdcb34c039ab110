"""Jobs of a real Slurm that are requeued: one run, and nothing flushed is lost or there twice."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path

import pytest

from support.hub import HubProcess, eventually
from support.slurm import Slurm, slurm
from tracking.test_command import TBHUB, known, python
from tracking.test_resume import TRAIN, steps

__all__ = ["slurm"]

# The first start never ends by itself.
JOB = (
    TRAIN
    + """
if first == 0:
    Path("ready").touch()
    import time; time.sleep(600)
writer.close()
"""
)
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def submit(slurm: Slurm, code: str) -> str:
    """Submit a training that may be requeued; the number of its job."""
    command = [*TBHUB, "run", "--resume-or-start", *python(code)]
    wrapped = f"--wrap=exec {shlex.join(command)}"
    return slurm.ask("sbatch", "--parsable", "--requeue", "--output=job.log", wrapped)


def requeue(slurm: Slurm, job: str) -> None:
    assert slurm.run("scontrol", "requeue", job) == 0
    eventually(lambda: slurm.ask("squeue", "-h", "-j", job, "-o", "%T") == "PENDING")
    # Slurm would wait for two minutes, in which its credentials expire.
    assert slurm.run("scontrol", "update", f"jobid={job}", "starttime=now") == 0


@pytest.mark.parametrize("ends_by", [signal.SIGTERM, signal.SIGKILL])
def test_a_requeued_job_continues_its_run(
    hub: HubProcess, slurm: Slurm, elsewhere: Path, ends_by: signal.Signals
) -> None:
    job = submit(slurm, JOB if ends_by == signal.SIGTERM else DEAF + JOB)
    log = elsewhere / "job.log"
    eventually((elsewhere / "ready").exists, "the job does not train")
    requeue(slurm, job)

    def has_finished() -> bool:
        return bool(known(hub)["attempt"] == 2 and known(hub)["status"] == "finished")

    eventually(has_finished, f"the job did not continue: {log.read_text()}")
    assert len(hub.json("GET", "/api/v1/runs")["runs"]) == 1
    assert steps(hub) == list(range(10))
    assert "from 5" in log.read_text()
