"""What a job that may be started again is known by; pure.

A job's *identity* is the same whenever it is started again, and no other job has it: it names the
run. A *start key* is the same for all processes of one start, and another for the next: it names
the attempt.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from uuid import uuid4

from tbhub.tracking.environment import KEY, PASSING_KEY, digest, is_ranked

_MAX_LENGTH = 150  # with the digest behind it, a hub accepts 200
# Schedulers of preemptible machines, by variables whose values stay when a job is started again.
_SPOT = {
    "skypilot": ("SKYPILOT_TASK_ID",),
    "aws-batch": ("AWS_BATCH_JOB_ID", "AWS_BATCH_JOB_NODE_INDEX"),
    "azure-batch": ("AZ_BATCH_JOB_ID", "AZ_BATCH_TASK_ID"),
    "google-batch": ("BATCH_JOB_UID", "BATCH_TASK_INDEX"),
    "vertex": ("CLOUD_ML_JOB_ID",),
    "sagemaker": ("TRAINING_JOB_NAME",),
}


def job_identity(
    environ: Mapping[str, str] = os.environ,
    *,
    name: str | None,
    experiment: str,
    command: str,
    count: int,
) -> str | None:
    """Return the identity of this job; None if nothing identifies it.

    Args:
        name: The name of the run; it identifies the run by itself.
        experiment: The experiment of the run.
        command: What the job runs; tells apart the commands of one job, unless a key is given.
        count: How many runs of this name the process has started, this one included.
    """
    if name is not None:
        return f"name-{digest(repr((name, count)))}"
    if given := environ.get(KEY):
        return _bounded(f"key-{given}", (experiment, count))
    if job := _job(environ):
        return _bounded(job, (experiment, command, count))
    return None


def start_key(environ: Mapping[str, str] = os.environ, *, of: tuple[object, ...]) -> str:
    """Return what all processes of this start have in common.

    Args:
        of: What tells apart several runs of one job.
    """
    if not is_ranked(environ):
        return uuid4().hex
    address = f"{environ.get('MASTER_ADDR', '')}:{environ.get('MASTER_PORT', '')}"
    if (step := environ.get("SLURM_STEP_ID")) is not None:
        names = ("SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_RESTART_COUNT")
        return _bounded("-".join(["slurm", *(environ.get(each, "") for each in names), step]), of)
    if space := environ.get("PMIX_NAMESPACE"):
        return _bounded(f"pmix-{space}", of)
    if (elastic := environ.get("TORCHELASTIC_RUN_ID", "none")) != "none":
        restarts = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return _bounded(f"elastic-{elastic}-{address}-{restarts}", of)
    if address != ":":
        return _bounded(f"{PASSING_KEY}master-{address}", of)
    return _bounded(f"{PASSING_KEY}{environ.get(KEY, '')}", of) if KEY in environ else uuid4().hex


def _job(environ: Mapping[str, str]) -> str | None:
    """Return the identity of a job in the words of what schedules it."""
    if slurm := environ.get("SLURM_JOB_ID"):
        return f"slurm-{environ.get('SLURM_CLUSTER_NAME', '')}-{slurm}"
    for kind, names in _SPOT.items():
        if environ.get(names[0]):
            return "-".join([kind, *(environ.get(each, "") for each in names)])
    if "KUBERNETES_SERVICE_HOST" in environ:
        return _pod(environ)
    elastic = environ.get("TORCHELASTIC_RUN_ID", "none")
    return None if elastic == "none" else f"elastic-{elastic}"


def _pod(environ: Mapping[str, str]) -> str | None:
    """Return the identity of a pod whose replacement has it as well.

    The pods of a Job have random names: its own name comes through the downward API (`JOB_NAME`),
    the index of an indexed Job is there always. The name of a StatefulSet's pod stays.
    """
    space = environ.get("POD_NAMESPACE", "")
    index = environ.get("JOB_COMPLETION_INDEX")
    if job := environ.get("JOB_NAME"):
        return f"kubernetes-{space}-{job}-{index or ''}"
    pod = environ.get("POD_NAME") or environ.get("HOSTNAME", "")
    if index is not None and f"-{index}-" in pod:  # <job>-<index>-<random>
        return f"kubernetes-{space}-{pod.rpartition('-')[0]}"
    return f"kubernetes-{space}-{pod}" if pod else None


def _bounded(text: str, of: tuple[object, ...]) -> str:
    if len(text) > _MAX_LENGTH:
        text = f"{text[: _MAX_LENGTH - 16]}{digest(text)}"
    return f"{text}-{digest(repr(of))}"
