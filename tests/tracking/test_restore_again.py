"""Runs that come back to a machine which has older files of them, or pieces of a restore."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tbhub
from support.hub import HubProcess
from tbhub.publisher.files import STAGING
from tbhub.publisher.spool import Spool, all_spools, make_spool
from tbhub.tracking.leftovers import Leftover, adopt
from tbhub.tracking.owed import Known, read_known, write_known
from tracking.test_command import python, run, start
from tracking.test_resume import WAIT, killed

# Keeps its checkpoints as Lightning does: last.ckpt is a link to the newest one.
EPOCHS = """
import os, sys
os.chdir(os.environ["TBHUB_LOGDIR"])
first = int(open("last.ckpt").read()) if os.path.exists("last.ckpt") else 0
print("from", first)
for epoch in range(first + 1, int(sys.argv[1]) + 1):
    open(f"epoch{epoch}.ckpt", "w").write(str(epoch))
    if os.path.lexists("last.ckpt"):
        os.remove("last.ckpt")
    os.symlink(f"epoch{epoch}.ckpt", "last.ckpt")
"""
# Waits until the hub has a file with this content.
PUBLISHED = """
import time
place, wanted = sys.argv[2], sys.argv[3]
while not os.path.exists(place) or open(place).read() != wanted:
    time.sleep(0.05)
time.sleep(1.5)
"""
WRITE = "import os, sys; open(os.path.join(os.environ['TBHUB_LOGDIR'], sys.argv[1]), 'w')"
WRITE += ".write(sys.argv[2])"


@pytest.fixture
def use_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What is started from now on is on the machine of this name."""

    def use(name: str) -> None:
        monkeypatch.setenv("TBHUB_SPOOL_DIR", str(tmp_path / name / "spool"))
        monkeypatch.setenv("TBHUB_HOME", str(tmp_path / name / "home"))

    return use


def test_a_link_to_the_last_checkpoint_is_replaced_by_that_of_a_later_attempt(
    hub: HubProcess, use_machine: Callable[[str], None]
) -> None:
    """A, B, and A again: the last attempt continues behind B's checkpoint."""
    last = hub.home / "files/1/last.ckpt"
    use_machine("a")
    killed("run", "--name", "mine", *python(EPOCHS + PUBLISHED + WAIT, 2, last, 2))
    use_machine("b")
    done = run("run", "--resume", "mine", "--force", *python(EPOCHS, 5))
    assert done.stdout == "from 2\n", done.stderr
    use_machine("a")
    done = run("run", "--resume", "mine", *python(EPOCHS, 6))
    assert done.stdout == "from 5\n", done.stderr
    assert "something else is there" not in done.stderr
    assert (last.read_text(), all_spools()) == ("6", [])


@pytest.mark.parametrize("pattern", ["*.ckpt", "a.ckpt"])
def test_an_excluded_file_that_is_renamed_is_not_published(
    hub: HubProcess, use_machine: Callable[[str], None], pattern: str
) -> None:
    use_machine("a")
    write = python(WRITE, "a.ckpt", "secret")
    assert run("run", "--name", "mine", "--exclude", pattern, *write).returncode == 0
    use_machine("b")
    assert run("run", "--resume", "mine", *python(WRITE, "a.ckpt", "m2")).returncode == 0
    use_machine("a")
    done = run("run", "--resume", "mine", *python("pass"))
    assert done.returncode == 0, done.stderr
    files = hub.home / "files/1"
    assert {path.name for path in files.iterdir() if "ckpt" in path.name} == {"a.ckpt"}
    assert (files / "a.ckpt").read_text() == "m2"
    (spool,) = all_spools()
    assert (spool.directory / "a.ckpt.attempt1").read_text() == "secret"
    listed = run("sync", "--list").stdout
    assert "a.ckpt.attempt1" in listed
    assert f"excluded by {pattern!r}" in listed


