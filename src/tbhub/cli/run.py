"""``tbhub run``: any command, as a run."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated

import typer

from tbhub.cli.text import plain


def run(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND…", help="What to run; `{logdir}` is where it may log."),
    ],
    experiment: Annotated[
        str, typer.Option("-e", "--experiment", help="The experiment it belongs to.")
    ] = "default",
    name: Annotated[
        str | None, typer.Option("--name", help="What it is called; `run<number>` unless given.")
    ] = None,
    hparams: Annotated[
        list[str] | None,
        typer.Option("--hparam", metavar="NAME=VALUE", help="A hyperparameter; repeat for more."),
    ] = None,
    workspace: Annotated[
        str | None, typer.Option("-w", "--workspace", help="The workspace it belongs to.")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            "--job", help="A job by number or name; made if there is none. `new` makes one."
        ),
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="A tag; repeat for several.")
    ] = None,
    note: Annotated[str, typer.Option("--note", help="A note.")] = "",
    storage: Annotated[
        str | None,
        typer.Option(
            "--storage",
            metavar="URI",
            envvar="TBHUB_RUN_STORAGE",
            help="What its logs are kept below; the hub keeps them unless given.",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN", help="Go on with a run: its number or name."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Resume although it seems to be alive: that one is fenced."),
    ] = False,
    resume_or_start: Annotated[
        bool,
        typer.Option(
            "--resume-or-start",
            help="For a job that may be restarted: resume its run if there is one, else start it. "
            "Known by --name, TBHUB_RUN_KEY, or the variables of Slurm, Kubernetes, torchrun, ….",
        ),
    ] = False,
    no_restore: Annotated[
        bool,
        typer.Option("--no-restore", help="Resume with an empty directory: fetch no files."),
    ] = False,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="GLOB",
            help="Do not publish such files, e.g. `*.ckpt` or `cache/*`; repeat for more. They "
            "stay on this machine. Also `TBHUB_EXCLUDE`, with commas.",
        ),
    ] = None,
    upload_limit: Annotated[
        str | None,
        typer.Option(
            "--upload-limit",
            metavar="RATE",
            help="Upload no faster than this, e.g. `20MB/s`. Also `TBHUB_UPLOAD_LIMIT`.",
        ),
    ] = None,
    logdir: Annotated[
        list[str] | None,
        typer.Option(
            "--logdir",
            metavar="DIR",
            help="A directory the command logs to; repeat for more. Found by itself unless given.",
        ),
    ] = None,
    capture: Annotated[
        bool,
        typer.Option(
            " /--no-capture", help="Take only what is written to the run's own directory."
        ),
    ] = True,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no hub; `tbhub sync` tells one later.")
    ] = False,
    system_metrics: Annotated[
        bool, typer.Option("--system-metrics", help="Log CPU, memory and GPUs every 5 s, too.")
    ] = False,
    rank: Annotated[
        str,
        typer.Option(
            "--rank",
            metavar="N",
            help="Of a distributed job; auto: RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK.",
        ),
    ] = "auto",
) -> None:
    """Run a command, and have all it logs in the hub.

    - `tbhub run --experiment resnet --hparam lr=.01 -- python train.py`
    - `tbhub run -- python train.py --logdir {logdir}`
    - `tbhub run --logdir lightning_logs -- python train.py`
    - `tbhub run --resume run12 -- python train.py --from-checkpoint`
    - `tbhub run --resume-or-start --name big -- python train.py`, in a job that may be preempted

    The command finds the directory to log to in `TBHUB_LOGDIR`, `PAI_OUTPUT_TENSORBOARD`,
    `XT_OUTPUT_MNT`, `AIP_TENSORBOARD_LOG_DIR` and `TENSORBOARD_LOGGING_DIR` (Transformers 5), or
    where `{logdir}` stands among its words. What it prints is kept as well. Everything that it
    writes to that directory is published, checkpoints included. TensorBoard event files that it
    writes elsewhere, below the working directory, to `/tmp/tensorboard` or wherever its processes
    have them open, are adopted: they stay where they are and are copied into the run as they grow.
    Files that were there before the start never are. The address of the run is printed when it
    begins and when it ends, unless `TBHUB_QUIET=1` is set. A hub that is down stops nothing: what
    was logged waits on this machine, and `tbhub sync` publishes it.

    A run that is resumed finds the files that it had written in its directory again, before the
    command starts: those on this machine at once, others are fetched, the newest checkpoint first.

    Exits with the code of the command; 128 and its number if a signal has ended it.
    """
    from tbhub.cli.restore import shown_restore
    from tbhub.errors import TbhubWarning
    from tbhub.tracking import environment
    from tbhub.tracking.announce import announce_end, announce_start
    from tbhub.tracking.console import limit_of_environment
    from tbhub.tracking.details import command_text
    from tbhub.tracking.hparams import parse_hparam
    from tbhub.tracking.lifeline import Lifeline
    from tbhub.tracking.run import new_run
    from tbhub.tracking.submit import JOB_DIRECTORY, job_hparams, record_run
    from tbhub.tracking.supervisor import NotStartedError, Outcome, supervise

    job_directory = os.environ.pop(JOB_DIRECTORY, None)  # not for what the command runs
    given = {**job_hparams(job_directory), **dict(map(parse_hparam, hparams or ()))}
    if rank != "auto" and not rank.isdecimal():
        raise ValueError(f"--rank is a number or auto, not {rank!r}")
    if logdir and not capture:
        raise ValueError("--logdir and --no-capture exclude each other")
    new = new_run(
        experiment,
        name,
        hparams=given,
        workspace=workspace,
        tags=tags or (),
        job=f"job{job}" if job and job.isdecimal() else job,
        note=note,
        storage=storage,
        resume=resume,
        force=force,
        resume_or_start=resume_or_start,
        command=command_text(command),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("always", TbhubWarning)
        warnings.showwarning = _tell
        number = environment.rank() if rank == "auto" else int(rank)
        console_limit = limit_of_environment()
        if upload_limit is not None:
            os.environ["TBHUB_UPLOAD_LIMIT"] = upload_limit  # the publishing process inherits it
        lifeline = Lifeline(
            new,
            offline=offline,
            rank=number,
            exclude=exclude or (),
            restore=not no_restore,
            report=_say,
        )
        record_run(job_directory, lifeline)
        if lifeline.started is not None and number == 0:
            announce_start(lifeline.started.run.name, lifeline.url)
        try:
            with shown_restore() as progress:
                outcome = supervise(
                    command,
                    lifeline,
                    hparams=given,
                    system_metrics=system_metrics,
                    capture=capture,
                    logdirs=logdir or (),
                    console_limit=console_limit,
                    progress=progress,
                )
        except NotStartedError as error:
            _say(str(error))
            outcome = Outcome(error.code, "", "failed")
    record_run(job_directory, lifeline)  # a hub may have answered since
    if outcome.adopted:
        _say(outcome.adopted)
    if lifeline.started is not None and number == 0 and not lifeline.is_fenced:
        announce_end(lifeline.started.run.name, lifeline.url, outcome.status, outcome.code)
    for line in (outcome.missing, *outcome.left.splitlines(), outcome.running, outcome.failed):
        if line:
            _say(line)
    raise typer.Exit(outcome.code)


def _say(text: str) -> None:
    print(f"tbhub: {plain(text)}", file=sys.stderr, flush=True)


def _tell(message: Warning | str, *_: object, **__: object) -> None:
    _say(str(message))
