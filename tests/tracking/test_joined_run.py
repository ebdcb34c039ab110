"""`tbhub.Run` inside `tbhub run`, whose run it joins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tbhub
from support.hub import HubProcess, eventually
from tracking.test_command import known, python, run

LOG = """
import tbhub
with tbhub.Run() as run:
    run.log_metrics({"loss": 1.0})
"""
TORCH = """
import tbhub
from tbhub.integrations.torch import TorchWriter
with tbhub.Run() as run:
    TorchWriter(run).add_scalar("loss", 1.0, 0)
"""
# One program that starts the ranks itself, as torchrun does.
LAUNCHER = """
import os, subprocess, sys
for rank in range(2):
    given = {**os.environ, "RANK": str(rank)}
    subprocess.run([sys.executable, "-c", sys.argv[1]], env=given, check=True)
"""
STEPS = """
import tbhub
with tbhub.Run() as run:
    for _ in range(2):
        run.log_metrics({"loss": 1.0})
"""


def scalars(hub: HubProcess) -> set[str]:
    """Return the paths of the scalars of the only run."""
    (found,) = hub.json("GET", "/api/v1/runs")["runs"]
    loaded = tbhub.load(found["location"])
    return {f"{path}/{tag}" for path, each in loaded.items() for tag in each.scalars}


@pytest.mark.parametrize(
    ("code", "is_local"),
    [(LOG, False), (LOG, True), (TORCH, False)],
    ids=["hub", "directory", "TorchWriter"],
)
def test_a_command_for_each_rank_has_the_rank_once_in_its_paths(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, is_local: bool
) -> None:
    monkeypatch.setenv("TBHUB_RUN_KEY", "job-1")
    storage = ["--storage", tmp_path / "logs"] if is_local else []
    for rank in (1, 0):
        monkeypatch.setenv("RANK", str(rank))
        done = run("run", *storage, *python(code))
        assert done.returncode == 0, done.stderr
    assert scalars(hub) == {"train/loss", "rank1/train/loss"}


@pytest.mark.parametrize("is_local", [False, True], ids=["hub", "directory"])
def test_one_command_for_all_ranks_has_a_directory_for_each(
    hub: HubProcess, tmp_path: Path, is_local: bool
) -> None:
    storage = ["--storage", tmp_path / "logs"] if is_local else []
    done = run("run", *storage, *python(LAUNCHER, LOG))
    assert done.returncode == 0, done.stderr
    assert scalars(hub) == {"train/loss", "rank1/train/loss"}


def test_the_steps_of_a_rank_continue_when_its_command_is_resumed(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TBHUB_RUN_KEY", "first")
    for rank in ("1", "0"):
        monkeypatch.setenv("RANK", rank)
        assert run("run", "--name", "mine", *python(STEPS)).returncode == 0
    eventually(lambda: "rank1/train/loss" in known(hub)["metrics"])
    monkeypatch.setenv("TBHUB_RUN_KEY", "second")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        done = run("run", "--resume", "mine", "--no-restore", *python(STEPS))
        assert done.returncode == 0, done.stderr
    loaded = tbhub.load(known(hub)["location"])
    assert loaded["rank1/train"].scalars["loss"].steps.tolist() == [0, 1, 2, 3]


JOIN = """
import sys, warnings
import tbhub
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    run = tbhub.Run({arguments})
    run.log_metrics({{"loss": 1.0}})
    run.finish()
for each in caught:
    print(each.category.__name__, each.filename, each.message)
print(run.name, run.experiment)
"""
OPTIONS = ("--name", "mine", "--experiment", "resnet", "--tag", "a", "--tag", "b", "--note", "n")


def joined(arguments: str, *options: object) -> list[str]:
    """Return what a program prints that joins the run of `tbhub run`."""
    done = run("run", *options, *python(JOIN.format(arguments=arguments)))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_arguments_that_are_not_used_are_named_in_one_warning(hub: HubProcess) -> None:
    given = """
        "other", "mine too", workspace="lab", tags=["a", "c"], job=7, note="m", storage="/x",
        logdir="logs", resume="that", resume_or_start=True, exclude=["*.pt"], offline=True,
        hparams={"lr": 1},
    """
    told, named = joined(given, *OPTIONS)
    assert told == (
        "TbhubWarning <string> tbhub.Run joins run mine of `tbhub run`: experiment, name, "
        "workspace, tags, job, note, storage, logdir, resume, resume_or_start, exclude and offline "
        "are not used. hint: use the options of `tbhub run`"
    )
    assert named == "mine resnet"
    assert known(hub)["hparams"] == {"lr": 1}
    assert (known(hub)["tags"], known(hub)["note"]) == (["a", "b"], "n")
    assert joined("name='other'", "--name", "next")[0].endswith(
        "name is not used. hint: use the options of `tbhub run`"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        "hparams={'lr': 1}",
        "'resnet', 'mine', workspace='default', tags='b', note='n', resume=1",
        "storage=os.environ['STORAGE'], logdir=os.environ['TBHUB_LOGDIR'], job='3'",
    ],
)
def test_arguments_that_the_run_has_anyway_are_not_warned_of(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    monkeypatch.setenv("STORAGE", f"{tmp_path}/logs/")
    options = (*OPTIONS, "--storage", tmp_path / "logs", "--job", "3")
    assert joined(arguments.replace("os.", "__import__('os')."), *options) == ["mine resnet"]


def test_a_run_without_a_hub_is_known_by_what_is_kept_of_it(nobody: None) -> None:
    given = "'resnet', 'other', tags=['a'], note='n', offline=True"
    told, named = joined(given, *OPTIONS, "--offline")
    assert "joins run mine of `tbhub run`: name is not used" in told
    assert named == "mine resnet"


def test_a_hub_that_does_not_answer_stops_no_program(hub: HubProcess) -> None:
    code = """
import os, sys
os.environ["TBHUB_URL"] = "http://127.0.0.1:9"
import tbhub
with tbhub.Run("other", name="that") as run:
    run.log_metrics({"loss": 1.0})
print(run.name, run.experiment)
"""
    done = run("run", *OPTIONS, "--", sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (0, "mine None\n"), done.stderr
    assert "experiment and name are not used" in done.stderr
    eventually(lambda: "train/loss" in known(hub)["metrics"])
