"""``tbhub run`` with real commands, a real hub and real signals."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tbhub
from storage.conftest import Place
from support.fault_proxy import FaultProxy, Silent
from support.hub import HubProcess, eventually
from support.oracle import pairs, read_scalars
from support.ports import free_port
from tbhub.publisher.spool import Spool, SpoolTakenError, all_spools
from tbhub.tracking.process_table import start_time

TBHUB = [sys.executable, "-c", "from tbhub.cli.main import main; main()"]
LOG = """
import os, sys
from tbhub import SummaryWriter
first, last = int(sys.argv[1]), int(sys.argv[2])
with SummaryWriter() as writer:
    for step in range(first, last):
        writer.add_scalar("loss", 1 / (step + 1), step)
print("logged to", writer.logdir)
"""


def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TBHUB, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=90)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def python(code: str, *arguments: object) -> tuple[str, ...]:
    return ("--", sys.executable, "-c", code, *map(str, arguments))


def known(hub: HubProcess, number: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = hub.json("GET", f"/api/v1/runs/{number}")
    return found


def test_a_command_is_a_run(hub: HubProcess) -> None:
    given = ("--experiment", "resnet", "--name", "a", "--hparam", "lr=.01", "--tag", "x")
    done = run("run", *given, "--system-metrics", *python(LOG, 0, 9))
    assert (done.returncode, done.stdout[:9]) == (0, "logged to"), done.stderr
    assert done.stderr.splitlines() == [
        f"tbhub: View run a at {hub.url}/runs/1",
        f"tbhub: Run a finished: {hub.url}/runs/1",
    ]
    found = known(hub)
    assert (found["status"], found["exit_code"], found["tags"]) == ("finished", 0, ["x"])
    assert found["hparams"] == {"lr": 0.01}
    assert found["command"].startswith(sys.executable)
    assert hub.json("GET", "/api/v1/runs/1/log")["text"] == done.stdout
    eventually(lambda: {"loss", "system/memory_bytes"} <= set(known(hub)["metrics"]))
    assert not any(tag.startswith("system/system") for tag in known(hub)["metrics"])
    assert all_spools() == []
    board = hub.create_board(trials=[1])
    names = hub.ask("GET", f"/boards/{board['id'][:8]}/data/runs").json()
    assert len(names) == 2


def test_names_that_scripts_look_for(hub: HubProcess) -> None:
    pytest.importorskip("torch.utils.tensorboard")
    code = """
import os, sys
from torch.utils.tensorboard import SummaryWriter
names = ["TBHUB_LOGDIR", "PAI_OUTPUT_TENSORBOARD", "XT_OUTPUT_MNT", "AIP_TENSORBOARD_LOG_DIR",
         "TENSORBOARD_LOGGING_DIR"]
assert {os.environ[name] for name in names} == {sys.argv[1]}
writer = SummaryWriter(os.environ["PAI_OUTPUT_TENSORBOARD"])
writer.add_scalar("torch", 1, 1)
writer.close()
assert os.environ["TBHUB_RUN_ID"] == "1"
"""
    done = run("run", *python(code, "{logdir}"))
    assert done.returncode == 0, done.stderr
    eventually(lambda: "torch" in known(hub)["metrics"])


def test_options_behind_the_command_are_the_commands_own(hub: HubProcess) -> None:
    code = "import sys; print(sys.argv[1:])"
    for words in ((), ("--",)):
        done = run("run", "--name", "mine", *words, sys.executable, "-c", code, "--name", "x", "-e")
        assert (done.returncode, done.stdout) == (0, "['--name', 'x', '-e']\n"), done.stderr
        assert run("runs", "delete", "mine", "--yes").returncode == 0


def test_a_job_goes_by_its_number(hub: HubProcess) -> None:
    for job in ("2300", "job2300", "2300"):
        assert run("run", "--job", job, "--", "true").returncode == 0
    assert run("run", "--job", "other", "--", "true").returncode == 0
    listed = json.loads(run("runs", "where job = 2300", "--json").stdout)
    assert len(listed) == 3
    assert [each["id"] for each in json.loads(run("runs", "job2300", "--json").stdout)] == [
        each["id"] for each in listed
    ]


def test_a_run_in_code_joins(hub: HubProcess) -> None:
    code = """
