"""Jobs in the background, and the boards of runs by what they are called."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tbhub
from support.hub import PATIENCE, HubProcess, eventually
from tbhub.tracking import submit
from tbhub.tracking.process_table import start_time

LOG = """
import os, sys, time
from tbhub import SummaryWriter
with SummaryWriter(os.environ["PAI_OUTPUT_TENSORBOARD"]) as writer:
    writer.add_scalar("loss", 0.1, 1)
print("logged", flush=True)
{then}
"""
HPARAMS = {"lr": 0.1, "beta": 1.0, "v": "1.10", "sha": "12e4", "id": "007", "on": True, "t": "true"}


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
    job = tbhub.submit(python(then), name="a", hparams=HPARAMS, wait=False)
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
    assert found["hparams"] == HPARAMS
    assert isinstance(found["hparams"]["beta"], float)


def printed(job: tbhub.Job) -> str:
    """Return what the command of a job has printed, without lines of tbhub."""
    lines = job.logs().splitlines()
    return "\n".join(line for line in lines if not line.startswith("tbhub: "))


def test_a_job_that_fails_says_how(hub: HubProcess) -> None:
    with pytest.raises(
        tbhub.UnexpectedStatusException, match=r"(?s)exit code 3.*no data here"
    ) as failed:
        tbhub.submit("echo no data here >&2; exit 3")
    assert failed.value.status == "failed"
    assert hub.json("GET", "/api/v1/runs/1")["status"] == "failed"


def test_a_job_is_stopped(hub: HubProcess) -> None:
    job = tbhub.submit("sh -c 'echo $$; exec sleep 600'; echo after", wait=False)
    command = int(eventually(lambda: printed(job)))
    with pytest.raises(tbhub.WaitTimeout, match=r"is running after 0\.1 s"):
        job.wait(0.1)
    job.stop()
    with pytest.raises(tbhub.UnexpectedStatusException):
        job.wait(PATIENCE)
    assert job.status == "killed"
    assert start_time(command) is None
    assert hub.json("GET", f"/api/v1/runs/{job.run}")["status"] == "killed"


def test_a_job_survives_the_program_that_submitted_it(hub: HubProcess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = (
        "import sys, tbhub\n"
        f"job = tbhub.submit('while [ ! -e {go} ]; do sleep 0.02; done', wait=False)\n"
        "job.tensorboard(wait=False)\n"
        "print(job.id)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    job = tbhub.Job(done.stdout.strip())
    assert (job.run, job.status) == (1, "running")
    with pytest.raises(tbhub.WaitTimeout):
        job.wait(0)
    go.touch()
    job.wait(PATIENCE)
    assert job.status == "finished"
    assert "finished: http" in job.logs()
    assert hub.json("GET", "/api/v1/runs/1")["status"] == "finished"


def submitted_elsewhere(command: str) -> tbhub.Job:
    """Submit a command in another program, which ends; return the job."""
    script = f"import tbhub; print(tbhub.submit({command!r}, wait=False).id)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return tbhub.Job(done.stdout.strip())


def test_a_job_of_another_program_fails_with_its_exit_code(nobody: None) -> None:
    job = submitted_elsewhere("exit 3")
    with pytest.raises(tbhub.UnexpectedStatusException, match=r"is failed \(exit code 3\)"):
        job.wait(PATIENCE)


def test_a_job_of_another_program_is_stopped(nobody: None) -> None:
    job = submitted_elsewhere("echo begun; sleep 600; true")
    eventually(lambda: "begun" in job.logs())
    job.stop()
    with pytest.raises(tbhub.UnexpectedStatusException, match=r"is killed \(exit code 143\)"):
        job.wait(PATIENCE)
    job.stop()


def test_a_process_with_the_pid_of_a_job_is_not_the_job(nobody: None, data: Path) -> None:
    job = tbhub.submit("true", wait=False)
    job.wait(PATIENCE)
    record = data / "tbhub" / "jobs" / job.id / "process.json"
    (record.parent / "exit_code.json").unlink()
    process = subprocess.Popen(["sleep", "600"])
    try:
        record.write_text(json.dumps({**json.loads(record.read_text()), "pid": process.pid}))
        submit._children.clear()
        again = tbhub.Job(job.id)
        again.stop()
        assert again.status == "killed"
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_job_that_is_not_here_is_refused(nobody: None, data: Path) -> None:
    for unknown in ("abc", "", "../jobs"):
        with pytest.raises(ValueError, match="there is no job"):
            tbhub.Job(unknown)
    record = data / "tbhub" / "jobs" / "abc" / "process.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"pid": 1, "started": 1, "host": "node7"}))
    with pytest.raises(ValueError, match="job abc was submitted on node7"):
        tbhub.Job("abc")


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
        'test -z "$TBHUB_JOB_DIRECTORY" && test "$PWD" = / && test "$X" = 1',
        cwd="/",
        env={"X": "1"},
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
        assert tbhub.tensorboard(called).id == board.id
    assert tbhub.tensorboard("resnet").details.runs == 2
    assert tbhub.tensorboard("exp:resnet").details.runs == 2
    with pytest.raises(tbhub.NotFound, match="no run and no experiment 'none'"):
        tbhub.tensorboard("none")
    with tbhub.Run("first") as run:
        run.log_metrics({"loss": 1.0})
    with pytest.raises(tbhub.Ambiguous, match=f'trial:{runs[0].id} or exp:"first"'):
        tbhub.tensorboard("first")


def test_the_board_of_a_selector_or_a_path(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("s1", "s2", "s3", "all"):
        with tbhub.Run("sweep", name) as run:
            run.log_metrics({"loss": 1.0})
    monkeypatch.chdir(tmp_path)
    for place in ("mix", "my runs"):
        with tbhub.SummaryWriter(tmp_path / place / "a") as writer:
            writer.add_scalar("loss", 1.0, 1)
    for text, shown in {
        "s1-s3": 3,
        "s1*": 1,
        "s1, s2": 2,
        "s1 s2": 2,
        "*": 4,
        "where name = s2": 1,
        "s1-s3 order by name limit 2": 2,
        '"s3"': 1,
    }.items():
        assert tbhub.tensorboard(text).details.runs == shown, text
    named = tbhub.tensorboard("all")  # the run of this name, not all runs
    assert named.details.trials == [run.id]
    for text, place in (("./mix", "mix"), ("mix/", "mix"), ("./my runs", "my runs")):
        assert tbhub.tensorboard(text).details.sources[0].strip('"') == str(tmp_path / place), text
    with pytest.raises(tbhub.NotFound, match="no run s7-s9"):
        tbhub.tensorboard("s7-s9")
    with pytest.raises(tbhub.BadRequest, match="column"):
        tbhub.tensorboard("where name = = s2")
    bucket = tbhub.tensorboard("s3://no-such-bucket/logs", wait=False)
    assert bucket.details.uris == ["s3://no-such-bucket/logs"]
