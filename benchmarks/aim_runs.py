"""Logs runs to an Aim repository. Runs with the Python of Aim's own environment, not with ours.

Usage: python aim_runs.py REPOSITORY RUNS
"""

import random
import sys

HPARAMS = ["lr", "batch", "depth", "dropout"]
METRICS = ["loss", "acc", "val_loss"]


def main() -> None:
    """So many runs."""
    from aim import Repo, Run  # type: ignore[import-not-found]

    where, runs = sys.argv[1], int(sys.argv[2])
    Repo.from_path(where, init=True)
    for number in range(1, runs + 1):
        chance = random.Random(number)
        run = Run(repo=where, system_tracking_interval=None, capture_terminal_logs=False)
        run.name = f"run{number}"
        run["hparams"] = {name: chance.random() for name in HPARAMS}
        for name in METRICS:
            run.track(chance.random(), name=name, step=0)
        run.close()


if __name__ == "__main__":
    main()
