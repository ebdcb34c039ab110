"""tensorboardX's GlobalSummaryWriter."""

from __future__ import annotations

import os
from typing import Any

from tbhub._kernel import SharedCounters
from tbhub.compat.common.files import LIBRARY_FLUSH_SECS, LIBRARY_MAX_QUEUE
from tbhub.compat.tensorboardX.writer import SummaryWriter
from tbhub.writer import global_writer

_writer: GlobalSummaryWriter | None = None


class GlobalSummaryWriter(global_writer.GlobalSummaryWriter):
    """`tbhub.GlobalSummaryWriter` over tensorboardX's SummaryWriter."""

    def __init__(
        self,
        logdir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int | None = LIBRARY_MAX_QUEUE,
        flush_secs: float | None = LIBRARY_FLUSH_SECS,
        filename_suffix: str = "",
        write_to_disk: bool = True,
        log_dir: str | os.PathLike[str] | None = None,
        coalesce_process: bool = True,
        **kwargs: Any,
    ) -> None:
        """Takes what SummaryWriter takes; ``coalesce_process`` is always on."""
        self.smw = SummaryWriter(
            logdir,
            comment,
            purge_step,
            max_queue,
            flush_secs,
            filename_suffix,
            write_to_disk,
            log_dir,
        )
        self._counters = SharedCounters()

    @staticmethod
    def getSummaryWriter() -> GlobalSummaryWriter:
        """The process's one global writer, made at the first call."""
        global _writer
        if _writer is None:
            _writer = GlobalSummaryWriter()
        return _writer
