"""What is told of runs, and what commands are told; without any of it running."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbhub.tracking.details import (
    command_text,
    describe,
    git_diff,
    without_credentials,
    without_secrets,
)
from tbhub.tracking.environment import (
    child_environment,
    joined,
    rank,
    shared_key,
    with_logdir,
)
from tbhub.tracking.hparams import parse_hparam, plain_hparams
from tbhub.writer.summary_writer import SummaryWriter


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", 1),
        ("a=.01", 0.01),
        ("a=1e-3", 0.001),
        ("a=True", True),
        ("a=nan", "nan"),
        ("a=x=y", "x=y"),
        ("a=", ""),
    ],
)
def test_hyperparameters_of_a_command_line(text: str, value: object) -> None:
    assert parse_hparam(text) == ("a", value)
    for bad in ("a", "=1", ""):
        with pytest.raises(ValueError, match="like lr="):
            parse_hparam(bad)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), ANY))
def test_any_hyperparameter_becomes_plain(hparams: dict[str, object]) -> None:
    plain = plain_hparams(hparams)
    assert set(plain) == {name for name, value in hparams.items() if value is not None}
    for value in plain.values():
        assert isinstance(value, bool | int | str) or math.isfinite(value)


class Tensor:
    """As torch's: its size is a method."""

    dtype = "float32"

    def __init__(self, *values: float) -> None:
        self.values = values

    def size(self) -> tuple[int, ...]:
        return (len(self.values),)

    def item(self) -> float:
        if len(self.values) != 1:
            raise RuntimeError("a Tensor with several elements cannot be converted to Scalar")
        return self.values[0]

    def __repr__(self) -> str:
        return f"tensor({list(self.values)})"


def test_a_hyperparameter_in_an_array_is_a_number() -> None:
    given = {"t": Tensor(2.0), "n": np.float32(0.5), "a": np.array([3]), "many": Tensor(1.0, 2.0)}
    assert plain_hparams(given) == {"t": 2.0, "n": 0.5, "a": 3, "many": "tensor([1.0, 2.0])"}


def test_secrets_are_not_told() -> None:
    environ = {"WANDB_API_KEY": "abcdef123", "MY_TOKEN": "zz", "HOME": "/root/abc"}
    assert command_text(["train", "--key=abcdef123"], environ) == "train '--key=***'"
    assert without_secrets("zz /root/abc", environ) == "zz /root/abc"
    remote = "https://me:secret@example.com/a/b.git"
    assert without_credentials(remote) == "https://example.com/a/b.git"
    assert without_credentials("git@example.com:a/b.git") == "git@example.com:a/b.git"


def test_the_commit_and_what_differs(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert git_diff() == b""
    assert "git" not in describe()
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "x")
    (elsewhere / "a").write_text("one\n")
    for command in ("init -q -b main", "add a", "commit -qm first"):
        subprocess.run(["git", *command.split()], check=True)
    assert describe()["git"]["dirty"] is False
    (elsewhere / "a").write_text("two hidden-value\n")
    found = describe()["git"]
    assert (found["branch"], found["dirty"], len(found["commit"])) == ("main", True, 40)
    diff = git_diff({"SOME_SECRET": "hidden-value"}).decode()
    assert "+two ***" in diff


def test_what_a_command_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = child_environment({"A": "b"}, tmp_path, run=7, attempt=2, url="http://x", token="t")
    found = joined(told)
    assert found is not None
    assert (found.id, found.logdir, found.attempt, told["A"]) == (7, tmp_path, 2, "b")
    assert told["PYTHONUNBUFFERED"] == "1"
    alone = child_environment({}, tmp_path, run=None, attempt=None, url=None, token=None)
    found = joined(alone)
    assert found is not None
    assert (found.id, found.attempt, "TBHUB_TOKEN" in alone) == (None, None, False)
    assert joined({}) is None
    assert with_logdir(["x", "--to={logdir}/y"], tmp_path) == ["x", f"--to={tmp_path}/y"]
    monkeypatch.setenv("TBHUB_LOGDIR", str(tmp_path / "run"))
    for comment, directory in (("", "run"), ("-lr.1", "run/lr.1"), ("/../x", "run/x")):
        with SummaryWriter(comment=comment) as writer:
            assert Path(writer.logdir) == tmp_path / directory


def test_ranks_and_what_they_have_in_common() -> None:
    assert rank({}) == rank({"RANK": "x"}) == 0
    assert rank({"SLURM_PROCID": "3"}) == 3
    job = {"SLURM_JOB_ID": "5", "SLURM_PROCID": "0"}
    assert shared_key(job) is None  # a batch script, not one of several
    step = {**job, "SLURM_STEP_ID": "2"}
    assert shared_key(step) == shared_key({**step, "SLURM_PROCID": "1"}) is not None
    assert shared_key(step) != shared_key({**step, "SLURM_STEP_ID": "3"})
    assert shared_key({"RANK": "1", "TORCHELASTIC_RUN_ID": "none"}) is None
    assert shared_key({**step, "SLURM_STEP_NUM_TASKS": "2"}) == shared_key(step)
    assert shared_key({**step, "SLURM_STEP_NUM_TASKS": "1"}) is None  # `srun --pty bash`
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "node7", "MASTER_PORT": "29500"}
    assert shared_key(alone) is None  # a notebook that pretends to be distributed
    assert shared_key({**alone, "TBHUB_RUN_KEY": "k"}) == "k"
    assert shared_key({"TBHUB_RUN_KEY": "k"}) == "k"


def test_several_runs_of_one_job_are_told_apart() -> None:
    job = {"TBHUB_RUN_KEY": "k" * 500}
    keys = {shared_key(job, of=("e", name, None, nth)) for name in ("a", "b") for nth in (1, 2)}
    assert len(keys) == 4
    assert all(len(key or "") <= 200 for key in keys)
    assert shared_key(job, of=("e", "a", None, 1)) in keys


def test_ranks_that_know_only_their_master() -> None:
    assert shared_key({"RANK": "1", "WORLD_SIZE": "2"}) is None
    first = {"RANK": "0", "MASTER_ADDR": "node7", "MASTER_PORT": "29500"}
    assert shared_key(first, "a") == shared_key({**first, "RANK": "1"}, "b") is not None
    assert shared_key(first) != shared_key({**first, "MASTER_PORT": "29501"})
    here = {**first, "MASTER_ADDR": "127.0.0.1"}
    assert shared_key(here, "a") != shared_key(here, "b")  # each has a loopback of its own
