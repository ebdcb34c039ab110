"""What processes of a run are told by their environment, and what they find in it; pure.

`tbhub run` sets these for the command it runs. The names of others are what scripts written for
PAI, XT, Vertex AI and Transformers look for: the directory to log to.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RUN_ID, LOGDIR, ATTEMPT = "TBHUB_RUN_ID", "TBHUB_LOGDIR", "TBHUB_ATTEMPT"
URL, TOKEN = "TBHUB_URL", "TBHUB_TOKEN"
STORAGE = "TBHUB_RUN_STORAGE"
KEY = "TBHUB_RUN_KEY"
# The directory to log to, as others call it.
OTHER_LOGDIRS = (
    "PAI_OUTPUT_TENSORBOARD",
    "XT_OUTPUT_MNT",
    "AIP_TENSORBOARD_LOG_DIR",
    "TENSORBOARD_LOGGING_DIR",  # Transformers 5
)
PLACEHOLDER = "{logdir}"

_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
PASSING_KEY = "now:"  # the catalog's, too: the address of a job is that of another the next day
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LONGEST_KEY = 150  # with what is put behind it, a hub takes 200


@dataclass(frozen=True)
class Joined:
    """The run that this process is a part of.

    Args:
        id: Its number; None while no hub knows it.
        logdir: Where everything is written to.
        attempt: How often the run has been started; None while no hub knows it.
    """

    id: int | None
    logdir: Path
    attempt: int | None


def joined(environ: Mapping[str, str] = os.environ) -> Joined | None:
    """The run that `tbhub run` has started this process for."""
    logdir = environ.get(LOGDIR)
    if not logdir or RUN_ID not in environ:
        return None
    number, attempt = environ[RUN_ID], environ.get(ATTEMPT, "")
    return Joined(
        int(number) if number.isdecimal() else None,
        Path(logdir),
        int(attempt) if attempt.isdecimal() else None,
    )


def child_environment(
    environ: Mapping[str, str],
    logdir: Path,
    *,
    run: int | None,
    attempt: int | None,
    url: str | None,
    token: str | None,
) -> dict[str, str]:
    """The environment of a run's command, whose Python shows what it prints as it comes."""
    given = {
        RUN_ID: "" if run is None else str(run),
        LOGDIR: str(logdir),
        **dict.fromkeys(OTHER_LOGDIRS, str(logdir)),
    }
    if attempt is not None:
        given[ATTEMPT] = str(attempt)
    if url:
        given[URL] = url
    if token:
        given[TOKEN] = token
    return {"PYTHONUNBUFFERED": "1", **environ, **given}


def with_logdir(command: list[str], logdir: Path) -> list[str]:
    """A command in which ``{logdir}`` is the directory to log to."""
    return [word.replace(PLACEHOLDER, str(logdir)) for word in command]


def rank(environ: Mapping[str, str] = os.environ) -> int:
    """Which process of a distributed job this is; 0 if it is not one of several."""
    for name in _RANKS:
        if (found := environ.get(name, "")).isdecimal():
            return int(found)
    return 0


def is_ranked(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this seems to be one process of a distributed job."""
    return any(environ.get(name, "").isdecimal() for name in _RANKS)


def world_size(environ: Mapping[str, str] = os.environ) -> int:
    """Return how many processes the distributed job has that this process is one of; else 1.

    Where the job does not say how many there are, it is taken for two.
    """
    if not is_ranked(environ):
        return 1
    names = ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"]
    for name in names:
        if (found := environ.get(name, "")).isdecimal():
            return int(found)
    is_batch_script = "SLURM_PROCID" in environ and "SLURM_STEP_ID" not in environ
    return 1 if is_batch_script else 2


def shared_key(
    environ: Mapping[str, str] = os.environ, host: str = "", *, of: tuple[object, ...] = ()
) -> str | None:
    """What all processes of a distributed job, and no other, have in common: they are one run.

    Args:
        host: This machine; an address that is its own means another on each.
        of: What tells a run from others of the same job.
    """
    job = _job_key(environ, host)
    if job is None or not of:
        return job
    if len(job) > _LONGEST_KEY:
        job = f"{job[: _LONGEST_KEY - 16]}{digest(job)}"
    return f"{job}-{digest(repr(of))}"


def _job_key(environ: Mapping[str, str], host: str) -> str | None:
    if given := environ.get(KEY):
        return given
    if not is_ranked(environ) or world_size(environ) == 1:
        return None  # one process alone: the next one there is something else
    if step := environ.get("SLURM_STEP_ID"):  # a batch script is no step, and runs many things
        names = ("SLURM_JOB_ID", "SLURM_CLUSTER_NAME", "SLURM_RESTART_COUNT")
        return "slurm-" + "-".join([*(environ.get(name, "") for name in names), step])
    if space := environ.get("PMIX_NAMESPACE"):
        return f"pmix-{space}"
    elastic = environ.get("TORCHELASTIC_RUN_ID", "none")
    if elastic != "none":
        return f"elastic-{elastic}"
    address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
    if not address or not port:
        return None
    where = f"{host}-{address}" if address in _LOOPBACK else address
    return f"{PASSING_KEY}master-{where}-{port}"


def digest(text: str) -> str:
    """Return a short digest of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
