"""By what jobs that are started again are known, and their starts told apart."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tbhub.tracking.requeue import job_identity, start_key


def identity(environ: Mapping[str, str], command: str = "train", name: str | None = None) -> str:
    return str(job_identity(environ, name=name, experiment="e", command=command, count=1))


JOBS = {
    "key": ({"TBHUB_RUN_KEY": "mine"}, {}),
    "slurm": ({"SLURM_JOB_ID": "7"}, {"SLURM_RESTART_COUNT": "1", "SLURM_NODELIST": "other"}),
    "kubernetes job": (
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_NAME": "train"},
        {"HOSTNAME": "train-x7k2p"},
    ),
    "indexed job": (
        {"KUBERNETES_SERVICE_HOST": "x", "JOB_COMPLETION_INDEX": "3", "HOSTNAME": "train-3-aaaaa"},
        {"HOSTNAME": "train-3-bbbbb"},
    ),
    "stateful set": ({"KUBERNETES_SERVICE_HOST": "x", "HOSTNAME": "train-0"}, {}),
    "torchrun": ({"TORCHELASTIC_RUN_ID": "a"}, {"TORCHELASTIC_RESTART_COUNT": "2"}),
    "skypilot": ({"SKYPILOT_TASK_ID": "sky-1"}, {"SKYPILOT_NODE_IPS": "10.1.1.1"}),
    "aws": ({"AWS_BATCH_JOB_ID": "a"}, {"AWS_BATCH_JOB_ATTEMPT": "2"}),
    "azure": ({"AZ_BATCH_JOB_ID": "a", "AZ_BATCH_TASK_ID": "t"}, {}),
    "google": ({"BATCH_JOB_UID": "a", "BATCH_TASK_INDEX": "0"}, {"BATCH_TASK_RETRY_ATTEMPT": "1"}),
    "sagemaker": ({"TRAINING_JOB_NAME": "a"}, {}),
}


@pytest.mark.parametrize("kind", JOBS)
def test_a_job_is_the_same_when_it_is_started_again(kind: str) -> None:
    job, changed = JOBS[kind]
    first = identity(job)
    assert identity({**job, **changed}) == first
    others = [identity(other) for name, (other, _) in JOBS.items() if name != kind]
    assert first not in others
    assert len(identity({**job, next(iter(job)): "x" * 5000})) <= 200


def test_commands_of_one_job_are_told_apart_unless_a_key_is_given() -> None:
    slurm, key = {"SLURM_JOB_ID": "7"}, {"TBHUB_RUN_KEY": "7"}
    assert identity(slurm, "a") != identity(slurm, "b")
    assert identity(key, "a") == identity(key, "b")
    assert identity(slurm, "a", name="n") == identity({}, "b", name="n")


def test_a_job_that_nothing_identifies() -> None:
    assert job_identity({}, name=None, experiment="e", command="c", count=1) is None
    assert identity({"TORCHELASTIC_RUN_ID": "none"}) == "None"


@pytest.mark.parametrize(
    ("job", "again"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}, {"SLURM_RESTART_COUNT": "1"}),
        ({"TORCHELASTIC_RUN_ID": "a"}, {"TORCHELASTIC_RESTART_COUNT": "1"}),
        ({"MASTER_ADDR": "a", "MASTER_PORT": "1"}, {"MASTER_PORT": "2"}),
        ({"PMIX_NAMESPACE": "1"}, {"PMIX_NAMESPACE": "2"}),
    ],
)
def test_all_ranks_of_a_start_have_its_key(job: dict[str, str], again: dict[str, str]) -> None:
    of = ("e", None, None, 1)
    keys = {start_key({**job, "RANK": str(rank)}, of=of) for rank in range(4)}
    assert len(keys) == 1
    assert start_key({**job, **again, "RANK": "0"}, of=of) not in keys
    assert start_key({**job, "RANK": "0"}, of=(*of, 2)) not in keys


def test_a_process_without_ranks_is_a_start_of_its_own() -> None:
    assert start_key({"SLURM_JOB_ID": "7"}, of=()) != start_key({"SLURM_JOB_ID": "7"}, of=())
