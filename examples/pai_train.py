"""PAI's example of a training: it logs to the directory that ``PAI_OUTPUT_TENSORBOARD`` names."""

from __future__ import annotations

import os

import torch
from torch.utils.tensorboard import SummaryWriter


def main() -> None:
    """Log a loss and an image."""
    writer = SummaryWriter(log_dir=os.environ.get("PAI_OUTPUT_TENSORBOARD"))
    writer.add_scalar("train/loss", 0.1, 1)
    writer.add_image("train/image", torch.rand(3, 64, 64), 1)
    writer.flush()
    writer.close()


if __name__ == "__main__":
    main()
