"""``tbhub view`` as a process of its own, and a page that listens to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

COMMAND = [sys.executable, "-c", "from tbhub.cli.main import main; main()", "view"]
# Seconds; only against hangs.
PATIENCE = 60


class View:
    """A running ``tbhub view``; ``url`` is what it has printed. Ends with the ``with`` block."""

    def __init__(self, *arguments: object, cwd: Path | None = None, port: str = "0") -> None:
        options = ["--no-browser", "--no-cache", *(["--port", port] if port else [])]
        self.process = subprocess.Popen(
            [*COMMAND, *options, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, "COLUMNS": "200"},
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline()
        try:
            self.url = json.loads(self.first_line)["url"]
        except ValueError:
            self.url = self.first_line.removeprefix("TensorBoard is running at: ").split(" ")[0]

    def line(self) -> str:
        """The next line it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def told(self) -> str:
        """The next line it tells a person, on stderr."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def wait_until_loaded(self) -> dict[str, Any]:
        """What it says with ``--json`` when everything has been read."""
        found: dict[str, Any] = json.loads(self.line())
        return found

    def get(
        self, path: str = "", method: str = "GET"
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """An answer; a path that begins with a slash is the server's, others the board's."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
        try:
            connection.request(method, path if path.startswith("/") else parts.path + path)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        status, _, body = self.get(path)
        assert status == 200, body
        return json.loads(body)

    def end(self, how: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
        """Ends it; its exit code and what it has said since."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err

    def __enter__(self) -> View:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.end()
        finally:
            self.process.kill()
            self.process.communicate()


class Page:
    """An open page: what it is told, message by message."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
        self._connection.request("GET", f"{parts.path}tbhub/events")
        self.response = self._connection.getresponse()

    def lines(self) -> list[str]:
        """The lines of the next event; none when the stream has ended."""
        found: list[str] = []
        while line := self.response.readline():
            if line == b"\n":
                return found
            found.append(line.decode().rstrip("\n"))
        return []

    def message(self) -> dict[str, Any]:
        """The next message."""
        while lines := self.lines():
            if lines[0].startswith("data: "):
                found: dict[str, Any] = json.loads(lines[0].removeprefix("data: "))
                return found
        raise EOFError("the stream has ended")

    def close(self) -> None:
        self.response.close()
        self._connection.close()
