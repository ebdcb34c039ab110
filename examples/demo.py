"""Demo runs of every kind, one of them still training, and a hub with two boards over them.

Run it with ``make up``; everything goes to ``runs/demo`` and ``runs/demo-hub``, which are made anew
each time. ``python examples/demo.py --log-only`` logs and shows nothing; other options go to
``tbhub up``.
"""

from __future__ import annotations

import math
import shutil
import sys
import threading
import time
from pathlib import Path

import numpy as np

import tbhub
from tbhub.cli.main import command_line
from tbhub.compat.torch.summary import hparams as summaries_of

ROOT = Path("runs/demo")
HOME = Path("runs/demo-hub")
STEPS = 2000
SEEN = 600  # steps that the live run has behind it
HOUR = 3600.0
Curves = dict[str, np.ndarray]
Hparams = dict[str, float]


def noise(rng: np.random.Generator, scale: float) -> np.ndarray:
    """Noise as trainings have it: what is up stays up for a while."""
    window = np.ones(40) / 40
    slow = np.convolve(rng.normal(size=STEPS + 39), window, "valid") * 4
    return scale * (slow + 0.5 * rng.normal(size=STEPS))


def classify(rng: np.random.Generator, learning_rate: float) -> Curves:
    """An image classifier: higher rates learn sooner, to a point."""
    steps = np.arange(STEPS)
    speed = learning_rate * 0.35 * rng.uniform(0.75, 1.3)
    loss = 0.12 + 2.2 * np.exp(-steps * speed) + noise(rng, 0.02 + learning_rate)
    loss = np.maximum(loss, 0.02)
    loss[rng.integers(200, STEPS)] += 1.5  # a spike of one step, which no sampling may hide
    behind = np.maximum(loss, 0.05) * 1.1 + 0.1 + 0.05 * steps / STEPS + abs(noise(rng, 0.01))
    return {
        "train/loss": loss,
        "train/accuracy": np.exp(-0.45 * loss),
        "train/lr": learning_rate * 0.5 * (1 + np.cos(np.pi * steps / STEPS)),
        "val/loss": behind[::50],
        "val/accuracy": np.exp(-0.45 * behind[::50]),
    }


def write_text(rng: np.random.Generator, learning_rate: float) -> Curves:
    """A language model; too high a rate ends it."""
    steps = np.arange(STEPS)
    loss = 2.9 + 7.5 / (1 + steps * learning_rate * 9) ** 0.5 + noise(rng, 0.05)
    gradient = 0.8 + 3 / (1 + steps / 60) + abs(noise(rng, 0.2))
    if learning_rate > 0.05:
        loss[1300:] += (np.arange(700) / 120) ** 2
        gradient[1300:] += np.exp(np.arange(700) / 120)
    return {
        "train/loss": loss,
        "train/grad_norm": gradient,
        "train/tokens_per_s": 41_000 + 300 * noise(rng, 1),
        "val/loss": loss[::50] + 0.12,
    }


