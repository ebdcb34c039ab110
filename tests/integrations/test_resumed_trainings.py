"""Trainings killed at a random moment, and resumed on another machine by their last checkpoint."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import tbhub
from support.hub import HubProcess
from support.preemption import children

RUN = [
    *(sys.executable, "-c", "from tbhub.cli.main import main; main()"),
    *("run", "--resume-or-start", "--name", "mine"),
]
PATIENCE = 300.0  # seconds; only against hangs
FURTHER = 10  # steps or epochs behind those of the first attempt
TORCH = """
import os, time
import torch
from torch.utils.tensorboard import SummaryWriter
directory, first = os.environ["TBHUB_LOGDIR"], 0
path = os.path.join(directory, "last.pt")
model = torch.nn.Linear(1, 1)
descent = torch.optim.SGD(model.parameters(), lr=0.01)
if os.path.exists(path):
    found = torch.load(path)
    model.load_state_dict(found["model"])
    descent.load_state_dict(found["descent"])
    first = found["step"]
print("resumed at", first, flush=True)
x = torch.linspace(-1, 1, 32).unsqueeze(1)
with SummaryWriter(directory) as writer:
    for step in range(first, LAST):
        descent.zero_grad()
        loss = (model(x) - 2 * x).square().mean()
        loss.backward()
        descent.step()
        writer.add_scalar("loss", loss, step)
        writer.flush()
        if (step + 1) % 10 == 0:
            state = {"model": model.state_dict(), "descent": descent.state_dict()}
            torch.save({**state, "step": step + 1}, path + ".tmp")
            os.replace(path + ".tmp", path)
        time.sleep(0.15)
"""
KERAS = """
import glob, os, time
import keras
import numpy as np
from tbhub.integrations.keras import TFKerasTensorBoard
directory, first = os.environ["TBHUB_LOGDIR"], 0
saved = sorted(glob.glob(os.path.join(directory, "*.keras")), key=os.path.getmtime)
if saved:
    model = keras.models.load_model(saved[-1])
    first = int(os.path.basename(saved[-1]).partition(".")[0])
else:
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(learning_rate=0.01), "mse")
print("resumed at", first, flush=True)
class Slowly(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if "KILL_AFTER_CHECKPOINT" in os.environ:
            os.kill(os.getpid(), 9)
        time.sleep(0.15)
x = np.linspace(-1, 1, 40).reshape(-1, 1)
keep = keras.callbacks.ModelCheckpoint(os.path.join(directory, "{epoch:03d}.keras"))
model.fit(x, 2 * x, batch_size=8, epochs=LAST, initial_epoch=first, verbose=0,
          callbacks=[TFKerasTensorBoard(), keep, Slowly()])
"""
TRANSFORMERS = """
import os, time
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint
from tbhub.integrations.transformers import TbhubCallback
directory = os.path.join(os.environ["TBHUB_LOGDIR"], "out")
class Slowly(TrainerCallback):
    def on_train_begin(self, arguments, state, control, **_):
        print("resumed at", state.global_step, flush=True)
    def on_save(self, arguments, state, control, **_):
        if "KILL_AFTER_CHECKPOINT" in os.environ:
            os.kill(os.getpid(), 9)
    def on_step_end(self, arguments, state, control, **_):
        time.sleep(0.15)
tokens = torch.arange(8)
data = [{"input_ids": tokens, "labels": tokens}] * 400
config = GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=1)
arguments = TrainingArguments(directory, max_steps=LAST, per_device_train_batch_size=4,
                              logging_steps=1, save_strategy="steps", save_steps=10, use_cpu=True,
                              disable_tqdm=True, report_to="none")
trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=data,
                  callbacks=[Slowly(), TbhubCallback()])
is_begun = os.path.isdir(directory) and get_last_checkpoint(directory) is not None
trainer.train(resume_from_checkpoint=is_begun)
"""
TRAININGS = {
    "torch": (TORCH, "last.pt", (".", "loss")),
    "keras": (KERAS, ".keras", ("train", "epoch_loss")),
    "transformers": (TRANSFORMERS, "trainer_state.json", ("train", "loss")),
}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubProcess]:
    with HubProcess(tmp_path / "hub") as hub:
        yield hub


def begin(
    program: str, last: int, environment: dict[str, str], place: Path, hub: HubProcess
) -> subprocess.Popen[bytes]:
    """A training on a machine of its own."""
    place.mkdir()
    homes = {name: str(place / name.lower()) for name in ("TBHUB_HOME", "TBHUB_SPOOL_DIR")}
    with (place / "said").open("wb") as said:
        return subprocess.Popen(
            [*RUN, "--", sys.executable, "-c", program.replace("LAST", str(last))],
            cwd=place,
            env={**environment, **homes, "TBHUB_URL": hub.url, "TBHUB_TOKEN": hub.token},
            stdout=said,
            stderr=said,
        )


def published(hub: HubProcess, ending: str) -> bool:
    if not hub.json("GET", "/api/v1/runs")["runs"]:
        return False
    files = hub.json("GET", "/api/v1/runs/1/files")["files"]
    return any(each["path"].endswith(ending) for each in files)


@pytest.mark.frameworks
@pytest.mark.parametrize("framework", ["keras", "transformers"])
def test_points_before_a_checkpoint_are_written_before_it(
    framework: str, environment: dict[str, str], tmp_path: Path
) -> None:
    program, checkpoint, (directory, tag) = TRAININGS[framework]
    environment |= {"TBHUB_SPOOL_DIR": str(tmp_path / "spool"), "KILL_AFTER_CHECKPOINT": "1"}
    code = program.replace("LAST", "100")
    command = [*RUN, "--offline", "--", sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 128 + signal.SIGKILL, done.stderr[-3000:]
    (logged,) = (tmp_path / "spool").glob("*/files")
    assert list(logged.rglob(f"*{checkpoint}"))
    steps = tbhub.load(logged)[directory].scalars[tag].steps.tolist()
    assert steps == ([0] if framework == "keras" else list(range(1, 11)))


@pytest.mark.frameworks
@pytest.mark.parametrize("framework", TRAININGS)
def test_a_killed_training_finds_its_last_checkpoint_on_another_machine(
    framework: str, environment: dict[str, str], tmp_path: Path, hub: HubProcess
) -> None:
    program, checkpoint, (directory, tag) = TRAININGS[framework]
    first = begin(program, 10**6, environment, tmp_path / "first", hub)
    try:
        deadline = time.monotonic() + PATIENCE  # to import a framework takes long under load
        while not published(hub, checkpoint):
            assert time.monotonic() < deadline, (tmp_path / "first/said").read_text()
            time.sleep(0.1)
        time.sleep(random.uniform(0, 1.5))
    finally:
        for each in (first.pid, *children(first.pid)):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        first.wait(60)
    (logged,) = (tmp_path / "first/tbhub_spool_dir").glob("*/files")
    last = int(tbhub.load(logged)[directory].scalars[tag].steps[-1]) + FURTHER
    second = begin(program, last, environment, tmp_path / "second", hub)
    code, said = second.wait(PATIENCE), (tmp_path / "second/said").read_text()
    assert code == 0, said
    resumed = int(said.partition("resumed at ")[2].split()[0])
    assert 0 < resumed < last, said
    series = tbhub.load(hub.home / "files/1")[directory].scalars[tag]
    begun = 1 if framework == "transformers" else 0
    assert series.steps.tolist() == list(range(begun, last + begun))
    found = hub.json("GET", "/api/v1/runs/1")
    assert (found["attempt"], found["status"]) == (2, "finished")