import tbhub
with tbhub.Run("other", hparams={"a": 1}) as run:
    run.log_metrics({"loss": 1.0})
    assert run.id == 1
"""
    done = run("run", *python(code))
    assert done.returncode == 0, done.stderr
    (found,) = hub.json("GET", "/api/v1/runs")["runs"]
    assert found["experiment"] == "default"
    eventually(lambda: "train/loss" in known(hub)["metrics"])


@pytest.mark.parametrize(
    ("code", "exit_code", "status"),
    [
        ("import sys; sys.exit(3)", 3, "failed"),
        ("import os; os.kill(os.getpid(), 9)", 137, "killed"),
        ("import sys; sys.exit(-1)", 255, "failed"),
    ],
)
def test_exit_codes(hub: HubProcess, code: str, exit_code: int, status: str) -> None:
    assert run("run", *python(code)).returncode == exit_code
    assert (known(hub)["status"], known(hub)["exit_code"]) == (status, exit_code)


def test_a_sitecustomize_that_prints_does_no_harm(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text("print('hello')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"), prepend=os.pathsep)
    done = run("run", *python(LOG, 0, 9))
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1].endswith(f"finished: {hub.url}/runs/1")
    assert (known(hub)["status"], all_spools()) == ("finished", [])


def test_a_run_that_is_deleted_meanwhile_says_where_its_files_are(hub: HubProcess) -> None:
    code = LOG + "print('ready', flush=True); sys.stdin.readline()"
    with start("run", "--name", "mine", *python(code, 0, 9), stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "ready\n":
            pass
        hub.json("DELETE", "/api/v1/runs/1")
        _, said = process.communicate("go\n", timeout=90)
    assert process.returncode == 0
    (spool,) = all_spools()
    assert "Run mine finished" not in said
    assert "in the background" not in said
    last = said.splitlines()[-1]
    assert last.startswith("tbhub: the hub no longer has run mine: it was deleted")
    assert f"{spool.directory}; `tbhub sync --discard {spool.name}` deletes it" in last


def test_a_command_that_is_none(hub: HubProcess) -> None:
    done = run("run", "--", "no-such-command")
    assert done.returncode == 127
    assert "no-such-command: No such file" in done.stderr
    assert known(hub)["status"] == "failed"


@pytest.mark.parametrize(
    "number",
    [
        *(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM),
        *(signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2),
    ],
    ids=str,
)
def test_signals_are_passed_on(hub: HubProcess, number: signal.Signals) -> None:
    code = f"""
import signal, sys, time
signal.signal({int(number)}, lambda *_: sys.exit(5))
print("ready", flush=True)
time.sleep(60)
"""
    process = start("run", *python(code))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 5
    assert (known(hub)["status"], known(hub)["exit_code"]) == ("failed", 5)


def test_a_shell_that_a_signal_has_ended(hub: HubProcess) -> None:
    script = "trap 'exit 143' TERM; echo ready; while :; do sleep 0.1; done"
    process = start("run", "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert (known(hub)["status"], known(hub)["exit_code"]) == ("killed", 143)


QUIET = """
import os, time
from tbhub import SummaryWriter
writer = SummaryWriter(flush_secs=600)
writer.add_scalar("loss", 0.5, 1)
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_sigterm_ends_what_a_shell_has_started(hub: HubProcess) -> None:
    """The shell ends by the signal; its child gets it next, and what it flushes is published."""
    child = shlex.join([sys.executable, "-c", QUIET])
    process = start("run", "--", "sh", "-c", f"{child}; echo after")
    assert process.stdout is not None
    training = int(process.stdout.readline())
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, ""), err
    assert start_time(training) is None
    assert "still run" not in err
    assert known(hub)["status"] == "killed"
    assert pairs(tbhub.load(known(hub)["location"])["."].scalars["loss"]) == [(1, 0.5)]


