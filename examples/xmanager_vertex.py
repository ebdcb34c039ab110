"""XManager's example of jobs on Vertex AI, whose logs a board of the hub shows, too.

``GOOGLE_CLOUD_BUCKET_NAME=bucket xmanager launch examples/xmanager_vertex.py``

The managed TensorBoard is found by its name or made, once; a job finds the directory to log to in
``AIP_TENSORBOARD_LOG_DIR``.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

from absl import app, flags
from xmanager import xm, xm_local

import tbhub

_TENSORBOARD = flags.DEFINE_string("tensorboard", "cifar10", "The TensorBoard, by name.")
_GPUS_PER_NODE = flags.DEFINE_integer("gpus_per_node", 2, "GPUs of each node.")


def main(_: Sequence[str]) -> None:
    """Add a job for each learning rate to an experiment, and a board over all of them."""
    with xm_local.create_experiment(experiment_title="cifar10") as experiment:
        spec = xm.PythonContainer(
            path=os.path.dirname(os.path.abspath(__file__)),
            base_image="python:3.11",
            entrypoint=xm.ModuleName("xmanager_job"),
        )

        [executable] = experiment.package(
            [xm.Packageable(executable_spec=spec, executor_spec=xm_local.Vertex.Spec(), args={})]
        )

        learning_rates = [0.1, 0.001]
        trials = [{"learning_rate": lr} for (lr,) in itertools.product(learning_rates)]

        output_dir = os.environ.get("GOOGLE_CLOUD_BUCKET_NAME")
        if output_dir:
            output_dir = os.path.join(output_dir, str(experiment.experiment_id))
        capability = tbhub.TensorboardCapability(
            name=_TENSORBOARD.value, base_output_directory=output_dir
        )
        tensorboard = capability.get_or_create()
        board = tbhub.add_tensorboard(experiment, executor=xm_local.Vertex(tensorboard=capability))
        if board is not None:
            print(board.app_uri)

        for i, hyperparameters in enumerate(trials):
            tensorboard_capability = xm_local.TensorboardCapability(
                name=tensorboard,
                base_output_directory=os.path.join(output_dir, str(i)) if output_dir else None,
            )
            experiment.add(
                xm.Job(
                    executable=executable,
                    executor=xm_local.Vertex(
                        tensorboard=tensorboard_capability,
                        requirements=xm.JobRequirements(t4=_GPUS_PER_NODE.value),
                    ),
                    args=hyperparameters,
                )
            )


if __name__ == "__main__":
    app.run(main)
