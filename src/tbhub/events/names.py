"""Which files are event files, which are logs, and what a writer's default directory is called."""

from __future__ import annotations

import os
import re

SESSION_START_TAG = "_hparams_/session_start_info"
"""Under this tag a run says which hyperparameters it has been started with."""


def is_event_file(name: str) -> bool:
    """Whether TensorBoard would read a file of this name."""
    return "tfevents" in os.path.basename(name)


# Also as a file that took the name of another, and as a part of one, is called.
_LOG = re.compile(r".*\.(log|out|err|jsonl)(\.again\d+)?(\.\d{6})*", re.DOTALL)


def is_log(name: str) -> bool:
    """Whether a file of this name is written line by line, and only grows: ``console.log``."""
    return _LOG.fullmatch(name) is not None


def default_logdir(comment: str = "") -> str:
    """``runs/Nov16_10-30-59_host<comment>``, as tensorboardX and torch name it.

    Inside a run it is the run's directory, which ``TBHUB_LOGDIR`` names, and a comment is the name
    of one below that.
    """
    if given := os.environ.get("TBHUB_LOGDIR"):
        below = comment.replace(os.sep, "_").strip("-_. ")
        return os.path.join(given, below) if below else given
    import socket
    import time

    now = time.strftime("%b%d_%H-%M-%S")
    return os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
