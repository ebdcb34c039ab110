"""Jobs in the background, and the boards of runs by what they are called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tbhub
from support.hub import PATIENCE, HubProcess, eventually

LOG = """
import os, sys, time
from tbhub import SummaryWriter
with SummaryWriter(os.environ["PAI_OUTPUT_TENSORBOARD"]) as writer:
    writer.add_scalar("loss", 0.1, 1)
print("logged", flush=True)
{then}
"""


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jobs of this test are kept in a directory of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


def python(then: str = "") -> list[str]:
    return [sys.executable, "-c", LOG.format(then=then)]


def test_a_job_in_the_background_has_a_board(hub: HubProcess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    then = f"while not os.path.exists({str(go)!r}): time.sleep(0.02)"
    job = tbhub.submit(python(then), name="a", hparams={"lr": 0.1, "opt": "adam"}, wait=False)
    board = job.tensorboard(timeout=PATIENCE)
    assert job.status == "running"
    assert board.status == "Running"
    assert board.details.trials == [job.run]
    assert job.tensorboard().id == board.id
    eventually(lambda: "logged" in job.logs())
    go.touch()
    job.wait(PATIENCE)
    assert job.status == "finished"
    job.stop()
    found = hub.json("GET", f"/api/v1/runs/{job.run}")
    assert (found["name"], found["status"]) == ("a", "finished")
    assert found["hparams"] == {"lr": 0.1, "opt": "adam"}


def test_a_job_that_fails_says_how(hub: HubProcess) -> None:
    with pytest.raises(
        tbhub.UnexpectedStatusException, match=r"(?s)exit code 3.*no data here"
    ) as failed:
        tbhub.submit("echo no data here >&2; exit 3")
    assert failed.value.status == "failed"
    assert hub.json("GET", "/api/v1/runs/1")["status"] == "failed"


def test_a_job_is_stopped(hub: HubProcess) -> None:
    job = tbhub.submit("echo begun; exec sleep 600", wait=False)
    eventually(lambda: "begun" in job.logs())
    with pytest.raises(tbhub.WaitTimeout, match=r"is running after 0\.1 s"):
        job.wait(0.1)
    job.stop()
    with pytest.raises(tbhub.UnexpectedStatusException):
        job.wait(PATIENCE)
    assert job.status == "killed"
    assert hub.json("GET", f"/api/v1/runs/{job.run}")["status"] == "killed"


def test_a_job_survives_the_program_that_submitted_it(hub: HubProcess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = (
        "import sys, tbhub\n"
        f"job = tbhub.submit('while [ ! -e {go} ]; do sleep 0.02; done', wait=False)\n"
        "job.tensorboard(wait=False)\n"
        "print(job.run)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        start_new_session=True,
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert hub.json("GET", "/api/v1/runs/1")["status"] == "running"
    go.touch()
    eventually(lambda: hub.json("GET", "/api/v1/runs/1")["status"] == "finished")


def test_the_board_of_a_job_that_no_hub_knows(nobody: None) -> None:
    job = tbhub.submit("exit 2", wait=False)
    with pytest.raises(tbhub.UnexpectedStatusException, match="is failed"):
        job.tensorboard(timeout=PATIENCE)
    assert job.run is None


def test_there_is_no_empty_job(nobody: None, data: Path) -> None:
    for nothing in ("", " ", []):
        with pytest.raises(ValueError, match="no command"):
            tbhub.submit(nothing)
    assert not data.exists()


def test_what_a_job_runs_is_not_told_of_the_job(hub: HubProcess) -> None:
    job = tbhub.submit(
        'test -z "$TBHUB_JOB_FILE" && test "$PWD" = / && test "$X" = 1', cwd="/", env={"X": "1"}
    )
    assert job.status == "finished"


def test_the_board_of_a_run_by_number_and_name(hub: HubProcess) -> None:
    runs = []
    for name in ("first", "second"):
        with tbhub.Run("resnet", name) as run:
            run.log_metrics({"loss": 1.0})
        runs.append(run)
    board = tbhub.tensorboard(runs[1])
    assert board.details.trials == [runs[1].id]
    for called in (runs[1].id, str(runs[1].id), "second", f"trial:{runs[1].id}"):
        assert called is not None
        assert tbhub.tensorboard(called).details.trials == [runs[1].id]
    assert tbhub.tensorboard("resnet").details.runs == 2
    assert tbhub.tensorboard("exp:resnet").details.runs == 2
    with pytest.raises(tbhub.NotFound, match="no run and no experiment 'none'"):
        tbhub.tensorboard("none")
    with tbhub.Run("first") as run:
        run.log_metrics({"loss": 1.0})
    with pytest.raises(tbhub.Ambiguous, match=f'trial:{runs[0].id} or exp:"first"'):
        tbhub.tensorboard("first")
