"""A tour of what is there: logs runs of every kind, reads them back, damages one and repairs it.

Run it with ``make up``. Everything goes to ``runs/demo``; open it with any TensorBoard.
``python examples/demo.py PICTURE.svg`` draws the terminal as it goes.
"""

from __future__ import annotations

import math
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import tbhub
from tbhub.events.check import check
from tbhub.events.repair import repair

ROOT = Path("runs/demo")
console = Console(highlight=False, record=len(sys.argv) > 1, width=96 if sys.argv[1:] else None)


def sparkline(values: NDArray[Any], width: int = 12) -> str:
    """A series as a line of blocks."""
    bars = "▁▂▃▄▅▆▇█"
    chosen = values[np.linspace(0, len(values) - 1, min(width, len(values))).astype(int)]
    low, high = float(chosen.min()), float(chosen.max())
    scale = (len(bars) - 1) / (high - low or 1)
    return "".join(bars[int((value - low) * scale)] for value in chosen)


def train(learning_rate: float, steps: int = 2000) -> None:
    """A training that is not one, but logs like one."""
    rng = np.random.default_rng(int(learning_rate * 1e4))
    with tbhub.SummaryWriter(ROOT / f"lr={learning_rate:g}") as writer:
        for step in range(steps):
            loss = 2 * math.exp(-step * learning_rate / 5) + 0.1 * rng.random()
            writer.add_scalar("train/loss", loss, step)
            writer.add_scalar("train/accuracy", 1 / (1 + loss), step)
        writer.add_histogram("weights", rng.standard_normal(10_000), steps)
        writer.add_image("sample", rng.random((3, 64, 64)), steps)
        writer.add_text("notes", f"learning rate **{learning_rate:g}**", steps)
        writer.add_hparams({"lr": learning_rate}, {"hparam/loss": loss}, run_name="hparams")


def main() -> None:
    """The tour."""
    shutil.rmtree(ROOT, ignore_errors=True)
    console.rule("log")
    begin = time.perf_counter()
    for learning_rate in (0.003, 0.01, 0.03):
        train(learning_rate)
    console.print(f"3 runs, 12,000 scalars and more in {time.perf_counter() - begin:.2f} s")
    with tbhub.SummaryWriter(ROOT / "million") as writer:
        begin = time.perf_counter()
        writer.add_scalars_batch("noise", np.random.default_rng(0).standard_normal(1_000_000))
    console.print(f"one series of a million points in {time.perf_counter() - begin:.2f} s")

    console.rule("load")
    begin = time.perf_counter()
    runs = tbhub.load(ROOT)
    took = time.perf_counter() - begin
    table = Table(box=None)
    table.add_column("run", style="bold")
    table.add_column("tag", style="cyan")
    table.add_column("points", justify="right")
    table.add_column("last", justify="right")
    table.add_column("", style="green")
    table.add_column("hparams", style="magenta")
    for name, run in runs.items():
        for tag, series in run.scalars.items():
            shown = ", ".join(f"{key}={value:g}" for key, value in run.hparams.items())
            table.add_row(
                name,
                tag,
                f"{len(series):,}",
                f"{series.values[-1]:.4g}",
                sparkline(series.values),
                shown,
            )
    console.print(table)
    points = sum(len(series) for run in runs.values() for series in run.scalars.values())
    console.print(f"{points:,} points in {took * 1e3:.0f} ms")

    console.rule("check and repair")
    victim = Path(runs["million"].files[0])
    damaged = ROOT / "damaged.bin"  # by these names TensorBoard does not take them for runs
    data = bytearray(victim.read_bytes())
    data[12_345] ^= 1
    damaged.write_bytes(data[:-9])
    report = check(damaged)
    for damage in report.damages:
        console.print(f"{damage.kind} at {damage.offset}, {damage.size} bytes")
    repaired = ROOT / "repaired.bin"
    kept = repair(damaged, repaired).good_events
    console.print(f"{kept:,} good events saved, the new file is good: {check(repaired).is_good}")
    console.rule()
    console.print(f"look at it: tensorboard --logdir {ROOT}")
    if sys.argv[1:]:
        picture = console.export_svg(title="make up")
        picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # no remote fonts
        Path(sys.argv[1]).write_text(picture)


if __name__ == "__main__":
    main()
