"""tensorboardX's helpers for figures, images and videos."""

from __future__ import annotations

from tbhub.compat.common.pixels import (
    _prepare_video,
    convert_to_HWC,
    convert_to_NTCHW,
    figure_to_image,
    make_grid,
)

__all__ = [
    "_prepare_video",
    "convert_to_HWC",
    "convert_to_NTCHW",
    "figure_to_image",
    "make_grid",
]
