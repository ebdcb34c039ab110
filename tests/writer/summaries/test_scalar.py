import itertools
import math

import numpy as np
import pytest
import tensorboardX.summary as tbx_summary
import torch
from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import summary as torch_summary

from tbhub.writer.summaries.scalar import scalar

VALUES = [0.1, 3, True, np.float32(2.5), np.array([[1e-30]]), torch.tensor([7.0]), math.inf, 1e39]


def parse(summary):
    return Summary.FromString(summary.SerializeToString())


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_as_torch_in_every_style(value):
    for new_style, double_precision in itertools.product([False, True], repeat=2):
        options = {"new_style": new_style, "double_precision": double_precision}
        assert parse(scalar("a b", value, **options)) == torch_summary.scalar(
            "a b", value, **options
        )


@pytest.mark.parametrize("name", ["", "shown"])
@pytest.mark.parametrize("description", ["", "what it is"])
def test_names_and_descriptions_as_tensorboardx(name, description):
    theirs = tbx_summary.scalar("loss", 0.5, name, description)
    assert parse(scalar("loss", 0.5, name, description)) == parse(theirs)


def test_the_new_style_has_names_too():
    (value,) = parse(scalar("loss", 0.5, "shown", "why", new_style=True)).value
    assert value.metadata.display_name == "shown"
    assert value.metadata.summary_description == "why"
    assert value.metadata.plugin_data.plugin_name == "scalars"


def test_nan_is_kept():
    (value,) = parse(scalar("loss", math.nan)).value
    assert math.isnan(value.simple_value)


def test_bad_values_are_refused_by_name():
    with pytest.raises(TypeError, match=r"^add_scalar\('loss'\): expected one number"):
        scalar("loss", "0.5")
    with pytest.raises(ValueError, match=r"^add_scalar\('loss'\): expected one number"):
        scalar("loss", np.zeros(2))
