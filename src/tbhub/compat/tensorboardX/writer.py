"""tensorboardX's writers: its signatures, its tags, its sub-runs."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tbhub.compat.common.files import LIBRARY_FLUSH_SECS, LIBRARY_MAX_QUEUE
from tbhub.compat.common.files import FileWriter as _FileWriter
from tbhub.compat.tensorboardX.tags import clean_tag
from tbhub.errors import TbhubWarning
from tbhub.writer import scalar_writer, summary_writer
from tbhub.writer.file_writer import DiscardingFileWriter as DummyFileWriter

if TYPE_CHECKING:
    from tbhub.writer.summaries.histogram import Bins

__all__ = ["DummyFileWriter", "FileWriter", "SummaryWriter"]

_NO_COMET = {"disabled": True}


class FileWriter(_FileWriter):
    """Writes ``Event`` and ``Summary`` messages to event files in a directory."""

    def add_graph(self, graph_profile: Any, walltime: Any = None) -> None:
        """Adds a ``(GraphDef, RunMetadata)`` pair, the latter tagged ``profiler``."""
        from tbhub.events.schema import Event, TaggedRunMetadata

        graph, run_metadata = graph_profile
        self.add_onnx_graph(graph, walltime)
        tagged = TaggedRunMetadata(tag="profiler", run_metadata=run_metadata.SerializeToString())
        self.add_event(Event(tagged_run_metadata=tagged), None, walltime)


class SummaryWriter(summary_writer.SummaryWriter):
    """tbhub's SummaryWriter, called and named as tensorboardX's.

    Scalars, histograms, images and videos get cleaned tags; other kinds keep theirs.
    """

    _file_writer_type = FileWriter

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
        comet_config: Mapping[str, Any] | None = _NO_COMET,
        **kwargs: Any,
    ) -> None:
        """Opens an event file; see `tbhub.SummaryWriter`."""
        if kwargs:
            raise TypeError(f"SummaryWriter: unknown arguments {', '.join(sorted(kwargs))}")
        if comet_config and not comet_config.get("disabled"):
            warnings.warn(
                "SummaryWriter: Comet is not supported, comet_config has no effect",
                TbhubWarning,
                stacklevel=2,
            )
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

    def add_scalar(  # type: ignore[override]
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        display_name: str = "",
        summary_description: str = "",
    ) -> None:
        """Logs one number."""
        tag = clean_tag(tag)
        if display_name or summary_description:
            super().add_scalar(
                tag, scalar_value, global_step, walltime, display_name, summary_description
            )
            return
        status = self._add_scalar(tag, scalar_value, global_step, walltime)
        if status:
            self._attend_to(status, tag, scalar_value, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Logs several numbers under one tag, each in the sub-run ``<main tag>/<tag>``."""
        if isinstance(tag_scalar_dict, Mapping):
            # The directory keeps the main tag as given, which the cleaned one no longer tells.
            tag_scalar_dict = {f"{main_tag}/{tag}": each for tag, each in tag_scalar_dict.items()}
        super().add_scalars(clean_tag(main_tag), tag_scalar_dict, global_step, walltime)

    def _scalars_directory(self, main_tag: str, tag: str) -> str:
        return scalar_writer.below(self.logdir, tag)

    def add_hparams(  # type: ignore[override]
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Logs hyperparameters and what they led to, in the sub-run ``name``."""
        if isinstance(metric_dict, Mapping):
            metric_dict = {clean_tag(tag): value for tag, value in metric_dict.items()}
        super().add_hparams(hparam_dict, metric_dict, name=name, global_step=global_step)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Bins = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Logs the distribution of ``values``, of any shape."""
        super().add_histogram(clean_tag(tag), values, global_step, bins, walltime, max_bins)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Logs an image."""
        super().add_image(clean_tag(tag), img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(  # type: ignore[override]
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
        labels: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Logs an image with boxes drawn on it; ``rescale=`` resizes it."""
        rescale = kwargs.pop("rescale", 1)
        if kwargs:
            raise TypeError(
                f"add_image_with_boxes({tag!r:.80}): unknown arguments {', '.join(sorted(kwargs))}"
            )
        super().add_image_with_boxes(
            tag, img_tensor, box_tensor, global_step, walltime, rescale, dataformats, labels
        )

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: Any = None,
        fps: float = 4,
        walltime: float | None = None,
        dataformats: str = "NTCHW",
    ) -> None:
        """Logs a batch of videos as one animated image."""
        super().add_video(clean_tag(tag), vid_tensor, global_step, fps, walltime, dataformats)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Mapping[str, Any] | None = None,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Logs a mesh or a point cloud: batch by points by 3."""
        from tbhub.compat.tensorboardX.summary import mesh

        where = f"add_mesh({tag!r:.80})"
        scalar_writer.check_tag(tag, where)
        self._add(mesh(tag, vertices, colors, faces, config_dict), global_step, walltime, where)

    def add_onnx_graph(self, onnx_model_file: Any) -> None:  # type: ignore[override]
        """Logs the graph of an ONNX model."""
        super().add_onnx_graph(onnx_model_file)


def __getattr__(name: str) -> Any:
    # What annotations of tensorboardX's users name. Nothing is imported that is not there already.
    if name == "numpy_compatible":
        tensor = getattr(sys.modules.get("torch"), "Tensor", None)
        if tensor is not None:
            return tensor
        import numpy as np

        return np.ndarray
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
