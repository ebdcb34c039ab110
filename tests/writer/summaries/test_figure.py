import io
import types

import matplotlib
import numpy as np
import pytest
from PIL import Image

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from torch.utils.tensorboard._utils import figure_to_image as torch_figure_to_image

from tbhub.writer.summaries.figure import figure_to_image


def make_figure(size=(2, 1)):
    figure = plt.figure(figsize=size, dpi=50)
    figure.add_subplot().plot([1, 3, 2])
    return figure


def make_plotly_figure(pixels):
    """A figure of plotly's module whose drawing is known."""

    def to_image(self, kind):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, kind)
        return file.getvalue()

    members = {"to_image": to_image, "__module__": "plotly.graph_objs._figure"}
    return type("Figure", (), members)()


def test_pixels_are_those_of_torch():
    figure = make_figure()
    ours = figure_to_image(figure, close=False)
    assert ours.shape == (3, 50, 100)
    assert np.array_equal(ours, torch_figure_to_image(figure, close=True))


def test_a_list_gives_a_batch():
    figures = [make_figure(), make_figure()]
    ours = figure_to_image(figures, close=False)
    assert ours.shape == (2, 3, 50, 100)
    assert np.array_equal(ours, torch_figure_to_image(figures))


def test_closing_is_a_choice():
    figure = make_figure()
    figure_to_image(figure, close=False)
    assert plt.fignum_exists(figure.number)
    figure_to_image(figure)
    assert not plt.fignum_exists(figure.number)


def test_the_figure_keeps_its_canvas_and_needs_no_pyplot():
    figure = Figure(figsize=(1, 1), dpi=30)
    canvas = figure.canvas
    assert figure_to_image(figure).shape == (3, 30, 30)
    assert figure.canvas is canvas


def test_plotly_without_kaleido_says_what_to_install(monkeypatch):
    figure = pytest.importorskip("plotly.graph_objects").Figure()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install kaleido"):
        figure_to_image(figure)


def test_plotly_with_kaleido(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: types.SimpleNamespace(name=name))
    pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    image = figure_to_image(make_plotly_figure(pixels))
    assert np.array_equal(image, pixels.transpose(2, 0, 1))


def test_other_things_are_refused():
    with pytest.raises(TypeError, match=r"^add_figure: expected a matplotlib or plotly figure"):
        figure_to_image("figure")
    figures = [make_figure(), make_figure((1, 1))]
    with pytest.raises(ValueError, match=r"^add_figure\('f'\): figures in a list must have one"):
        figure_to_image(figures, where="add_figure('f')")
