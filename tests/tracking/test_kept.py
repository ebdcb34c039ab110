"""Everything a run writes is published, or stays on the machine until the user deletes it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import tbhub
from storage.conftest import Place
from support.hub import HubProcess, eventually
from tbhub.errors import TbhubWarning
from tbhub.publisher.spool import Spool, all_spools
from tbhub.storage.joined import readable
from tbhub.storage.open import open_store
from tracking.test_command import TBHUB, python, run, start

LARGE = 9 << 20  # more than a store takes in one request
WRITE = f"""
import os, pathlib
top = pathlib.Path(os.environ.get("XT_OUTPUT_MNT", "."))
def write(top):
    (top / "checkpoint-10").mkdir(exist_ok=True)
    for name in ("model.pt", "epoch1.ckpt", ".hidden", "half.tmp", "old~"):
        (top / name).write_text(name)
    (top / "checkpoint-10/state.bin").write_bytes(b"state" * ({LARGE} // 5))
    (top / "DONE").touch()
    (top / "latest").symlink_to("checkpoint-10")
    (top / "last.ckpt").symlink_to("epoch1.ckpt")
"""
WRITTEN = {
    **{name: name.encode() for name in ("model.pt", "epoch1.ckpt", ".hidden", "half.tmp", "old~")},
    "checkpoint-10/state.bin": b"state" * (LARGE // 5),
    "DONE": b"",
    "last.ckpt": b"epoch1.ckpt",
}
PUBLISHED = {**WRITTEN, "latest.tbhub-link": b"checkpoint-10"}
SLOW = "2MB/s"
# A checkpoint that takes long to upload, then metrics until somebody says that it is enough.
TRAIN = """
import os, pathlib, sys, time
from tbhub import SummaryWriter
top = pathlib.Path(os.environ["TBHUB_LOGDIR"])
(top / "model.pt").write_bytes(os.urandom(1 << 20) * 24)
print("saved", flush=True)
with SummaryWriter(flush_secs=0.1) as writer:
    step = 0
    while not pathlib.Path("enough").exists():
        writer.add_scalar("loss", 1.0, step)
        step += 1
        time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def kept_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    with HubProcess(tmp_path_factory.mktemp("hub") / "home", log_level="warning") as hub:
        yield hub


@pytest.fixture
def hub(kept_hub: HubProcess, nobody: None, monkeypatch: pytest.MonkeyPatch) -> HubProcess:
    """One hub for all tests of this file."""
    monkeypatch.setenv("TBHUB_URL", kept_hub.url)
    monkeypatch.setenv("TBHUB_TOKEN", kept_hub.token)
    return kept_hub


@pytest.fixture(params=["hub", "bucket"])
def storage(request: pytest.FixtureRequest, hub: HubProcess) -> list[str]:
    """Options of `tbhub run` for each kind of storage."""
    if request.param == "hub":
        return []
    use: Callable[[Place], str] = request.getfixturevalue("environment")
    return ["--storage", use(request.getfixturevalue("s3")())]


def newest(hub: HubProcess) -> int:
    return max(run["id"] for run in hub.json("GET", "/api/v1/runs?limit=1000")["runs"])


def stored(hub: HubProcess, number: int | None = None) -> dict[str, bytes]:
    """The published files of a run, but for those that tbhub itself writes."""
    opened, prefix = open_store(location(hub, number or newest(hub)))
    store = readable(opened)
    try:
        return {
            entry.path[len(prefix) + 1 :]: store.read(entry.path)
            for entry in store.list(prefix)
            if "tfevents" not in entry.path and not entry.path.endswith(("console.log", "git.diff"))
        }
    finally:
        store.close()


def location(hub: HubProcess, number: int) -> str:
    return str(hub.json("GET", f"/api/v1/runs/{number}")["location"])


def agents(process: int) -> list[int]:
    """The publishing processes that a process has started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"tbhub.publisher" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def test_everything_a_command_writes_is_published(hub: HubProcess, storage: list[str]) -> None:
    done = run("run", *storage, *python(f"{WRITE}write(top)"))
    assert done.returncode == 0, done.stderr
    assert stored(hub) == PUBLISHED
    assert all_spools() == []


def test_everything_is_written_to_local_storage(hub: HubProcess, tmp_path: Path) -> None:
    place = tmp_path / "place"
    done = run("run", "--storage", place, "--name", "x", *python(f"{WRITE}write(top)"))
    assert done.returncode == 0, done.stderr
    for name, content in WRITTEN.items():
        assert (place / "default/default/x" / name).read_bytes() == content


def test_everything_a_killed_program_wrote_is_published(
    hub: HubProcess, storage: list[str]
) -> None:
    where = f"storage={storage[1]!r}" if storage else ""
    code = f"{WRITE}import tbhub; write(tbhub.Run({where}).logdir); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    eventually(lambda: all_spools() == [])
    assert stored(hub) == PUBLISHED


def test_everything_a_run_in_code_writes_is_published(hub: HubProcess) -> None:
    with tbhub.Run() as tracked:
        (tracked.logdir / "model.pt").write_bytes(b"first")
        (tracked.logdir / "model.pt").write_bytes(b"last form")
    assert stored(hub) == {"model.pt": b"last form"}
    assert all_spools() == []


def discarded(answer: str, *arguments: str) -> tuple[int, str]:
    """What `tbhub sync --discard` says on a terminal where a question is answered, and its code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*TBHUB, "sync", "--discard", *arguments], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    os.write(ours, answer.encode())
    said = b""
    with suppress(OSError):
        while data := os.read(ours, 65536):
            said += data
    os.close(ours)
    return process.wait(60), said.decode()


def test_excluded_files_stay_until_they_are_discarded(hub: HubProcess) -> None:
    done = run(
        "run", "--exclude", "*.ckpt", "--exclude", "checkpoint-*", *python(f"{WRITE}write(top)")
    )
    assert done.returncode == 0
    (spool,) = all_spools()
    last = done.stderr.splitlines()[-1]
    assert last == (
        "tbhub: 3 files (9.4 MB) not published: checkpoint-10/state.bin (excluded by "
        f"'checkpoint-*') and more; kept in {spool.directory}; `tbhub sync --discard {spool.name}` "
        "deletes what is there"
    )
    left = {"epoch1.ckpt", "checkpoint-10/state.bin", "last.ckpt"}
    assert stored(hub).keys() == WRITTEN.keys() - left
    check_kept(spool)
    done = run("sync")
    assert done.returncode == 0
    assert f"kept       {spool.uri}: 3 files, 9.4 MB, everything else is published" in done.stdout
    assert "epoch1.ckpt  (excluded by '*.ckpt')" in done.stdout
    done = run("sync", "--list", "--json")
    (found,) = json.loads(done.stdout)
    assert {each["path"] for each in found["kept"]} == left
    done = run("sync", "--discard", stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "no terminal to answer on: say --yes" in done.stderr
    check_kept(spool)
    code, said = discarded("n\n", spool.name[:-2])
    assert code == 1
    assert re.search(r"9\.4 MB +checkpoint-10/state\.bin", said)
    assert "Delete 3 files (9.4 MB) that are not published?" in said
    check_kept(spool)
    code, said = discarded("y\n")
    assert (code, all_spools()) == (0, [])
    assert f"deleted    {spool.name}, unpublished" in said


def test_excluded_files_stay_excluded_when_the_run_is_resumed(hub: HubProcess) -> None:
    code = "import os, pathlib; pathlib.Path(os.environ['TBHUB_LOGDIR'], '{}').write_text('x')"
    assert run("run", "--name", "a", "--exclude", "*.pt", *python(code.format("m.pt"))).stdout == ""
    done = run("run", "--resume", "a", *python(code.format("other")))
    assert done.returncode == 0
    assert "m.pt (excluded by '*.pt')" in done.stderr
    assert "m.pt" not in stored(hub)
    assert stored(hub)["other"] == b"x"


def check_kept(spool: Spool) -> None:
    assert (spool.directory / "epoch1.ckpt").read_bytes() == b"epoch1.ckpt"
    assert (spool.directory / "checkpoint-10/state.bin").stat().st_size == LARGE // 5 * 5
    assert not (spool.directory / "model.pt").exists()  # published, and so not kept twice


def test_exclusions_of_the_environment_and_in_code(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TBHUB_EXCLUDE", "*.ckpt,cache/*")
    tracked = tbhub.Run(exclude=["*.bin"])
    (tracked.logdir / "a.ckpt").write_bytes(b"1")
    (tracked.logdir / "b.bin").write_bytes(b"2")
    (tracked.logdir / "c.txt").write_bytes(b"3")
    with pytest.warns(TbhubWarning, match="2 files .* not published: .* kept in"):
        tracked.finish()
    assert stored(hub) == {"c.txt": b"3"}
    assert {each.path for each in all_spools()[0].left_out()} == {"a.ckpt", "b.bin"}


def test_files_that_cannot_be_published_stay(hub: HubProcess) -> None:
    code = f"{WRITE}\n(top / 'a\\\\b').write_text('x'); (top / 'out').symlink_to('/etc/passwd')"
    done = run("run", *python(code))
    assert done.returncode == 0
    (spool,) = all_spools()
    last = done.stderr.splitlines()[-1]
    assert "cannot be published: " in last
    assert "out (a link that leads out of the directory)" in last
    assert f"`tbhub sync --discard {spool.name}`" in last
    assert (spool.directory / "a\\b").read_text() == "x"
    assert (spool.directory / "out").is_symlink()
    assert run("sync").returncode == 1
    assert run("sync", "--discard", "--yes").returncode == 0
    assert (all_spools(), Path("/etc/passwd").exists()) == ([], True)


def test_bad_patterns_and_rates_are_errors_at_the_start(hub: HubProcess) -> None:
    for option, text in (("--exclude", "/abs"), ("--upload-limit", "fast")):
        done = run("run", option, text, "--", "touch", "started")
        assert done.returncode == 2
        assert f"'{text}'" in done.stderr
        assert not Path("started").exists()


def test_metrics_do_not_wait_for_a_checkpoint_and_a_killed_agent_is_replaced(
    hub: HubProcess, storage: list[str]
) -> None:
    process = start(
        "run", *storage, "--upload-limit", SLOW, *python(TRAIN), stdin=subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "saved\n"
    number = newest(hub)
    eventually(lambda: tbhub_points(hub, number) > 3)
    assert "model.pt" not in stored(hub, number)
    (agent,) = agents(process.pid)
    os.kill(agent, signal.SIGKILL)
    Path("enough").touch()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert len(stored(hub, number)["model.pt"]) == 24 << 20
    assert all_spools() == []


def tbhub_points(hub: HubProcess, number: int) -> int:
    with suppress(KeyError, OSError):
        return len(tbhub.load(location(hub, number))["."].scalars["loss"].steps)
    return 0


def test_interrupt_leaves_the_upload_to_the_background(hub: HubProcess) -> None:
    code = "import os, pathlib; top = pathlib.Path(os.environ['TBHUB_LOGDIR'])\n"
    code += "(top / 'model.pt').write_bytes(bytes(24 << 20)); print('saved', flush=True)"
    process = start("run", "--upload-limit", SLOW, *python(code))
    assert process.stdout is not None
    assert process.stdout.readline() == "saved\n"
    number = newest(hub)
    eventually(lambda: process.poll() is None and location(hub, number))
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
    _, err = process.communicate(timeout=60)
    assert "publishing continues in the background" in err
    eventually(lambda: all_spools() == [])
    assert stored(hub, number) == {"model.pt": bytes(24 << 20)}


def test_checkpoints_that_the_program_deletes_stay_published(hub: HubProcess) -> None:
    with tbhub.Run() as tracked:
        first = tracked.logdir / "checkpoint-1.pt"
        first.write_bytes(b"1")
        eventually(lambda: "checkpoint-1.pt" in stored(hub))
        first.unlink()
        (tracked.logdir / "checkpoint-2.pt").write_bytes(b"2")
    assert stored(hub) == {"checkpoint-1.pt": b"1", "checkpoint-2.pt": b"2"}


def test_damaged_event_files_are_kept(tmp_path: Path) -> None:
    from tbhub.publisher.spool import make_spool, publish_now, remove_published

    spool = make_spool(str(tmp_path / "place"))
    file = spool.directory / "events.out.tfevents.1.gz"
    file.write_bytes(os.urandom(1000))
    assert publish_now(spool).files == 0
    assert not remove_published(spool)
    assert file.stat().st_size == 1000
    assert [each.path for each in spool.left_out()] == [file.name]
    store, prefix = open_store(str(tmp_path / "place"))
    assert list(store.list(prefix)) == []
