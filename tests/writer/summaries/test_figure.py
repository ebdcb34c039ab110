import matplotlib
import numpy as np
import plotly.graph_objects as plotly
import pytest

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from torch.utils.tensorboard._utils import figure_to_image as torch_figure_to_image

from tbhub.writer.summaries.figure import figure_to_image


def make_figure(size=(2, 1)):
    figure = plt.figure(figsize=size, dpi=50)
    figure.add_subplot().plot([1, 3, 2])
    return figure


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
    figure = plotly.Figure()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install kaleido"):
        figure_to_image(figure)


@pytest.mark.filterwarnings("ignore")  # of kaleido
def test_a_plotly_figure_is_drawn(tmp_path):
    """By the real kaleido in a real browser, which `make` installs."""
    figure = plotly.Figure(
        data=[plotly.Bar(x=["a", "b"], y=[1, 3], marker_color="rgb(255, 0, 0)")],
        layout={"width": 300, "height": 200, "margin": {"l": 0, "r": 0, "t": 0, "b": 0}},
    )
    image = figure_to_image(figure)
    assert image.shape == (3, 200, 300)
    red = (image[0] > 240) & (image[1] < 20) & (image[2] < 20)
    columns = np.flatnonzero(red.any(axis=0))
    left, right = red[:, columns[5]].sum(), red[:, columns[-5]].sum()
    assert right == pytest.approx(3 * left, rel=0.1)  # bars of one and three


def test_other_things_are_refused():
    with pytest.raises(TypeError, match=r"^add_figure: expected a matplotlib or plotly figure"):
        figure_to_image("figure")
    figures = [make_figure(), make_figure((1, 1))]
    with pytest.raises(ValueError, match=r"^add_figure\('f'\): figures in a list must have one"):
        figure_to_image(figures, where="add_figure('f')")
