"""Clocks that are an hour off: of a worker, and of the hub, where it is set meanwhile.

Times that are compared are all of one clock: the hub's for who is alive, a store's for signatures.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

import tbhub
from storage.conftest import Place
from support.hub import HubProcess, eventually
from support.shifted_clock import ShiftedClock, clock, clock_library
from tbhub.publisher.spool import all_spools
from tracking.test_command import LOG, known, python, run

__all__ = ["clock", "clock_library"]

HOUR = 3600
SLACK = 300  # seconds that a test may take
off = pytest.mark.parametrize("hours", [1, -1])


@pytest.fixture
def worker(clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Has processes that are started from now on believe that it is earlier or later."""

    def shift(hours: int) -> None:
        clock.set(hours * HOUR)
        for name, value in clock.environment.items():
            monkeypatch.setenv(name, value)

    return shift


@off
def test_a_worker_that_lives_at_another_time(
    hub: HubProcess, worker: Callable[[int], None], hours: int
) -> None:
    worker(hours)
    assert run("run", "--name", "off", *python(LOG, 0, 5)).returncode == 0
    found = known(hub)
    assert found["status"] == "finished"
    for moment in ("created", "ended"):
        assert abs(datetime.fromisoformat(found[moment]).timestamp() - time.time()) < SLACK
    points = tbhub.load(found["location"])["."].scalars["loss"]
    assert points.steps.tolist() == list(range(5))
    # When something was logged is for the worker to say.
    assert abs(points.wall_times[-1] - (time.time() + hours * HOUR)) < SLACK


@off
def test_another_worker_goes_on_at_the_right_time(
    hub: HubProcess, worker: Callable[[int], None], hours: int
) -> None:
    worker(hours)
    assert run("run", "--name", "off", *python(LOG, 0, 5)).returncode == 0
    worker(0)
    assert run("run", "--resume", "off", *python(LOG, 5, 9)).returncode == 0
    points = tbhub.load(known(hub)["location"])["."].scalars["loss"]
    assert points.steps.tolist() == list(range(9))


@off
def test_another_goes_on_in_a_directory(
    hub: HubProcess, worker: Callable[[int], None], hours: int, tmp_path: Path
) -> None:
    """What is written where others have written at a later time is published there instead."""
    place = ("--storage", tmp_path / "logs")
    worker(hours)
    assert run("run", "--name", "off", *place, *python(LOG, 0, 5)).returncode == 0
    worker(0)
    done = run("run", "--resume", "off", *python(LOG, 5, 9))
    assert done.returncode == 0
    assert (str(tmp_path / "logs") in done.stdout) == (hours < 0)
    points = tbhub.load(known(hub)["location"])["."].scalars["loss"]
    assert points.steps.tolist() == list(range(9))
    assert all_spools() == []


@off
def test_a_store_that_refuses_until_the_clock_is_right(
    hub: HubProcess,
    s3: Callable[..., Place],
    environment: Callable[[Place], str],
    worker: Callable[[int], None],
    hours: int,
) -> None:
    uri = environment(s3())
    worker(hours)
    done = run("run", "--storage", uri, "--name", "off", *python(LOG, 0, 5))
    assert done.returncode == 0
    assert "this machine's clock is wrong; set it" in done.stderr
    assert "`tbhub sync` waits for it" in done.stderr
    worker(0)
    # The agent of the run goes on by itself; whoever cannot wait for it asks.
    eventually(lambda: run("sync").returncode == 0 and not all_spools())
    points = tbhub.load(known(hub)["location"])["."].scalars["loss"]
    assert points.steps.tolist() == list(range(5))


def test_a_hub_whose_clock_is_set_loses_nobody_who_is_there(
    clock: ShiftedClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    with HubProcess(tmp_path / "home", heartbeat_timeout=3) as hub:
        monkeypatch.delenv("LD_PRELOAD")
        for _ in range(2):
            hub.json("POST", "/api/v1/runs", json={})
        for hours in (1, 0, -1):
            clock.set(hours * HOUR)
            until = time.monotonic() + 4  # it has looked at least once
            while time.monotonic() < until:
                status = hub.json("POST", "/api/v1/runs/1/heartbeat", json={"attempt": 1})
                assert status["status"] == "running"
                assert known(hub)["status"] == "running"
                time.sleep(0.1)
        assert known(hub, 2)["status"] in ("lost", "running")
        assert "the clock has been set by +3600 s" in hub.log
        assert "no sign of runs 1" not in hub.log
