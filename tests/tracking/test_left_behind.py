"""Event files of processes that still run when the command of `tbhub run` has ended."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import tbhub
from support.hub import HubProcess, eventually
from support.oracle import pairs
from tbhub.publisher.spool import all_spools
from tbhub.tracking.capture.processes import Processes
from tbhub.tracking.process_table import start_time
from tracking.test_command import known, python, run, start

# Waits for a file called like its second argument, and then logs to its first, a directory.
LATE = """
import os, sys, time
from {writer} import SummaryWriter
open(sys.argv[2] + "-waits", "w").close()
def wait(name):
    while not os.path.exists(sys.argv[2] + name): time.sleep(0.02)
wait("")
writer = SummaryWriter(sys.argv[1], flush_secs=1)  # tensorboardX flushes by time only
for step in range(3):
    writer.add_scalar("loss", 1 / (step + 1), step)
writer.flush()
wait("-on")
writer.add_scalar("loss", 0.25, 3)
writer.close()
"""
LATE_TORCH = LATE.format(writer="torch.utils.tensorboard")
LATE_X = LATE.format(writer="tensorboardX")
# Starts a command without any descriptor of its own, and ends.
POPEN = """
import subprocess, sys
print(subprocess.Popen(sys.argv[1:], stdout=-3, stderr=-3, start_new_session=True).pid)
"""
EXPECTED = [(0, 1.0), (1, 0.5), (2, pytest.approx(1 / 3)), (3, 0.25)]

Leave = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary files are the test's own."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setenv("TBHUB_CAPTURE_DIRS", str(tmp_path / "tensorboard"))
    return place


@pytest.fixture
def go(tmp_path: Path) -> Path:
    return tmp_path / "go"


@pytest.fixture
def leave() -> Iterator[Leave]:
    """Run a command that leaves a process behind. Return its number and what `tbhub run` said.

    `how` is "shell" (a job of the shell), "popen" (a session without descriptors), or a program
    that starts the job of the shell.
    """
    left: list[int] = []

    def leave(
        how: str, *command: object, options: tuple[str, ...] = (), until: str = "true"
    ) -> tuple[int, str]:
        words = [str(word) for word in command]
        line = f"{shlex.join(words)} >/dev/null 2>&1"
        if how == "popen":
            done = run("run", *options, *python(POPEN, *words))
        else:
            line = line if how == "shell" else f"{how} {line}"
            done = run("run", *options, "--", "sh", "-c", f"{line} & echo $!; {until}; exit 3")
        assert done.returncode == (0 if how == "popen" else 3), done.stderr
        left.append(int(done.stdout))
        return left[-1], done.stderr

    yield leave
    for process in left:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def is_over(process: int) -> bool:
    return start_time(process) is None and all_spools() == []


def count(hub: HubProcess) -> int:
    found: int = known(hub)["metrics"].get("loss", {}).get("count", 0)
    return found


@pytest.mark.parametrize("how", ["shell", "setsid", "popen"])
def test_event_file_begun_after_the_command_is_published_while_it_grows(
    hub: HubProcess, leave: Leave, go: Path, temporary: Path, how: str
) -> None:
    process, said = leave(how, sys.executable, "-c", LATE_TORCH, "runs/late", go)
    assert f"process {process} of the command still runs; what it logs until it ends" in said
    assert "hint" not in said
    assert known(hub)["status"] == ("finished" if how == "popen" else "failed")
    go.touch()
    eventually(lambda: count(hub) == 3)
    assert start_time(process) is not None
    Path(f"{go}-on").touch()
    eventually(lambda: is_over(process))
    found = tbhub.load(known(hub)["location"])
    assert {name: pairs(each.scalars["loss"]) for name, each in found.items()} == {".": EXPECTED}
    eventually(lambda: count(hub) == 4)
    assert known(hub)["status"] == ("finished" if how == "popen" else "failed")
    assert list(temporary.glob("tbhub-*")) == []
    log = Path(known(hub)["location"], "console.log").read_text()
    assert log.endswith("\ntbhub: adopted 1 event file from runs/late\n")


@pytest.mark.parametrize("how", ["setsid", "env -i"])
def test_event_file_that_stays_open_is_adopted_after_the_command(
    hub: HubProcess, leave: Leave, go: Path, tmp_path: Path, how: str
) -> None:
    """Outside of the working directory, and by a writer that does not name its process."""
    process, _ = leave(how, sys.executable, "-c", LATE_X, tmp_path / "far" / "late", go)
    go.touch()
    eventually(lambda: count(hub) == 3)
    eventually(lambda: "in use     hub://runs/1\n" in run("sync", "--list").stdout)
    assert run("sync").returncode == 0
    Path(f"{go}-on").touch()
    eventually(lambda: is_over(process))
    assert pairs(tbhub.load(known(hub)["location"])["."].scalars["loss"]) == EXPECTED


def test_event_file_begun_before_the_end_of_the_command_grows_on(
    hub: HubProcess, leave: Leave, go: Path
) -> None:
    go.touch()
    begun = 'while ! [ -s "$(echo runs/early/*)" ]; do sleep 0.05; done'
    command = (sys.executable, "-c", LATE_TORCH, "runs/early", go)
    process, said = leave("shell", *command, until=begun)
    assert "adopted 1 event file from runs/early" in said
    assert f"process {process} of the command still runs; what it logs until it ends" in said
    eventually(lambda: count(hub) == 3)
    Path(f"{go}-on").touch()
    eventually(lambda: is_over(process))
    found = tbhub.load(known(hub)["location"])
    assert {name: pairs(each.scalars["loss"]) for name, each in found.items()} == {".": EXPECTED}


def test_adopting_goes_on_for_a_process_without_descriptors_if_the_supervisor_is_killed(
    hub: HubProcess, go: Path
) -> None:
    code = f"{POPEN}\nsys.stdout.flush(); sys.stdin.read()"
    late = [sys.executable, "-c", LATE_TORCH, "runs/late", go]
    with start("run", *python(code, *late), stdin=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        process = int(supervisor.stdout.readline())
        try:
            eventually(Path(f"{go}-waits").exists)
            supervisor.kill()
            supervisor.communicate("", timeout=60)
            go.touch()
            eventually(lambda: count(hub) == 3)
            Path(f"{go}-on").touch()
            eventually(lambda: start_time(process) is None)
            eventually(lambda: run("sync").returncode == 0 and all_spools() == [])
        finally:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    assert pairs(tbhub.load(known(hub)["location"])["."].scalars["loss"]) == EXPECTED


def test_file_that_is_not_adopted_after_the_command_is_named_in_the_console(
    hub: HubProcess, leave: Leave, go: Path
) -> None:
    with tbhub.SummaryWriter("runs/older") as writer:
        writer.add_scalar("loss", 1.0, 1)
    (older,) = Path("runs/older").iterdir()
    code = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"
    code += f"with open({str(older)!r}, 'ab') as file: file.write(b'x')"
    process, said = leave("shell", sys.executable, "-c", code, go)
    assert "not adopted" not in said
    go.touch()
    eventually(lambda: is_over(process))
    log = Path(known(hub)["location"], "console.log").read_text()
    assert f"tbhub: not adopted: {older} (it was begun before the start" in log


def test_without_capture_a_process_left_behind_is_not_followed_elsewhere(
    hub: HubProcess, leave: Leave
) -> None:
    process, said = leave("shell", "sleep", "600", options=("--no-capture",))
    assert (
        f"process {process} of the command still runs; what it writes to the run's directory until "
        "it ends is added to the run, event files elsewhere are not"
    ) in said
    process, said = leave("popen", "sleep", "600", options=("--no-capture",))
    assert f"process {process} of the command still runs; what it logs from now on is not" in said


def test_later_attempt_does_not_adopt_what_an_earlier_one_has_left_behind(
    hub: HubProcess, leave: Leave, go: Path, tmp_path: Path
) -> None:
    storage = tmp_path / "storage"  # which is the directory of all attempts
    options = ("--name", "mine", "--storage", str(storage))
    process, _ = leave("shell", sys.executable, "-c", LATE_X, "runs/late", go, options=options)
    code = f"import os, time; open({str(go)!r}, 'w').close(); print('ready')\n"
    code += f"while not os.path.exists({str(go)!r} + '-on'): time.sleep(0.02)"
    with start("run", "--resume", "mine", *python(code)) as second:
        assert second.stdout is not None
        assert second.stdout.readline() == "ready\n"
        eventually(lambda: count(hub) == 3)
        Path(f"{go}-on").touch()
        _, said = second.communicate(timeout=60)
    assert "adopted" not in said
    eventually(lambda: start_time(process) is None)
    eventually(lambda: count(hub) == 4)
    assert len([*storage.rglob("*tfevents*")]) == 1


def test_processes_that_have_ended_and_those_of_tbhub_are_not_waited_for() -> None:
    environ = {**os.environ, "TBHUB_LOGDIR": "/logs"}
    agent = [sys.executable, "-c", "import time; time.sleep(600)", "-m", "tbhub.publisher", "5"]
    started = [subprocess.Popen(each, env=environ) for each in (["sleep", "600"], agent)]
    processes = Processes("/logs", "/socket")
    try:
        ours = started[0].pid
        eventually(lambda: processes.refresh() or ours in processes.running())
        assert list(processes.running()) == [ours]
        started[0].kill()
        eventually(lambda: start_time(ours) is None)  # and its exit status is not collected
        processes.refresh()
        assert processes.running() == {}
    finally:
        for each in started:
            each.kill()
            each.wait()


def test_process_that_has_the_number_of_one_that_has_ended_is_not_the_runs() -> None:
    processes = Processes("/logs", "/socket")
    ended = subprocess.Popen(["sleep", "600"])
    processes.add(ended.pid)
    processes._ever[ended.pid] = 1  # as if another process had had the number before
    try:
        processes.refresh()
        assert processes.running() == {}
    finally:
        ended.kill()
        ended.wait()
