"""Runs that are resumed: by the same machine, by another, by a job that was started again."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import tbhub
from storage.conftest import Place
from support.hub import HubProcess, eventually
from support.ports import free_port
from support.preemption import children
from tbhub.api.problems import Ambiguous
from tbhub.publisher.restorer import RestoreError
from tbhub.publisher.spool import all_spools
from tbhub.tracking import lifeline
from tracking.test_command import LOG, known, python, run, start

WAIT = "\nprint('ready', flush=True); input()"
# Keeps a checkpoint of its last step, and goes on behind it.
TRAIN = """
import os, sys
from pathlib import Path
from tbhub import SummaryWriter
checkpoint = Path(os.environ["TBHUB_LOGDIR"], "checkpoints", "last.pt")
first = int(checkpoint.read_text()) if checkpoint.exists() else 0
print("from", first)
writer = SummaryWriter()
for step in range(first, first + 5):
    writer.add_scalar("loss", float(step), step)
writer.flush()
checkpoint.parent.mkdir(exist_ok=True)
checkpoint.write_text(str(step + 1))
"""
CLOSE = "\nwriter.close()"


@pytest.fixture
def another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """What is started from now on is on another machine."""

    def move() -> None:
        monkeypatch.setenv("TBHUB_SPOOL_DIR", str(tmp_path / "other-spool"))
        monkeypatch.setenv("TBHUB_HOME", str(tmp_path / "other-home"))

    return move


def killed(*arguments: object) -> int:
    """A worker that is ready, and is then killed with all its processes; its number."""
    process = start(*arguments, stdin=subprocess.PIPE)
    assert process.stdout is not None
    while (line := process.stdout.readline()) != "ready\n":
        assert line, process.stderr and process.stderr.read()
    for each in (process.pid, *children(process.pid)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    process.communicate(timeout=60)
    return process.pid


def steps(hub: HubProcess, number: int = 1) -> list[int]:
    found = tbhub.load(hub.home / "files" / str(number))["."].scalars["loss"].steps
    return [int(step) for step in found]


def test_the_directory_is_given_back_on_another_machine(
    hub: HubProcess, another_machine: Callable[[], None]
) -> None:
    assert run("run", "--name", "mine", *python(TRAIN + CLOSE)).stdout == "from 0\n"
    another_machine()
    done = run("run", "--resume", "mine", *python(TRAIN + CLOSE))
    assert done.stdout == "from 5\n", done.stderr
    assert "tbhub: restored 3 files" in done.stderr
    assert steps(hub) == list(range(10))
    assert all_spools() == []
    files = {path.name for path in (hub.home / "files" / "1").rglob("*") if path.is_file()}
    assert not any(".again" in name for name in files)
    assert hub.json("GET", "/api/v1/runs/1/log")["text"] == "from 0\nfrom 5\n"
    skipped = run("run", "--resume", "mine", "--no-restore", *python(TRAIN + CLOSE))
    assert skipped.stdout == "from 0\n"


def test_a_dead_attempt_on_this_machine_is_adopted_at_once(hub: HubProcess) -> None:
    """No --force, nothing to wait for, nothing lost; what was flushed is published along."""
    pid = killed("run", "--name", "mine", *python(TRAIN + WAIT))
    assert len(all_spools()) == 1
    done = run("run", "--resume", "mine", *python(TRAIN + CLOSE))
    assert done.stdout == "from 5\n", done.stderr
    assert f"attempt 1 has ended: its process {pid} on this machine is gone" in done.stderr
    assert "of the earlier attempt on this machine are there again" in done.stderr
    assert steps(hub) == list(range(10))
    assert (known(hub)["attempt"], known(hub)["status"]) == (2, "finished")
    assert all_spools() == []


def test_a_training_that_outlives_its_supervisor_is_not_resumed(hub: HubProcess) -> None:
    process = start("run", "--name", "mine", *python(TRAIN + WAIT), stdin=subprocess.PIPE)
    assert process.stdout is not None
    eventually(lambda: process.stdout and process.stdout.readline() == "ready\n")
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    refused = run("run", "--resume", "mine", *python("print('never')"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "is running" in refused.stderr
    process.communicate("\n", timeout=60)


def test_what_a_fenced_attempt_had_flushed_is_published_later(
    hub: HubProcess, another_machine: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first machine was away when the run was resumed on a second; then it comes back."""
    first = os.environ["TBHUB_SPOOL_DIR"]
    late = TRAIN.replace("writer.flush()", "writer.flush(); print('flushed', flush=True)")
    process = start("run", "--name", "mine", *python(late + WAIT), stdin=subprocess.PIPE)
    assert process.stdout is not None
    agents = list(children(process.pid))
    for each in agents:  # no agent: nothing more of this attempt reaches the hub
        if b"tbhub.publisher" in Path(f"/proc/{each}/cmdline").read_bytes():
            os.kill(each, signal.SIGSTOP)
    while process.stdout.readline() != "ready\n":
        pass
    for each in (process.pid, *children(process.pid)):
        os.kill(each, signal.SIGKILL)
    process.communicate(timeout=60)
    another_machine()
    done = run("run", "--resume", "mine", "--force", *python(LOG, 5, 9))
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("TBHUB_SPOOL_DIR", first)
    assert len(all_spools()) == 1
    synced = run("sync")
    assert (synced.returncode, all_spools()) == (0, []), synced.stdout
    assert "published  hub://runs/1" in synced.stdout
    assert steps(hub) == list(range(9))
    assert (hub.home / "files/1/checkpoints/last.pt").read_text() == "5"


