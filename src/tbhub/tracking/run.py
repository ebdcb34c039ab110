"""`Run`: a run that a program starts, logs to and ends.

    with tbhub.Run("resnet", hparams={"lr": 0.1}) as run:
        for epoch in range(10):
            run.log_metrics({"epoch": epoch, "loss": loss}, step_name="epoch", stage="train")

Everything is written to a local directory, by writers as any other; `Lifeline` ties that to the hub
and its storage. Inside `tbhub run` there is a run already: this one joins it, and leaves its end to
the command that has started it.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast, get_args
from uuid import uuid4

from tbhub.api.models import NewRun, RunChange, RunEnding
from tbhub.api.problems import BadRequest, Problem
from tbhub.client import calls
from tbhub.client.errors import HubUnreachable
from tbhub.client.hub import Hub
from tbhub.errors import TbhubError, TbhubWarning
from tbhub.storage.uri import parse
from tbhub.tracking import environment
from tbhub.tracking.announce import announce_end, announce_start
from tbhub.tracking.details import describe, hostname, own_command
from tbhub.tracking.hparams import plain_hparams
from tbhub.tracking.joined_run import JoinedRun
from tbhub.tracking.lifeline import PATIENCE, Lifeline
from tbhub.tracking.program import Program, exit_code
from tbhub.tracking.requeue import job_identity, start_key
from tbhub.tracking.session import Session
from tbhub.tracking.worker import this_worker
from tbhub.writer.non_finite import forget_non_finite
from tbhub.writer.summary_writer import SummaryWriter

if TYPE_CHECKING:
    from tbhub.api.models import Run as KnownRun

# Stages that share a directory, as XT has them; any other has its own.
_STAGES = {None: "train", "train": "train", "test": "test", "eval": "test"}
# How often this process has begun what is called the same: ranks of a job count alike.
_begun: Counter[tuple[object, ...]] = Counter()


class RunOverError(TbhubError, RuntimeError):
    """Something was to be logged to a run that has ended."""


class Run:
    """A run: its writers, its place in the catalog, its end.

    Args:
        experiment: The experiment it belongs to, made if there is none of this name.
        name: What it is called; ``run<number>`` without one.
        hparams: Hyperparameters, see `log_hparams`.
        workspace: The workspace of the experiment.
        tags: Tags to find it by; a text is one tag.
        job: The number or name of a job it is a part of; ``"new"`` makes one.
        note: A note.
        storage: What its logs are kept below: ``s3://bucket/logs``, a path; without one
            ``TBHUB_RUN_STORAGE``, or else the hub keeps them itself.
        logdir: The local directory to write to; without one it is chosen, and emptied when all is
            published. Files that are there before are not the run's. One run at a time may use it.
        tensorboard_path: The same as `logdir`, as XT's ``Run`` has it.
        resume: A run to go on with, by number or name: the same run, another attempt.
        force: Go on although the run seems to be alive; whoever is at it is fenced off.
        resume_or_start: Resume the run that this job has started before, or else start it. The
            job is known by `name`, by ``TBHUB_RUN_KEY``, or by the variables of Slurm, Kubernetes,
            torchrun and the schedulers of preemptible machines.
        restore: When the run is resumed, give back the files that it had written to `logdir`.
        exclude: Globs of files that are not published: ``["*.ckpt", "cache/*"]``. They stay on this
            machine. Those of ``TBHUB_EXCLUDE`` are added.
        offline: Ask no hub; `tbhub sync` tells one later.
        hub: Which hub; see `Hub`.

    Raises:
        DirectoryInUseError: Another run that has not ended writes to `logdir`.
        Problem: The hub does not want it: the name is taken, the run to resume is alive.
        HubUnreachable: The run is to be resumed with its files, and no hub answers.
        RestoreError: The files of the run cannot be restored.

    Without a hub, or when it is down, the run goes on: what it logs waits on this machine.

    Inside `tbhub run` the run of that command is joined. A warning names the arguments that were
    given and are not used.
    """

    def __init__(
        self,
        experiment: str = "default",
        name: str | None = None,
        *,
        hparams: Mapping[str, object] | None = None,
        workspace: str | None = None,
        tags: str | Sequence[str] | None = (),
        job: int | str | None = None,
        note: str = "",
        storage: str | None = None,
        logdir: str | os.PathLike[str] | None = None,
        tensorboard_path: str | os.PathLike[str] | None = None,
        resume: str | int | None = None,
        force: bool = False,
        resume_or_start: bool = False,
        restore: bool = True,
        exclude: Sequence[str] = (),
        offline: bool = False,
        hub: Hub | None = None,
    ) -> None:
        if logdir is not None and tensorboard_path is not None:
            raise ValueError("logdir and tensorboard_path are the same: give one of them")
        logdir = tensorboard_path if logdir is None else logdir
        self._rank = environment.rank()
        self._joined: JoinedRun | None = None
        self._experiment = experiment if resume is None else None
        self._lifeline: Lifeline | None = None
        self._hub = hub
        self._lock = threading.Lock()
        self._writers: dict[str, SummaryWriter] = {}
        self._counters: dict[str, int] = {}  # the next step, of stages that count them
        self._is_over = False
        self._telling: threading.Thread | None = None
        self._process = os.getpid()
        if (joined := environment.joined()) is not None:
            self._joined = JoinedRun(joined, hub)
            self._logdir = self._joined.logdir_of(self._rank)
            unused = self._joined.unused(
                experiment=None if experiment == "default" else experiment,
                name=name,
                workspace=workspace,
                tags=_as_list(tags),
                job=job,
                note=note,
                storage=_absolute(storage),
                logdir=logdir,
                resume=resume,
                resume_or_start=resume_or_start,
                exclude=exclude,
                offline=offline,
            )
            if unused:
                warnings.warn(
                    f"tbhub.Run joins run {self.name} of `tbhub run`: {_enumerated(unused)} not "
                    "used. hint: use the options of `tbhub run`",
                    TbhubWarning,
                    stacklevel=2,
                )
        else:
            new = new_run(
                experiment,
                name,
                hparams=hparams or {},
                workspace=workspace,
                tags=tags,
                job=job,
                note=note,
                storage=storage,
                resume=resume,
                force=force,
                resume_or_start=resume_or_start,
                command=own_command(),
            )
            place = None if logdir is None else Path(logdir).absolute()
            self._lifeline = Lifeline(
                new,
                logdir=place,
                hub=hub,
                offline=offline,
                rank=self._rank,
                exclude=exclude,
                restore=restore,
                report=_report,
            )
            try:
                self._lifeline.begin()
            except BaseException:
                self._lifeline.finish("failed", waits=False)
                raise
            self._logdir = self._lifeline.logdir
            self._name = name or self._logdir.name
        self._session = Session(self._logdir)
        self._program = Program()
        atexit.register(self._at_exit)
        forget_non_finite()
        if self._announces:
            announce_start(self.name, self.url)
        if hparams:
            self.log_hparams(hparams)

    @property
    def id(self) -> int | None:
        """Its number in the catalog; None while no hub knows it."""
        if self._joined is not None:
            return self._joined.id
        known = self._known
        return known.id if known else None

    @property
    def name(self) -> str:
        """What it is called."""
        if self._joined is not None:
            return self._joined.name
        known = self._known
        return known.name if known else self._name

    @property
    def experiment(self) -> str | None:
        """The experiment it belongs to; None if that is not known."""
        if self._joined is not None:
            return self._joined.experiment
        known = self._known
        return known.experiment if known else self._experiment

    @property
    def logdir(self) -> Path:
        """The local directory everything is written to."""
        return self._logdir

    @property
    def location(self) -> str:
        """Where its logs are, as the hub reads them; the local directory while no hub knows it."""
        return self._lifeline.location if self._lifeline else str(self._logdir)

    @property
    def url(self) -> str | None:
        """Its page; None while no hub knows it."""
        if self._lifeline is not None:
            return self._lifeline.url
        base = os.environ.get(environment.URL)
        return f"{base}/runs/{self.id}" if base and self.id is not None else None

    def log_metrics(
        self,
        metrics: Mapping[str, object],
        step_name: str | None = None,
        stage: str | None = None,
    ) -> None:
        """Logs numbers of one step.

        Args:
            metrics: Values by name.
            step_name: The one of them that is the step; without it the step is the one after the
                last that was logged to the stage, by earlier attempts as well.
            stage: None and "train" go to the directory ``train``, "test" and "eval" to ``test``,
                any other to its own.

        Raises:
            ValueError: `step_name` is not among the metrics, or a stage is no name.
            RunOverError: The run has ended.
        """
        directory = _directory(stage)
        writer = self.writer(stage)
        if step_name is None:
            self._log_next_step(directory, writer, metrics)
        elif step_name in metrics:
            values = {name: value for name, value in metrics.items() if name != step_name}
            self._log_step(directory, writer, values, metrics[step_name])
        else:
            raise ValueError(f"log_metrics: the step {step_name!r} is not among the metrics")

    def log_batch_metrics(
        self, metrics: Mapping[str, object], batch: int, group: str = "training"
    ) -> None:
        """Logs numbers of one batch, in a directory of their group; as Determined's users know it.

        Args:
            metrics: Values by name.
            batch: The step.
            group: What they belong to.
        """
        self._log_step(_directory(group), self.writer(group), metrics, batch)

    def log_hparams(self, hparams: Mapping[str, object]) -> None:
        """Logs hyperparameters: to the catalog, and for TensorBoard's HParams.

        TensorBoard shows those of the first call, the catalog those of all.

        Raises:
            RunOverError: The run has ended.
        """
        plain = plain_hparams(hparams)
        self._insist_on_life()
        self._session.start(plain)
        if self._lifeline is not None:
            self._lifeline.tell_hparams(plain)
            return
        is_left = self._joined is not None and self._joined.leave_hparams(plain)
        if self.id is not None:
            self._telling = _tell_hparams(self._hub, self.id, plain, is_left=is_left)

    def writer(self, stage: str | None = None) -> SummaryWriter:
        """The writer of a stage, for whatever TensorBoard can show.

        Raises:
            RunOverError: The run has ended.
        """
        directory = _directory(stage)
        with self._lock:
            self._insist_on_life()
            if directory not in self._writers:
                self._writers[directory] = SummaryWriter(self._logdir / directory)
            return self._writers[directory]

    def finish(self, status: str = "finished", exit_code: int | None = None) -> None:
        """Ends the run: waits until all is published, and tells the hub. Again: does nothing.

        What cannot be published now is told of in a warning, and kept for `tbhub sync`. An
        interrupt ends the waiting: the upload continues in the background.

        Args:
            status: "finished", "failed" or "killed".
            exit_code: Of the program, if it has one.

        Raises:
            ValueError: It is none of these.
        """
        ending = _ending(status)
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            writers = list(self._writers.values())
        if self._process == os.getpid():
            atexit.unregister(self._at_exit)
            self._session.end(ending)
        for writer in writers:
            writer.close()
        if self._telling is not None:
            self._telling.join(PATIENCE)
        if self._lifeline is None:
            return
        try:
            left = self._lifeline.finish(ending, exit_code)
        except KeyboardInterrupt:
            if left := self._lifeline.finish(ending, exit_code, waits=False):
                warnings.warn(left, TbhubWarning, stacklevel=2)
            raise
        if self._announces and not self._lifeline.is_fenced:
            announce_end(self.name, self.url, ending, exit_code)
        if left:
            warnings.warn(left, TbhubWarning, stacklevel=2)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.finish()
        elif isinstance(error, SystemExit):
            code = exit_code(error.code)
            self.finish("failed" if code else "finished", code)
        else:
            self.finish("killed" if isinstance(error, KeyboardInterrupt) else "failed")

    def __repr__(self) -> str:
        return f"<Run {self.name} {self.location}>"

    @property
    def _known(self) -> KnownRun | None:
        started = self._lifeline.started if self._lifeline else None
        return started.run if started else None

    def _insist_on_life(self) -> None:
        if self._is_over:
            raise RunOverError(
                f"run {self.name} has ended: log before `finish`, or begin another run"
            )

    def _event_files(self, place: Path) -> list[Path]:
        """Return the run's event files below a directory: without those of earlier runs."""
        older = self._lifeline.older.files if self._lifeline is not None else {}
        return [
            file
            for file in place.rglob("*tfevents*")
            if file.relative_to(self._logdir).as_posix() not in older
        ]

    @property
    def _announces(self) -> bool:
        """Whether this process prints the run's address: the first of a job, and no child of it."""
        return self._lifeline is not None and self._rank == 0 and self._process == os.getpid()

    def _log_next_step(
        self, directory: str, writer: SummaryWriter, metrics: Mapping[str, object]
    ) -> None:
        """Log metrics at the step after the last of a stage; count it if anything is logged."""
        if not metrics:
            return
        step = self._next_step(directory, writer)
        is_logged = False
        try:
            for name, value in metrics.items():
                writer.add_scalar(name, value, step)
                is_logged = True
        finally:
            if not is_logged:
                self._release_step(directory, step)

    def _log_step(
        self, directory: str, writer: SummaryWriter, metrics: Mapping[str, object], step: Any
    ) -> None:
        """Log metrics at a step that was given; continue after it if anything is logged."""
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)
            self._count_on_from(directory, step)

    def _next_step(self, directory: str, writer: SummaryWriter) -> int:
        """Return the step after the last of a stage, and count it."""
        with self._lock:
            if directory not in self._counters:
                writer.flush()
                self._counters[directory] = self._counted_before(directory)
            step = self._counters[directory]
            self._counters[directory] += 1
        return step

    def _release_step(self, directory: str, step: int) -> None:
        """Undo the count of a step, unless another thread has counted a later one."""
        with self._lock:
            if self._counters[directory] == step + 1:
                self._counters[directory] = step

    def _count_on_from(self, directory: str, step: object) -> None:
        """Continue counting after a step that was given, if the steps of the stage are counted."""
        if directory in self._counters:
            with suppress(TypeError, ValueError, OverflowError), self._lock:
                after = int(step) + 1  # type: ignore[call-overload]
                self._counters[directory] = max(self._counters[directory], after)

    def _counted_before(self, directory: str) -> int:
        """Return the step after the last one below a directory, in this and earlier attempts."""
        from tbhub.tracking.counting import counted_before, counted_here

        found = counted_here(self._event_files(self._logdir / directory))
        if self._lifeline is not None:
            return max(found, self._lifeline.counted_before(directory))
        assert self._joined is not None
        attempt, path = self._joined.attempt or 1, self._joined.path_of(self._logdir / directory)
        with suppress(HubUnreachable, Problem, ValueError):
            if attempt > 1 and self._joined.id is not None:
                hub = self._hub or Hub(keep_alive=False)
                known = hub.run(self._joined.id)
                found = max(found, counted_before(hub, known, attempt, path))
        return found

    def _at_exit(self) -> None:
        """The program has ended without a word."""
        if self._process == os.getpid():
            self.finish(*self._program.ending())


