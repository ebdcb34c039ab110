"""A run as TensorBoard's HParams knows it: its hyperparameters, and how it has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tbhub.api.models import RunEnding
from tbhub.writer.file_writer import FileWriter


class Session:
    """One session of a run, in the run's directory; nothing is written before it is started."""

    def __init__(self, logdir: Path) -> None:
        self._logdir = logdir
        self._lock = threading.Lock()
        self._writer: FileWriter | None = None

    def start(self, hparams: Mapping[str, object]) -> None:
        """Writes hyperparameters; TensorBoard shows those of the first time."""
        from tbhub.writer.summaries.hparams import experiment, session_start

        with self._lock:
            if self._writer is None:
                self._writer = FileWriter(self._logdir)
                self._writer.add_summary(experiment(hparams, ()))
            self._writer.add_summary(session_start(hparams, start_time_secs=time.time()))

    def end(self, status: RunEnding) -> None:
        """Writes how it has ended, if it was started."""
        from tbhub.writer.summaries.hparams import session_end

        if self._writer is not None:
            how = "STATUS_SUCCESS" if status == "finished" else "STATUS_FAILURE"
            self._writer.add_summary(session_end(how, end_time_secs=time.time()))
            self._writer.close()
