"""`tbhub run` adopts event files that unchanged scripts write wherever they like."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import tbhub
from support.hub import HubProcess, eventually
from support.preemption import children
from tbhub.publisher.spool import all_spools
from tracking.test_command import TBHUB, known, python, run, start

Begin = Callable[..., subprocess.Popen[str]]

# Five points by torch's writer, which opens its file only to append to it.
TORCH = """
import sys
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(*sys.argv[1:])
for step in range(5):
    writer.add_scalar("loss", 1 / (step + 1), step)
writer.close()
"""
# The same by our own writer, to the run's directory.
LOGGED = TORCH.replace("torch.utils.tensorboard", "tbhub")
# tensorboardX keeps its file open, and does not name its process.
TENSORBOARDX = TORCH.replace("torch.utils.tensorboard", "tensorboardX")
# One point; and after a line on stdin another.
SLOW = """
import sys
from {writer} import SummaryWriter
writer = SummaryWriter(sys.argv[1], flush_secs=1)
writer.add_scalar(sys.argv[2], 1, 1)
writer.flush()
print("ready", flush=True)
sys.stdin.readline()
writer.add_scalar(sys.argv[2], 2, 2)
writer.close()
"""
WAIT = "print('ready', flush=True); sys.stdin.readline()"
SLOW_TORCH = SLOW.format(writer="torch.utils.tensorboard")
SLOW_X = SLOW.format(writer="tensorboardX")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for /tmp/tensorboard; temporary files are the test's own as well."""
    place = tmp_path / "tensorboard"
    monkeypatch.setenv("TBHUB_CAPTURE_DIRS", str(place))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    return place


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Start `tbhub run` with a command that prints "ready" and then reads a line from stdin."""
    with ExitStack() as started:

        def begin(*arguments: object, **options: Any) -> subprocess.Popen[str]:
            process = start("run", *arguments, stdin=subprocess.PIPE, **options)
            started.enter_context(process)
            started.callback(process.kill)
            return process

        yield begin


def kept() -> dict[str, dict[str, list[int]]]:
    """The steps of what the only run on this machine has logged, by directory and tag."""
    (spool,) = all_spools()
    return steps_of(spool.directory)


def steps_of(directory: Path) -> dict[str, dict[str, list[int]]]:
    return {
        name: {tag: column.steps.tolist() for tag, column in logged.scalars.items()}
        for name, logged in tbhub.load(directory).items()
    }


def offline(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    done = run("run", "--offline", *arguments, **options)
    assert done.returncode == 0, done.stderr
    return done


def await_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def adopting_process(process: subprocess.Popen[str]) -> int:
    """Return the process that adopts event files for a `tbhub run`."""
    (found,) = (
        each
        for each in children(process.pid)
        if b"tbhub.tracking.capture" in Path(f"/proc/{each}/cmdline").read_bytes()
    )
    return found


def finish(process: subprocess.Popen[str]) -> str:
    """Have a slow command log its last point. Return what `tbhub run` said."""
    _, said = process.communicate("go\n", timeout=90)
    assert process.returncode == 0, said
    return said


def test_a_file_of_our_own_writer_is_adopted_from_anywhere(tmp_path: Path) -> None:
    code = TORCH.replace("torch.utils.tensorboard", "tbhub")
    place = tmp_path / "far" / "away"
    done = offline(*python(code, place))
    assert f"adopted 1 event file from {place}" in done.stderr
    assert kept() == {".": {"loss": [0, 1, 2, 3, 4]}}


@pytest.mark.parametrize("code", [TORCH, TENSORBOARDX], ids=["torch", "tensorboardX"])
def test_default_directory_of_a_writer_is_adopted(code: str) -> None:
    done = offline(*python(code))
    assert "tbhub: adopted 1 event file from runs/" in done.stderr
    assert "hint" not in done.stderr
    assert kept() == {".": {"loss": [0, 1, 2, 3, 4]}}
    assert len(list(Path("runs").rglob("*tfevents*"))) == 1


def test_adopted_metrics_are_in_the_catalog_while_the_command_runs(
    begin: Begin, hub: HubProcess
) -> None:
    process = begin(*python(SLOW_TORCH, "runs/a", "loss"))
    await_ready(process)
    eventually(lambda: known(hub)["metrics"].get("loss", {}).get("count") == 1)
    assert known(hub)["status"] == "running"
    said = finish(process)
    assert "adopted 1 event file from runs/a" in said
    eventually(lambda: known(hub)["metrics"]["loss"]["count"] == 2)
    assert all_spools() == []
    assert len(list(Path("runs/a").iterdir())) == 1


def test_known_places_and_temporary_directories_are_searched(begin: Begin, place: Path) -> None:
    code = f"""
