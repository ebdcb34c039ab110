"""A few runs with a little of everything, quickly written: what requests are tried on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from support.live import append, record
from tbhub import SummaryWriter


def log(directory: Path, word: str, number: float) -> None:
    """Two runs, ``<word> run`` and ``shared``, with data of every kind that says so."""
    for run in (f"{word} run", "shared"):
        with SummaryWriter(directory / run) as writer:
            for tag in (f"{word} tag", "shared"):
                at = {"global_step": 1, "walltime": 10.0}
                writer.add_scalar(tag, number, **at)
                writer.add_image(tag + " image", np.full((3, 4, 4), number / 10), **at)
                writer.add_audio(tag + " audio", np.full(50, number / 10), 1, 8000, 10.0)
                writer.add_text(tag, word, **at)
                writer.add_histogram(tag + " histogram", np.full(9, number), **at)
                writer.add_pr_curve(tag + " curve", np.array([1, 0]), np.array([number / 10, 0.5]))
                writer.add_mesh(tag + " mesh", np.full((1, 4, 3), number))
            writer.add_custom_scalars({word: {word: ["Multiline", [f"{word} tag"]]}})
            writer.add_hparams({word: number}, {"metric": number}, run_name=f"{word} session")
            writer.add_embedding(np.full((3, 2), number), [word] * 3, tag=word)
        (file,) = (directory / run).glob("*tfevents*")
        append(file, record(wall_time=1.0, step=0, graph_def=word.encode()))