def new_run(
    experiment: str,
    name: str | None,
    *,
    hparams: Mapping[str, object],
    workspace: str | None,
    tags: str | Sequence[str] | None,
    job: int | str | None,
    note: str,
    storage: str | None,
    resume: str | int | None,
    force: bool,
    resume_or_start: bool = False,
    command: str,
) -> NewRun:
    """A run as the hub is told of it.

    Raises:
        BadRequest: Something of it cannot be, or nothing identifies the job that is to be resumed.
        BadName: Nothing can be stored there.
    """
    storage = _absolute(storage or os.environ.get(environment.STORAGE))
    if storage:
        parse(storage)  # what is no place at all is not to be found out at the end
    called = (experiment, name, resume)
    _begun[called] += 1
    of = (*called, _begun[called])
    key = environment.shared_key(host=hostname(), of=of) or uuid4().hex
    identity = None
    if resume_or_start:
        identity = job_identity(
            name=name, experiment=experiment, command=command, count=_begun[called]
        )
        if identity is None:
            raise BadRequest(
                "nothing identifies this job when it is started again. hint: give the run a name, "
                f"or set {environment.KEY} to what no other job has"
            )
        key = start_key(of=of)
    return calls.build(
        NewRun,
        experiment=experiment,
        name=name,
        workspace=workspace,
        job=job,
        storage=storage,
        hparams=plain_hparams(hparams),
        tags=_as_list(tags),
        note=note,
        command=command[:65536],
        machine=hostname()[:200],
        details={**describe(), "worker": this_worker()},
        key=key,
        resume=None if resume is None else str(resume),
        force=force,
        resume_or_start=resume_or_start,
        identity=identity,
    )


