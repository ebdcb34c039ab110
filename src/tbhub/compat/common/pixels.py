"""Arrays of pixels, arranged: the helpers both libraries offer beside their writers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbhub.writer.summaries.figure import figure_to_image as _figure_to_image
from tbhub.writer.summaries.image import arrange
from tbhub.writer.summaries.video import spread


def figure_to_image(figures: Any, close: bool = True) -> NDArray[np.uint8]:
    """A figure as [channels, height, width], or a list of them with one more axis in front."""
    return _figure_to_image(figures, close, "figure_to_image")


def make_grid(I: NDArray[Any], ncols: int = 8) -> NDArray[Any]:  # noqa: E741
    """[n, channels, height, width] as one [channels, height, width] of the same type.

    One channel becomes three. Places without an image stay 0.
    """
    if not isinstance(I, np.ndarray) or I.ndim != 4:
        raise ValueError("make_grid: expected an array of shape [n, channels, height, width]")
    if I.shape[1] == 1:
        I = I.repeat(3, axis=1)  # noqa: E741
    count, channels, height, width = I.shape
    columns = min(count, ncols)
    rows = -(-count // columns)
    tiles = np.zeros((rows * columns, channels, height, width), I.dtype)
    tiles[:count] = I
    tiles = tiles.reshape(rows, columns, channels, height, width).transpose(2, 0, 3, 1, 4)
    return tiles.reshape(channels, rows * height, columns * width)


def convert_to_HWC(tensor: NDArray[Any], input_format: str) -> NDArray[Any]:
    """An image or a batch, its axes named in any order, as [height, width, channels]."""
    return make_grid(arrange(tensor, input_format.upper(), "NCHW", "convert_to_HWC")).transpose(
        1, 2, 0
    )


def convert_to_NTCHW(tensor: NDArray[Any], input_format: str) -> NDArray[Any]:
    """Videos, their five axes named in any order, in the order of the name."""
    if sorted(input_format.upper()) != sorted("NTCHW"):
        raise ValueError(f"convert_to_NTCHW: {input_format!r} must name the axes N, T, C, H and W")
    return arrange(tensor, input_format.upper(), "NTCHW", "convert_to_NTCHW")


def _prepare_video(V: NDArray[Any]) -> NDArray[Any]:
    """A batch [n, time, channels, height, width] side by side: [time, height, width, channels]."""
    floats: Any = V / np.float32(255) if V.dtype == np.uint8 else V
    return spread(floats)