import sys, tempfile
from tensorboardX import SummaryWriter as X
from torch.utils.tensorboard import SummaryWriter as Torch
with X({str(place)!r}) as writer:
    writer.add_scalar("known", 1, 1)
with tempfile.TemporaryDirectory() as directory, Torch(directory + "/model") as writer:
    writer.add_scalar("temporary", 1, 1)
    writer.flush()
    print("ready", flush=True)
    sys.stdin.readline()
"""
    process = begin("--offline", *python(code))
    await_ready(process)
    eventually(lambda: {".", "model"} <= set(kept()))
    finish(process)
    assert kept() == {".": {"known": [1]}, "model": {"temporary": [1]}}


def test_a_file_that_is_open_is_found_anywhere_and_kept_when_deleted(
    begin: Begin, tmp_path: Path
) -> None:
    """As the model directory of an Estimator that is removed at the end."""
    code = SLOW_X + "\nimport shutil; shutil.rmtree(sys.argv[1])"
    process = begin(
        "--offline",
        "--",
        "sh",
        "-c",
        f"cd / && exec {sys.executable} -c '{code}' $0/far/away/model loss",
        tmp_path,
    )
    await_ready(process)
    eventually(lambda: kept() == {".": {"loss": [1]}})
    finish(process)
    assert kept() == {".": {"loss": [1, 2]}}
    assert not (tmp_path / "far" / "away" / "model").exists()


def test_a_file_that_is_opened_only_to_append_is_found_anywhere(tmp_path: Path) -> None:
    """As torch does; where to is known to the script alone, and its process has ended since."""
    code = TORCH.replace("*sys.argv[1:]", f"'{tmp_path}' + '/far/away/model'")
    done = offline(*python(f"import os; os.chdir('/')\n{code}"))
    assert f"adopted 1 event file from {tmp_path}/far/away/model" in done.stderr
    assert kept() == {".": {"loss": [0, 1, 2, 3, 4]}}


@pytest.mark.parametrize("code", [TORCH, TENSORBOARDX], ids=["torch", "tensorboardX"])
def test_a_file_that_is_deleted_at_once_is_adopted(code: str) -> None:
    lines = code.replace("*sys.argv[1:]", "directory + '/test'").strip().splitlines()
    lines[2:] = [f"    {line}" for line in lines[2:]]
    lines.insert(2, "import tempfile\nwith tempfile.TemporaryDirectory() as directory:")
    done = offline(*python("\n".join(lines)))
    assert "adopted 1 event file from" in done.stderr
    assert kept() == {"test": {"loss": [0, 1, 2, 3, 4]}}


def test_a_program_has_its_own_sitecustomize_and_path(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import builtins; builtins.customized = 7")
    code = "import sitecustomize, sys; print(customized, sitecustomize.__file__, *sys.path)"
    environ = {**os.environ, "PYTHONPATH": str(site)}
    alone = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=True
    )
    done = offline(*python(code), env=environ)
    assert done.stdout == alone.stdout
    assert "tbhub: no TensorBoard event files" in done.stderr
    assert list(Path(os.environ["TMPDIR"]).iterdir()) == []


def test_daemonised_processes_of_a_script_count(begin: Begin, tmp_path: Path) -> None:
    Path("train.sh").write_text(
        f"setsid -f {sys.executable} -c '{SLOW_X}' {tmp_path}/far/daemon loss <&0\n"
        "while kill -0 $PPID && ! [ -e done ]; do sleep 0.1; done\n"
    )
    process = begin("--offline", "--", "sh", "train.sh")
    await_ready(process)
    eventually(lambda: kept() == {".": {"loss": [1]}})
    Path("done").touch()
    said = finish(process)
    assert kept()["."]["loss"][0] == 1
    assert "adopted 1 event file from" in said


def test_two_runs_in_one_directory_adopt_their_own(begin: Begin, elsewhere: Path) -> None:
    codes = {"a": SLOW_TORCH, "b": SLOW_X}
    both = {
        name: begin(
            "--offline",
            *python(code, f"runs/{name}", name),
            env={**os.environ, "TBHUB_SPOOL_DIR": str(elsewhere.parent / name)},
        )
        for name, code in codes.items()
    }
    for process in both.values():
        await_ready(process)
    for name, process in both.items():
        said = finish(process)
        assert f"adopted 1 event file from runs/{name}\n" in said
        assert "not adopted" not in said
        (spool,) = (elsewhere.parent / name).iterdir()
        assert steps_of(spool / "files") == {".": {name: [1, 2]}}


def test_files_of_a_program_that_is_not_tracked_are_not_adopted(begin: Begin, place: Path) -> None:
    """tensorboardX names no process, and the program has ended before anything looks at it."""
    process = begin("--offline", *python(SLOW_X, "runs/mine", "mine"))
    await_ready(process)
    adopting = adopting_process(process)
    os.kill(adopting, signal.SIGSTOP)
    for directory in ("runs/other", str(place / "other")):
        subprocess.run([sys.executable, "-c", TENSORBOARDX, directory], check=True)
    os.kill(adopting, signal.SIGCONT)
    said = finish(process)
    assert kept() == {".": {"mine": [1, 2]}}
    assert "adopted 1 event file from runs/mine" in said
    assert "not adopted" in said
    assert "runs/other/events.out.tfevents" in said
    assert "hint: --logdir DIR" in said


def test_a_file_of_a_process_that_was_not_seen_is_adopted_from_a_named_directory() -> None:
    write = [sys.executable, "-I", "-c", TENSORBOARDX, "logs/a"]
    done = offline("--logdir", "logs", "--", *write)
    assert "adopted 1 event file from logs/a" in done.stderr
    assert [list(each.values()) for each in kept().values()] == [[[0, 1, 2, 3, 4]]]


def test_a_file_that_two_runs_write_to_is_reported_by_both(begin: Begin, elsewhere: Path) -> None:
    code = """
