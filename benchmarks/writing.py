"""What logging costs the training process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.measure import Row, in_process, in_turns, scratch, time_text

MODULES = {
    "tbhub": "tbhub",
    "torch": "torch.utils.tensorboard",
    "tensorboardX": "tensorboardX",
}
PEERS = ("torch", "tensorboardX")


def writer_class(library: str) -> Any:
    """A library's SummaryWriter."""
    from importlib import import_module

    return import_module(MODULES[library]).SummaryWriter


def per_call(work: Callable[[Any, int], None], library: str, calls: int) -> dict[str, float]:
    """CPU time per call, after a few calls to warm up."""
    make = writer_class(library)
    for count in (calls // 20 + 1, calls):
        writer = make(scratch())
        start = time.process_time()
        work(writer, count)
        writer.close()
        used = time.process_time() - start
    return {"cpu": used / calls}


def scalars(library: str, count: int) -> dict[str, float]:
    """add_scalar one by one, including close."""

    def work(writer: Any, calls: int) -> None:
        for step in range(calls):
            writer.add_scalar("train/loss", 0.5, step)

    return per_call(work, library, count)


def batch(count: int) -> dict[str, float]:
    """One add_scalars_batch, including close; per point."""
    import numpy as np

    values = np.random.default_rng(0).standard_normal(count)

    def work(writer: Any, points: int) -> None:
        writer.add_scalars_batch("train/loss", values[:points])

    return per_call(work, "tbhub", count)


def histograms(library: str, count: int) -> dict[str, float]:
    """add_histogram of a million float32."""
    import numpy as np

    values = np.random.default_rng(0).standard_normal(1_000_000, np.float32)

    def work(writer: Any, calls: int) -> None:
        for step in range(calls):
            writer.add_histogram("weights", values, step)

    return per_call(work, library, count)


def images(library: str, count: int) -> dict[str, float]:
    """add_image of 3 × 256 × 256 noise."""
    import numpy as np

    pixels = np.random.default_rng(0).random((3, 256, 256), np.float32)

    def work(writer: Any, calls: int) -> None:
        for step in range(calls):
            writer.add_image("noise", pixels, step)

    return per_call(work, library, count)


def start(library: str) -> dict[str, float]:
    """Import and first SummaryWriter, in wall time."""
    begin = time.perf_counter()
    writer = writer_class(library)(scratch())
    used = time.perf_counter() - begin
    writer.close()
    return {"cpu": used}


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """The writing half of the table."""

    def compare(
        work: str, name: str, ours: Any, theirs: Any, goals: dict[str, float], bound: float = 1e9
    ) -> Iterator[Row]:
        sides = {
            "tbhub": partial(in_process, *ours),
            **{peer: partial(in_process, *theirs(peer)) for peer in goals},
        }
        found = in_turns(sides, repeats, lambda text: say(f"{name}: {text}"))
        mine = found["tbhub"]["cpu"]
        for peer, goal in goals.items():
            ratio = found[peer]["cpu"] / mine
            limit = f", ≤ {time_text(bound)}" if bound < 1e9 else ""
            yield Row(
                work,
                time_text(mine),
                peer,
                time_text(found[peer]["cpu"]),
                f"{ratio:,.0f}×" if ratio >= 20 else f"{ratio:.1f}×",
                f"≥ {goal:g}×{limit}",
                ratio >= goal and mine <= bound,
            )

    yield from compare(
        "`add_scalar` × 100 k incl. close, per call",
        "add_scalar",
        (scalars, "tbhub", 100_000),
        lambda peer: (scalars, peer, 100_000),
        {"torch": 50, "tensorboardX": 50},
        1e-6,
    )
    yield from compare(
        "`add_scalars_batch` of 1 M points, per point",
        "add_scalars_batch",
        (batch, 1_000_000),
        lambda peer: (scalars, peer, 10_000),
        {"torch": 500},
    )
    yield from compare(
        "`add_histogram` of 1 M float32",
        "add_histogram",
        (histograms, "tbhub", 20),
        lambda peer: (histograms, peer, 20),
        {"torch": 10, "tensorboardX": 10},
    )
    yield from compare(
        "`add_image` of 3 × 256 × 256 noise",
        "add_image",
        (images, "tbhub", 30),
        lambda peer: (images, peer, 30),
        {"torch": 3, "tensorboardX": 3},
    )
    yield from compare(
        "import and construct (wall time)",
        "import",
        (start, "tbhub"),
        lambda peer: (start, peer),
        {"torch": 10, "tensorboardX": 10},
        0.150,
    )