def _absolute(storage: str | None) -> str | None:
    """Return a storage as a URI or an absolute path."""
    if storage and "://" not in storage:
        return os.path.abspath(os.path.expanduser(storage))
    return storage


def _as_list(tags: str | Sequence[str] | None) -> list[str]:
    """Return tags as a list; a text is one tag."""
    return [tags] if isinstance(tags, str) else list(tags or ())


def _enumerated(names: Sequence[str]) -> str:
    """Return names as the subject of a sentence, with its verb."""
    *others, last = names
    return f"{', '.join(others)} and {last} are" if others else f"{last} is"


def _report(text: str) -> None:
    """Show what a run waits for, or has done, on standard error."""
    if not os.environ.get("TBHUB_QUIET"):
        print(f"tbhub: {text}", file=sys.stderr, flush=True)


def _ending(status: str) -> RunEnding:
    if status not in get_args(RunEnding):
        raise ValueError(f"a run ends finished, failed or killed, not {status!r}")
    return cast(RunEnding, status)


def _directory(stage: str | None) -> str:
    """The directory of a stage."""
    if stage is not None and (not stage or stage in (".", "..") or os.sep in stage):
        raise ValueError(f"a stage is the name of a directory, not {stage!r}")
    return _STAGES.get(stage) or str(stage)


def _tell_hparams(
    hub: Hub | None, run: int, hparams: dict[str, Any], *, is_left: bool
) -> threading.Thread:
    """Has the hub know hyperparameters of a run that another process looks after; if it answers.

    Args:
        is_left: They are left for that process, too: without an answer nothing is lost.
    """

    def tell() -> None:
        try:
            change = calls.build(RunChange, hparams=hparams)
            (hub or Hub(keep_alive=False)).change_run(run, change)
        except (HubUnreachable, Problem, ValueError) as error:
            if is_left:
                return
            warnings.warn(
                f"the hub has not been told of hyperparameters: {error}", TbhubWarning, stacklevel=1
            )

    thread = threading.Thread(target=tell, name="tbhub-hparams", daemon=True)
    thread.start()
    return thread
