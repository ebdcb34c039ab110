"""Which files are event files, and what a writer's default directory is called."""

from __future__ import annotations

import os

SESSION_START_TAG = "_hparams_/session_start_info"
"""Under this tag a run says which hyperparameters it has been started with."""


def is_event_file(name: str) -> bool:
    """Whether TensorBoard would read a file of this name."""
    return "tfevents" in os.path.basename(name)


def default_logdir(comment: str = "") -> str:
    """``runs/Nov16_10-30-59_host<comment>``, as tensorboardX and torch name it."""
    import socket
    import time

    now = time.strftime("%b%d_%H-%M-%S")
    return os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
