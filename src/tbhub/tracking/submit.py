"""`submit`: start a command as a run in the background, as PAI's ``estimator.fit(wait=False)``.

    job = tbhub.submit("python train.py", wait=False)
    board = job.tensorboard()
    print(board.app_uri)

`tbhub run` does the work, in a session of its own: it survives the end of this program.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from tbhub.client.errors import UnexpectedStatusException, WaitTimeout
from tbhub.client.tensorboard import TensorBoard
from tbhub.tracking.board import tensorboard
from tbhub.tracking.hparams import plain_hparams

if TYPE_CHECKING:
    from tbhub.tracking.lifeline import Lifeline

JOB_FILE = "TBHUB_JOB_FILE"
"""Where `tbhub run` writes which run it is, if it is set."""
Status = Literal["starting", "running", "finished", "failed", "killed"]
_FIRST_PAUSE, _MAX_PAUSE = 0.02, 0.5  # seconds between two looks
_MAX_LOG_BYTES = 1 << 20
_LAST_LINES = 5  # of a job that has failed, in its exception
_KEPT_SECONDS = 30 * 86400  # after the last line of a job's log
# Kept so that no process is collected before it ends.
_children: list[subprocess.Popen[bytes]] = []


class Job:
    """A command that was submitted, and its run.

    Attributes:
        id: The name of its directory.
        log: The file of everything it prints.
    """

    def __init__(self, directory: Path, process: subprocess.Popen[bytes]) -> None:
        self.id = directory.name
        self.log = directory / "log"
        self._run_file = directory / "run.json"
        self._process = process

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.status}>"

    @property
    def run(self) -> int | None:
        """The number of its run; None while no hub knows the run."""
        try:
            found = json.loads(self._run_file.read_bytes())["run"]
        except (OSError, ValueError, KeyError):
            return None
        return int(found)

    @property
    def status(self) -> Status:
        """Return how it is: starting, running, finished, failed or killed."""
        code = self._process.poll()
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
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise WaitTimeout(f"job {self.id} is {self.status} after {timeout:g} s") from None
        if self.status != "finished":
            raise self._ended()

    def stop(self) -> None:
        """Ask it to end, as Ctrl-C would; its run is then killed. After its end: does nothing."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

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
            if self._process.poll() is not None and self.run is None:
                raise self._ended()
            if time.monotonic() > deadline:
                raise WaitTimeout(
                    f"job {self.id} has no run on a hub after {timeout:g} s. hint: is the hub up? "
                    f"{self.log} says what happens"
                )
            time.sleep(pause)
            pause = min(1.5 * pause, _MAX_PAUSE)
        return tensorboard(run, wait=wait, timeout=timeout)

    def _ended(self) -> UnexpectedStatusException:
        lines = "\n".join(self.logs().splitlines()[-_LAST_LINES:])
        code = self._process.returncode
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
    plain = plain_hparams(hparams or {})
    options += [f"--hparam={key}={value}" for key, value in plain.items()]
    options += ["--system-metrics"] if system_metrics else []
    made = _start([*options, "--", *words], cwd, env or {})
    if wait:
        made.wait()
    return made


def record_run(path: str | None, lifeline: Lifeline) -> None:
    """Write which run this is where `submit` looks for it, if that is what has started us."""
    if not path or lifeline.started is None:
        return
    unfinished = Path(f"{path}.tmp")
    with suppress(OSError):  # the job goes on, but its board cannot be found by it
        unfinished.write_text(json.dumps({"run": lifeline.started.run.id}))
        unfinished.replace(path)


def _start(arguments: list[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str]) -> Job:
    directory = _jobs() / uuid4().hex[:12]
    directory.mkdir(mode=0o700, parents=True)
    environment = {**os.environ, **env, JOB_FILE: str(directory / "run.json")}
    start = "from tbhub.cli.main import main; main()"
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", start, "run", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
    _children[:] = [*(each for each in _children if each.poll() is None), process]
    return Job(directory, process)


def _jobs() -> Path:
    """Return the directory of all jobs, without those that nobody has needed for a month."""
    from platformdirs import user_data_dir

    found = Path(user_data_dir("tbhub", appauthor=False)) / "jobs"
    for log in found.glob("*/log"):
        with suppress(OSError):
            if time.time() - log.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(log.parent)
    return found
