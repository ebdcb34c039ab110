"""A hub and its hosts are killed at random while people work; what was acknowledged is there after.

Each worker has boards and runs of its own, so that it knows what must become of them. A request
that got no answer may have been carried out or not: both are right from then on.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.hub import HubProcess, eventually
from tbhub import SummaryWriter

SECONDS = float(os.environ.get("TBHUB_CHAOS_SECONDS", "60"))
WORKERS = 4
RUNS = 12
ENDED = {"STOPPED", "TERMINATED", "FAILED"}
LIVE = {"RUNNING", "WAITING"}
GONE = "gone"


@dataclass
class Kept:
    """What a worker knows of a board: the states it may be in when all is quiet."""

    states: set[str]
    name: str


@dataclass
class Worker:
    """Somebody who makes boards, ends them, and takes notes."""

    number: int
    hub: HubProcess
    runs: list[int]
    boards: dict[str, Kept] = field(default_factory=dict)
    notes: dict[int, set[str]] = field(default_factory=dict)
    acknowledged: int = 0
    unanswered: int = 0
    wrong: list[str] = field(default_factory=list)
    _client: httpx2.Client | None = None

    def work(self, until: float) -> None:
        """One thing after the other, in no order."""
        pick = random.Random(self.number)
        while time.monotonic() < until:
            known = [board for board, kept in self.boards.items() if kept.states != {GONE}]
            if len(known) < 3 or pick.random() < 0.3:
                self._create(pick)
            elif pick.random() < 0.25:
                self._note(pick)
            else:
                self._change(pick.choice(known), pick.choice(["kill", "stop", "start", "delete"]))
            time.sleep(0.05)
        if self._client is not None:
            self._client.close()

    def _ask(self, method: str, path: str, **more: Any) -> httpx2.Response | None:
        """The answer; None where there was none, or one that says "not now"."""
        if self._client is None or self._client.base_url != self.hub.url:
            self._client = self.hub.client()
        try:
            answer = self._client.request(method, path, **more)
        except (httpx2.TransportError, OSError):
            answer = None
        if answer is None or answer.status_code == 503:
            self.unanswered += 1
            time.sleep(0.1)
            return None
        if answer.status_code >= 500:
            self.wrong.append(f"{method} {path}: {answer.status_code} {answer.text}")
        self.acknowledged += answer.is_success
        return answer

    def _create(self, pick: random.Random) -> None:
        name = f"worker {self.number}, board {len(self.boards)}"
        run = pick.choice(self.runs)
        new = {"trials": [run], "name": name, "idle_timeout": 0}
        answer = self._ask("POST", "/api/v1/boards", json=new)
        if answer is not None and not answer.is_success:
            self.wrong.append(f"create: {answer.status_code} {answer.text}")
        elif answer is not None:
            # A host that dies takes its boards with it.
            self.boards[answer.json()["id"]] = Kept({*LIVE, "FAILED"}, name)

    def _change(self, board: str, what: str) -> None:
        kept = self.boards[board]
        after = {
            "kill": {"TERMINATED"},
            "stop": {"STOPPED"},
            "start": {*LIVE, "FAILED"},
            "delete": {GONE},
        }[what]
        path = f"/api/v1/boards/{board}"
        answer = (
            self._ask("DELETE", path) if what == "delete" else self._ask("POST", f"{path}/{what}")
        )
        if answer is None:
            kept.states |= after
        elif answer.is_success:
            # What had ended stays as it was when it is told to end.
            ended = kept.states & ENDED
            stays = what in ("stop", "kill") and bool(ended)
            kept.states = after | ended if stays else after
        elif answer.status_code == 404:
            if GONE not in kept.states:
                self.wrong.append(f"{what} of {board}, which was there: {answer.text}")
            kept.states = {GONE}
        elif answer.status_code == 409:  # it is ended for good
            if "TERMINATED" not in kept.states:
                self.wrong.append(f"{what} of {board} ({kept.states}): {answer.text}")
        else:
            self.wrong.append(f"{what} of {board}: {answer.status_code} {answer.text}")

    def _note(self, pick: random.Random) -> None:
        run = pick.choice(self.runs)
        note = f"note {pick.random()}"
        answer = self._ask("PATCH", f"/api/v1/runs/{run}", json={"note": note})
        if answer is None:
            self.notes.setdefault(run, {""}).add(note)
        elif answer.is_success:
            self.notes[run] = {note}
        else:
            self.wrong.append(f"note: {answer.status_code} {answer.text}")


def kill_at_random(hub: HubProcess, until: float) -> dict[str, int]:
    """In turns a host, which the hub has to replace, and the hub, which is started again."""
    pick = random.Random(7)
    killed = {"hub": 0, "host": 0}
    while time.monotonic() < until:
        time.sleep(pick.uniform(1, 4))
        for pid in list(hosts(hub)):
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
                killed["host"] += 1
        time.sleep(pick.uniform(1, 4))
        hub.kill()
        time.sleep(pick.uniform(0, 0.5))
        hub.restart()
        killed["hub"] += 1
    return killed


def hosts(hub: HubProcess) -> Iterator[int]:
    for path in (hub.home / "hosts").glob("*.pid"):
        if not path.with_suffix(".exit").exists():
            yield int(path.read_text())


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubProcess]:
    logdir = tmp_path / "runs"
    for number in range(RUNS):
        with SummaryWriter(logdir / "chaos" / f"run{number}") as writer:
            writer.add_scalar("loss", number, 1)
    with HubProcess(tmp_path / "home", logdirs=logdir, max_boards_per_user=0) as hub:
        yield hub


def test_nothing_acknowledged_is_lost(hub: HubProcess) -> None:
    runs = [run["id"] for run in hub.wait_for_runs(RUNS)]
    workers = [Worker(number, hub, runs[number::WORKERS]) for number in range(WORKERS)]
    until = time.monotonic() + SECONDS
    threads = [threading.Thread(target=worker.work, args=(until,)) for worker in workers]
    for thread in threads:
        thread.start()
    killed = kill_at_random(hub, until)
    for thread in threads:
        thread.join()

    assert killed["hub"]
    assert killed["host"]
    assert [text for worker in workers for text in worker.wrong] == []
    assert sum(worker.acknowledged for worker in workers) > 50

    def is_quiet() -> bool:
        states = {each["state"] for each in boards(hub).values()}
        return states <= ENDED | LIVE

    eventually(is_quiet, "some boards are neither up nor ended")
    found = boards(hub)
    for worker in workers:
        for board, kept in worker.boards.items():
            state = found[board]["state"] if board in found else GONE
            assert state in kept.states, (kept, found.get(board))
            if state == GONE:
                continue
            assert found[board]["name"] == kept.name
            check(hub, found[board])
        for run, notes in worker.notes.items():
            assert hub.json("GET", f"/api/v1/runs/{run}")["note"] in notes
    assert len(hub.wait_for_runs(RUNS)) == RUNS


def boards(hub: HubProcess) -> dict[str, dict[str, Any]]:
    """Every board there is."""
    found = hub.json("GET", "/api/v1/boards?all=true&limit=10000")["boards"]
    return {board["id"]: board for board in found}


def check(hub: HubProcess, board: dict[str, Any]) -> None:
    """A board is what it says: it shows its run, or it tells why it ended."""
    if board["state"] in LIVE:
        path = board["url"].removeprefix(hub.url)
        eventually(lambda: hub.json("GET", f"{path}data/runs"), f"{board} shows nothing")
        return
    reasons = {
        "STOPPED": {"USER_STOPPED"},
        "TERMINATED": {"USER_KILLED"},
        "FAILED": {"CRASHED", "START_FAILED"},
    }
    assert board["reason"] in reasons[board["state"]], board
    assert board["message"], board
    assert hub.json("GET", f"/api/v1/boards/{board['id']}/logs")["lines"]
