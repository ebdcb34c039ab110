"""PAI's examples of a TensorBoard: of a job in the background, and over logs that there are.

``python examples/pai_job.py`` trains in the background and looks on;
``python examples/pai_job.py oss://bucket/path/to/tensorboard/log/dir/`` opens what is there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tbhub
from tbhub import TensorBoard

TRAIN = Path(__file__).with_name("pai_train.py")


def train() -> None:
    """Submit a job, open its TensorBoard, and delete that afterwards."""
    job = tbhub.submit([sys.executable, str(TRAIN)], experiment="pai", wait=False)

    tb = job.tensorboard()
    print(tb.app_uri)

    job.wait()
    tb.wait(data=True)
    if tb.status == "Running":
        print(f"job {job.run} is {job.status}")
    tb.delete()


def show(uri: str) -> None:
    """Open a TensorBoard over logs, and find it again by its id."""
    tb = TensorBoard.create(uri=uri)
    print(tb.app_uri)
    print(TensorBoard(tb.id).status == "Running")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        show(sys.argv[1])
    else:
        train()