def test_a_directory_that_was_given_gets_what_another_machine_has_written_since(
    hub: HubProcess, use_machine: Callable[[str], None]
) -> None:
    """A, B, and A again, with all published each time; a copy of what B left alone is not kept."""
    for machine, step in (("a", 1), ("b", 2), ("a", 3)):
        use_machine(machine)
        directory = Path(machine)
        resumed = {"name": "mine"} if step == 1 else {"resume": "mine"}
        with tbhub.Run(**resumed, logdir=directory) as run:
            found = (directory / "last.pt").read_text() if step > 1 else "step 0"
            assert found == f"step {step - 1}"
            (directory / "last.pt").write_text(f"step {step}")
            if step == 1:
                (directory / "same.pt").write_text("never written again")
                (directory / "train.txt").write_text("1")
            run.log_metrics({"loss": 1 / step})
        assert all_spools() == []
    assert sorted(path.name for path in Path("a").glob("*.pt*")) == [
        "last.pt",
        "last.pt.attempt1",
        "same.pt",
    ]
    assert Path("a/last.pt.attempt1").read_text() == "step 1"
    assert (hub.home / "files/1/last.pt").read_text() == "step 3"


def test_a_checkpoint_of_another_run_is_not_published(hub: HubProcess) -> None:
    for name in ("first", "second"):
        with tbhub.Run(name=name, tensorboard_path="shared"):
            Path("shared/last.pt").write_text(name)
    for _ in range(2):
        with tbhub.Run(resume="first", tensorboard_path="shared"):
            assert Path("shared/last.pt").read_text() == "first"
    assert Path("shared/last.pt.other-run").read_text() == "second"
    names = {path.name for path in (hub.home / "files/1").rglob("*")}
    assert "last.pt" in names
    assert "last.pt.other-run" not in names


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_restore_continues_when_the_run_is_resumed_again(
    hub: HubProcess, use_machine: Callable[[str], None], number: signal.Signals
) -> None:
    size = 96 << 20
    use_machine("a")
    large = "import os; open(os.environ['TBHUB_LOGDIR'] + '/large.bin', 'wb').write(bytes(%d))"
    assert run("run", "--name", "mine", *python(large % size)).returncode == 0
    use_machine("b")
    process = start("run", "--resume", "mine", *python("print('never')"), stdin=subprocess.PIPE)
    spool, staged = _staged(process)
    process.send_signal(number)
    said = process.communicate(timeout=60)
    had = staged.stat().st_size
    assert 0 < had < size, said
    assert STAGING not in run("sync", "--list").stdout
    began = staged.stat().st_ino
    look = "import os; print(os.stat(os.environ['TBHUB_LOGDIR'] + '/large.bin').st_ino)"
    done = run("run", "--resume", "mine", "--force", *python(look))
    assert done.stdout == f"{began}\n", done.stderr
    assert (all_spools(), spool.path.exists()) == ([], False)


def test_sync_deletes_the_pieces_of_an_interrupted_restore(
    hub: HubProcess, use_machine: Callable[[str], None]
) -> None:
    use_machine("a")
    large = "import os; open(os.environ['TBHUB_LOGDIR'] + '/large.bin', 'wb').write(bytes(%d))"
    assert run("run", "--name", "mine", *python(large % (96 << 20))).returncode == 0
    use_machine("b")
    process = start("run", "--resume", "mine", *python("print('never')"), stdin=subprocess.PIPE)
    _staged(process)
    process.kill()
    process.communicate(timeout=60)
    refused = run("run", "--offline", "--resume", "mine", *python("print('never')"))
    assert (refused.returncode != 0, refused.stdout) == (True, "")
    assert "cannot be resumed without a hub" in refused.stderr
    synced = run("sync")
    assert (synced.returncode, all_spools()) == (0, []), synced.stdout


def _staged(process: subprocess.Popen[str]) -> tuple[Spool, Path]:
    """Wait until a process has restored a part of a file; return where it is."""
    while process.poll() is None:
        for spool in all_spools():
            for staged in (spool.directory / STAGING).glob("*"):
                if staged.stat().st_size:
                    return spool, staged
        time.sleep(0.002)
    raise AssertionError(process.communicate())


@pytest.mark.parametrize(("attempt", "claimed"), [(2, 2), (3, 1)])
def test_a_spool_is_of_its_attempt_until_newer_files_are_restored(
    spool_root: Path, attempt: int, claimed: int
) -> None:
    """A restore that is interrupted does not make older files those of the newest attempt."""
    spool = make_spool("hub://runs/1")
    write_known(spool, Known(1, 1, "http://hub"))
    adopted = adopt(Leftover(spool, 1), Known(1, attempt, "http://hub"), "hub://runs/1", exclude=())
    assert adopted is not None
    os.close(adopted.lock)
    found = read_known(adopted.spool)
    assert found is not None
    assert found.attempt == claimed