import os, sys, time
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.record_writer import RecordWriter
writers = []
for directory in ("shared", sys.argv[1]):
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    writers.append(RecordWriter(f"{directory}/events.out.tfevents.{directory}"))
    first = Event(wall_time=time.time(), file_version="brain.Event:2")
    writers[-1].write(first.SerializeToString())
    writers[-1].flush()
sys.stdin.readline()
"""
    both, processes = {}, {}
    for name in ("shared", "a", "b"):
        Path(name).mkdir()
    for name in ("a", "b"):
        environ = {**os.environ, "TBHUB_SPOOL_DIR": str(elsewhere.parent / f"spool-{name}")}
        both[name] = begin("--offline", *python(code, name), env=environ)
    for _ in range(2):  # both have opened the shared file before one opens its own
        for name, process in both.items():
            processes[name] = int(process.stdout.readline())  # type: ignore[union-attr]
        for process in both.values():
            process.stdin.write("go\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
    for name in both:  # before a file is adopted, the processes of other runs are looked at
        copies = elsewhere.parent / f"spool-{name}"
        eventually(lambda copies=copies, name=name: list(copies.rglob(f"*tfevents.{name}")))
    for name, other in (("a", "b"), ("b", "a")):
        said = finish(both[name])
        assert f"process {processes[other]} of another run writes to it as well" in said
        assert "hint: give each run a directory of its own" in said


def test_a_run_inside_a_run_has_its_own_files() -> None:
    inner = [*TBHUB, "run", "--offline", "--name", "inner", *python(TORCH)]
    offline("--name", "outer", "--", *inner)
    runs = {json.loads(spool.owed.read_bytes())["new"]["name"]: spool for spool in all_spools()}
    assert steps_of(runs["inner"].directory) == {".": {"loss": [0, 1, 2, 3, 4]}}
    assert list(runs["outer"].directory.rglob("*tfevents*")) == []


def test_files_are_adopted_into_a_directory_that_is_the_storage(
    hub: HubProcess, tmp_path: Path
) -> None:
    done = run("run", "--storage", tmp_path / "logs", "--name", "a", *python(TENSORBOARDX))
    assert "adopted 1 event file from runs/" in done.stderr
    assert steps_of(tmp_path / "logs" / "default" / "default" / "a") == {
        ".": {"loss": [0, 1, 2, 3, 4]}
    }
    eventually(lambda: known(hub)["metrics"].get("loss", {}).get("count") == 5)


@pytest.mark.parametrize("code", [LOGGED, TORCH], ids=["logdir", "runs"])
def test_storage_of_a_hub_below_the_working_directory_is_not_adopted(
    elsewhere: Path, tmp_path: Path, nobody: None, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    store = elsewhere / "store"
    with HubProcess(tmp_path / "hub", storage=store) as hub:
        monkeypatch.setenv("TBHUB_URL", hub.url)
        monkeypatch.setenv("TBHUB_TOKEN", hub.token)
        wait = f"""
