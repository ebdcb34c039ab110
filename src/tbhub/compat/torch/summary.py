"""torch.utils.tensorboard's summary functions: its calls as ``Summary`` messages."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
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
from tbhub.writer.summaries import histogram as _histogram
from tbhub.writer.summaries import image as _image
from tbhub.writer.summaries import mesh as _mesh
from tbhub.writer.summaries import scalar as _scalar
from tbhub.writer.summaries import tensor as _tensor
from tbhub.writer.summaries import video as _video

__all__ = [
    "audio",
    "compute_curve",
    "custom_scalars",
    "draw_boxes",
    "half_to_int",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "image_boxes",
    "int_to_half",
    "make_histogram",
    "make_image",
    "make_video",
    "mesh",
    "pr_curve",
    "pr_curve_raw",
    "scalar",
    "tensor_proto",
    "text",
    "video",
]


def half_to_int(f: float) -> int:
    """The bits of a float32, as a signed number."""
    return int(struct.unpack("i", struct.pack("f", f))[0])


def int_to_half(i: int) -> float:
    """The float32 with these bits."""
    return float(struct.unpack("f", struct.pack("i", i))[0])


def hparams(
    hparam_dict: Mapping[str, Any] | None = None,
    metric_dict: Mapping[str, Any] | None = None,
    hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[Any, Any, Any]:
    """The summaries of an experiment, of its session's start and of its end."""
    return summaries.hparams(hparam_dict, metric_dict, hparam_domain_discrete)


def scalar(
    name: str,
    tensor: Any,
    collections: object = None,
    new_style: bool = False,
    double_precision: bool = False,
) -> Any:
    """A summary with one number; ``collections`` has no effect."""
    return _scalar.scalar(name, tensor, "", "", new_style, double_precision)


def tensor_proto(tag: str, tensor: Any) -> Any:
    """A summary with a whole tensor."""
    return _tensor.tensor(tag, tensor)


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """A summary with the distribution of ``values``."""
    return _histogram.histogram(name, values, bins, max_bins)


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """A summary with one image, or with a batch as a grid."""
    return _image.image(tag, tensor, rescale, dataformats)


def video(tag: str, tensor: Any, fps: float = 4) -> Any:
    """A summary with one animation."""
    return _video.video(tag, tensor, fps)


def mesh(
    tag: str,
    vertices: Any,
    colors: Any,
    faces: Any,
    config_dict: Mapping[str, Any] | None,
    display_name: str | None = None,
    description: str | None = None,
) -> Any:
    """A summary with the parts of a mesh, tagged ``<tag>_VERTEX``, ``_FACE`` and ``_COLOR``."""
    return _mesh.mesh(
        tag, vertices, colors, faces, config_dict, display_name or "", description or ""
    )