def test_sigterm_reaches_children_of_a_command_that_handles_it_once(hub: HubProcess) -> None:
    child = "trap 'echo child; exit' TERM; echo ready; while :; do sleep 0.05; done"
    script = f"trap 'kill $!; wait; exit 0' TERM; sh -c {shlex.quote(child)} & wait"
    process = start("run", "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "child\n"), err


def test_processes_that_a_command_leaves_behind_are_named(hub: HubProcess) -> None:
    process = start("run", "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
    out, err = process.communicate(timeout=60)
    left = int(out)
    try:
        assert process.returncode == 0
        assert f"tbhub: process {left} of the command still runs; what it logs until it ends" in err
        os.kill(left, 0)
    finally:
        os.kill(left, signal.SIGKILL)
    assert known(hub)["status"] == "finished"


def test_what_a_process_left_behind_logs_is_published(hub: HubProcess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    code = f"""
import os, time
from tbhub import SummaryWriter
with SummaryWriter() as writer:
    while not os.path.exists({str(go)!r}): time.sleep(0.02)
    writer.add_scalar("loss", 0.5, 1)
"""
    child = shlex.join([sys.executable, "-c", code])
    done = run("run", "--", "sh", "-c", f"{child} >/dev/null 2>&1 & echo $!")
    assert f"process {done.stdout.strip()} of the command still runs" in done.stderr
    go.touch()
    eventually(lambda: start_time(int(done.stdout)) is None)
    eventually(lambda: all_spools() == [])
    assert pairs(tbhub.load(known(hub)["location"])["."].scalars["loss"]) == [(1, 0.5)]


def test_a_file_that_a_program_outside_the_run_writes_is_kept_until_it_is_closed(
    hub: HubProcess, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    code = """
import os, sys, time
print(os.environ["TBHUB_LOGDIR"], flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.02)
"""
    process = start("run", *python(code, go))
    assert process.stdout is not None
    logdir = Path(process.stdout.readline().strip())
    with (logdir / "samples.bin").open("wb") as file:
        file.write(b"first ")
        file.flush()
        go.touch()
        _, err = process.communicate(timeout=90)
        assert process.returncode == 0
        assert "samples.bin still open in another process; `tbhub sync` publishes the rest" in err
        assert str(logdir) in err
        eventually(lambda: "in use" in (listed := run("sync")).stdout and listed.returncode == 0)
        file.write(b"second")
    assert run("sync").returncode == 0
    assert all_spools() == []
    assert Path(known(hub)["location"], "samples.bin").read_bytes() == b"first second"


def test_a_file_that_a_program_has_open_until_its_end_is_published(hub: HubProcess) -> None:
    """The run ends before: what is written after it is published when the program has ended."""
    code = """
import tbhub
with tbhub.Run("default", name="a") as run:
    file = open(run.logdir / "samples.bin", "wb")
    file.write(b"first ")
    file.flush()
file.write(b"second")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=90)
    eventually(lambda: all_spools() == [])
    assert Path(known(hub)["location"], "samples.bin").read_bytes() == b"first second"


def test_runs_that_were_offline_in_one_directory_have_their_own_points(
    hub: HubProcess, tmp_path: Path
) -> None:
    code = """
import sys, tbhub
with tbhub.Run("default", name=sys.argv[1], logdir=sys.argv[2], offline=True) as run:
    run.log_metrics({sys.argv[1]: 1.0})
"""
    for name in ("first", "second", "third"):
        arguments = [sys.executable, "-c", code, name, str(tmp_path / "own")]
        subprocess.run(arguments, check=True, timeout=90)
    assert run("sync").returncode == 0
    names = []
    for number in (1, 2, 3):
        names.append(known(hub, number)["name"])
        points = tbhub.load(known(hub, number)["location"])
        assert [tag for part in points.values() for tag in part.scalars] == names[-1:]
    assert sorted(names) == ["first", "second", "third"]


def test_what_nohup_ignores_stays_ignored(hub: HubProcess) -> None:
    code = """
import os, signal
print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, flush=True)
os.kill(os.getppid(), signal.SIGHUP)
"""
    done = run(
        "run", *python(code), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert known(hub)["status"] == "finished"


def test_an_interrupt_at_the_end_is_no_other_end(
    hub: HubProcess,
    s3: Callable[..., Place],
    proxy: FaultProxy,
    environment: Callable[[Place], str],
) -> None:
    """Nobody waits any more until all is published; the end is told, and the code the command's."""
    uri = environment(s3(endpoint=proxy.url))
    proxy.refuse()
    process = start("run", "--storage", uri, *python("print(1); raise SystemExit(3)"))
    eventually(lambda: any("failed" in _owed(spool) for spool in all_spools()))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "not published yet" in err
    assert (known(hub)["status"], known(hub)["exit_code"]) == ("failed", 3)
    proxy.heal()
    eventually(lambda: all_spools() == [])


def _owed(spool: Spool) -> str:
    return spool.owed.read_text() if spool.owed.exists() else ""


def test_an_interrupt_after_the_command_is_none_of_its_own(hub: HubProcess) -> None:
    code = """
import os, subprocess, sys
print(os.getpid())
subprocess.Popen(["sleep", "30"])  # holds what we print to, so that the end of that is waited for
sys.exit(3)
"""
    process = start("run", *python(code))
    assert process.stdout is not None
    command = Path("/proc", process.stdout.readline().strip())
    eventually(lambda: not command.exists())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 3
    assert (known(hub)["status"], known(hub)["exit_code"]) == ("failed", 3)


def test_a_signal_while_a_store_is_waited_for(
    hub: HubProcess,
    s3: Callable[..., Place],
    proxy: FaultProxy,
    environment: Callable[[Place], str],
) -> None:
    uri = environment(s3(endpoint=proxy.url))
    assert run("run", "--storage", uri, "--name", "mine", *python("print(1)")).returncode == 0
    proxy.forget()
    proxy.add(Silent())
    process = start("run", "--resume", "mine", *python("print('never')"))
    eventually(lambda: proxy.requests)
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, "")
    assert (known(hub)["status"], known(hub)["exit_code"]) == ("killed", 143)
    done = run("run", "--resume", "mine", "--no-restore", *python("print('soon')"))
    assert (done.returncode, done.stdout) == (0, "soon\n")


def test_a_command_that_prints_without_end_does_not_fill_the_disk(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TBHUB_CONSOLE_LIMIT", "10kB")
    done = run("run", *python("print('x' * 9_000); print('z' * 9_000); print('the end')"))
    assert (done.returncode, done.stdout.count("z"), "the end" in done.stdout) == (0, 9_000, True)
    said = "tbhub: more than 10,000 bytes were printed; the rest is not kept (TBHUB_CONSOLE_LIMIT)"
    assert done.stderr.count(said) == 1
    kept = (hub.home / "files/1/console.log").read_text()
    assert (kept.count("x"), kept.count("z"), kept.endswith(f"\n{said}\n")) == (9_000, 999, True)
    monkeypatch.setenv("TBHUB_CONSOLE_LIMIT", "much")
    refused = run("run", *python("print('never')"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "TBHUB_CONSOLE_LIMIT: 'much' is not a size" in refused.stderr


def test_what_is_printed_comes_at_once(hub: HubProcess) -> None:
    process = start("run", *python("print('now'); input()"), stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "now\n"
    process.communicate("\n", timeout=60)


@pytest.mark.parametrize("again", ["fg", "bg"])
def test_a_terminal_stops_and_wakes_it(hub: HubProcess, again: str) -> None:
    """Ctrl-Z: the shell has its terminal back, and what it does next is what happens."""
    code = "print('rea' + 'dy', flush=True); import time; time.sleep(1); print('do' + 'ne')"
    command = shlex.join([*TBHUB, "run", *python(code)])
    terminal, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["setsid", "--ctty", "bash", "--norc", "--noprofile", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""

    def until(text: bytes) -> None:
        nonlocal said
        while text not in said:
            ready, _, _ = select.select([terminal], [], [], 60)
            assert ready, said
            said += os.read(terminal, 4096)
        said = said.partition(text)[2]

    try:
        os.write(terminal, f"{command}; echo $((40 + 2))\n".encode())
        until(b"ready")
        os.write(terminal, b"\x1a")
        until(b"Stopped")
        os.write(terminal, f"{again}\n".encode())
        until(b"done")
        os.write(terminal, b"wait; exit\n")
    finally:
        with suppress(OSError):  # the end of a terminal is an error
            while os.read(terminal, 4096):
                pass
        shell.wait()
        os.close(terminal)
    assert (known(hub)["status"], known(hub)["exit_code"]) == ("finished", 0)


def test_resumed_it_is_one_series(hub: HubProcess) -> None:
    assert run("run", "--name", "mine", *python(LOG, 0, 5)).returncode == 0
    assert run("run", "--resume", "mine", *python(LOG, 5, 9)).returncode == 0
    found = known(hub)
    assert (found["attempt"], found["status"]) == (2, "finished")
    expected = [(step, pytest.approx(1 / (step + 1))) for step in range(9)]
    assert pairs(tbhub.load(found["location"])["."].scalars["loss"]) == expected
    assert read_scalars(found["location"])["loss"] == expected
    assert hub.json("GET", "/api/v1/runs/1/log")["text"].count("logged to") == 2


def test_any_name_can_be_resumed(hub: HubProcess) -> None:
    for name in ("two words", "a, b", "run7*"):
        assert run("run", "--name", name, "--", "true").returncode == 0
        done = run("run", "--resume", name, "--", "true")
        assert done.returncode == 0, done.stderr
    assert [known(hub, number)["attempt"] for number in (1, 2, 3)] == [2, 2, 2]


def test_counting_goes_on_within_a_command(hub: HubProcess) -> None:
    code = """
import tbhub
for _ in range(2):
    with tbhub.Run() as run:
        run.log_metrics({"loss": 1.0})
"""
    assert run("run", "--name", "mine", *python(code)).returncode == 0
    resumed = run("run", "--resume", "mine", *python(code))
    assert (resumed.returncode, "not adopted" in resumed.stderr) == (0, False), resumed.stderr
    points = tbhub.load(known(hub)["location"])["train"].scalars["loss"]
    assert points.steps.tolist() == [0, 1, 2, 3]


def test_a_run_that_lives_is_not_resumed(hub: HubProcess) -> None:
    process = start("run", *python("print('ready', flush=True); input()"), stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    refused = run("run", "--resume", "1", *python("print('never')"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "is running" in refused.stderr
    assert "--force" in refused.stderr
    assert run("run", "--resume", "1", "--force", *python("print('now')")).stdout == "now\n"
    process.communicate("\n", timeout=60)
    assert process.returncode == 0
    assert (known(hub)["status"], known(hub)["attempt"]) == ("finished", 2)


def test_a_hub_that_is_down_stops_nothing(hub: HubProcess) -> None:
    hub.stop()
    done = run("run", "--name", "late", *python(LOG, 0, 5))
    assert done.returncode == 0, done.stderr
    assert "goes on without a hub" in done.stderr
    assert "`tbhub sync` does what is left" in done.stderr
    hub.restart()
    assert run("sync").returncode == 0
    found = known(hub)
    assert (found["name"], found["status"], found["exit_code"]) == ("late", "finished", 0)
    assert len(tbhub.load(found["location"])["."].scalars["loss"].steps) == 5
    assert all_spools() == []


def test_offline_under_a_name_that_is_taken(hub: HubProcess) -> None:
    assert run("run", "--name", "mine", *python(LOG, 0, 5)).returncode == 0
    assert run("run", "--offline", "--name", "mine", *python(LOG, 0, 7)).returncode == 0
    done = run("sync")
    assert done.returncode == 0, done.stdout
    assert known(hub, 2)["name"].startswith("mine-")
    assert len(tbhub.load(known(hub, 2)["location"])["."].scalars["loss"].steps) == 7
    assert len(tbhub.load(known(hub, 1)["location"])["."].scalars["loss"].steps) == 5


def test_a_place_that_is_none_is_refused_at_once(hub: HubProcess) -> None:
    done = run("run", "--storage", "ftp://host/logs", *python("print('never')"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown scheme; known are" in done.stderr
    assert all_spools() == []


def test_where_somebody_has_to_do_something_nothing_is_waited_for(
    hub: HubProcess, s3: Callable[..., Place], environment: Callable[[Place], str]
) -> None:
    environment(s3())
    done = run("run", "--storage", "s3://no-such-bucket/logs", *python(LOG, 0, 5))
    assert done.returncode == 0
    assert "there is no such bucket" in done.stderr
    done = run("sync")  # which waits for ten minutes for what may pass
    assert done.returncode == 1
    assert "there is no such bucket; create it" in done.stdout


def test_a_hub_that_goes_away_meanwhile(hub: HubProcess) -> None:
    code = LOG.replace("import os", "print('ready', flush=True); input(); import os")
    process = start("run", *python(code, 0, 5), stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    hub.stop()
    _, err = process.communicate("\n", timeout=90)
    assert process.returncode == 0
    assert "not published yet" in err
    hub.restart()
    eventually(lambda: run("sync").returncode == 0)
    assert known(hub)["status"] == "finished"
    assert len(tbhub.load(known(hub)["location"])["."].scalars["loss"].steps) == 5


@pytest.mark.parametrize("where", ["directory", "bucket"])
def test_the_end_of_a_run_elsewhere_is_told_later(
    hub: HubProcess,
    where: str,
    s3: Callable[..., Place],
    environment: Callable[[Place], str],
    tmp_path: Path,
) -> None:
    place = str(tmp_path / "logs") if where == "directory" else environment(s3())
    code = LOG.replace("import os", "print('ready', flush=True); input(); import os")
    process = start("run", "--storage", place, *python(code, 0, 5), stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    hub.stop()
    _, err = process.communicate("\n", timeout=90)
    assert process.returncode == 0
    assert "the hub has not been told how the run has ended" in err
    assert "`tbhub sync` does what is left" in err
    hub.restart()
    assert known(hub)["status"] == "running"
    eventually(lambda: run("sync").returncode == 0)
    assert (known(hub)["status"], known(hub)["exit_code"]) == ("finished", 0)
    assert all_spools() == []
    assert len(tbhub.load(known(hub)["location"])["."].scalars["loss"].steps) == 5


def test_a_hub_that_has_moved(hub: HubProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent goes on asking at the old address; `tbhub sync` knows the new one."""
    code = LOG.replace("import os", "print('ready', flush=True); input(); import os")
    process = start("run", *python(code, 0, 5), stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    hub.stop()
    process.communicate("\n", timeout=90)
    hub.settings["port"] = 0
    hub.restart()
    monkeypatch.setenv("TBHUB_URL", hub.url)
    done = run("sync")
    assert (done.returncode, known(hub)["status"]) == (0, "finished"), done.stdout
    assert all_spools() == []


def test_what_a_fenced_worker_leaves(hub: HubProcess) -> None:
    code = LOG.replace("import os", "print('ready', flush=True); input(); import os")
    process = start("run", "--name", "mine", *python(code, 0, 5), stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    hub.json("POST", "/api/v1/runs", json={"resume": "mine", "force": True})
    _, err = process.communicate("\n", timeout=90)
    assert "another process has gone on with the run: attempt 2" in err
    assert "attempt 1 is over. What this one logs" in err
    (spool,) = all_spools()
    done = run("sync")
    assert done.returncode == 1
    assert "another process has gone on with run 1: attempt 2" in done.stdout
    assert f"`tbhub sync --discard {spool.name}` deletes it" in done.stdout
    assert spool.path.exists()
    done = run("sync", "--discard", "--yes")
    assert (done.returncode, "published  " in done.stdout) == (0, False)
    assert f"deleted    {spool.name}, unpublished" in done.stdout
    assert not spool.path.exists()
    assert known(hub)["status"] == "running"


def test_a_supervisor_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = LOG.replace("import os", "print('ready', flush=True); import os") + "\nos.read(0, 1)"
    with HubProcess(tmp_path / "hasty", heartbeat_timeout=2) as hub:
        monkeypatch.setenv("TBHUB_URL", hub.url)
        monkeypatch.setenv("TBHUB_TOKEN", hub.token)
        process = start(
            "run",
            *python(code.replace('print("logged', '0 and print("logged'), 0, 5),
            stdin=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
        process.communicate(timeout=60)
        eventually(lambda: known(hub)["status"] == "lost")
        eventually(lambda: "loss" in known(hub)["metrics"])
        eventually(lambda: run("sync").returncode == 0)
        assert all_spools() == []


def test_a_store_that_is_away_at_the_end(
    hub: HubProcess,
    s3: Callable[..., Place],
    proxy: FaultProxy,
    environment: Callable[[Place], str],
) -> None:
    """The agent goes on by itself, and leaves nothing behind."""
    uri = environment(s3(endpoint=proxy.url))
    proxy.refuse()
    done = run("run", "--storage", uri, "--name", "b", *python(LOG, 0, 5))
    assert done.returncode == 0
    assert "not published yet" in done.stderr
    assert known(hub)["status"] == "finished"
    proxy.heal()
    eventually(lambda: all_spools() == [])
    assert len(tbhub.load(known(hub)["location"])["."].scalars["loss"].steps) == 5


def test_logs_in_a_bucket(
    hub: HubProcess, s3: Callable[..., Place], environment: Callable[[Place], str]
) -> None:
    uri = environment(s3())
    done = run("run", "--storage", uri, "--name", "b", "--experiment", "e", *python(LOG, 0, 5))
    assert done.returncode == 0, done.stderr
    assert known(hub)["location"] == f"{uri}/default/e/b"
    assert len(tbhub.load(known(hub)["location"])["."].scalars["loss"].steps) == 5


def test_where_a_run_comes_from(hub: HubProcess, elsewhere: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    (elsewhere / "train.py").write_text("print('one')\n")
    for words in (["init", "-q"], ["add", "train.py"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    (elsewhere / "train.py").write_text("print('two')\n")
    assert run("run", "--", sys.executable, "train.py").returncode == 0
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    shown = run("runs", "show", "1").stdout
    assert f"{head.strip()} (" in shown
    assert "changed: see git.diff" in shown
    assert str(elsewhere) in shown
    told = json.loads(run("runs", "show", "1", "--json").stdout)
    assert told["details"]["git"]["commit"] == head.strip()
    diff = (hub.home / "files" / "1" / "git.diff").read_text()
    assert "-print('one')" in diff
    assert "+print('two')" in diff


def test_a_run_that_cannot_publish_says_so_while_it_runs(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    code = "from tbhub.tracking import lifeline; lifeline._BEAT = lifeline._LASTING = 0.5; "
    code += "from tbhub.cli.main import main; main()"
    command = [sys.executable, "-c", code, "run", "--storage", "s3://bucket/x"]
    process = subprocess.Popen(
        [*command, *map(str, python(LOG + "input()", 0, 5))],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "not published yet: cannot" not in (line := process.stderr.readline()):
        assert line
    assert "meanwhile" in line
    process.kill()
    process.communicate(timeout=60)
    (spool,) = all_spools()
    eventually(lambda: (spool.want(), _is_free(spool))[1])  # the agent lets go


def _is_free(spool: Spool) -> bool:
    try:
        with spool.taken():
            return True
    except SpoolTakenError:
        return False


def test_logs_in_a_directory_are_written_there(hub: HubProcess, tmp_path: Path) -> None:
    done = run("run", "--storage", tmp_path / "logs", "--name", "b", *python(LOG, 0, 5))
    assert done.returncode == 0, done.stderr
    assert f"logged to {tmp_path}/logs/default/default/b" in done.stdout
    assert all_spools() == []
    eventually(lambda: "loss" in known(hub)["metrics"])


def test_ranks_are_one_run(hub: HubProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBHUB_RUN_KEY", "job-1")
    for rank in (1, 0):
        monkeypatch.setenv("RANK", str(rank))
        assert run("run", *python(LOG, 0, 5)).returncode == 0
    (found,) = hub.json("GET", "/api/v1/runs")["runs"]
    assert found["status"] == "finished"
    assert {".", "rank1"} <= set(tbhub.load(found["location"]))


def test_a_task_that_is_a_run_of_its_own_says_how_it_has_ended(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A farm of tasks: `srun -n 3 bash -c 'tbhub run --name farm$SLURM_PROCID …'`."""
    for name, value in (("JOB_ID", "78"), ("STEP_ID", "0"), ("STEP_NUM_TASKS", "3")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    for rank, code in (("1", 0), ("2", 3)):
        monkeypatch.setenv("SLURM_PROCID", rank)
        done = run("run", "--name", f"farm{rank}", *python(f"raise SystemExit({code})"))
        assert done.returncode == code
    assert [known(hub, number)["status"] for number in (1, 2)] == ["finished", "failed"]


def test_another_rank_does_not_end_a_run(hub: HubProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBHUB_RUN_KEY", "job-2")
    monkeypatch.setenv("RANK", "0")
    first = start("run", *python("print('ready'); input()"), stdin=subprocess.PIPE)
    assert first.stdout is not None
    assert first.stdout.readline() == "ready\n"
    monkeypatch.setenv("RANK", "1")
    assert run("run", *python("raise SystemExit(3)")).returncode == 3
    assert known(hub)["status"] == "running"
    first.communicate("\n", timeout=60)
    assert known(hub)["status"] == "finished"


def test_ranks_that_have_nothing_in_common_are_told_what_to_do(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    assert run("run", "--name", "ddp", "--", "true").returncode == 0
    monkeypatch.setenv("RANK", "1")
    refused = run("run", "--name", "ddp", "--", "true")
    assert refused.returncode == 2
    assert "TBHUB_RUN_KEY" in refused.stderr


def test_ranks_by_their_master(hub: HubProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    ranks = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        ranks.append(start("run", *python("print('ready'); input()"), stdin=subprocess.PIPE))
    for process in ranks:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in ranks:
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
    assert len(hub.json("GET", "/api/v1/runs")["runs"]) == 1
    monkeypatch.setenv("RANK", "0")
    assert run("run", "--", "true").returncode == 0  # the next job there is another run
    assert len(hub.json("GET", "/api/v1/runs")["runs"]) == 2


def test_commands_of_a_step_with_one_task_are_runs_of_their_own(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`srun --pty bash`, in which somebody tries one thing after the other."""
    for name, value in (("JOB_ID", "77"), ("STEP_ID", "0"), ("PROCID", "0")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
    for lr in ("0.1", "0.5"):
        assert run("run", "--hparam", f"lr={lr}", *python(LOG, 0, 5)).returncode == 0
    assert [known(hub, number)["hparams"]["lr"] for number in (1, 2)] == [0.1, 0.5]


def test_commands_of_one_step_of_slurm(hub: HubProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("JOB_ID", "77"), ("STEP_ID", "0"), ("PROCID", "0")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    for name in ("train", "evaluate"):
        assert run("run", "--name", name, "--", "true").returncode == 0
    assert [known(hub, number)["name"] for number in (1, 2)] == ["train", "evaluate"]
