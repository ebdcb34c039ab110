"""Scripts of the kind the libraries' guides show, run with only the import changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.read_logs import read_values

LOOP = """
writer = SummaryWriter()
error = 1.0
for epoch in range(10):
    error *= 0.9
    writer.add_scalar("error/training", error, epoch)
    writer.add_scalar("error/validation", error * 1.1, epoch)
    writer.add_scalars("both errors", {"training": error, "validation": error * 1.1}, epoch)
writer.close()
"""

MODEL = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
descent = torch.optim.SGD(model.parameters(), lr=0.1)
with SummaryWriter(comment="-small") as writer:
    writer.add_graph(model, torch.ones(1, 8))
    for epoch in range(2):
        descent.zero_grad()
        loss = model(torch.rand(16, 8)).square().sum()
        loss.backward()
        descent.step()
        writer.add_scalar("loss", loss, epoch)
        writer.add_scalar("rate", descent.param_groups[0]["lr"], global_step=epoch)
        for name, weights in model.named_parameters():
            writer.add_histogram(name, weights, epoch)
            writer.add_histogram(f"{name}.grad", weights.grad, epoch, bins="auto")
"""

MEDIA = """
import numpy as np
rng = np.random.default_rng()
photo = rng.random((3, 48, 64))
writer = SummaryWriter()
writer.add_image("photo", photo, 0)
writer.add_image("photo, channels last", np.moveaxis(photo, 0, -1), 0, dataformats="HWC")
writer.add_images("album", rng.random((12, 3, 20, 20)), 0)
writer.add_image_with_boxes("found", photo, np.array([[4, 4, 30, 20]]), 0)
writer.add_audio("beep", np.sin(np.arange(4000) / 3), 0, sample_rate=4000)
writer.add_text("remark", "**done**", 0)
writer.add_pr_curve("detector", rng.integers(0, 2, 80), rng.random(80), 0)
writer.add_histogram_raw("counted", min=-1.0, max=1.0, num=3, sum=0.5, sum_squares=2.0,
                         bucket_limits=[0.0, 1.0], bucket_counts=[1, 2], global_step=0)
writer.add_mesh("tetrahedron", vertices=rng.random((1, 4, 3)),
                faces=np.array([[[0, 1, 2], [0, 1, 3]]]))
writer.add_custom_scalars({
    "errors": {"together": ["Multiline", ["error/training", "error/validation"]]},
    "spread": {"band": ["Margin", ["mean", "low", "high"]]},
})
writer.add_embedding(rng.random((9, 5)), metadata=list("abcdefghi"),
                     label_img=rng.random((9, 3, 10, 10)))
writer.flush()
writer.close()
"""

HPARAMS = """
with SummaryWriter() as writer:
    for depth in (2, 3, 4):
        writer.add_hparams({"depth": depth, "optimizer": "adam"}, {"accuracy": depth, "time": 2})
"""

GLOBAL = """
import tbhub.compat.tensorboardX as tensorboardX
from tbhub.compat.tensorboardX import GlobalSummaryWriter
GlobalSummaryWriter.getSummaryWriter().add_text("diary", "first page")
for number in (1, 2):
    GlobalSummaryWriter.getSummaryWriter().add_scalar("loss", number)
tensorboardX.summary.scalar("x", 1)
"""

MULTIPROCESS = """
import torch.multiprocessing as mp
writer = SummaryWriter()
def train(rank):
    for step in range(5):
        writer.add_scalar(f"rank{rank}", step, step)
children = [mp.get_context("fork").Process(target=train, args=(rank,)) for rank in range(2)]
for child in children:
    child.start()
for child in children:
    child.join()
writer.add_scalar("parent", 1.0)
"""


def run(script: str, directory: Path) -> list[str]:
    """The tags a script logs when run as a program."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return [each.tag for each in read_values(directory / "runs")]


@pytest.mark.parametrize("package", ["tensorboardX", "torch"])
@pytest.mark.parametrize(
    ("script", "count", "tag"),
    [
        pytest.param(LOOP, 40, "error/training", id="loop"),
        pytest.param(MODEL, 20, "0.weight", id="model"),
        pytest.param(MEDIA, 11, "album", id="media"),
        pytest.param(HPARAMS, 15, "accuracy", id="hparams"),
        pytest.param(MULTIPROCESS, 11, "rank1", id="multiprocess"),
    ],
)
def test_script(package: str, script: str, count: int, tag: str, tmp_path: Path) -> None:
    tags = run(f"from tbhub.compat.{package} import SummaryWriter\n{script}", tmp_path)
    assert len(tags) == count, tags
    assert tag in tags


def test_global_writer(tmp_path: Path) -> None:
    assert sorted(run(GLOBAL, tmp_path)) == ["diary/text_summary", "loss", "loss"]
