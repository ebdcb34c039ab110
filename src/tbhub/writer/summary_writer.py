"""SummaryWriter: the calls of tensorboardX and torch.utils.tensorboard, at native speed.

Where the two libraries disagree in the meaning of a position, the type of the argument decides.
Everything but scalars is built in ``summaries`` and ``graphs``, which are imported when first
called for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tbhub._kernel import NON_FINITE
from tbhub.errors import WriteError
from tbhub.writer.arrays import naming, to_float, to_step
from tbhub.writer.non_finite import warn_non_finite
from tbhub.writer.scalar_writer import ScalarWriter, check_tag

if TYPE_CHECKING:
    from tbhub.writer.summaries.histogram import Bins


class SummaryWriter(ScalarWriter):
    """Writes everything TensorBoard can show to event files in one directory.

    Calls return at once; a background thread writes every ``flush_secs`` seconds. Threads may
    share a writer, a forked process writes to a file of its own, and a pickled writer goes on in
    the same directory. After ``close`` the next call opens a new file.
    """

    def _log(
        self, call: str, tag: Any, build: Callable[[], Any], global_step: Any, walltime: Any
    ) -> None:
        """Builds a summary and adds it; whatever is wrong is told with the call and the tag."""
        where = f"{call}({tag!r:.80})"
        check_tag(tag, where)
        with naming(where):
            summary = build()
        self._add(summary, global_step, walltime, where)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | str | None = None,
        run_name: str | int | None = None,
        global_step: Any = None,
        name: str | None = None,
    ) -> None:
        """Logs hyperparameters and what they led to, as a run of its own below the log directory.

        Both libraries' orders are understood: a string in third place is tensorboardX's ``name``,
        and a number behind it its ``global_step``.
        """
        from tbhub.writer.summaries.hparams import hparams

        if isinstance(hparam_domain_discrete, str):
            name, hparam_domain_discrete = hparam_domain_discrete, None
        if run_name is not None and not isinstance(run_name, str):
            run_name, global_step = None, run_name
        summaries = hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        run = name or run_name or str(time.time())
        directory = self.logdir if run == "." else os.path.join(self.logdir, run)
        step = to_step(global_step, "add_hparams")
        values = {
            tag: to_float(value, f"add_hparams: metric {tag!r:.80}")
            for tag, value in metric_dict.items()
        }
        writer = self._new_file_writer(directory)
        for summary in summaries:
            writer.add_summary(summary, step)
        if self._write_to_disk:
            for tag, value in values.items():
                status = writer.event_writer.sink.add_scalar(tag, value, step, None)
                if status & NON_FINITE:
                    warn_non_finite(tag, value, global_step, "add_hparams")
        try:
            writer.close()
        except WriteError:  # kept, and tried again with the others
            self._sub_writers[directory] = writer
            writer.event_writer.report()

    @property
    def default_bins(self) -> list[float]:
        """The edges of TensorBoard's exponential histogram buckets."""
        from tbhub._kernel import histogram_edges

        edges: list[float] = histogram_edges().tolist()
        return edges

    # ------------------------------------------------------------------ distributions

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Bins = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Logs the distribution of ``values``, of any shape.

        Args:
            tag: The series.
            values: An array, a tensor, a list.
            global_step: The step.
            bins: "tensorflow" for TensorBoard's exponential buckets, or what numpy.histogram takes.
            walltime: Seconds since the epoch, when not now.
            max_bins: Merge neighbouring buckets down to about so many.
        """
        from tbhub.writer.summaries.histogram import histogram

        self._log(
            "add_histogram",
            tag,
            lambda: histogram(tag, values, bins, max_bins),
            global_step,
            walltime,
        )

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: float,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Logs a histogram that the caller has counted: right edges and how many lie below each."""
        from tbhub.writer.summaries.histogram import histogram_raw

        where = f"add_histogram_raw({tag!r:.80})"
        self._log(
            "add_histogram_raw",
            tag,
            lambda: histogram_raw(
                tag,
                to_float(min, where),
                to_float(max, where),
                to_float(num, where),
                to_float(sum, where),
                to_float(sum_squares, where),
                bucket_limits,
                bucket_counts,
            ),
            global_step,
            walltime,
        )

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Logs a whole tensor, of any shape and element type."""
        from tbhub.writer.summaries.tensor import tensor as build

        self._log("add_tensor", tag, lambda: build(tag, tensor), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Logs the precision-recall curve of binary labels and predictions between 0 and 1."""
        from tbhub.writer.summaries.pr_curve import pr_curve

        self._log(
            "add_pr_curve",
            tag,
            lambda: pr_curve(tag, labels, predictions, num_thresholds, weights),
            global_step,
            walltime,
        )

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Logs a precision-recall curve that the caller has worked out."""
        from tbhub.writer.summaries.pr_curve import pr_curve_raw

        self._log(
            "add_pr_curve_raw",
            tag,
            lambda: pr_curve_raw(
                tag,
                true_positive_counts,
                false_positive_counts,
                true_negative_counts,
                false_negative_counts,
                precision,
                recall,
                num_thresholds,
                weights,
            ),
            global_step,
            walltime,
        )

    # ------------------------------------------------------------------ media

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Logs an image: floats between 0 and 1 or bytes, axes in the order of ``dataformats``."""
        from tbhub.writer.summaries.image import image

        self._log(
            "add_image", tag, lambda: image(tag, img_tensor, 1, dataformats), global_step, walltime
        )

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Logs a batch of images as one, in rows of eight."""
        if isinstance(img_tensor, list | tuple):
            dataformats = _with_batch_axis(dataformats)
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        rescale: float | str = 1,
        dataformats: str | Sequence[str] | None = "CHW",
        labels: Sequence[str] | None = None,
    ) -> None:
        """Logs an image with boxes (left, top, right, bottom) drawn on it, and their labels.

        tensorboardX's order (``dataformats``, ``labels`` behind ``walltime``) is understood.
        """
        from tbhub.writer.summaries.image import image_boxes

        if isinstance(rescale, str):
            if not isinstance(dataformats, str):
                labels = dataformats
            dataformats = rescale
            rescale = 1
        if labels is not None and isinstance(labels, str):
            labels = [labels]
        if not isinstance(dataformats, str):
            raise TypeError(f"add_image_with_boxes({tag!r:.80}): dataformats must be a string")
        self._log(
            "add_image_with_boxes",
            tag,
            lambda: image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels),
            global_step,
            walltime,
        )

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Logs a matplotlib or plotly figure, or a list of them, as an image."""
        from tbhub.writer.summaries.figure import figure_to_image

        where = f"add_figure({tag!r:.80})"
        check_tag(tag, where)
        with naming(where):
            pixels = figure_to_image(figure, close, where)
        dataformats = "NCHW" if pixels.ndim == 4 else "CHW"
        self.add_image(tag, pixels, global_step, walltime, dataformats)

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
        from tbhub.writer.summaries.video import video

        self._log(
            "add_video",
            tag,
            lambda: video(tag, vid_tensor, fps, dataformats),
            global_step,
            walltime,
        )

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Logs sound: values between -1 and 1, mono, or frames by channels for stereo."""
        from tbhub.writer.summaries.audio import audio

        self._log(
            "add_audio", tag, lambda: audio(tag, snd_tensor, sample_rate), global_step, walltime
        )

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Logs text, shown as Markdown."""
        from tbhub.writer.summaries.text import text

        self._log("add_text", tag, lambda: text(tag, text_string), global_step, walltime)

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
        from tbhub.writer.summaries.mesh import mesh

        self._log(
            "add_mesh",
            tag,
            lambda: mesh(tag, vertices, colors, faces, config_dict),
            global_step,
            walltime,
        )

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Logs points in space for the projector, one row each, with labels and pictures."""
        from tbhub.writer.embedding import write_embedding

        check_tag(tag, "add_embedding")
        step = to_step(global_step, f"add_embedding({tag!r:.80})")
        if not self._write_to_disk:
            return
        directory = self._local(self.logdir)
        if directory is None:
            raise ValueError(
                f"add_embedding({tag!r:.80}): the projector's files need a local log directory, "
                f"not {self.logdir}"
            )
        with naming(f"add_embedding({tag!r:.80})"):
            write_embedding(directory, mat, metadata, label_img, step, tag, metadata_header)

    # ------------------------------------------------------------------ graphs

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """Logs the graph of a torch module, traced with an example input."""
        from tbhub.writer.graphs.torch_graph import torch_graph

        graph = torch_graph(model, input_to_model, verbose, use_strict_trace)
        self._open().add_graph(graph)

    def add_onnx_graph(self, onnx_model_file: Any = None, *, prototxt: Any = None) -> None:
        """Logs the graph of an ONNX model, by path or as loaded (``prototxt`` is torch's name)."""
        from tbhub.writer.graphs.onnx_graph import onnx_graph

        source = onnx_model_file if onnx_model_file is not None else prototxt
        self._open().add_onnx_graph(onnx_graph(source))

    def add_openvino_graph(self, xmlname: str | os.PathLike[str]) -> None:
        """Logs the graph of an OpenVINO model, by the path of its XML file."""
        from tbhub.writer.graphs.openvino_graph import openvino_graph

        self._open().add_openvino_graph(openvino_graph(xmlname))

    # ------------------------------------------------------------------ layouts

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Lays out charts: ``{category: {chart: ["Multiline" or "Margin", [tags]]}}``."""
        from tbhub.writer.summaries.custom_scalars import custom_scalars

        with naming("add_custom_scalars"):
            summary = custom_scalars(layout)
        self._add(summary, None, None, "add_custom_scalars")

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Lays out one chart with several series."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Lays out one chart of a value between two bounds: exactly three tags."""
        if len(tags) != 3:
            raise ValueError(
                f"add_custom_scalars_marginchart({title!r:.80}): expected the tags of a value, "
                f"its lower and its upper bound, got {len(tags)}"
            )
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def export_scalars_to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes what ``add_scalars`` has logged: ``{directory: [[wall time, step, value], …]}``.

        It is read back from the event files, so that nothing has to be kept in memory for it.
        """
        import json

        from tbhub._kernel import Decoder
        from tbhub.events.names import is_event_file

        series: dict[str, list[list[float]]] = {}
        for directory, writer in self._sub_writers.items():
            writer.flush()
            place = self._local(directory)
            if place is None or not os.path.isdir(place):  # not written, or not to this machine
                continue
            points = series.setdefault(directory, [])
            for name in sorted(filter(is_event_file, os.listdir(place))):
                decoder = Decoder()
                decoder.read_file(os.path.join(place, name))
                for _, column in decoder.drain()[0]:
                    rows = zip(
                        column.wall_times.tolist(),
                        column.steps.tolist(),
                        column.values.tolist(),
                        strict=True,
                    )
                    points.extend(map(list, rows))
        with open(path, "w", encoding="utf-8") as file:
            json.dump(series, file)


def _with_batch_axis(dataformats: str) -> str:
    return dataformats if "N" in dataformats.upper() else "N" + dataformats
