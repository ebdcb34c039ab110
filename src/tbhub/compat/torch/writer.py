"""torch.utils.tensorboard's writers: its signatures over tbhub's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tbhub.compat.common import files
from tbhub.compat.common.files import LIBRARY_FLUSH_SECS, LIBRARY_MAX_QUEUE
from tbhub.writer import summary_writer

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter(files.FileWriter):
    """Writes ``Event`` and ``Summary`` messages to event files in a directory."""

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int | None = LIBRARY_MAX_QUEUE,
        flush_secs: float | None = LIBRARY_FLUSH_SECS,
        filename_suffix: str = "",
    ) -> None:
        """Opens a new event file in ``log_dir``."""
        super().__init__(log_dir, max_queue, flush_secs, filename_suffix)


class SummaryWriter(summary_writer.SummaryWriter):
    """tbhub's SummaryWriter, called as torch.utils.tensorboard's."""

    _file_writer_type = FileWriter

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int | None = LIBRARY_MAX_QUEUE,
        flush_secs: float | None = LIBRARY_FLUSH_SECS,
        filename_suffix: str = "",
    ) -> None:
        """Opens an event file; see `tbhub.SummaryWriter`."""
        super().__init__(log_dir, comment, purge_step, max_queue, flush_secs, filename_suffix)

    def add_scalar(  # type: ignore[override]
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Logs one number; ``double_precision`` implies ``new_style``."""
        if new_style or double_precision:
            super().add_scalar(
                tag,
                scalar_value,
                global_step,
                walltime,
                new_style=new_style,
                double_precision=double_precision,
            )
            return
        status = self._add_scalar(tag, scalar_value, global_step, walltime)
        if status:
            self._attend_to(status, tag, scalar_value, global_step, walltime)

    def add_hparams(  # type: ignore[override]
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Logs hyperparameters and what they led to, in the sub-run ``run_name``."""
        super().add_hparams(hparam_dict, metric_dict, hparam_domain_discrete, run_name, global_step)

    def add_video(  # type: ignore[override]
        self,
        tag: str,
        vid_tensor: Any,
        global_step: Any = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Logs a batch of videos [n, time, channels, height, width] as one animated image."""
        super().add_video(tag, vid_tensor, global_step, fps, walltime)

    def add_onnx_graph(self, prototxt: Any) -> None:  # type: ignore[override]
        """Logs the graph of an ONNX model."""
        super().add_onnx_graph(prototxt)
