"""The job of the XManager examples: it logs to the directory that it is given.

On Vertex AI that is ``AIP_TENSORBOARD_LOG_DIR``, elsewhere an argument.
"""

from __future__ import annotations

import argparse
import os

from tbhub import SummaryWriter


def main() -> None:
    """Log a loss that falls with each step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tensorboard_log_dir", default=os.environ.get("AIP_TENSORBOARD_LOG_DIR"))
    parser.add_argument("--learning_rate", type=float, default=0.1)
    given = parser.parse_args()
    with SummaryWriter(given.tensorboard_log_dir) as writer:
        for step in range(10):
            writer.add_scalar("loss", (1 - given.learning_rate) ** step, step)


if __name__ == "__main__":
    main()
