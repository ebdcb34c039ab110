"""XManager's example of a TensorBoard on Kubernetes, with tbhub's call in place of its own.

``xmanager launch examples/xmanager_kubernetes.py -- --tensorboard_log_dir=gs://bucket/logs``

No port is forwarded by hand: the board is at the hub's address.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

from absl import app, flags
from xmanager import xm, xm_local

import tbhub as tensorboard

_TENSORBOARD_LOG_DIR = flags.DEFINE_string(
    "tensorboard_log_dir", None, "Where workers and TensorBoard log.", required=True
)
_TENSORBOARD_TIMEOUT_SECS = flags.DEFINE_integer(
    "tensorboard_timeout_secs", 60 * 60, "How long TensorBoard runs."
)


def main(_: Sequence[str]) -> None:
    """Add a board and a job for each learning rate to an experiment."""
    with xm_local.create_experiment(experiment_title="cifar10") as experiment:
        spec = xm.PythonContainer(
            path=os.path.dirname(os.path.abspath(__file__)),
            base_image="python:3.11",
            entrypoint=xm.ModuleName("xmanager_job"),
        )

        [executable] = experiment.package(
            [xm.Packageable(executable_spec=spec, executor_spec=xm_local.Kubernetes.Spec())]
        )

        learning_rates = [0.1, 0.001]
        trials = [{"learning_rate": lr} for (lr,) in itertools.product(learning_rates)]

        log_dir = f"{_TENSORBOARD_LOG_DIR.value}/{experiment.experiment_id!s}/logs"
        board = tensorboard.add_tensorboard(
            experiment,
            log_dir,
            executor=xm_local.Kubernetes(),
            timeout_secs=_TENSORBOARD_TIMEOUT_SECS.value,
        )
        if board is not None:
            print(board.app_uri)

        for i, hyperparameters in enumerate(trials):
            output_dir = os.path.join(log_dir, str(i))
            experiment.add(
                xm.Job(
                    executable=executable,
                    executor=xm_local.Kubernetes(),
                    args={"tensorboard_log_dir": output_dir, **hyperparameters},
                )
            )


if __name__ == "__main__":
    app.run(main)
