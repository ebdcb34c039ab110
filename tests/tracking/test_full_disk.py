"""`tbhub run` on a disk without room: the command's exit code is the result, no file is lost."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.hub import HubProcess, eventually
from support.readback import remount
from tbhub.publisher.spool import SpoolError, all_spools
from tbhub.tracking.lifeline import Lifeline
from tbhub.tracking.run import new_run
from tbhub.tracking.supervisor import NOT_FOUND, NotStartedError, Outcome, supervise
from tracking.test_command import known, python, run

# Takes all the room there is, prints its process, and exits with a code of its own.
FILL = 'cat /dev/zero > "$TBHUB_LOGDIR/big.bin" 2> /dev/null; echo $$; exit 3'


@pytest.fixture
def tiny_spool(spool_root: Path) -> Iterator[Path]:
    """A spool on a file system of its own, of 300 kB."""
    spool_root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tbhub-test", str(spool_root)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount a file system here: {done.stderr.strip()}")
    yield spool_root
    subprocess.run(["umount", "-l", str(spool_root)], check=True)


@pytest.mark.root
def test_a_disk_that_a_command_fills_leaves_its_exit_code(
    hub: HubProcess, tiny_spool: Path
) -> None:
    given = ("--hparam", "lr=.1", "--system-metrics")
    done = run("run", "--name", "full", *given, "--", "sh", "-c", FILL)
    assert done.returncode == 3, done.stderr
    assert f"tbhub: Run full failed with exit code 3: {hub.url}/runs/1" in done.stderr
    (failed,) = (line for line in done.stderr.splitlines() if "could not be written: " in line)
    assert "what the command has printed (No space left on device)" in failed
    found = known(hub)
    assert (found["status"], found["exit_code"]) == ("failed", 3)
    assert run("sync").returncode == 0
    assert all_spools() == []
    assert (Path(found["location"]) / "big.bin").stat().st_size > 100_000


@pytest.mark.root
def test_event_files_are_adopted_once_a_full_disk_has_room(
    hub: HubProcess, tiny_spool: Path
) -> None:
    code = """
import os, shutil, time, tbhub
filler = os.path.join(os.environ["TBHUB_LOGDIR"], "filler.tmp")
with open(filler, "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
writer = tbhub.SummaryWriter("logs")
for step in range(9):
    writer.add_scalar("loss", step, step)
    writer.flush()
    time.sleep(0.4)
    if step == 5:
        os.unlink(filler)
writer.close()
shutil.rmtree("logs")
"""
    done = run("run", *python(code))
    assert done.returncode == 0, done.stderr
    assert "adopted 1 event file from logs" in done.stderr
    eventually(lambda: known(hub)["metrics"].get("loss", {}).get("count") == 9)


@pytest.mark.root
@pytest.mark.parametrize("options", [("--offline",), ()], ids=["offline", "online"])
def test_a_spool_that_a_command_has_filled_is_published(
    hub: HubProcess, tiny_spool: Path, options: tuple[str, ...]
) -> None:
    if not options:
        hub.stop()
    run("run", "--name", "full", *options, "--", "sh", "-c", FILL)
    (spool,) = all_spools()
    size = (spool.directory / "big.bin").stat().st_size
    if not options:
        hub.restart()
    done = run("sync")
    assert done.returncode == 0, done.stdout
    assert all_spools() == []
    found = known(hub)
    assert (found["status"], found["exit_code"]) == ("failed", 3)
    assert (Path(found["location"]) / "big.bin").stat().st_size == size


@pytest.mark.root
def test_sync_of_a_full_spool_without_reserve_names_the_directory(
    hub: HubProcess, tiny_spool: Path
) -> None:
    run("run", "--offline", "--", "sh", "-c", FILL)
    (spool,) = all_spools()
    with (tiny_spool / "full").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    for _ in range(2):
        done = run("sync")
        assert done.returncode == 1
        assert f"cannot write {spool.path}: No space left on device" in done.stdout
        assert "hint: make room there" in done.stdout
    assert hub.json("GET", "/api/v1/runs")["runs"] == []
    remount(tiny_spool, "size=16m")
    assert run("sync").returncode == 0
    assert known(hub)["status"] == "failed"


@pytest.mark.root
def test_a_full_disk_is_an_error_before_any_hub_knows_the_run(
    hub: HubProcess, tiny_spool: Path
) -> None:
    with (tiny_spool / "full").open("wb", buffering=0) as file:
        file.write(bytes(280 << 10))
    done = run("run", "--", "touch", "started")
    assert done.returncode == 2
    assert f"cannot keep local copies in {tiny_spool}: No space left on device" in done.stderr
    assert hub.json("GET", "/api/v1/runs")["runs"] == []
    assert not Path("started").exists()


Supervise = Callable[..., Outcome]


@pytest.fixture
def supervised(hub: HubProcess) -> Supervise:
    """Runs a command as a run, in this process."""

    def begin(*command: str, **options: Any) -> Outcome:
        new = new_run(
            "default",
            None,
            hparams={},
            workspace=None,
            tags=(),
            job=None,
            note="",
            storage=None,
            resume=None,
            force=False,
            command=" ".join(command),
        )
        return supervise(list(command), Lifeline(new), hparams={}, capture=False, **options)

    return begin


def no_room(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_end_that_cannot_be_written_leaves_the_exit_code(
    supervised: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lifeline, "finish", no_room)
    outcome = supervised("sh", "-c", "exit 5")
    assert (outcome.code, outcome.status) == (5, "failed")
    (spool,) = all_spools()
    assert outcome.failed == (
        "could not be written: how the run has ended (No space left on device). The files of the "
        f"run are in {spool.directory}. hint: make room there, then run `tbhub sync`"
    )


def test_system_metrics_that_cannot_be_written_leave_the_exit_code(
    supervised: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tbhub.tracking.supervisor.SystemMetrics", no_room)
    outcome = supervised("true", system_metrics=True)
    assert (outcome.code, outcome.status, outcome.left) == (0, "finished", "")
    assert "system metrics (No space left on device)" in outcome.failed


def test_a_disk_that_fills_before_the_command_starts_is_a_failed_run(
    hub: HubProcess, supervised: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tbhub.tracking.supervisor.Console", no_room)
    with pytest.raises(SpoolError, match=r"not started: No space left on device; .* make room"):
        supervised("touch", "started")
    assert not Path("started").exists()
    eventually(lambda: known(hub)["status"] == "failed")
    assert known(hub)["exit_code"] is None


def test_only_a_command_that_is_not_there_is_not_found(
    supervised: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotStartedError, match="no-such-command: No such file") as caught:
        supervised("no-such-command")
    assert caught.value.code == NOT_FOUND

    def deleted(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    monkeypatch.setattr("tbhub.tracking.supervisor.Console", deleted)
    with pytest.raises(SpoolError, match="not started: No such file"):
        supervised("true")
