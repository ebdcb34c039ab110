"""Demo runs of every kind, one of them still training, and a board that shows them.

Run it with ``make up``; everything goes to ``runs/demo``. ``python examples/demo.py --log-only``
logs and shows nothing.
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

ROOT = Path("runs/demo")
STEPS = 2000


def train(learning_rate: float, seed: int) -> None:
    """A training that is not one, but logs like one."""
    rng = np.random.default_rng(seed)
    steps = np.arange(STEPS)
    wall_times = time.time() - STEPS + steps
    loss = 2 * np.exp(-steps * learning_rate / 5) + 0.1 * rng.random(STEPS)
    loss[rng.integers(STEPS)] += 3  # a spike of one step, which no sampling may hide
    with tbhub.SummaryWriter(ROOT / f"lr={learning_rate:g}" / f"seed={seed}") as writer:
        writer.add_scalars_batch("train/loss", loss, steps, wall_times)
        writer.add_scalars_batch("train/accuracy", 1 / (1 + loss), steps, wall_times)
        hparams = {"lr": learning_rate, "seed": seed, "optimizer": "adam" if seed else "sgd"}
        writer.add_hparams(hparams, {"hparam/loss": float(loss[-1])}, run_name=".")


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
    """A run that goes on while the board is open."""
    rng = np.random.default_rng(7)
    with tbhub.SummaryWriter(ROOT / "live") as writer:
        step = 0
        while not stop.is_set():
            writer.add_scalar("train/loss", 2 * math.exp(-step / 400) + 0.2 * rng.random(), step)
            step += 1
            stop.wait(0.1)


def main() -> None:
    """Logs, then shows."""
    shutil.rmtree(ROOT, ignore_errors=True)
    begin = time.perf_counter()
    for learning_rate in (0.003, 0.01, 0.03):
        for seed in range(3):
            train(learning_rate, seed)
    show_media()
    print(f"· logged 9 runs and one of every other kind in {time.perf_counter() - begin:.1f} s")
    if "--log-only" in sys.argv:
        return
    stop = threading.Event()
    training = threading.Thread(target=keep_training, args=(stop,))
    training.start()
    try:
        options = ["--group-by", "all except seed, optimizer", "--title", "tbhub demo"]
        command_line(["view"])(["view", str(ROOT), *options])
    finally:
        stop.set()
        training.join()


if __name__ == "__main__":
    main()
