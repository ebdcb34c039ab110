"""A real hub as a process of its own, on a home of its own and a free port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

# Seconds; only against hangs.
PATIENCE = 60.0
COMMAND = [sys.executable, "-m", "tbhub.hub"]
T = TypeVar("T")


def clean_environment(**more: str) -> dict[str, str]:
    """The environment of this process without anything that is set for tbhub."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TBHUB_")}
    return {**kept, **more}


def eventually(ask: Callable[[], T], what: str = "it did not happen") -> T:
    """The first true answer to a question."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := ask()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return answer


class HubProcess:
    """A running hub; ends with the ``with`` block, and so do its hosts.

    Args:
        home: Its home; the same one again is the same hub, started anew.
        settings: Any of `tbhub.hub.settings.Settings`, e.g. ``auth="users"``.

    Attributes:
        url: Where it is, without a slash at the end.
        token: Of its first user, who is an admin.
        pid: Its process.
        log: What it has said on stderr.
    """

    def __init__(self, home: Path, **settings: object) -> None:
        self.home = home
        self.settings = {"port": 0, **settings}
        self.log_path = home.with_name(f"{home.name}.log")
        self._start()

    def _start(self) -> None:
        self.process = start_process(self.home, self.log_path, self.settings)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait(PATIENCE)
            raise AssertionError(f"the hub ended with {code}: {self.log}")
        self.pid = self.process.pid
        self.url: str = json.loads(line)["url"]
        known = json.loads((self.home / "connection.json").read_bytes())
        self.token: str = known["token"] or ""

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def client(self, token: str | None = None, **options: Any) -> httpx2.Client:
        """A client with a token: the first user's, or another; "" for none."""
        shown = self.token if token is None else token
        headers = {"authorization": f"Bearer {shown}"} if shown else {}
        headers |= options.pop("headers", {})
        # Reading the system's certificates takes longer than most requests.
        options = {"verify": False} | options
        return httpx2.Client(base_url=self.url, headers=headers, timeout=PATIENCE, **options)

    def ask(self, method: str, path: str, token: str | None = None, **more: Any) -> httpx2.Response:
        """One answer; paths begin with a slash."""
        with self.client(token) as client:
            return client.request(method, path, **more)

    def json(self, method: str, path: str, token: str | None = None, **more: Any) -> Any:
        """The JSON of an answer that must be a good one."""
        answer = self.ask(method, path, token, **more)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def create_board(self, token: str | None = None, **new: Any) -> dict[str, Any]:
        """A board that is up."""
        board = self.json("POST", "/api/v1/boards", token, json=new)
        return self.wait_for(board["id"], "RUNNING", "WAITING", token=token)

    def wait_for(self, board: str, *states: str, token: str | None = None) -> dict[str, Any]:
        """A board when it is in one of some states."""
        found: dict[str, Any] = {}

        def is_there() -> bool:
            found.update(self.json("GET", f"/api/v1/boards/{board}", token))
            return found["state"] in states

        eventually(is_there, f"{board} is not {states}")
        return found

    def wait_for_runs(self, number: int, token: str | None = None) -> list[dict[str, Any]]:
        """The runs, when there are so many."""
        found: list[dict[str, Any]] = []

        def are_there() -> bool:
            found[:] = self.json("GET", "/api/v1/runs?limit=10000", token)["runs"]
            return len(found) >= number

        eventually(are_there, f"there are not {number} runs")
        return found

    def create_user(self, name: str, role: str = "member", password: str | None = None) -> str:
        """A new user's token; it may do what their role may."""
        new = {"name": name, "role": role, "password": password}
        self.json("POST", "/api/v1/users", json=new)
        scope = "admin" if role == "admin" else "write"
        token = {"user": name, "name": "test", "scope": scope}
        return str(self.json("POST", "/api/v1/tokens", json=token)["token"])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ends it in an orderly way; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def kill(self) -> None:
        """Ends it as a crash would; its hosts live on."""
        self.stop(signal.SIGKILL)

    def restart(self) -> None:
        """Starts it again, after `stop` or `kill`, on the same home."""
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            end_hosts(self.home)
        assert "Traceback" not in self.log, self.log


def start_process(home: Path, log: Path, settings: Mapping[str, object]) -> subprocess.Popen[str]:
    """The process of a hub, about to start."""
    given = {f"TBHUB_{name.upper()}": str(value) for name, value in settings.items()}
    with log.open("a") as file:
        return subprocess.Popen(
            COMMAND,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            env=clean_environment(TBHUB_HOME=str(home), **given),
        )


def end_hosts(home: Path) -> None:
    """Ends the hosts that a killed hub has left: each leads a process group of its own."""
    for path in (home / "hosts").glob("*.pid"):
        if not path.with_suffix(".exit").exists():
            with suppress(ProcessLookupError, ValueError):
                os.killpg(int(path.read_text()), signal.SIGKILL)
