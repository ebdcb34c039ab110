"""XManager's example of a TensorBoard in a local container, with tbhub's call in place of its own.

``xmanager launch examples/xmanager_local.py -- --tensorboard_log_dir=/tmp/logs``

The hub serves the board: no container is started for it, and nothing waits for its end. The call
says which options of the container a board does not need.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from absl import app, flags
from xmanager import xm, xm_local

import tbhub as tensorboard

_LOG_DIR = flags.DEFINE_string(
    "tensorboard_log_dir", None, "Where jobs and TensorBoard log.", required=True
)
_PORT = flags.DEFINE_integer("tensorboard_port", 6006, "The port of TensorBoard.")
_TIMEOUT_SECS = flags.DEFINE_integer("tensorboard_timeout_secs", 60 * 60, "How long it runs.")


async def launch(log_dir: str, port: int, timeout_secs: int) -> None:
    """Add a board and two jobs to an experiment."""
    async with xm_local.create_experiment(experiment_title="cifar10") as experiment:
        spec = xm.PythonContainer(
            path=os.path.dirname(os.path.abspath(__file__)),
            base_image="python:3.11",
            entrypoint=xm.ModuleName("xmanager_job"),
        )
        [executable] = experiment.package(
            [xm.Packageable(executable_spec=spec, executor_spec=xm_local.Local.Spec())]
        )
        board = tensorboard.add_tensorboard(
            experiment,
            log_dir,
            port,
            timeout_secs=timeout_secs,
            executor=xm_local.Local(
                docker_options=xm_local.DockerOptions(
                    ports={6006: port},
                    volumes={os.path.expanduser("~/.config/gcloud"): "/root/.config/gcloud"},
                )
            ),
        )
        if board is not None:
            print(board.app_uri)
        for i, learning_rate in enumerate([0.1, 0.001]):
            output_dir = os.path.join(log_dir, str(i))
            args = {"tensorboard_log_dir": output_dir, "learning_rate": learning_rate}
            experiment.add(xm.Job(executable=executable, executor=xm_local.Local(), args=args))


def main(_: Sequence[str]) -> None:
    """Read the flags and launch."""
    asyncio.run(launch(_LOG_DIR.value, _PORT.value, _TIMEOUT_SECS.value))


if __name__ == "__main__":
    app.run(main)
