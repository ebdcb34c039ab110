"""SummaryWriter on a URI: what is logged is in the bucket, and stock TensorBoard reads it there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from storage.conftest import Place
from support import azurite as azure
from support.azurite import Azurite
from support.fault_proxy import FaultProxy
from support.oracle import read_scalars
from tbhub import FileWriter, SummaryWriter, TbhubWarning
from tbhub.events.schema import Summary
from tbhub.publisher.spool import all_spools
from tbhub.writer import publishing

PATIENCE = 30


def download(place: Place, to: Path) -> Path:
    """What is stored, in a directory."""
    store, prefix = place.open()
    for entry in store.list(prefix):
        file = to / entry.path[len(prefix) + 1 :]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(store.read(entry.path))
    store.close()
    return to


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


def test_everything_a_writer_writes(
    s3: Callable[..., Place], environment: Callable[[Place], str], tmp_path: Path
) -> None:
    place = s3()
    uri = environment(place)
    with SummaryWriter(uri) as writer:
        assert writer.logdir == writer.log_dir == writer.file_writer.get_logdir() == uri
        for step in range(5000):
            writer.add_scalar("loss", step / 2, step)
        writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 3)
        writer.add_hparams({"lr": 0.1}, {"acc": 0.9}, run_name="trial")
        writer.add_hparams({"lr": 0.1}, {"best": 0.8}, run_name=".")
        writer.add_embedding(np.eye(3), metadata=["x", "y", "z"])
        writer.flush()
    found = download(place, tmp_path / "found")
    assert read_scalars(found)["loss"] == [(step, step / 2) for step in range(5000)]
    assert read_scalars(found / "both_a") == {"both": [(3, 1.0)]}
    assert read_scalars(found / "trial")["acc"][0][1] == pytest.approx(0.9)
    assert read_scalars(found)["best"][0][1] == pytest.approx(0.8)
    assert (found / "projector_config.pbtxt").exists()
    assert (found / "00000/default/metadata.tsv").read_text() == "x\ny\nz\n"
    names = [path.name for path in found.iterdir() if "tfevents" in path.name]
    assert all(name.endswith((".000001", ".000002", ".000003", ".000004")) for name in names)
    assert not [path for path in found.rglob("*") if path.name.startswith(".")]


def test_a_writer_goes_on_after_close(
    s3: Callable[..., Place], environment: Callable[[Place], str], tmp_path: Path
) -> None:
    place = s3()
    writer = SummaryWriter(environment(place))
    writer.add_scalar("a", 1.0, 1)
    writer.close()
    writer.add_scalar("a", 2.0, 2)
    writer.close()
    assert read_scalars(download(place, tmp_path / "found")) == {"a": [(1, 1.0), (2, 2.0)]}


def test_a_store_that_does_not_answer_ends_nobodys_training(
    s3: Callable[..., Place],
    environment: Callable[[Place], str],
    proxy: FaultProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing, "PUBLISHING_SECS", 1.0)
    proxy.refuse()
    place = s3(endpoint=proxy.url)
    writer = SummaryWriter(environment(place))
    writer.add_scalar("a", 1.0, 1)
    with pytest.warns(TbhubWarning, match=r"not published to s3://.*tbhub sync"):
        writer.close()
    with pytest.warns(TbhubWarning, match="not published"):
        assert not writer.wait_until_published(0.1)
    proxy.heal()
    assert writer.wait_until_published(PATIENCE)
    assert read_scalars(download(place, tmp_path / "found")) == {"a": [(1, 1.0)]}


def test_closing_a_file_waits_for_the_store(
    s3: Callable[..., Place], environment: Callable[[Place], str], tmp_path: Path
) -> None:
    place = s3()
    writer = FileWriter(environment(place))
    writer.add_summary(Summary(value=[Summary.Value(tag="a", simple_value=1.0)]), 1)
    writer.close()
    assert read_scalars(download(place, tmp_path / "found")) == {"a": [(1, 1.0)]}


SCRIPT = """
import os, sys, time
from tbhub import SummaryWriter
writer = SummaryWriter(sys.argv[1], flush_secs=0.01)
print("ready", flush=True)
for step in range(int(sys.argv[2])):
    writer.add_scalar("loss", float(step), step)
    if step % 1000 == 0:
        time.sleep(0.01)
