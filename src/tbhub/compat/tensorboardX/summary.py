"""tensorboardX's summary functions: what its writers' calls log, as ``Summary`` messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tbhub.compat.common import summaries
from tbhub.compat.common.summaries import (
    audio,
    compute_curve,
    custom_scalars,
    draw_boxes,
    histogram_raw,
    image_boxes,
    make_histogram,
    make_image,
    make_video,
    pr_curve,
    pr_curve_raw,
    text,
)
from tbhub.compat.tensorboardX.tags import clean_tag as _clean_tag
from tbhub.writer.summaries import histogram as _histogram
from tbhub.writer.summaries import image as _image
from tbhub.writer.summaries import mesh as _mesh
from tbhub.writer.summaries import scalar as _scalar
from tbhub.writer.summaries import video as _video

__all__ = [
    "_clean_tag",
    "audio",
    "compute_curve",
    "custom_scalars",
    "draw_boxes",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "image_boxes",
    "make_histogram",
    "make_image",
    "make_video",
    "mesh",
    "pr_curve",
    "pr_curve_raw",
    "scalar",
    "text",
    "video",
]

_CONTENT_NUMBERS = {"VERTEX": 1, "FACE": 2, "COLOR": 3}


def hparams(
    hparam_dict: Mapping[str, Any] | None = None, metric_dict: Mapping[str, Any] | None = None
) -> tuple[Any, Any, Any]:
    """The summaries of an experiment, of its session's start and of its end."""
    return summaries.hparams(hparam_dict, metric_dict)


def scalar(name: str, scalar: Any, display_name: str = "", summary_description: str = "") -> Any:
    """A summary with one number."""
    return _scalar.scalar(_clean_tag(name), scalar, display_name, summary_description)


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """A summary with the distribution of ``values``."""
    return _histogram.histogram(_clean_tag(name), values, bins, max_bins)


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "CHW") -> Any:
    """A summary with one image."""
    return _image.image(_clean_tag(tag), tensor, rescale, dataformats)


def video(tag: str, tensor: Any, fps: float = 4, dataformats: str = "NTCHW") -> Any:
    """A summary with one animation."""
    return _video.video(_clean_tag(tag), tensor, fps, dataformats)


def mesh(
    tag: str,
    vertices: Any,
    colors: Any,
    faces: Any,
    config_dict: Mapping[str, Any] | None = None,
) -> Any:
    """A summary with the parts of a mesh, tagged ``<tag>_1``, ``_2`` and ``_3``."""
    summary = _mesh.mesh(tag, vertices, colors, faces, config_dict)
    for value in summary.value:
        value.tag = f"{tag}_{_CONTENT_NUMBERS[value.tag.rpartition('_')[2]]}"
    return summary
