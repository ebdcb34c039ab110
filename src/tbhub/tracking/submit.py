"""`submit`: start a command as a run in the background, as PAI's ``estimator.fit(wait=False)``.

    job = tbhub.submit("python train.py", wait=False)
    board = job.tensorboard()
    print(board.app_uri)

`tbhub run` does the work, in a session of its own: it survives the end of this program, and
`Job(id)` finds it again: by the job's directory, which has its hyperparameters, its process, its
run, its exit code and its log.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from tbhub.client.errors import UnexpectedStatusException, WaitTimeout
from tbhub.client.tensorboard import TensorBoard
from tbhub.tracking.board import tensorboard
from tbhub.tracking.details import hostname
from tbhub.tracking.hparams import HParam, plain_hparams
from tbhub.tracking.process_table import start_time

if TYPE_CHECKING:
    from tbhub.tracking.lifeline import Lifeline

JOB_DIRECTORY = "TBHUB_JOB_DIRECTORY"
"""Names the directory of the job that has started `tbhub run`."""
_HPARAMS, _PROCESS, _RUN, _EXIT_CODE = "hparams.json", "process.json", "run.json", "exit_code.json"
# Everything that can end `tbhub run` but SIGKILL ends in a SystemExit.
_START = """
from tbhub.cli.main import main
from tbhub.tracking.submit import recorded_exit
with recorded_exit():
    main()