if len(sys.argv) > 3:
    exec(sys.argv[3])
"""


def start(uri: str, steps: int, then: str = "") -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT, uri, str(steps), then],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    "then", ["", "writer.close()", "sys.exit(3)", "os._exit(0)", "os.kill(os.getpid(), 9)"]
)
def test_however_a_program_ends_what_is_on_disk_is_published(
    s3: Callable[..., Place], environment: Callable[[Place], str], tmp_path: Path, then: str
) -> None:
    place = s3()
    process = start(environment(place), 20_000, f"writer.flush(); {then}")
    _, errors = process.communicate(timeout=PATIENCE)
    assert errors == ""
    wait_until(lambda: not all_spools())  # the agent has published all, and cleared up
    found = read_scalars(download(place, tmp_path / "found"))
    assert found["loss"] == [(step, float(step)) for step in range(20_000)]


def test_a_killed_writer_leaves_a_beginning(
    s3: Callable[..., Place], environment: Callable[[Place], str], tmp_path: Path
) -> None:
    place = s3()
    process = start(environment(place), 100_000_000)
    time.sleep(0.7)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (spool,) = all_spools()
    (file,) = list(spool.directory.iterdir())
    kept = file.read_bytes()
    wait_until(lambda: not all_spools())
    found = download(place, tmp_path / "found")
    stored = b"".join(path.read_bytes() for path in sorted(found.iterdir()))
    assert kept.startswith(stored)
    points = read_scalars(found)["loss"]
    assert points == [(step, float(step)) for step in range(len(points))]
    assert len(kept) - len(stored) < 100  # the record that was cut in two


def agents_of(process: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(child) for child in children.split()]


def test_an_agent_that_is_killed_is_replaced(
    s3: Callable[..., Place], environment: Callable[[Place], str], tmp_path: Path
) -> None:
    place = s3()
    process = start(environment(place), 300_000, "writer.close()")
    (agent,) = agents_of(process)
    time.sleep(0.5)
    os.kill(agent, signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE)
    assert errors == ""
    wait_until(lambda: not all_spools())
    found = read_scalars(download(place, tmp_path / "found"))["loss"]
    assert found == [(step, float(step)) for step in range(300_000)]


def test_children_of_a_writer(
    s3: Callable[..., Place], environment: Callable[[Place], str], tmp_path: Path
) -> None:
    place = s3()
    script = """
if os.fork() == 0:
    time.sleep(1)  # the parent has ended by then
    writer.add_scalar("child", 1.0, 1)
    writer.close()
    os._exit(0)
"""
    process = start(environment(place), 10, script)
    process.communicate(timeout=PATIENCE)
    wait_until(lambda: not all_spools())
    found = read_scalars(download(place, tmp_path / "found"))
    assert len(found["loss"]) == 10
    assert found["child"] == [(1, 1.0)]


def test_the_agent_is_light(s3: Callable[..., Place], environment: Callable[[Place], str]) -> None:
    process = start(environment(s3()), 10, "time.sleep(2)")
    (agent,) = agents_of(process)
    time.sleep(1)
    maps = Path(f"/proc/{agent}/maps").read_text()
    assert "_obstore" in maps
    for heavy in ("numpy", "tensorboard", "protobuf", "torch"):
        assert heavy not in maps
    assert b"SECRET" not in Path(f"/proc/{agent}/cmdline").read_bytes()
    assert os.getsid(agent) == agent
    assert os.getpriority(os.PRIO_PROCESS, agent) >= 10
    process.communicate(timeout=PATIENCE)


def test_azure(azurite: Azurite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", azure.KEY)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", azurite.url)
    uri = f"az://{azure.CONTAINER}@{azure.ACCOUNT}/published"
    with SummaryWriter(uri) as writer:
        for step in range(3000):
            writer.add_scalar("a", float(step), step)
    credentials = {"account_key": azure.KEY, "endpoint": azurite.url}
    found = download(Place("az", uri, credentials), tmp_path / "found")
    assert read_scalars(found) == {"a": [(step, float(step)) for step in range(3000)]}