import pathlib, time
while not list(pathlib.Path({str(store)!r}).rglob("*tfevents*")):
    time.sleep(0.1)
time.sleep(3)
"""
        done = run("run", *python(code + wait))
        assert done.returncode == 0
        assert "store" not in done.stderr
        eventually(lambda: known(hub)["metrics"]["loss"]["count"] == 5)
        assert len(list(store.rglob("*tfevents*"))) == 1


def test_older_files_are_not_adopted(begin: Begin) -> None:
    subprocess.run([sys.executable, "-c", TENSORBOARDX, "runs/a"], check=True)
    (old,) = Path("runs/a").iterdir()
    code = TORCH + f"file = open({str(old)!r}, 'ab'); file.write(b'more'); file.flush()\n"
    process = begin("--offline", *python(code + WAIT, "runs/a"))
    await_ready(process)
    (spool,) = all_spools()
    eventually(lambda: list(spool.directory.glob("*tfevents*")))
    said = finish(process)
    assert kept() == {".": {"loss": [0, 1, 2, 3, 4]}}
    assert [file.name for file in spool.directory.glob("*tfevents*")] != [old.name]
    line = f"tbhub: not adopted: {old} (it was begun before the start, by an earlier run)"
    assert said.splitlines()[-2] == line  # before what waits for `tbhub sync`


def test_sub_directories_stay_apart() -> None:
    code = """
from torch.utils.tensorboard import SummaryWriter
for name in ("logs/train", "logs/validation", "others/train"):
    with SummaryWriter(name) as writer:
        writer.add_scalar("loss", 1, 1)
with SummaryWriter("logs/train") as writer:
    writer.add_hparams({"lr": 0.1}, {"accuracy": 1.0}, run_name="tried")
"""
    offline(*python(code))
    assert set(kept()) == {
        "logs/train",
        "logs/train/tried",
        "logs/validation",
        "others/train",
    }


def test_named_directories_are_the_only_ones() -> None:
    code = TENSORBOARDX.replace("*sys.argv[1:]", "sys.argv[1]")
    done = offline("--logdir", "wanted", "--logdir", "empty", *python(code, "wanted/x"))
    assert "adopted 1 event file from wanted/x" in done.stderr
    line = "tbhub: no event files were written to empty, named by --logdir"
    assert done.stderr.splitlines()[-2] == line  # before what waits for `tbhub sync`
    assert kept() == {"wanted/x": {"loss": [0, 1, 2, 3, 4]}}


def test_a_file_outside_of_named_directories_is_reported(begin: Begin) -> None:
    process = begin(
        "--offline",
        "--logdir",
        "wanted",
        *python(SLOW_X, "unwanted", "loss"),
    )
    await_ready(process)
    said = finish(process)
    assert "no event files were written to wanted" in said


def test_nothing_is_captured_if_not_wanted() -> None:
    done = offline("--no-capture", *python(TENSORBOARDX))
    assert kept() == {}
    assert "adopted" not in done.stderr
    assert "hint" not in done.stderr


def test_a_command_without_event_files_gets_a_hint() -> None:
    done = offline("--", "true")
    assert "no TensorBoard event files were written. hint: log to" in done.stderr
    assert "tbhub run --logdir DIR" in done.stderr


def test_files_of_plugins_are_adopted() -> None:
    code = """
