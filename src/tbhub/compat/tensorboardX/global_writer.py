"""tensorboardX's GlobalSummaryWriter."""

from __future__ import annotations

import os
from typing import Any

from tbhub.compat.common.files import LIBRARY_FLUSH_SECS, LIBRARY_MAX_QUEUE
from tbhub.compat.tensorboardX.writer import SummaryWriter
from tbhub.writer import global_writer


class GlobalSummaryWriter(global_writer.GlobalSummaryWriter):
    """`tbhub.GlobalSummaryWriter` over tensorboardX's SummaryWriter."""

    _writer_type = SummaryWriter

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
        super().__init__(
            logdir,
            comment,
            purge_step,
            max_queue,
            flush_secs,
            filename_suffix,
            write_to_disk,
            log_dir,
        )
