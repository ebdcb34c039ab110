"""What processes of a run are told by their environment, and what they find in it; pure.

`tbhub run` sets these for the command it runs. The names of others are what scripts written for
PAI, XT and Vertex AI look for: the directory to log to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RUN_ID, LOGDIR, ATTEMPT = "TBHUB_RUN_ID", "TBHUB_LOGDIR", "TBHUB_ATTEMPT"
URL, TOKEN = "TBHUB_URL", "TBHUB_TOKEN"
STORAGE = "TBHUB_RUN_STORAGE"
KEY = "TBHUB_RUN_KEY"
# The directory to log to, as others call it.
OTHER_LOGDIRS = ("PAI_OUTPUT_TENSORBOARD", "XT_OUTPUT_MNT", "AIP_TENSORBOARD_LOG_DIR")
PLACEHOLDER = "{logdir}"

_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


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
    """The environment of a run's command."""
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
    return {**environ, **given}


def with_logdir(command: list[str], logdir: Path) -> list[str]:
    """A command in which ``{logdir}`` is the directory to log to."""
    return [word.replace(PLACEHOLDER, str(logdir)) for word in command]


def rank(environ: Mapping[str, str] = os.environ) -> int:
    """Which process of a distributed job this is; 0 if it is not one of several."""
    for name in _RANKS:
        if (found := environ.get(name, "")).isdecimal():
            return int(found)
    return 0


def shared_key(environ: Mapping[str, str] = os.environ) -> str | None:
    """What all processes of a distributed job, and no other, have in common: they are one run."""
    if given := environ.get(KEY):
        return given
    if not any(environ.get(name, "").isdecimal() for name in _RANKS):
        return None
    if step := environ.get("SLURM_STEP_ID"):  # a batch script is no step, and runs many things
        names = ("SLURM_JOB_ID", "SLURM_CLUSTER_NAME", "SLURM_RESTART_COUNT")
        return "slurm-" + "-".join([*(environ.get(name, "") for name in names), step])
    if space := environ.get("PMIX_NAMESPACE"):
        return f"pmix-{space}"
    elastic = environ.get("TORCHELASTIC_RUN_ID", "none")
    return None if elastic == "none" else f"elastic-{elastic}"
