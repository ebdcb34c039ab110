"""Workers killed in the middle of any byte they send: what was acknowledged is there, in order.

A worker is `tbhub run`, its command and its agent, killed together as when a machine is taken away.
`tbhub sync` goes on with what is left on the disk, and is killed as well, until one gets through.
`TBHUB_KILL_SEEDS` says how many sequences of kills there are.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

import tbhub
from storage.conftest import Place
from support.fault_proxy import FaultProxy, LostRequest, Request, fault_proxy
from support.hub import HubProcess, eventually
from tbhub.events.names import is_event_file
from tbhub.events.segments import group_segments
from tbhub.publisher.spool import all_spools
from tbhub.storage.store import Store
from tracking.test_command import python, run, start

SEEDS = range(int(os.environ.get("TBHUB_KILL_SEEDS", "3")))
KILLS = 3
SENT = 900_000  # bytes, about, that one worker gets to send
LOG = """
import time
from tbhub import SummaryWriter
with SummaryWriter(flush_secs=0.05) as writer:
    for step in range(20_000):
        writer.add_scalar("loss", float(step), step)
        if step % 100 == 0:
            time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """One hub for all seeds."""
    with HubProcess(tmp_path_factory.mktemp("hub") / "home", log_level="warning") as hub:
        yield hub


@pytest.fixture
def near(hub: HubProcess, nobody: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of this test find the hub."""
    monkeypatch.setenv("TBHUB_URL", hub.url)
    monkeypatch.setenv("TBHUB_TOKEN", hub.token)


def family(process: int) -> Iterator[int]:
    """A process and all that it has started."""
    yield process
    with suppress(OSError):
        for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            yield from family(int(child))


def kill_all(process: int) -> None:
    for each in list(family(process)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def killed(process: subprocess.Popen[str], proxy: FaultProxy, choose: random.Random) -> bool:
    """Whether a worker was killed at some byte before it was done."""

    def kill() -> None:
        if choose.random() < 0.5:
            proxy.add(LostRequest(), times=1)  # what is half way never arrives; else it may
        kill_all(process.pid)

    proxy.at_byte(choose.randrange(1, SENT), kill)
    process.communicate(timeout=90)
    proxy.at_byte(0, lambda: None)
    return process.returncode == -signal.SIGKILL


def stored_in(store: Store, prefix: str) -> bytes:
    """The one event file, put together of what there is of it."""
    names = [entry.path for entry in store.list(prefix) if is_event_file(entry.path)]
    files = group_segments(names)
    assert len(files) <= 1, files
    parts = next(iter(files.values()), [])
    assert len(parts) == len(names), "something lies behind a gap"
    return b"".join(store.read(part) for part in parts)


def sent(request: Request) -> bytes:
    return request.raw.partition(b"\r\n\r\n")[2]


def events_of(directory: Path) -> bytes:
    (file,) = directory.glob("*tfevents*")
    return file.read_bytes()


def is_kept(request: Request, stored: bytes, objects: dict[str, bytes]) -> bool:
    """Whether what was acknowledged is there."""
    parts = urlsplit(request.target)
    name = unquote(parts.path).rpartition("/")[2]
    if request.method != "PUT" or "tfevents" not in name:
        return True
    if offset := parse_qs(parts.query).get("offset"):
        start = int(offset[0])
        return stored[start : start + len(sent(request))] == sent(request)
    return objects[name].startswith(sent(request))  # the last segment may have grown since


def survive(proxy: FaultProxy, seed: int, arguments: list[str], place: Callable[[], Place]) -> None:
    choose = random.Random(seed)
    was_killed = killed(start("run", *arguments, *python(LOG)), proxy, choose)
    found = place()
    store, prefix = found.open()
    try:
        local = b""
        for _ in range(KILLS):
            if was_killed:
                (spool,) = all_spools()
                local = events_of(spool.directory)
                stored = stored_in(store, prefix)
                objects = {
                    entry.path.rpartition("/")[2]: store.read(entry.path)
                    for entry in store.list(prefix)
                }
                assert local.startswith(stored)
                assert all(is_kept(each, stored, objects) for each in proxy.acknowledged)
                was_killed = killed(start("sync"), proxy, choose)
        proxy.heal()
        eventually(lambda: run("sync").returncode == 0)
        assert all_spools() == []
        stored = stored_in(store, prefix)
        assert local.startswith(stored) or not local
        assert len(local) - len(stored) < 100  # the record that was cut in two
        points = tbhub.load(found.uri)["."].scalars["loss"]
        assert points.steps.tolist() == list(range(len(points.steps)))
        assert points.values.tolist() == list(map(float, range(len(points.steps))))
    finally:
        store.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_on_the_way_to_a_bucket(
    hub: HubProcess,
    near: None,
    s3: Callable[..., Place],
    proxy: FaultProxy,
    environment: Callable[[Place], str],
    seed: int,
) -> None:
    uri = environment(s3(endpoint=proxy.url))

    def place() -> Place:
        location = f"{uri}/default/default/killed{seed}"
        return Place("s3", location, s3().credentials)

    survive(proxy, seed, ["--storage", uri, "--name", f"killed{seed}"], place)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_the_way_to_a_hub(
    hub: HubProcess, near: None, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    with fault_proxy("127.0.0.1", urlsplit(hub.url).port or 0) as proxy:
        monkeypatch.setenv("TBHUB_URL", proxy.url)

        def place() -> Place:
            runs = hub.json("GET", "/api/v1/runs")["runs"]
            (number,) = (each["id"] for each in runs if each["name"] == f"mine{seed}")
            return Place("local", str(hub.home / "files" / str(number)), {})

        survive(proxy, seed, ["--name", f"mine{seed}"], place)
