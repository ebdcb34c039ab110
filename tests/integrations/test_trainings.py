"""Trainings under `tbhub run`: what their frameworks say they have logged is what is read."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

import tbhub
from support.hub import HubProcess
from support.trainings import (
    DDP,
    DDP_SPAWNED,
    INTEGRATED,
    KERAS,
    TORCH_PROFILE,
    UNCHANGED,
    UNCHANGED_WITH_TENSORFLOW,
    UNMODIFIED,
    WITH_TENSORFLOW,
)
from tbhub.series.run_data import Runs

RUN = [sys.executable, "-c", "from tbhub.cli.main import main; main()", "run", "--offline", "--"]
WHERE = 'print(os.environ["TBHUB_LOGDIR"])'
TRANSFORMERS_4 = Path(__file__).parents[2] / "build" / "transformers4"
TENSORFLOW = Path(__file__).parents[2] / ".venv-tf" / "bin" / "python"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubProcess]:
    with HubProcess(tmp_path / "hub") as hub:
        yield hub


def train(program: str, environment: dict[str, str], directory: Path, python: str) -> Runs:
    """The runs a training has logged, after its own record of them was compared with that."""
    done = subprocess.run(
        [*RUN, python, "-c", program + WHERE],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *_, logged, logdir = done.stdout.splitlines()
    runs = tbhub.load(logdir)
    for name, tags in json.loads(logged).items():
        for tag, points in tags.items():
            series = runs[name].scalars[tag]
            assert series.steps.tolist() == [step for step, _ in points], (name, tag)
            expected = pytest.approx([value for _, value in points], rel=1e-3)
            assert series.values.tolist() == expected, (name, tag)
            assert points
    return runs


@pytest.mark.frameworks
@pytest.mark.parametrize("framework", UNMODIFIED)
def test_unmodified(framework: str, environment: dict[str, str], tmp_path: Path) -> None:
    train(UNMODIFIED[framework], environment, tmp_path, sys.executable)


@pytest.fixture
def with_transformers_4(environment: dict[str, str]) -> dict[str, str]:
    """Transformers 4 is found before 5."""
    if not TRANSFORMERS_4.exists():
        pytest.fail("no Transformers 4: `make build/transformers4/.ready` installs it")
    return {**environment, "PYTHONPATH": str(TRANSFORMERS_4)}


@pytest.mark.frameworks
@pytest.mark.parametrize("means", ["unmodified", "integrated"])
def test_transformers_4(means: str, with_transformers_4: dict[str, str], tmp_path: Path) -> None:
    program = (UNMODIFIED if means == "unmodified" else INTEGRATED)["transformers"]
    is_4 = "import transformers\nassert transformers.__version__.startswith('4.')\n"
    train(is_4 + program, with_transformers_4, tmp_path, sys.executable)


@pytest.mark.frameworks
@pytest.mark.parametrize("framework", UNCHANGED)
def test_default_directory_is_adopted(
    framework: str, environment: dict[str, str], tmp_path: Path
) -> None:
    train(UNCHANGED[framework], environment, tmp_path, sys.executable)


@pytest.mark.tensorflow
@pytest.mark.parametrize("means", UNCHANGED_WITH_TENSORFLOW)
def test_default_directory_of_tensorflow_is_adopted(
    means: str, environment: dict[str, str], tmp_path: Path
) -> None:
    environment["KERAS_BACKEND"] = "tensorflow"
    train(UNCHANGED_WITH_TENSORFLOW[means], environment, tmp_path, str(TENSORFLOW))


@pytest.mark.frameworks
def test_the_callback_of_keras_needs_tensorflow(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Whatever the backend: users of others take ours, as `test_keras` does."""
    program = KERAS.format(imports="import keras", callback="keras.callbacks.TensorBoard('logs')")
    done = subprocess.run(
        [*RUN, sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "import tensorflow.summary as summary" in done.stderr
    assert "ModuleNotFoundError: No module named 'tensorflow'" in done.stderr


@pytest.mark.frameworks
def test_two_ranks_of_one_program(environment: dict[str, str], tmp_path: Path) -> None:
    """DDP whose processes are started by the program: all of them write to one directory."""
    done = subprocess.run(
        [*RUN, sys.executable, "-c", DDP_SPAWNED.format(directory=str(tmp_path))],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    runs = tbhub.load(done.stdout.splitlines()[-1])
    assert runs["."].scalars["loss0"].steps.tolist() == list(range(20))
    assert runs["."].scalars["loss1"].steps.tolist() == list(range(20))
    # The gradients of both went into each.
    assert runs["."].scalars["weight0"].values.tolist() == pytest.approx(
        runs["."].scalars["weight1"].values.tolist()
    )


@pytest.mark.frameworks
def test_two_ranks_each_under_tbhub_run(
    hub: HubProcess, environment: dict[str, str], tmp_path: Path
) -> None:
    """DDP as a cluster starts it: every rank under `tbhub run`, at once, one run of the hub's."""
    online = [each for each in RUN if each != "--offline"]
    told = {
        "TBHUB_URL": hub.url,
        "TBHUB_TOKEN": hub.token,
        "TBHUB_RUN_KEY": "ddp",
        "WORLD_SIZE": "2",
    }
    program = DDP.format(directory=str(tmp_path))
    ranks = [
        subprocess.Popen(
            [*online, sys.executable, "-c", program],
            cwd=tmp_path,
            env={
                **environment,
                **told,
                "RANK": str(rank),
                "TBHUB_SPOOL_DIR": str(tmp_path / f"machine{rank}"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for each in ranks:
        _, err = each.communicate(timeout=120)
        assert each.returncode == 0, err[-3000:]
    (found,) = hub.json("GET", "/api/v1/runs")["runs"]
    assert found["status"] == "finished"
    runs = tbhub.load(found["location"])
    assert {".", "rank1"} <= set(runs)
    for rank, name in enumerate((".", "rank1")):
        assert runs[name].scalars[f"loss{rank}"].steps.tolist() == list(range(20))
        assert f"loss{1 - rank}" not in runs[name].scalars


@pytest.mark.frameworks
def test_a_profile_of_torch_is_published(
    hub: HubProcess, environment: dict[str, str], tmp_path: Path
) -> None:
    """Its trace is no checkpoint, though its name has a part of one's."""
    done = subprocess.run(
        [*(each for each in RUN if each != "--offline"), sys.executable, "-c", TORCH_PROFILE],
        cwd=tmp_path,
        env={**environment, "TBHUB_URL": hub.url, "TBHUB_TOKEN": hub.token},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (trace,) = (hub.home / "files" / "1").glob("worker.*.pt.trace.json")
    assert any(
        event.get("name") == "aten::matmul"
        for event in json.loads(trace.read_bytes())["traceEvents"]
    )


@pytest.mark.tensorflow
@pytest.mark.parametrize("means", WITH_TENSORFLOW)
def test_unmodified_with_tensorflow(
    means: str, environment: dict[str, str], tmp_path: Path
) -> None:
    if not TENSORFLOW.exists():
        pytest.fail("no TensorFlow environment: `make .venv-tf/.ready` makes it")
    environment["KERAS_BACKEND"] = "torch" if means == "keras-torch" else "tensorflow"
    environment["WITH_TORCH"] = sysconfig.get_path("platlib")
    train(WITH_TENSORFLOW[means], environment, tmp_path, str(TENSORFLOW))


@pytest.mark.frameworks
def test_lightning(environment: dict[str, str], tmp_path: Path) -> None:
    runs = train(INTEGRATED["lightning"], environment, tmp_path, sys.executable)
    assert set(runs["train"].scalars) == {"loss", "val_loss", "epoch"}
    assert runs["."].hparams == {"lr": 0.1}


@pytest.mark.frameworks
def test_transformers(environment: dict[str, str], tmp_path: Path) -> None:
    runs = train(INTEGRATED["transformers"], environment, tmp_path, sys.executable)
    assert {"loss", "learning_rate", "grad_norm", "epoch"} <= set(runs["train"].scalars)
    hparams = runs["."].hparams
    assert hparams["max_steps"] == 4
    assert hparams["learning_rate"] == 5e-5


@pytest.mark.frameworks
def test_keras(environment: dict[str, str], tmp_path: Path) -> None:
    runs = train(INTEGRATED["keras"], environment, tmp_path, sys.executable)
    assert runs["train"].scalars["batch_loss"].steps.tolist() == [2, 4, 6, 8, 10, 12]
    assert runs["train"].scalars["epoch_learning_rate"].values.tolist() == pytest.approx([0.1] * 3)
    assert all(len(weights) == 3 for weights in runs["train"].histograms.values())
    assert len(runs["train"].histograms) >= 2
    hparams = runs["."].hparams
    assert hparams["optimizer"] == "sgd"
    assert hparams["learning_rate"] == pytest.approx(0.1)
    assert hparams["epochs"] == 3
