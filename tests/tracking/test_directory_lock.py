"""One run at a time writes to a directory that was given."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import tbhub
from support.hub import HubProcess, eventually
from tbhub.api.models import NewRun
from tbhub.client.hub import Hub
from tbhub.tracking.directory_lock import DirectoryInUseError, DirectoryLock

# A run that logs a point, prints "ready", and ends after a line on stdin.
CODE = """
import sys, tbhub
with tbhub.Run("exp", sys.argv[1], logdir="mine") as run:
    run.log_metrics({"loss": 1.0})
    print("ready", flush=True)
    sys.stdin.readline()
"""

Begin = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Start a run of a name in another process, and wait until it logs."""
    with ExitStack() as started:

        def begin(name: str, **environ: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-c", CODE, name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **environ},
            )
            started.enter_context(process)
            started.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            return process

        yield begin


def test_second_run_in_a_directory_is_refused_before_a_hub_knows_it(
    hub: HubProcess, begin: Begin
) -> None:
    first = begin("first")
    with pytest.raises(DirectoryInUseError, match=r"mine is in use by run default/first, .* hint"):
        tbhub.Run("exp", "second", logdir="mine")
    assert [each["name"] for each in hub.json("GET", "/api/v1/runs")["runs"]] == ["first"]
    with tbhub.Run("exp", "other", logdir="mine-2") as other:
        other.log_metrics({"loss": 2.0})
    first.communicate("end\n", timeout=60)
    with tbhub.Run("exp", "second", logdir="mine") as second:
        second.log_metrics({"loss": 2.0})
    eventually(lambda: points(hub, "second") == {"train/loss": (1, 2.0)})
    eventually(lambda: points(hub, "first") == {"train/loss": (1, 1.0)})


def test_killed_run_keeps_no_directory(hub: HubProcess, begin: Begin) -> None:
    first = begin("first")
    first.send_signal(signal.SIGKILL)
    first.wait(60)
    tbhub.Run("exp", "second", logdir="mine").finish()


def test_ranks_of_a_run_share_a_directory(hub: HubProcess, begin: Begin) -> None:
    ranks = [
        begin("first", TBHUB_RUN_KEY="job7", RANK=str(rank), WORLD_SIZE="2") for rank in (0, 1)
    ]
    for each in reversed(ranks):
        each.communicate("end\n", timeout=60)
    assert [each.returncode for each in ranks] == [0, 0]


@pytest.mark.parametrize("resume", ["first", "default/first", "1", "#1"])
def test_attempt_that_resumes_a_live_run_shares_its_directory(
    hub: HubProcess, begin: Begin, resume: str
) -> None:
    begin("first")
    with Hub() as asked:
        tbhub.Run(logdir="mine", resume=resume, force=True, restore=False, hub=asked).finish()


def test_runs_of_one_process_are_refused_until_the_first_is_finished(hub: HubProcess) -> None:
    first = tbhub.Run("exp", logdir="mine")
    child = os.fork()
    if not child:
        signal.pause()
    try:
        with pytest.raises(DirectoryInUseError):
            tbhub.Run("exp", logdir="mine")
        first.finish()
        tbhub.Run("exp", logdir="mine").finish()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_directory_is_locked_by_key_and_not_by_a_name_that_two_runs_have(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path, NewRun(name="a", key="1"))
    with pytest.raises(DirectoryInUseError, match="use by run default/a"):
        DirectoryLock(tmp_path, NewRun(name="a", key="2"), "More.")
    DirectoryLock(tmp_path, NewRun(name="a", key="1")).release()
    DirectoryLock(tmp_path, NewRun(name="a", key="3", resume_or_start=True)).release()
    lock.release()
    DirectoryLock(tmp_path, NewRun(name="a", key="2")).release()


def points(hub: HubProcess, name: str) -> dict[str, tuple[int, float]]:
    """How many points each metric of a run has, and the last value."""
    found = hub.json("GET", "/api/v1/runs")["runs"]
    (run,) = (each for each in found if each["name"] == name)
    return {tag: (each["count"], each["last"]) for tag, each in run["metrics"].items()}
