"""``tbhub up`` as a process of its own, and the commands of somebody in front of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Any

from support.commands import PATIENCE, Commands
from tbhub import Hub

COMMAND = [sys.executable, "-c", "from tbhub.cli.main import main; main()"]


class Up:
    """A running hub with a home of its own. Ends with the ``with`` block.

    Attributes:
        opened: The address it has printed, with the token in it.
        url: The same without.
    """

    def __init__(self, directory: Path, *arguments: object, **environment: str) -> None:
        self.directory = directory
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TBHUB_")},
            "TBHUB_HOME": str(directory / "home"),
            "TBHUB_CACHE_DIR": str(directory / "cache"),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "TBHUB_HOST_LOST_AFTER": "60",
            "COLUMNS": "200",
            "BROWSER": "",
            "DISPLAY": "",
            "WAYLAND_DISPLAY": "",
        }
        self._arguments = ["up", "--no-browser", "--port", "0", *map(str, arguments)]
        self._settings = environment
        self._log = directory / "up.log"
        self._commands: Commands | None = None
        self.start()

    def start(self) -> None:
        """Starts it, again."""
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                [*COMMAND, *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self.directory,
                env={**self.environment, **self._settings},
            )
        line = self._line()
        assert line.startswith("tbhub is running at: "), line + self._log.read_text()
        self.opened = line.removeprefix("tbhub is running at: ").split()[0]
        self.url = self.opened.partition("/?")[0]

    def wait_for_runs(self, number: int) -> None:
        """Until it has said how many runs it knows."""
        wanted = f"{number} run{'s' * (number != 1)} known\n"
        while (line := self._line()) != wanted:
            assert line, wanted + self._log.read_text()

    def _line(self) -> str:
        """The next line it prints; a hub that says nothing is ended."""
        assert self.process.stdout is not None
        watch = Timer(PATIENCE, self.process.kill)
        watch.start()
        try:
            return self.process.stdout.readline()
        finally:
            watch.cancel()

    def run(
        self, *arguments: object, stdin: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """A command, as somebody runs it in another terminal."""
        if self._commands is None:
            self._commands = Commands()
        return self._commands.run(
            list(map(str, arguments)),
            cwd=self.directory,
            environment={**self.environment, **environment},
            stdin=stdin,
        )

    def done(self, *arguments: object, **options: str) -> str:
        """What a command prints that has to succeed."""
        done = self.run(*arguments, **options)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def json(self, *arguments: object) -> Any:
        """What a command prints with ``--json``."""
        return json.loads(self.done(*arguments, "--json"))

    def failed(self, code: int, *arguments: object, **options: str) -> str:
        """What a command says that has to fail so."""
        done = self.run(*arguments, **options)
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stderr

    def hub(self) -> Hub:
        """The hub, from Python."""
        return Hub(home=self.environment["TBHUB_HOME"])

    def end(self, how: signal.Signals = signal.SIGINT) -> int:
        """Ends it; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode

    def __enter__(self) -> Up:
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
            if self._commands is not None:
                self._commands.close()
