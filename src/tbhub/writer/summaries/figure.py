"""Figures of plotting libraries, drawn into pixels.

The library is known by the module its type comes from, so nothing is imported that the caller
has not imported already.
"""

from __future__ import annotations

import importlib.util
import io
import sys
from typing import Any

import numpy as np

from tbhub.writer.summaries.png import Pixels


def figure_to_image(figures: Any, close: bool = True, where: str = "add_figure") -> Pixels:
    """A matplotlib or plotly figure as [channels, height, width] bytes.

    A list of figures gives one more axis in front. ``close`` takes matplotlib figures out of
    pyplot's list, which would otherwise keep each of them in memory.
    """
    if not isinstance(figures, list | tuple):
        return _render(figures, close, where)
    images = [_render(figure, close, where) for figure in figures]
    shapes = sorted({image.shape for image in images})
    if len(shapes) != 1:
        raise ValueError(f"{where}: figures in a list must have one size, got {shapes}")
    return np.stack(images)


def _render(figure: Any, close: bool, where: str) -> Pixels:
    libraries = {kind.__module__.partition(".")[0] for kind in type(figure).__mro__}
    if "matplotlib" in libraries:
        pixels = _render_matplotlib(figure, close)
    elif "plotly" in libraries:
        pixels = _render_plotly(figure, where)
    else:
        raise TypeError(
            f"{where}: expected a matplotlib or plotly figure, got {type(figure).__name__}"
        )
    return np.moveaxis(pixels, 2, 0)


def _render_matplotlib(figure: Any, close: bool) -> Pixels:
    """Drawn on a canvas of our own, so an open window keeps its canvas."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    shown_on = figure.canvas
    try:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        pixels: Pixels = np.asarray(canvas.buffer_rgba())[:, :, :3].copy()
    finally:
        figure.set_canvas(shown_on)
    pyplot = sys.modules.get("matplotlib.pyplot")
    if close and pyplot is not None:
        pyplot.close(figure)
    return pixels


def _render_plotly(figure: Any, where: str) -> Pixels:
    if importlib.util.find_spec("kaleido") is None:
        raise ImportError(
            f"{where}: drawing a plotly figure needs kaleido; install it with `pip install kaleido`"
        )
    from PIL import Image

    with Image.open(io.BytesIO(figure.to_image("png"))) as image:
        return np.asarray(image.convert("RGB"))
