"""Several hubs on one home and one PostgreSQL: one leads, the others pass on to it and follow."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from support.hub import PATIENCE, end_hosts, eventually, start_process
from support.ports import free_port
from support.postgresql import PostgreSQL
from tbhub import SummaryWriter
from tbhub.hub.server import LOST
from tbhub.hub.settings import Settings, SettingsError

pytestmark = pytest.mark.postgresql
HOLDER = """
    SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'tbhub 127.0.0.1:%'
    AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)
"""


class Replica:
    """One of the hubs: its process, and how it is asked."""

    def __init__(self, where: Path, number: int, settings: dict[str, object]) -> None:
        self.home = where / "home"
        self.port = free_port()
        self.log_path = where / f"replica{number}.log"
        given = {**settings, "port": self.port, "replicas": True}
        self.process: subprocess.Popen[str] = start_process(self.home, self.log_path, given)

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    @property
    def leads(self) -> bool:
        return self.process.poll() is None and "this hub leads" in self.log

    def client(self) -> httpx2.Client:
        token = json.loads((self.home / "connection.json").read_bytes())["token"]
        return httpx2.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"authorization": f"Bearer {token}"},
            timeout=PATIENCE,
            verify=False,
        )

    def json(self, method: str, path: str, **more: Any) -> Any:
        with self.client() as client:
            answer = client.request(method, path, **more)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def answers(self) -> bool:
        with suppress(httpx2.HTTPError):
            return httpx2.get(f"http://127.0.0.1:{self.port}/healthz", timeout=5).is_success
        return False

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def url(postgresql: PostgreSQL) -> Iterator[str]:
    made = postgresql.create()
    yield made
    postgresql.drop(made)


@pytest.fixture
def start(tmp_path: Path, url: str) -> Iterator[Callable[[], Replica]]:
    """Starts one more, on the same home and database."""
    with SummaryWriter(tmp_path / "runs" / "one") as writer:
        writer.add_scalar("loss", 0.5, 1)
    settings = {"database": url, "logdirs": tmp_path / "runs", "idle_timeout": 0}
    made: list[Replica] = []

    def one_more() -> Replica:
        made.append(Replica(tmp_path, len(made), settings))
        return made[-1]

    with ExitStack() as ends:
        ends.callback(end_hosts, tmp_path / "home")
        ends.callback(lambda: [each.end() for each in made])
        yield one_more
    assert not any("Traceback" in each.log for each in made), [each.log for each in made]


def two(start: Callable[[], Replica]) -> tuple[Replica, Replica]:
    """One that leads, and one that stands by."""
    leading = start()
    eventually(leading.answers, "the first hub does not answer")
    standing_by = start()
    eventually(lambda: "leads" in standing_by.log, "the second hub does not stand by")
    eventually(standing_by.answers, "the second hub passes nothing on")
    assert leading.leads
    assert not standing_by.leads
    knows = lambda: standing_by.json("GET", "/api/v1/status")["runs"] == 1  # noqa: E731
    eventually(knows, "the run was not found")
    return leading, standing_by


def test_any_of_them_can_be_asked(start: Callable[[], Replica]) -> None:
    leading, standing_by = two(start)
    board = standing_by.json("POST", "/api/v1/boards", json={"runs": "all", "name": "one"})
    assert leading.json("GET", f"/api/v1/boards/{board['id']}")["name"] == "one"
    path = f"/api/v1/boards/{board['id']}"
    eventually(lambda: standing_by.json("GET", path)["state"] == "RUNNING")
    with standing_by.client() as client:
        shown = client.get(f"/boards/{board['id'][:8]}/data/runs")
        assert shown.json() == ["one"]
        with client.stream("GET", "/api/v1/events") as events:
            renamed = leading.json("PATCH", path, json={"name": "two"})
            assert renamed["name"] == "two"
            assert any("two" in line or board["id"] in line for line in events.iter_lines())


def test_one_killed_under_load_loses_nothing(start: Callable[[], Replica]) -> None:
    leading, standing_by = two(start)
    board = standing_by.json("POST", "/api/v1/boards", json={"runs": "all"})["id"]
    eventually(
        lambda: standing_by.json("GET", f"/api/v1/boards/{board}")["state"] == "RUNNING",
        "the board did not start",
    )
    host = standing_by.json("GET", f"/api/v1/boards/{board}")["host"]
    acknowledged: list[str] = []
    over = threading.Event()

    def work() -> None:
        with standing_by.client() as client:
            while not over.is_set():
                with suppress(httpx2.HTTPError):
                    answer = client.post("/api/v1/workspaces", json={"name": f"w{time.time_ns()}"})
                    if answer.is_success:
                        acknowledged.append(answer.json()["name"])

    working = threading.Thread(target=work)
    working.start()
    try:
        eventually(lambda: len(acknowledged) > 20, "nothing was acknowledged")
        leading.process.kill()
        before = len(acknowledged)
        eventually(lambda: len(acknowledged) > before + 20, "nobody took over")
    finally:
        over.set()
        working.join()
    assert standing_by.leads
    kept = {each["name"] for each in standing_by.json("GET", "/api/v1/workspaces")}
    assert set(acknowledged) <= kept
    found = standing_by.json("GET", f"/api/v1/boards/{board}")
    assert (found["state"], found["host"]) == ("RUNNING", host)  # which was not started twice
    with standing_by.client() as client:
        assert client.get(f"/boards/{board[:8]}/data/runs").json() == ["one"]


def test_who_loses_the_lease_ends_and_may_come_back(start: Callable[[], Replica], url: str) -> None:
    leading, standing_by = two(start)
    with psycopg.connect(url, autocommit=True) as connection:
        (holder,) = connection.execute(HOLDER).fetchone() or (None,)
        connection.execute("SELECT pg_terminate_backend(%s)", (holder,))
    assert leading.process.wait(PATIENCE) == LOST
    assert "another hub may lead" in leading.log
    eventually(lambda: standing_by.leads and standing_by.answers(), "nobody leads")
    again = start()
    eventually(lambda: "standing by" in again.log and again.answers(), "it does not stand by")
    eventually(lambda: again.json("GET", "/api/v1/status")["runs"] == 1, "the run is not known")


def test_who_hangs_leads_no_more(start: Callable[[], Replica]) -> None:
    leading, standing_by = two(start)
    leading.process.send_signal(signal.SIGSTOP)
    try:
        eventually(lambda: standing_by.leads and standing_by.answers(), "nobody leads")
    finally:
        leading.process.send_signal(signal.SIGCONT)
    assert leading.process.wait(PATIENCE) == LOST
    assert standing_by.json("GET", "/api/v1/status")["runs"] == 1


def test_replicas_need_a_database_of_theirs(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="replicas need a database that all of them have"):
        Settings.load(home=tmp_path, replicas=True)
