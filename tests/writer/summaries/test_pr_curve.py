import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import tensorboardX.summary as tbx_summary
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import summary as torch_summary

from tbhub.writer.summaries.pr_curve import compute_curve, pr_curve, pr_curve_raw

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 2, 200)
PREDICTIONS = RNG.random(200)
WEIGHTS = RNG.random(200)


def parse(summary):
    return Summary.FromString(summary.SerializeToString())


@pytest.mark.parametrize("thresholds", [2, 10, 127, 500])
@pytest.mark.parametrize("weights", [None, WEIGHTS, 0.5])
def test_as_both_libraries(thresholds, weights):
    ours = parse(pr_curve("pr", LABELS, PREDICTIONS, thresholds, weights))
    assert ours == torch_summary.pr_curve("pr", LABELS, PREDICTIONS, thresholds, weights)
    assert ours == parse(tbx_summary.pr_curve("pr", LABELS, PREDICTIONS, thresholds, weights))


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64]),
        st.integers(1, 60),
        elements=st.floats(0, 1, width=32),
    ),
    st.integers(1, 127),
)
def test_numbers_as_torch(predictions, thresholds):
    labels = np.arange(predictions.size) % 2 == 0
    ours = compute_curve(labels, predictions, thresholds)
    assert np.array_equal(ours, torch_summary.compute_curve(labels, predictions, thresholds))


def test_tensors_lists_and_matrices():
    expected = pr_curve("pr", LABELS, PREDICTIONS)
    assert pr_curve("pr", LABELS.tolist(), PREDICTIONS.tolist()) == expected
    assert pr_curve("pr", torch.tensor(LABELS), torch.tensor(PREDICTIONS)) == expected
    square = pr_curve("pr", LABELS.reshape(20, 10) > 0, PREDICTIONS.reshape(20, 10))
    assert square == expected


@pytest.mark.parametrize("thresholds", [5, 127, 300])
def test_raw_curves_as_both_libraries(thresholds):
    rows = compute_curve(LABELS, PREDICTIONS, 5)
    ours = parse(pr_curve_raw("pr", *rows, thresholds))
    assert ours == torch_summary.pr_curve_raw("pr", *rows, thresholds)
    assert ours == parse(tbx_summary.pr_curve_raw("pr", *rows, thresholds))
    assert parse(pr_curve_raw("pr", *rows.tolist(), thresholds)) == ours


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": LABELS[1:]}, "got 199 labels but 200 predictions"),
        ({"predictions": PREDICTIONS + 1}, "predictions must lie between 0 and 1"),
        ({"predictions": PREDICTIONS - 1}, "predictions must lie between 0 and 1"),
        ({"predictions": np.full(200, np.nan)}, "predictions must lie between 0 and 1"),
        ({"weights": WEIGHTS[1:]}, "got 200 labels but 199 weights"),
        ({"num_thresholds": 0}, "num_thresholds must be at least 1"),
    ],
)
def test_bad_curves_are_refused(options, message):
    with pytest.raises(ValueError, match=rf"^add_pr_curve\('pr'\): {message}"):
        pr_curve("pr", **{"labels": LABELS, "predictions": PREDICTIONS, **options})


def test_bad_types_and_lengths_are_refused():
    with pytest.raises(TypeError, match=r"^add_pr_curve\('pr'\): expected an array of numbers"):
        pr_curve("pr", ["a"], [0.5])
    with pytest.raises(ValueError, match=r"^add_pr_curve_raw\('pr'\): the six rows must have one"):
        pr_curve_raw("pr", [1], [1], [1], [1], [1], [1, 2])
