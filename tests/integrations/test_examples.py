"""The examples, as programs: with a hub, and with none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tbhub
from support.hub import HubProcess, eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
# What each logs: the run and tag of its loss, and a hyperparameter.
LOGGED = {
    "torch_writer": ("train", "loss", ("lr", 0.1)),
    "keras_callback": ("train", "epoch_loss", ("learning_rate", 0.1)),
    "lightning_logger": ("train", "loss_epoch", ("lr", 0.1)),
    "transformers_callback": ("train", "loss", ("learning_rate", 0.01)),
}

# Where each is made to fail.
STUMBLING = {
    "torch_writer": "torch.nn.Linear.forward",
    "keras_callback": "keras.Sequential.train_step",
    "lightning_logger": "Line.validation_step",
    "transformers_callback": "Trainer.training_step",
}

pytestmark = pytest.mark.frameworks


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    with HubProcess(tmp_path_factory.mktemp("hub") / "home") as hub:
        yield hub


def python(
    *arguments: str | Path, env: dict[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=120
    )


def run(example: str, environment: dict[str, str], directory: Path) -> Path:
    """Runs an example; the directory it has logged to."""
    done = python(EXAMPLES / f"{example}.py", env=environment, cwd=directory)
    assert done.returncode == 0, done.stderr[-3000:]
    return Path(done.stdout.splitlines()[-1].removeprefix("logged to "))


def ids(hub: HubProcess) -> set[int]:
    return {each["id"] for each in hub.json("GET", "/api/v1/runs")["runs"]}


@pytest.mark.parametrize("example", LOGGED)
def test_without_a_hub_it_is_kept(
    example: str, environment: dict[str, str], tmp_path: Path
) -> None:
    stage, tag, (hparam, value) = LOGGED[example]
    runs = tbhub.load(run(example, environment, tmp_path))
    losses = runs[stage].scalars[tag].values
    assert losses[-1] < losses[0]
    assert runs["."].hparams[hparam] == pytest.approx(value)


@pytest.mark.parametrize("example", LOGGED)
def test_with_a_hub_it_is_in_the_catalog(
    example: str, hub: HubProcess, environment: dict[str, str], tmp_path: Path
) -> None:
    stage, tag, (hparam, value) = LOGGED[example]
    known = ids(hub)
    run(example, {**environment, "TBHUB_URL": hub.url, "TBHUB_TOKEN": hub.token}, tmp_path)
    (number,) = ids(hub) - known
    new = hub.json("GET", f"/api/v1/runs/{number}")
    assert new["status"] == "finished"
    assert new["hparams"][hparam] == pytest.approx(value)

    def is_read() -> bool:
        metrics = hub.json("GET", f"/api/v1/runs/{number}")["metrics"]
        return f"{stage}/{tag}" in metrics

    eventually(is_read, "the hub has not read the metrics")


@pytest.mark.parametrize("example", STUMBLING)
def test_a_training_that_fails_is_a_run_that_has_failed(
    example: str, hub: HubProcess, environment: dict[str, str], tmp_path: Path
) -> None:
    known = ids(hub)
    script = f"""
import sys
sys.path.insert(0, {str(EXAMPLES)!r})
from {example} import *
{STUMBLING[example]} = lambda *arguments, **options: 1 / 0
main()
"""
    environment |= {"TBHUB_URL": hub.url, "TBHUB_TOKEN": hub.token}
    done = python("-c", script, env=environment, cwd=tmp_path)
    assert "ZeroDivisionError" in done.stderr
    (number,) = ids(hub) - known
    assert hub.json("GET", f"/api/v1/runs/{number}")["status"] == "failed"