def test_a_late_checkpoint_does_not_replace_a_newer_one(
    hub: HubProcess, another_machine: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = os.environ["TBHUB_SPOOL_DIR"]
    killed("run", "--name", "mine", *python(TRAIN + WAIT))
    (spool,) = all_spools()
    (spool.directory / "checkpoints" / "last.pt").write_text("older")
    another_machine()
    code = "import os; from pathlib import Path\n"
    code += "path = Path(os.environ['TBHUB_LOGDIR'], 'checkpoints'); path.mkdir(exist_ok=True)\n"
    code += "(path / 'last.pt').write_text('newer')"
    assert run("run", "--resume", "mine", "--force", *python(code)).returncode == 0
    monkeypatch.setenv("TBHUB_SPOOL_DIR", first)
    synced = run("sync")
    assert synced.returncode == 1
    assert "1 file cannot be published, everything else is published" in synced.stdout
    assert "'checkpoints/last.pt': a newer attempt of the run has written its own" in synced.stdout
    listed = run("sync", "--list")
    assert (listed.returncode, listed.stdout) == (1, synced.stdout)
    assert (hub.home / "files/1/checkpoints/last.pt").read_text() == "newer"
    assert (spool.directory / "checkpoints" / "last.pt").exists()
    assert run("sync", "--discard", "--yes").returncode == 0
    assert all_spools() == []


def test_three_machines_in_turn(
    hub: HubProcess, another_machine: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A, B, and A again: what A had left is published, what B has written is there."""
    first = os.environ["TBHUB_SPOOL_DIR"]
    killed(
        "run",
        "--name",
        "mine",
        *python(LOG.replace("print(", "0 and print(") + WAIT, 0, 5),
    )
    another_machine()
    code = LOG + "Path = __import__('pathlib').Path; Path(writer.logdir, 'b.pt').write_text('b')"
    assert run("run", "--resume", "mine", "--force", *python(code, 5, 9)).returncode == 0
    monkeypatch.setenv("TBHUB_SPOOL_DIR", first)
    read = LOG + "Path = __import__('pathlib').Path; print(Path(writer.logdir, 'b.pt').read_text())"
    done = run("run", "--resume", "mine", *python(read, 9, 12))
    assert done.stdout.endswith("b\n"), done.stderr
    assert steps(hub) == list(range(12))
    assert all_spools() == []


def test_a_run_is_not_resumed_without_its_files(
    nobody: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TBHUB_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setattr(lifeline, "_RESUME_TIMEOUT", 0.1)
    with pytest.raises(tbhub.client.errors.HubUnreachable, match=r"hint: .*--no-restore"):
        tbhub.Run(resume="mine")
    monkeypatch.setattr(lifeline, "PATIENCE", 2.0)
    with pytest.warns(tbhub.TbhubWarning):
        tbhub.Run(resume="mine", restore=False).finish()


def test_a_store_that_is_away_keeps_a_run_from_starting_over(
    hub: HubProcess,
    s3: Callable[..., Place],
    environment: Callable[[Place], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uri = environment(s3())
    assert run("run", "--storage", uri, "--name", "mine", *python(TRAIN + CLOSE)).returncode == 0
    monkeypatch.setattr(lifeline, "_RESTORING", lifeline._FETCHING)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(RestoreError, match=r"mine cannot be restored: .*hint: .*restore=False"):
        tbhub.Run(resume="mine")
    assert known(hub)["status"] == "failed"


def test_one_command_for_a_job_that_is_started_again(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    command = ("run", "--resume-or-start", *python(TRAIN + CLOSE))
    assert run(*command).stdout == "from 0\n"
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert run(*command).stdout == "from 5\n"
    assert (known(hub)["attempt"], steps(hub)) == (2, list(range(10)))
    monkeypatch.setenv("SLURM_JOB_ID", "78")
    assert run(*command).stdout == "from 0\n"
    monkeypatch.delenv("SLURM_JOB_ID")
    refused = run(*command)
    assert refused.returncode == 2
    assert "hint: give the run a name, or set TBHUB_RUN_KEY" in refused.stderr


def test_all_ranks_of_a_job_resume_as_one_attempt(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch, another_machine: Callable[[], None]
) -> None:
    monkeypatch.setenv("TBHUB_RUN_KEY", "job")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_ADDR", "node1")
    for attempt in (1, 2):
        monkeypatch.setenv("MASTER_PORT", str(attempt))
        processes = []
        for rank in (0, 1):
            monkeypatch.setenv("RANK", str(rank))
            options = ("run", "--resume-or-start")
            processes.append(start(*options, *python(TRAIN + CLOSE)))
        said = [process.communicate(timeout=90) for process in processes]
        assert [out for out, _ in said] == [f"from {5 * (attempt - 1)}\n"] * 2, said
        assert known(hub)["attempt"] == attempt
        another_machine()
    assert len(hub.json("GET", "/api/v1/runs")["runs"]) == 1
    for rank in ("", "rank1"):
        logged = tbhub.load(hub.home / "files" / "1" / rank)["."].scalars["loss"]
        assert logged.steps.tolist() == list(range(10))


def test_a_found_run_is_not_continued_by_a_job_of_its_name(
    hub: HubProcess, elsewhere: Path
) -> None:
    with tbhub.SummaryWriter("runs/exp7/run72") as writer:
        writer.add_scalar("loss", 1.0, 1)
    hub.json("POST", "/api/v1/logdirs", json={"path": str(elsewhere / "runs")})
    hub.wait_for_runs(1)
    before = sorted((elsewhere / "runs/exp7/run72").iterdir())
    refused = run("run", "--resume-or-start", "--name", "run72", *python(TRAIN + CLOSE))
    assert refused.returncode != 0
    assert "run72 is the name of run #1, which was found in" in refused.stderr
    assert "hint: choose another name" in refused.stderr
    assert "waiting for the hub" not in refused.stderr  # which has answered
    assert sorted((elsewhere / "runs/exp7/run72").iterdir()) == before


@pytest.mark.parametrize("how", [[], ["--resume-or-start"]])
def test_an_offline_run_keeps_its_name_beside_its_own_directory(
    hub: HubProcess, elsewhere: Path, how: list[str]
) -> None:
    code = "import tbhub; tbhub.SummaryWriter('runs/live/mine').add_scalar('a', 1.0, 1)"
    assert run("run", "--offline", *how, "--name", "mine", *python(code)).returncode == 0
    hub.json("POST", "/api/v1/logdirs", json={"path": str(elsewhere / "runs")})
    assert [each["name"] for each in hub.wait_for_runs(1)] == ["mine"]
    synced = run("sync")
    assert synced.returncode == 0, synced.stdout + synced.stderr

    def is_listed_once() -> bool:
        listed = hub.json("GET", "/api/v1/runs")["runs"]
        return [(each["name"], each["attempt"]) for each in listed] == [("mine", 1)]

    eventually(is_listed_once)


def test_a_job_is_not_started_anew_when_its_run_gets_a_longer_name(
    hub: HubProcess, elsewhere: Path
) -> None:
    for name in ("expA", "expB"):
        with tbhub.SummaryWriter(f"runs/{name}/rq") as writer:
            writer.add_scalar("loss", 1.0, 1)
        if name == "expA":
            hub.json("POST", "/api/v1/logdirs", json={"path": str(elsewhere / "runs")})
            hub.wait_for_runs(1)
            assert run("run", "--resume", "rq", *python("pass")).returncode == 0
            assert run("run", "--resume-or-start", "--name", "rq", *python("pass")).returncode == 0
    hub.wait_for_runs(2)
    refused = run("run", "--resume-or-start", "--name", "rq", *python("print('never')"))
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "No run is called rq any more: there is expA/rq (#1)" in refused.stderr
    assert len(hub.json("GET", "/api/v1/runs")["runs"]) == 2


def test_a_number_that_is_also_a_name_is_ambiguous(hub: HubProcess) -> None:
    for name in ("first", "1"):
        assert run("run", "--name", name, *python(TRAIN + CLOSE)).returncode == 0
    refused = run("run", "--resume", "1", *python(TRAIN + CLOSE))
    assert refused.returncode != 0
    assert "1 can mean 2 runs" in refused.stderr
    assert "#1, #2" in refused.stderr
    refused = run("runs", "show", "1")
    assert refused.returncode != 0
    assert "hint: write #1 or #2" in refused.stderr
    with pytest.raises(Ambiguous, match="trial:1 or trial:2"):
        tbhub.tensorboard("1")
    assert run("run", "--resume", "#2", *python(TRAIN + CLOSE)).returncode == 0
    assert [known(hub, number)["attempt"] for number in (1, 2)] == [1, 2]


def test_a_shared_directory_is_given_back_as_the_run_left_it(hub: HubProcess) -> None:
    for value, name in enumerate(("first", "second"), 1):
        with tbhub.Run(name=name, tensorboard_path="shared") as tracked:
            for _ in range(3):
                tracked.log_metrics({"v": float(value)})
            Path("shared/last.pt").write_text(name)
    with tbhub.Run(resume="first", tensorboard_path="shared"):
        assert Path("shared/last.pt").read_text() == "first"
        assert Path("shared/last.pt.other-run").read_text() == "second"
    kept = hub.home / "files"
    assert [(kept / str(number) / "last.pt").read_text() for number in (1, 2)] == [
        "first",
        "second",
    ]
    for number, value in ((1, 1.0), (2, 2.0)):
        found = tbhub.load(kept / str(number))["train"].scalars["v"]
        assert [float(each) for each in found.values] == [value] * 3


@pytest.mark.parametrize("how", ["resume-or-start", "resume"])
def test_without_a_hub_a_run_continues_with_the_files_of_this_machine(
    nobody: None, how: str
) -> None:
    again = (
        ("--resume-or-start", "--name", "mine")
        if how == "resume-or-start"
        else ("--resume", "mine")
    )
    first = again if how == "resume-or-start" else ("--name", "mine")
    killed("run", "--offline", *first, *python(TRAIN + WAIT))
    done = run("run", "--offline", *again, *python(TRAIN + CLOSE))
    assert done.stdout == "from 5\n"
    assert "the files of the earlier attempt on this machine are there again" in done.stderr
    (spool,) = all_spools()
    found = tbhub.load(spool.directory)["."].scalars["loss"].steps
    assert [int(step) for step in found] == list(range(10))


def test_a_run_that_this_machine_does_not_know_is_not_resumed_without_a_hub(nobody: None) -> None:
    refused = run("run", "--offline", "--resume", "mine", *python(TRAIN + CLOSE))
    assert refused.returncode != 0
    assert "run mine cannot be resumed without a hub: this machine has no files" in refused.stderr
    assert all_spools() == []


def test_without_a_hub_a_run_whose_process_lives_is_not_started_over(nobody: None) -> None:
    command = ("run", "--offline", "--resume-or-start", "--name", "mine")
    process = start(*command, *python(TRAIN + WAIT), stdin=subprocess.PIPE)
    assert process.stdout is not None
    while process.stdout.readline() != "ready\n":
        assert process.poll() is None
    refused = run(*command, *python(TRAIN + CLOSE))
    assert (refused.returncode != 0, refused.stdout) == (True, "")
    assert "are used by another process" in refused.stderr
    process.communicate("\n", timeout=60)
    assert len(all_spools()) == 1


def test_a_run_of_a_machine_without_a_hub_is_one_run_of_the_hub_later(hub: HubProcess) -> None:
    command = ("run", "--offline", "--resume-or-start", "--name", "mine", *python(TRAIN + CLOSE))
    assert [run(*command).stdout for _ in range(2)] == ["from 0\n", "from 5\n"]
    assert run("sync").returncode == 0
    assert (known(hub)["name"], known(hub)["status"]) == ("mine", "finished")
    assert steps(hub) == list(range(10))


def test_a_job_starts_where_no_hub_is_known(nobody: None) -> None:
    done = run("run", "--resume-or-start", "--name", "mine", *python(TRAIN + CLOSE))
    assert (done.returncode, done.stdout) == (0, "from 0\n"), done.stderr


def test_earlier_attempts_are_registered_first(
    hub: HubProcess, another_machine: Callable[[], None]
) -> None:
    """A later attempt that is published by name does not come before the earlier one."""
    for step in ("0", "5"):
        done = run(
            *("run", "--offline", "--resume-or-start", "--no-restore", "--name", "mine"),
            *python(
                "import os, pathlib, sys; "
                "pathlib.Path(os.environ['TBHUB_LOGDIR'], 'last.pt').write_text(sys.argv[1])",
                step,
            ),
        )
        assert done.returncode == 0, done.stderr
    later = all_spools()[-1]
    assert run("sync", later.name).returncode == 0
    assert all_spools() == []
    assert known(hub)["attempt"] == 2
    assert (hub.home / "files/1/last.pt").read_text() == "5"


def test_a_part_of_a_training_is_not_resumed_by_the_name_of_its_directory(
    hub: HubProcess, elsewhere: Path
) -> None:
    with tbhub.SummaryWriter("runs/run91/train") as writer:
        writer.add_scalar("loss", 1.0, 1)
    hub.json("POST", "/api/v1/logdirs", json={"path": str(elsewhere / "runs")})
    hub.wait_for_runs(1)
    refused = run("run", "--resume", "run91", *python(TRAIN + CLOSE))
    assert refused.returncode != 0
    assert "There is no run run91" in refused.stderr
