"""Hosts as processes of this machine.

Each has a session of its own, so that it survives the hub. Around it is a small shell that writes
down its exit code: a hub that was not its parent can still tell how it ended. A process is known by
its number, when it started and which boot of the machine that was: numbers are given again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from tbhub.boards.life import Cause
from tbhub.launchers.base import (
    Details,
    Exited,
    LaunchError,
    Options,
    Running,
    Site,
    Starting,
    Status,
)
from tbhub.launchers.endings import exited
from tbhub.launchers.tail import all_but_newest, last_lines

_MODULE = "tbhub.boards.host_process"
# The shell outlives signals to its group; what it starts has them at their defaults.
_SHELL = """
trap : TERM INT HUP
files=$1; shift
echo $$ > "$files.pid.new" && mv "$files.pid.new" "$files.pid"
cd /
"$@"
code=$?
echo $code > "$files.exit.new" && mv "$files.exit.new" "$files.exit"
"""
_STOP_SECONDS = 5.0  # between asking and killing
_LOOK_SECONDS = 0.02
_EXIT_SECONDS = 2.0  # for the shell to write down how it ended
_FOR_HOSTS = ("TBHUB_CACHE_DIR", "TBHUB_DEBUG")
_KEPT = 20  # files of hosts that have ended


def _inherited() -> dict[str, str]:
    """The hub's environment without its settings, some of which are secrets."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TBHUB_") or name in _FOR_HOSTS
    }


class Local(Options):
    """Hosts as processes of the hub's machine; there is nothing to set."""

    launcher = "local"


class LocalLauncher:
    """Starts hosts as child processes with their files in a directory."""

    name = "local"
    shares = True
    Options = Local

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @classmethod
    def make(cls, site: Site, options: Local) -> Self:
        """A launcher whose hosts have their files in the hub's home."""
        return cls(site.directory)

    async def start(self, host_id: str, environment: Mapping[str, str]) -> Details:
        """Starts a host process; what it prints goes to ``<id>.log``."""
        try:
            return await asyncio.to_thread(self._start, host_id, environment)
        except OSError as error:
            raise LaunchError(f"a host process cannot be started: {error}") from error

    def _start(self, host_id: str, environment: Mapping[str, str]) -> Details:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._prune()
        files = self._directory / host_id
        for kind in ("pid", "exit", "sock"):
            files.with_name(f"{host_id}.{kind}").unlink(missing_ok=True)
        log = os.open(f"{files}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            pid = os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", _SHELL, "sh", str(files), sys.executable, "-P", "-m", _MODULE],
                {**_inherited(), **environment, "TBHUB_HOST_HANDOVER": f"{files}.sock"},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE],
            )
        finally:
            os.close(log)
        return self._details(host_id, pid)

    def _details(self, host_id: str, pid: int) -> Details:
        return {
            "host": host_id,
            "pid": pid,
            "started": _started(pid),
            "boot": _boot(),
            "handover": str(self._directory / f"{host_id}.sock"),
        }

    async def find(self) -> Mapping[str, Details]:
        """By the numbers that shells have written down first of all."""
        return await asyncio.to_thread(lambda: dict(self._found()))

    def _found(self) -> Iterator[tuple[str, Details]]:
        for path in self._directory.glob("*.pid"):
            with suppress(OSError, ValueError):
                pid = int(path.read_text())
                # Numbers are given again: the one that wrote it has our host in its environment.
                if _belongs_to(pid, path.stem):
                    yield path.stem, self._details(path.stem, pid)

    async def poll(self, details: Details) -> Status:
        """By its process; one that is gone by what was written down of its end."""
        pid = int(details["pid"])
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # if it is our child, it is let go
        if self._lives(details):
            has_begun = (self._directory / f"{details['host']}.pid").exists()
            return Running() if has_begun else Starting()
        return self._ending(details)

    def _lives(self, details: Details) -> bool:
        if details["boot"] != _boot() or details["started"] is None:
            return False
        return bool(_started(int(details["pid"])) == details["started"])

    def _ending(self, details: Details) -> Exited:
        try:
            text = (self._directory / f"{details['host']}.exit").read_text()
            code = int(text)
        except (OSError, ValueError):
            if details["boot"] != _boot():
                return Exited(None, "when the machine was restarted", Cause.NODE_LOST)
            # Its shell was killed; what it had started must not live on unseen.
            self._signal(details, signal.SIGKILL)
            return Exited(None, "by being killed, shell and all")
        return exited(code)

    async def stop(self, details: Details) -> None:
        """Asks it to end; kills it when it has not done so in time."""
        if "pid" not in details:  # it was never started
            return
        deadline = time.monotonic() + _STOP_SECONDS
        self._signal(details, signal.SIGTERM)
        while not isinstance(await self.poll(details), Exited):
            if time.monotonic() > deadline:
                self._signal(details, signal.SIGKILL)
                deadline = time.monotonic() + _EXIT_SECONDS
            await asyncio.sleep(_LOOK_SECONDS)

    def _signal(self, details: Details, number: signal.Signals) -> None:
        """Signals the processes of a host; of its shell last, so that it can tell of the end."""
        if details["boot"] != _boot():
            return
        shell = int(details["pid"])
        for pid in _group(shell):
            is_shell = pid == shell
            if is_shell and (number == signal.SIGKILL or not self._lives(details)):
                continue
            if is_shell or _belongs_to(pid, details["host"]):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)

    async def logs(self, details: Details, tail: int) -> list[str]:
        """The last lines of its log file."""
        path = self._directory / f"{details['host']}.log"
        return await asyncio.to_thread(last_lines, path, tail)

    async def close(self) -> None:
        """Nothing is held."""

    def _prune(self) -> None:
        """Deletes the files of hosts that ended long ago."""
        ended = filter(self._has_ended, self._directory.glob("*.log"))
        for each in all_but_newest(ended, _KEPT):
            for kind in ("log", "pid", "exit", "sock"):
                with suppress(OSError):
                    each.with_suffix(f".{kind}").unlink(missing_ok=True)

    def _has_ended(self, log: Path) -> bool:
        """Also if it could not say so, killed with its shell or its machine."""
        if log.with_suffix(".exit").exists():
            return True
        try:
            return not _belongs_to(int(log.with_suffix(".pid").read_text()), log.stem)
        except (OSError, ValueError):
            return False  # it is just being started


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _stat(pid: int) -> list[str] | None:
    """The fields of a process behind its name: state, parent, group, …"""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (OSError, ValueError):
        return None
    return text.rpartition(")")[2].split()


def _started(pid: int) -> int | None:
    """When a process started, in ticks since the boot; none if it has ended."""
    fields = _stat(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return int(fields[19])


def _group(leader: int) -> Iterator[int]:
    for each in os.listdir("/proc"):
        if each.isdigit():
            fields = _stat(int(each))
            if fields is not None and int(fields[2]) == leader:
                yield int(each)


def _belongs_to(pid: int, host_id: str) -> bool:
    """Whether a process was started for a host."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"TBHUB_HOST_ID={host_id}".encode() in environment.split(b"\0")