def train(name: str, curves: Curves, hparams: Hparams, hours_ago: float) -> None:
    """A training that is not one, but has logged like one."""
    rng = np.random.default_rng(len(name))
    began = time.time() - hours_ago * HOUR
    lasted = rng.uniform(0.3, 0.9) * HOUR
    with tbhub.SummaryWriter(ROOT / name) as writer:
        for tag, values in curves.items():
            steps = np.arange(len(values)) * (STEPS // len(values))
            writer.add_scalars_batch(tag, values, steps, began + steps / STEPS * lasted)
        for summary in summaries_of(hparams, {"val/loss": 0}):
            writer.file_writer.add_summary(summary, walltime=began)


def log_trainings() -> int:
    """Some experiments of the last days; how many runs they have."""
    count = 0
    for number, learning_rate in enumerate((0.003, 0.01, 0.03)):
        for seed in range(3):
            rng = np.random.default_rng(10 * number + seed)
            hparams: Hparams = {"lr": learning_rate, "seed": seed, "batch": 256}
            name = f"resnet50/lr={learning_rate:g}-seed={seed}"
            train(name, classify(rng, learning_rate), hparams, 40 - 3 * count)
            count += 1
    for number, learning_rate in enumerate((0.01, 0.03, 0.1)):
        rng = np.random.default_rng(100 + number)
        hparams = {"lr": learning_rate, "seed": 0, "layers": 12}
        train(
            f"gpt-small/lr={learning_rate:g}",
            write_text(rng, learning_rate),
            hparams,
            9 - 2 * number,
        )
        count += 1
    return count


def show_media() -> None:
    """One of every other kind."""
    rng = np.random.default_rng(0)
    with tbhub.SummaryWriter(ROOT / "media") as writer:
        for step in range(10):
            writer.add_histogram("weights", rng.normal(step / 10, 1, 10_000), step)
        x, y = np.meshgrid(np.linspace(-3, 3, 128), np.linspace(-3, 3, 128))
        for step in range(4):
            wave = np.sin(x * (step + 1)) * np.cos(y * 2)
            picture = np.stack([wave, -wave, np.abs(wave)]) * 0.5 + 0.5
            writer.add_image("waves", picture, step)
        tone = np.sin(np.arange(22_050) * 440 * 2 * math.pi / 22_050)
        writer.add_audio("tone", tone[None, :], 0, 22_050)
        writer.add_text("notes", "| what | how |\n| --- | --- |\n| demo | **every kind** |", 0)
        truth = rng.integers(0, 2, 500)
        writer.add_pr_curve("quality", truth, np.clip(truth * 0.4 + rng.random(500) * 0.6, 0, 1), 0)
        centres = rng.normal(size=(5, 16)) * 3
        points = centres[np.arange(300) % 5] + rng.normal(size=(300, 16))
        writer.add_embedding(points, metadata=[f"class {i % 5}" for i in range(300)])
        corners = rng.normal(size=(1, 400, 3))
        corners /= np.linalg.norm(corners, axis=2, keepdims=True)
        colors = ((corners + 1) * 127).astype(np.uint8)
        writer.add_mesh("sphere", vertices=corners, colors=colors)
        both = ["Multiline", ["train/loss", "train/accuracy"]]
        writer.add_custom_scalars({"training": {"loss and accuracy": both}})


def keep_training(stop: threading.Event) -> None:
    """A run that has begun, and goes on while the boards are open."""
    rng = np.random.default_rng(7)
    curves = write_text(rng, 0.02)
    with tbhub.SummaryWriter(ROOT / "gpt-small" / "lr=0.02") as writer:
        for summary in summaries_of({"lr": 0.02, "seed": 0, "layers": 12}, {"train/loss": 0}):
            writer.file_writer.add_summary(summary)
        for step in range(STEPS):
            for tag in ("train/loss", "train/grad_norm", "train/tokens_per_s"):
                writer.add_scalar(tag, curves[tag][step], step)
            if step >= SEEN and stop.wait(0.5):
                return


def open_boards(stop: threading.Event, runs: int) -> None:
    """Two boards: all runs, and seeds put together; as any script would make them."""
    while not (HOME / "connection.json").exists():
        if stop.wait(0.1):
            return
    with tbhub.Hub(home=HOME) as hub:
        while hub.runs(limit=1).total < runs:
            if stop.wait(0.2):
                return
        for name, groups in {
            "all runs": None,
            "seeds as groups": "all except seed",
        }.items():
            board = tbhub.TensorBoard.create(
                runs="all", display_name=name, follow=True, group_by=groups, wait=False, hub=hub
            )
            print(f"· board “{name}”: {board.app_uri}", flush=True)
    print(f"· from another terminal: TBHUB_HOME={HOME} .venv/bin/tbhub list", flush=True)


def main() -> None:
    """Logs, then shows."""
    shutil.rmtree(ROOT, ignore_errors=True)
    begin = time.perf_counter()
    runs = log_trainings()
    show_media()
    seconds = time.perf_counter() - begin
    print(f"· logged {runs} runs and one of every other kind in {seconds:.1f} s")
    if "--log-only" in sys.argv:
        return
    shutil.rmtree(HOME, ignore_errors=True)
    stop = threading.Event()
    threads = [
        threading.Thread(target=keep_training, args=(stop,)),
        threading.Thread(target=open_boards, args=(stop, runs + 2)),
    ]
    for thread in threads:
        thread.start()
    try:
        options = ["--home", str(HOME), "--logdir", str(ROOT), *sys.argv[1:]]
        command_line(["up"])(["up", *options])
    finally:
        stop.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
