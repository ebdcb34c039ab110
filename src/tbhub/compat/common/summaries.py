"""The summary functions whose signatures the two libraries share."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbhub.writer.arrays import to_array
from tbhub.writer.summaries import histogram as _histogram
from tbhub.writer.summaries import image as _image
from tbhub.writer.summaries import pr_curve as _pr_curve
from tbhub.writer.summaries import video as _video
from tbhub.writer.summaries.audio import audio
from tbhub.writer.summaries.custom_scalars import custom_scalars
from tbhub.writer.summaries.pr_curve import MAX_THRESHOLDS, pr_curve, pr_curve_raw
from tbhub.writer.summaries.text import text

__all__ = [
    "audio",
    "compute_curve",
    "custom_scalars",
    "draw_boxes",
    "histogram_raw",
    "image_boxes",
    "make_histogram",
    "make_image",
    "make_video",
    "pr_curve",
    "pr_curve_raw",
    "text",
]


def make_histogram(values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """The ``HistogramProto`` of an array of any shape."""
    return _histogram.make_histogram(
        to_array(values, "make_histogram"), bins, max_bins, "make_histogram"
    )


def histogram_raw(
    name: str,
    min: float,
    max: float,
    num: float,
    sum: float,
    sum_squares: float,
    bucket_limits: Any,
    bucket_counts: Any,
) -> Any:
    """A summary with a histogram that the caller has counted."""
    return _histogram.histogram_raw(
        name, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
    )


def image_boxes(
    tag: str,
    tensor_image: Any,
    tensor_boxes: Any,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: Sequence[str] | None = None,
) -> Any:
    """A summary with an image and boxes drawn on it."""
    return _image.image_boxes(tag, tensor_image, tensor_boxes, rescale, dataformats, labels)


def make_image(
    tensor: Any, rescale: float = 1, rois: Any = None, labels: Sequence[str] | None = None
) -> Any:
    """The ``Summary.Image`` of bytes [height, width, channels], with boxes where given."""
    boxes = np.empty((0, 4)) if rois is None else rois
    labels = None if rois is None else labels
    summary = _image.image_boxes("make_image", tensor, boxes, rescale, "HWC", labels)
    return summary.value[0].image


def draw_boxes(disp_image: Any, boxes: Any, labels: Sequence[str] | None = None) -> Any:
    """A Pillow image with red boxes drawn on it, in place."""
    from PIL import Image

    drawn = make_image(np.asarray(disp_image), 1, boxes, labels).encoded_image_string
    with Image.open(io.BytesIO(drawn)) as result:
        disp_image.paste(result)
    return disp_image


def make_video(tensor: Any, fps: float) -> Any:
    """The ``Summary.Image`` of frames [time, height, width, channels]."""
    frames = to_array(tensor, "make_video")[np.newaxis]
    return _video.video("make_video", frames, fps, "NTHWC").value[0].image


def compute_curve(
    labels: Any, predictions: Any, num_thresholds: int | None = None, weights: Any = None
) -> NDArray[np.float64]:
    """Rows tp, fp, tn, fn, precision, recall, with one column per threshold."""
    thresholds = MAX_THRESHOLDS if num_thresholds is None else num_thresholds
    return _pr_curve.compute_curve(labels, predictions, thresholds, weights)


def hparams(
    hparam_dict: Mapping[str, Any] | None,
    metric_dict: Mapping[str, Any] | None,
    hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[Any, Any, Any]:
    """The summaries of an experiment, of its session's start and of its end."""
    from tbhub.writer.summaries.hparams import hparams as build

    return build(hparam_dict or {}, metric_dict or {}, hparam_domain_discrete)
