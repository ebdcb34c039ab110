"""What every launcher does, asked of a real hub that has it.

A test class of a launcher inherits `LauncherContract` and has a fixture `engine`, which says how a
hub is set to it and how a host is ended behind its back. All else is asked of the launcher itself,
from another process than the hub: it may be.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, select

from support.hub import PATIENCE, HubProcess, clean_environment, eventually
from tbhub import SummaryWriter
from tbhub.database.tables import hosts
from tbhub.hub.home import Home
from tbhub.launchers.base import Details, Launcher, Running, Site, Status
from tbhub.launchers.choose import make_launcher

UP = ("RUNNING", "WAITING")


@dataclass(frozen=True)
class Engine:
    """Where the hosts of a launcher run.

    Attributes:
        launcher: Its name.
        kill: Ends a host as somebody else would who has nothing to do with the hub.
        killed: What a board says of such an end, among other things.
        cancels: Such an end is somebody's wish, after which boards do not restart.
        verb: What the log of a board says has happened to its host.
        options: Of the launcher.
        settings: Of the hub.
    """

    launcher: str
    kill: Callable[[Details], None]
    killed: str
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    cancels: bool = False
    verb: str = "crashed"

    def hub(self, home: Path, **settings: object) -> HubProcess:
        """A hub whose hosts run there."""
        given = {
            "launcher": self.launcher,
            "launcher_options": json.dumps(self.options),
            "host_linger": 0,
            "logdirs": home.parent / "runs",
            **self.settings,
            **settings,
        }
        return HubProcess(home, **given)

    def ask(self, home: Path, ask: Callable[[Launcher], Any]) -> Any:
        """What the launcher of a hub answers."""

        async def answer() -> Any:
            secret = bytes.fromhex((home / "secret").read_text())
            site = Site(Home.id_of(secret), home / "hosts")
            launcher = make_launcher(self.launcher, self.options, site)
            try:
                async with asyncio.timeout(PATIENCE):
                    return await ask(launcher)
            finally:
                await launcher.close()

        return asyncio.run(answer())

    def there(self, home: Path) -> Mapping[str, Details]:
        """What the engine has of a hub."""
        found: Mapping[str, Details] = self.ask(home, lambda launcher: launcher.find())
        return found

    def poll(self, home: Path, details: Details) -> Status:
        """How a host is."""
        status: Status = self.ask(home, lambda launcher: launcher.poll(details))
        return status


class LauncherContract:
    """Tests that pass with every launcher."""

    @pytest.fixture
    def home(self, tmp_path: Path, engine: Engine) -> Iterator[Path]:
        """The home of a hub, with a run in its logdir; at the end nothing of it is left running."""
        with SummaryWriter(tmp_path / "runs" / "exp" / "a") as writer:
            writer.add_scalars_batch("loss", [3.0, 2.0, 1.0])
        home = tmp_path / "home"
        yield home
        for details in engine.there(home).values():
            engine.ask(home, lambda launcher, it=details: launcher.stop(it))

    def test_a_board_is_served_and_nothing_is_left_of_it(self, engine: Engine, home: Path) -> None:
        with engine.hub(home) as hub:
            hub.wait_for_runs(1)
            board = hub.create_board(runs="all")
            assert shown(hub, board) == ["a"]
            host = board["host"]
            assert host.startswith(f"{engine.launcher}-")
            details = engine.there(home)[host]
            # An engine may know of it later than the hub, with which it registers by itself.
            eventually(lambda: engine.poll(home, details) == Running())

            def tells() -> bool:
                lines = engine.ask(home, lambda launcher: launcher.logs(details, 50))
                return any("is registered with" in line for line in lines)

            eventually(tells, "its log is not known")
            hub.json("POST", f"/api/v1/boards/{board['id']}/kill")
            if shares(engine, home):
                hub.stop()
            eventually(lambda: not engine.there(home), "its host is left")
            logs = hub.log
        assert "ended" not in logs, logs

    def test_boards_survive_a_hub_that_is_killed_and_tell_of_hosts_that_are(
        self, engine: Engine, home: Path
    ) -> None:
        with engine.hub(home) as hub:
            hub.wait_for_runs(1)
            board = hub.create_board(runs="all")
            ended = hub.create_board(runs="all")
            hub.json("POST", f"/api/v1/boards/{ended['id']}/kill")
            hub.kill()
            hub.restart()
            same = hub.wait_for(board["id"], *UP)
            assert (same["host"], same["url"].partition("/boards/")[2]) == (
                board["host"],
                board["url"].partition("/boards/")[2],
            )
            eventually(lambda: shown(hub, board) == ["a"])
            listed = hub.json("GET", "/api/v1/boards")["boards"]
            states = {each["id"]: (each["state"], each["reason"]) for each in listed}
            assert states[ended["id"]] == ("TERMINATED", "USER_KILLED")

            engine.kill(engine.there(home)[board["host"]])

            if engine.cancels:
                failed = hub.wait_for(board["id"], "FAILED")
                assert failed["reason"] == "CANCELLED"
                assert engine.killed in failed["message"], failed
                hub.json("POST", f"/api/v1/boards/{board['id']}/start")

            def is_back() -> bool:
                again = hub.wait_for(board["id"], *UP, "FAILED")
                assert again["state"] != "FAILED", again
                return bool(again["host"] != board["host"])

            eventually(is_back, "the board did not restart")
            eventually(lambda: shown(hub, board) == ["a"])
            lines = hub.json("GET", f"/api/v1/boards/{board['id']}/logs")["lines"]
            said = "\n".join(line["text"] for line in lines)
            assert f"Host {board['host']} {engine.verb}: it ended " in said
            assert engine.killed in said, said
            # The end of the host's own log is shown only where the host is to blame.
            is_blamed = engine.verb == "crashed" or engine.cancels
            assert (f"host {board['host']} is registered with" in said) is is_blamed

    def test_a_host_that_never_registers_is_ended(self, engine: Engine, home: Path) -> None:
        nowhere = {"hosts_url": "http://127.0.0.1:9", "start_timeout": 1}
        with engine.hub(home, **nowhere) as hub:
            hub.wait_for_runs(1)
            board = hub.json("POST", "/api/v1/boards", json={"runs": "all"})
            failed = hub.wait_for(board["id"], "FAILED")
            assert failed["reason"] == "START_FAILED"
            assert "had not registered within 1 s" in failed["message"]
            hub.stop()
        eventually(lambda: not engine.there(home), "a host is left")

    def test_hosts_that_the_database_does_not_know_are_ended(
        self, engine: Engine, home: Path
    ) -> None:
        with engine.hub(home) as hub:
            hub.wait_for_runs(1)
            hub.create_board(runs="all")
            hub.kill()
            orphans = engine.there(home)
            assert orphans
            database = create_engine(f"sqlite:///{home / 'hub.db'}")
            with database.begin() as connection:
                connection.exec_driver_sql("UPDATE boards SET host_id = NULL, state = 'STOPPED'")
                connection.execute(hosts.delete())
                assert connection.execute(select(hosts)).all() == []
            database.dispose()
            hub.restart()
            old = list(orphans.values())
            eventually(lambda: not any(engine.poll(home, each) == Running() for each in old))

    def test_a_board_ends_with_its_time(self, engine: Engine, home: Path) -> None:
        with engine.hub(home) as hub:
            hub.wait_for_runs(1)
            refused = hub.ask("POST", "/api/v1/boards", json={"runs": "all", "max_runtime": -5})
            assert refused.status_code in (400, 422), refused.text
            new = {"runs": "all", "max_runtime": 0}
            assert hub.json("POST", "/api/v1/boards", json=new)["deadline"] is None
            # Counted from when it is placed: long enough to be seen up on a busy machine.
            board = hub.create_board(runs="all", max_runtime=10)
            over = hub.wait_for(board["id"], "TERMINATED")
            assert over["reason"] == "MAX_RUNTIME"

    def test_ten_threads_get_one_board(self, engine: Engine, home: Path) -> None:
        with engine.hub(home) as hub, ThreadPoolExecutor(10) as threads:
            hub.wait_for_runs(1)
            new = {"runs": "all", "key": "mine"}
            made = list(threads.map(lambda _: hub.create_board(**new), range(10)))
            assert len({board["id"] for board in made}) == 1
            assert len({board["host"] for board in made}) == 1
            assert len(engine.there(home)) == 1

    def test_stop_and_start_keep_the_id(self, engine: Engine, home: Path) -> None:
        with engine.hub(home) as hub:
            hub.wait_for_runs(1)
            board = hub.create_board(runs="all")
            path = f"/api/v1/boards/{board['id']}"
            hub.json("POST", f"{path}/stop")
            hub.wait_for(board["id"], "STOPPED")
            for _ in range(2):
                hub.json("POST", f"{path}/start")
                hub.wait_for(board["id"], *UP)
                assert shown(hub, board) == ["a"]
                hub.json("POST", f"{path}/stop")  # and at once started
            hub.json("DELETE", path)
            assert hub.ask("GET", path).status_code == 404

    def test_a_new_process_finds_and_stops_a_board(self, engine: Engine, home: Path) -> None:
        with engine.hub(home) as hub:
            hub.wait_for_runs(1)
            board = hub.create_board(runs="all", name="mine")
            script = (
                "from tbhub import TensorBoard\n"
                "board = TensorBoard.get('mine')\n"
                "print(board.id, board.status, board.app_uri)\n"
                "board.stop()\n"
                "print(board.status)\n"
            )
            done = subprocess.run(
                [sys.executable, "-c", script],
                check=True,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                env=clean_environment(TBHUB_URL=hub.url, TBHUB_TOKEN=hub.token),
            )
            assert done.stdout.split() == [board["id"], "RUNNING", board["url"], "STOPPED"]


def shown(hub: HubProcess, board: Mapping[str, Any]) -> list[str]:
    """The runs a board shows, through the hub's proxy."""
    path = board["url"].partition("/boards/")[2]
    answer = hub.ask("GET", f"/boards/{path}data/runs")
    return sorted(answer.json()) if answer.is_success else []


def shares(engine: Engine, home: Path) -> bool:
    """Whether hosts stay when their boards go."""

    async def ask(launcher: Launcher) -> bool:
        return launcher.shares

    return bool(engine.ask(home, ask))
