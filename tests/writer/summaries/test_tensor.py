import hypothesis.extra.numpy as hnp
import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.util.tensor_util import make_ndarray
from torch.utils.tensorboard import summary as torch_summary

from tbhub.writer.summaries import tensor as tensor_module
from tbhub.writer.summaries.tensor import tensor

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


def parse(summary):
    (value,) = Summary.FromString(summary.SerializeToString()).value
    return value, make_ndarray(value.tensor)


@given(st.sampled_from(DTYPES).flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0))))
def test_values_shape_and_type_survive(array):
    for order in (array, np.array(array, order="F"), array.astype(array.dtype.newbyteorder(">"))):
        value, read = parse(tensor("t", order))
        assert value.metadata.plugin_data.plugin_name == "tensor"
        assert read.dtype == array.dtype
        assert np.array_equal(read, array, equal_nan=True)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "complex64"]
)
def test_the_message_is_torchs_but_for_the_packing(dtype):
    values = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, dtype))
    ours, read = parse(tensor("a/b", values))
    (theirs,) = torch_summary.tensor_proto("a/b", values).value
    assert ours.tag == theirs.tag
    assert ours.metadata == theirs.metadata
    assert ours.tensor.dtype == theirs.tensor.dtype
    assert ours.tensor.tensor_shape == theirs.tensor.tensor_shape
    assert read.tolist() == values.tolist()


@pytest.mark.parametrize(
    "values",
    [
        torch.tensor([1.5, -2], dtype=torch.bfloat16, requires_grad=True),
        torch.tensor([1.5, -2], dtype=torch.half),
        np.array([1.5, -2], dtype=ml_dtypes.bfloat16),
        np.array([1.5, -2], dtype=np.longdouble),
        [1.5, -2],
    ],
    ids=lambda values: str(getattr(values, "dtype", "list")),
)
def test_other_floats_keep_their_values(values):
    assert parse(tensor("t", values))[1].tolist() == [1.5, -2]


def test_empty_tensors():
    assert parse(tensor("t", np.zeros((0, 3))))[1].shape == (0, 3)


def test_bad_tensors_are_refused(monkeypatch):
    with pytest.raises(TypeError, match=r"^add_tensor\('t'\): expected an array of numbers"):
        tensor("t", "text")
    monkeypatch.setattr(tensor_module, "MAX_RECORD_BYTES", 15)
    with pytest.raises(ValueError, match=r"^add_tensor\('t'\): a tensor of 0 MB is too large"):
        tensor("t", np.zeros(2))