import pathlib
from tensorboardX import SummaryWriter
with SummaryWriter("runs/a") as writer:
    writer.add_scalar("loss", 1, 1)
for name in ("projector_config.pbtxt", "00001/tensors.tsv", "plugins/profile/1/host.xplane.pb",
             "model.pt"):
    path = pathlib.Path("runs/a", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(name)
"""
    offline(*python(code))
    (spool,) = all_spools()
    found = {str(file.relative_to(spool.directory)) for file in spool.directory.rglob("*")}
    assert {
        "projector_config.pbtxt",
        "00001/tensors.tsv",
        "plugins/profile/1/host.xplane.pb",
    } <= found
    assert "model.pt" not in found


def test_a_killed_supervisor_loses_nothing(begin: Begin, hub: HubProcess) -> None:
    process = begin(*python(SLOW_TORCH, "runs/a", "loss"))
    await_ready(process)
    process.kill()
    process.communicate("go\n", timeout=60)
    eventually(lambda: known(hub)["metrics"].get("loss", {}).get("count") == 2)
    eventually(lambda: run("sync").returncode == 0)
    assert all_spools() == []


def test_sync_copies_what_a_killed_copying_process_has_left(begin: Begin) -> None:
    process = begin("--offline", *python(SLOW_X, "runs/a", "loss"))
    await_ready(process)
    eventually(lambda: kept() == {".": {"loss": [1]}})
    (copying,) = descendants(process.pid, b"tbhub.tracking.capture")
    os.kill(copying, signal.SIGKILL)
    said = finish(process)
    assert "may be incomplete: the process that copies them was killed" in said
    (spool,) = all_spools()
    assert [each["name"] for each in json.loads(spool.adopted.read_bytes())] == [
        file.name for file in Path("runs/a").iterdir()
    ]
    spool.catch_up()
    assert kept() == {".": {"loss": [1, 2]}}


def descendants(process: int, word: bytes) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in children if word in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.parametrize("writer", [TORCH, TENSORBOARDX], ids=["torch", "tensorboardX"])
def test_adopted_files_in_a_watched_directory_are_one_run(
    hub: HubProcess, elsewhere: Path, writer: str
) -> None:
    hub.json("POST", "/api/v1/logdirs", json={"path": str(elsewhere / "runs")})
    with tbhub.SummaryWriter("runs/other") as other:
        other.add_scalar("loss", 1.0, 1)
    assert run("run", "--name", "mine", *python(writer, "runs/today")).returncode == 0
    eventually(lambda: names_of(hub) == ["mine", "other"], "the directory is listed as well")
    assert metrics_of(hub, "mine") == {"loss": 5}


def test_a_chosen_logdir_in_a_watched_directory_is_one_run(
    hub: HubProcess, elsewhere: Path
) -> None:
    hub.json("POST", "/api/v1/logdirs", json={"path": str(elsewhere / "runs")})
    with tbhub.Run("exp", name="mine", logdir="runs/today") as tracked:
        tracked.log_metrics({"loss": 1.0})
        tracked.log_metrics({"loss": 2.0}, stage="test")
    eventually(
        lambda: (
            metrics_of(hub, "mine") == {"train/loss": 1, "test/loss": 1}
            and names_of(hub) == ["mine"]
        ),
        "the directory is listed as well",
    )


def names_of(hub: HubProcess) -> list[str]:
    return sorted(each["name"] for each in hub.json("GET", "/api/v1/runs")["runs"])


def metrics_of(hub: HubProcess, name: str) -> dict[str, int]:
    """How many points of each metric the hub knows of a run."""
    (found,) = (each for each in hub.json("GET", "/api/v1/runs")["runs"] if each["name"] == name)
    return {tag: each["count"] for tag, each in found["metrics"].items()}
