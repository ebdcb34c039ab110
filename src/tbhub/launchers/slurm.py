"""Hosts as jobs of a Slurm cluster, by ``sbatch``, ``squeue`` and ``scancel``.

No accounting is needed: what has become of a job is asked while Slurm still knows it (five minutes
where nothing else is set). Whatever number of hosts is watched, ``squeue`` is asked once for all of
them, and at most twice a second.

The directory with the hosts' logs is one that nodes can write to: in the hub's home, unless that is
on a file system of the hub's machine alone.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator

from tbhub.boards.host_process import AUTO
from tbhub.launchers import slurm_job
from tbhub.launchers.base import Details, Exited, LaunchError, Options, Site, Status
from tbhub.launchers.slurm_job import Job
from tbhub.launchers.tail import all_but_newest, last_lines

_FRESH_SECONDS = 0.5  # an answer of squeue is used again
_KEPT = 100  # logs of hosts that have ended
_STOP_SECONDS = 60.0  # until a job that was cancelled must be gone
_COMMAND_SECONDS = 30.0
_OURS = {"parsable", "requeue", "no-requeue", "export", "job-name", "output", "wrap", "array"}
_PASSED = ("HOME", "LANG", "PATH", "SLURM_CONF", "USER")
_TIME = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|UNLIMITED|INFINITE", re.I)
_SIZE = re.compile(r"\d+[KMGT]?", re.I)


class Slurm(Options):
    """Hosts as jobs of Slurm's, without GPUs.

    Attributes:
        partition, account, qos: As Slurm knows them; without one its default.
        time_limit: As Slurm writes it: ``"8:00:00"``, ``"2-0"``; boards go on in another job then.
        cpus, memory: Of each job; ``"4G"``.
        python: The Python with tbhub on the nodes; the hub's own unless given.
        setup: Lines of shell before it starts: ``"module load python"``.
        environment: Variables of the hosts.
        directory: For logs, on a file system that hub and nodes share.
        bind, connect: The address a host listens on, and the one the hub reaches it by.
        extra: More options of sbatch: ``["--constraint=fast"]``.
    """

    launcher = "slurm"

    partition: str = ""
    account: str = ""
    qos: str = ""
    time_limit: str = ""
    cpus: int = Field(default=1, ge=1)
    memory: str = ""
    python: str = sys.executable
    setup: str = ""
    environment: dict[str, str] = Field(default_factory=dict)
    directory: Path | None = None
    bind: str = AUTO
    connect: str = ""
    extra: tuple[str, ...] = ()

    @field_validator("partition", "account", "qos")
    @classmethod
    def _names(cls, value: str) -> str:
        if value and not re.fullmatch(r"[\w.,@+-]+", value):
            raise ValueError("a name, or several parted by commas")
        return value

    @field_validator("time_limit")
    @classmethod
    def _time(cls, value: str) -> str:
        if value and not _TIME.fullmatch(value):
            raise ValueError('a time as Slurm writes it: minutes, "8:00:00" or "2-0" for two days')
        return value

    @field_validator("memory")
    @classmethod
    def _size(cls, value: str) -> str:
        if value and not _SIZE.fullmatch(value):
            raise ValueError('a size as Slurm writes it: "4G"')
        return value

    @field_validator("environment")
    @classmethod
    def _variables(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                raise ValueError(f"{name!r} is not the name of a variable")
        return value

    @field_validator("directory")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_absolute():
            raise ValueError("a path that begins with /: nodes know nothing of where the hub is")
        return value

    @field_validator("extra")
    @classmethod
    def _options(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            name = each.removeprefix("--").partition("=")[0]
            if not re.fullmatch(r"--[a-z][a-z-]*(=[^\0\n]*)?", each):
                raise ValueError(f'{each!r} is to be like "--constraint=fast"')
            if name in _OURS:
                raise ValueError(f"--{name} is the hub's to say")
        return value


class SlurmLauncher:
    """Submits a job for each host."""

    name = "slurm"
    shares = False
    Options = Slurm

    def __init__(self, hub: str, directory: Path, options: Slurm) -> None:
        self._hub = hub
        self._directory = directory
        self._options = options
        self._jobs: dict[int, Job] = {}
        self._asked = 0.0  # when, on the monotonic clock
        self._asking = asyncio.Lock()

    @classmethod
    def make(cls, site: Site, options: Slurm) -> Self:
        """A launcher whose hosts' logs are in the hub's home unless told otherwise."""
        return cls(site.hub, options.directory or site.directory, options)

    async def start(self, host_id: str, environment: Mapping[str, str]) -> Details:
        """Submits a job."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise LaunchError(f"cannot use {self._directory} for logs: {error.strerror}") from error
        self._prune()
        command = slurm_job.command(self._options, self._hub, host_id, self._directory)
        printed = await _run(command, slurm_job.script(self._options, environment))
        try:
            job = int(printed.partition(";")[0])
        except ValueError:
            raise LaunchError(f"sbatch did not say which job it has made: {printed!r}") from None
        return {"host": host_id, "job": job}

    def _prune(self) -> None:
        """Deletes the logs of hosts that ended long ago."""
        living = {slurm_job.host_of(self._hub, job.name) for job in self._jobs.values()}
        logs = self._directory.glob(f"{self.name}-*.log")
        for each in all_but_newest((log for log in logs if log.stem not in living), _KEPT):
            with suppress(OSError):
                each.unlink()

    async def find(self) -> Mapping[str, Details]:
        """By the names of jobs that have not ended."""
        found = {}
        for job in (await self._look()).values():
            host = slurm_job.host_of(self._hub, job.name)
            if host is not None and not job.has_ended:
                found[host] = {"host": host, "job": job.id}
        return found

    async def poll(self, details: Details) -> Status:
        """By what squeue said last; a job that was not there then is looked for anew."""
        number = int(details["job"])
        job = (await self._look(_FRESH_SECONDS)).get(number) or (await self._look()).get(number)
        if job is None:
            text = f"unseen: Slurm does not know its job {number} any more"
            return Exited(None, text)
        return slurm_job.status_of(job)

    async def _look(self, age: float = 0.0) -> Mapping[int, Job]:
        """All jobs there are, as they were so many seconds ago at most."""
        wanted = time.monotonic() - age
        async with self._asking:
            if self._asked <= wanted:
                now = time.monotonic()
                printed = await _run(["squeue", "--me", "--states=all", "--json"])
                try:
                    self._jobs = slurm_job.read_jobs(printed)
                except ValueError as error:
                    raise LaunchError(f"squeue cannot be understood: {error}") from error
                self._asked = now
            return self._jobs

    async def stop(self, details: Details) -> None:
        """Cancels its job, and waits until Slurm says that it has ended."""
        if "job" not in details:
            return
        number = int(details["job"])
        deadline = time.monotonic() + _STOP_SECONDS
        job = (await self._look()).get(number)
        if job is not None and not job.has_ended:
            await _run(["scancel", "--quiet", str(number)])
        while job is not None and not job.has_ended:
            if time.monotonic() > deadline:
                raise LaunchError(f"job {number} was cancelled and has not ended yet")
            await asyncio.sleep(0.1)
            job = (await self._look(0.1)).get(number)

    async def logs(self, details: Details, tail: int) -> list[str]:
        """The last lines of its log file."""
        path = slurm_job.log_path(self._directory, str(details["host"]))
        return await asyncio.to_thread(last_lines, path, tail)

    async def close(self) -> None:
        """Nothing is held."""


async def _run(command: list[str], script: str = "") -> str:
    """What a command of Slurm's prints."""
    # In a thread: uvloop fails where a process has ended before it was given all its input.
    return await asyncio.to_thread(_run_now, command, script)


def _run_now(command: list[str], script: str) -> str:
    try:
        done = subprocess.run(
            command,
            input=script,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_SECONDS,
            env=_environment(),
            umask=0o077,  # which is the job's, too: its log is for its owner alone
        )
    except OSError as error:
        raise LaunchError(
            f"{command[0]} cannot be run: {error.strerror}; the hub needs Slurm's commands"
        ) from error
    except subprocess.TimeoutExpired:
        raise LaunchError(f"{command[0]} did not answer within {_COMMAND_SECONDS:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it does not say why"]
        reasons = [line.removeprefix(f"{command[0]}: error: ") for line in lines]
        raise LaunchError(f"{command[0]} failed: {'; '.join(reasons)}")
    return done.stdout.strip()


def _environment() -> dict[str, str]:
    """Of the hub's what Slurm's commands need and nodes may see."""
    return {name: os.environ[name] for name in _PASSED if name in os.environ}