"""
Status = Literal["starting", "running", "finished", "failed", "killed"]
_FIRST_PAUSE, _MAX_PAUSE = 0.02, 0.5  # seconds between two looks
_MAX_LOG_BYTES = 1 << 20
_LAST_LINES = 5  # of a job that has failed, in its exception
_KEPT_SECONDS = 30 * 86400  # after the last line of a job's log
_SIGKILLED = 128 + signal.SIGKILL
# Kept so that no process is collected before it ends, by the job's id.
_children: dict[str, subprocess.Popen[bytes]] = {}


class Job:
    """A command that was submitted, and its run.

    Args:
        job_id: Of a job that was submitted on this machine, by this program or another one.

    Raises:
        ValueError: There is no such job here.

    Attributes:
        id: The name of its directory.
        log: The file of everything it prints.
    """

    def __init__(self, job_id: str) -> None:
        self.id = job_id
        self._directory = _jobs() / job_id
        self.log = self._directory / "log"
        self._child = _children.get(job_id)
        process = _read(self._directory / _PROCESS) if job_id.isalnum() else None
        if process is None:
            raise ValueError(
                f"there is no job {job_id!r}. hint: the jobs of this user are in {_jobs()}, until "
                "30 days after their end"
            )
        if process["host"] != hostname():
            raise ValueError(
                f"job {job_id} was submitted on {process['host']}, and this is {hostname()}. "
                f"hint: use it there; all it printed is in {self.log}"
            )
        self._pid, self._started = process["pid"], process["started"]

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.status}>"

    @property
    def run(self) -> int | None:
        """The number of its run; None while no hub knows the run."""
        found = _read(self._directory / _RUN)
        return int(found) if found is not None else None

    @property
    def status(self) -> Status:
        """Return how it is: starting, running, finished, failed or killed."""
        code = self._exit_code()
        if code is None:
            return "starting" if self.run is None else "running"
        if code == 0:
            return "finished"
        return "killed" if code < 0 or code > 128 else "failed"

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended.

        Args:
            timeout: Seconds; None: as long as it takes.

        Raises:
            WaitTimeout: It has not ended in time; it goes on.
            UnexpectedStatusException: It has failed or was killed; with its last lines.
        """
        deadline = time.monotonic() + timeout if timeout is not None else None
        pause = _FIRST_PAUSE
        while self._exit_code() is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(f"job {self.id} is {self.status} after {timeout:g} s")
            time.sleep(pause)
            pause = min(1.5 * pause, _MAX_PAUSE)
        if self.status != "finished":
            raise self._ended()

    def stop(self) -> None:
        """Send SIGTERM to its command, then to what that leaves; its run is then killed.

        After its end: does nothing.
        """
        if self._exit_code() is None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)

    def logs(self) -> str:
        """Return what it has printed, at most the last megabyte."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _MAX_LOG_BYTES))
                return file.read(_MAX_LOG_BYTES).decode(errors="replace")
        except OSError:
            return ""

    def tensorboard(self, *, wait: bool = True, timeout: float = 60.0) -> TensorBoard:
        """Open the board of its run, or the one that there is; wait for the run to appear.

        Args:
            wait: Return when the board is up.
            timeout: Seconds that the run may take to appear, and then the board.

        Raises:
            WaitTimeout: No hub has known the run in time, or the board is not up.
            UnexpectedStatusException: The job has ended, and no hub knows the run.
        """
        deadline, pause = time.monotonic() + timeout, _FIRST_PAUSE
        while (run := self.run) is None:
            if self._exit_code() is not None and self.run is None:
                raise self._ended()
            if time.monotonic() > deadline:
                raise WaitTimeout(
                    f"job {self.id} has no run on a hub after {timeout:g} s. hint: is the hub up? "
                    f"{self.log} says what happens"
                )
            time.sleep(pause)
            pause = min(1.5 * pause, _MAX_PAUSE)
        return tensorboard(run, wait=wait, timeout=timeout)

    def _exit_code(self) -> int | None:
        """Return its exit code; None while it runs."""
        if self._child is not None:
            return self._child.poll()
        if self._started is not None and start_time(self._pid) == self._started:
            return None
        code = _read(self._directory / _EXIT_CODE)
        return _SIGKILLED if code is None else int(code)

    def _ended(self) -> UnexpectedStatusException:
        lines = "\n".join(self.logs().splitlines()[-_LAST_LINES:])
        code = self._exit_code()
        text = f"job {self.id} is {self.status} (exit code {code}); all it printed is in {self.log}"
        return UnexpectedStatusException(f"{text}; its last lines:\n{lines}", self.status)


def submit(
    command: str | Sequence[str],
    *,
    name: str | None = None,
    experiment: str = "default",
    hparams: Mapping[str, object] | None = None,
    workspace: str | None = None,
    job: int | str | None = None,
    tags: Sequence[str] = (),
    note: str = "",
    storage: str | None = None,
    system_metrics: bool = False,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    wait: bool = True,
) -> Job:
    """Start a command as a run in the background: `tbhub run -- command`.

    Args:
        command: What to run: words, or a text for the shell.
        name: What the run is called; see `Run` for this and what follows.
        experiment: The experiment it belongs to.
        hparams: Hyperparameters.
        workspace: The workspace of the experiment.
        job: A job of the hub that the run is a part of.
        tags: Tags to find it by.
        note: A note.
        storage: What its logs are kept below.
        system_metrics: Log CPU, memory and GPUs, too.
        cwd: The directory to run in; this one unless given.
        env: Variables to set beside those that are there.
        wait: Return when the command has ended; else at once.

    Raises:
        ValueError: There is no command.
        UnexpectedStatusException: It has failed, and `wait` was asked for.
    """
    words = ["sh", "-c", command] if isinstance(command, str) else [os.fspath(w) for w in command]
    if not words or not words[-1].strip():
        raise ValueError("there is no command to run. hint: submit('python train.py')")
    given = {"--name": name, "--workspace": workspace, "--storage": storage, "--note": note or None}
    options = [f"--experiment={experiment}"]
    options += [f"{option}={value}" for option, value in given.items() if value is not None]
    options += [] if job is None else [f"--job={job}"]
    options += [f"--tag={tag}" for tag in tags]
    options += ["--system-metrics"] if system_metrics else []
    made = _start([*options, "--", *words], plain_hparams(hparams or {}), cwd, env or {})
    if wait:
        made.wait()
    return made


def job_hparams(directory: str | None) -> dict[str, HParam]:
    """Return the hyperparameters that were submitted with a job; without one none.

    They are no options of `tbhub run`: a text that looks like a number stays a text.

    Raises:
        OSError: The directory of the job cannot be read.
    """
    if not directory:
        return {}
    found: dict[str, HParam] = json.loads((Path(directory) / _HPARAMS).read_bytes())
    return found


def record_run(directory: str | None, lifeline: Lifeline) -> None:
    """Write which run this is to the directory of the job, if one has started us."""
    if directory and lifeline.started is not None:
        with suppress(OSError):  # the job goes on, but its board cannot be found by it
            _write(Path(directory) / _RUN, lifeline.started.run.id)


@contextmanager
def recorded_exit() -> Iterator[None]:
    """Write with what code the process of a job exits to the job's directory."""
    path = Path(os.environ[JOB_DIRECTORY]) / _EXIT_CODE
    code: object = 1  # of a traceback
    try:
        yield
        code = 0
    except SystemExit as exiting:
        code = exiting.code or 0
        raise
    finally:
        with suppress(OSError):
            _write(path, code if isinstance(code, int) else 1)


def _start(
    arguments: list[str],
    hparams: dict[str, HParam],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str],
) -> Job:
    _delete_old()
    directory = _jobs() / uuid4().hex[:12]
    directory.mkdir(mode=0o700, parents=True)
    _write(directory / _HPARAMS, hparams)
    environment = {**os.environ, **env, JOB_DIRECTORY: str(directory)}
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _START, "run", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
    for ended in [each for each, child in _children.items() if child.poll() is not None]:
        del _children[ended]
    _children[directory.name] = process
    started = start_time(process.pid)
    _write(directory / _PROCESS, {"pid": process.pid, "started": started, "host": hostname()})
    return Job(directory.name)


def _write(path: Path, value: object) -> None:
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(value))
    unfinished.replace(path)


def _read(path: Path) -> Any:
    """Return what was written to a file; None if it is not there."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _jobs() -> Path:
    """Return the directory of all jobs."""
    from platformdirs import user_data_dir

    return Path(user_data_dir("tbhub", appauthor=False)) / "jobs"


def _delete_old() -> None:
    """Delete the directories of jobs that have printed nothing for a month."""
    for log in _jobs().glob("*/log"):
        with suppress(OSError):
            if time.time() - log.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(log.parent)
