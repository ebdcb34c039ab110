import math
import os
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec

import hypothesis.extra.numpy as hnp
import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tbhub.writer.arrays import to_array, to_float, to_step

WHERE = "add_scalar('loss')"
NUMERIC = hnp.scalar_dtypes().filter(lambda dtype: dtype.kind in "biufc")


def kind(value):
    """A name for a parameter that is the same in every process."""
    return type(value).__name__


class TensorFlowLike:
    """Has a shape and `numpy()`-style conversion, but no `item()`."""

    def __init__(self, array):
        self.array = np.asarray(array)
        self.shape = self.array.shape
        self.dtype = self.array.dtype

    def __array__(self, dtype=None, copy=None):
        return self.array


class OnlyDLPack:
    """An array of a library numpy has never heard of."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnAnotherDevice:
    """A tensor whose data can be read only after `cpu()`."""

    def detach(self):
        return self

    def cpu(self):
        return torch.tensor([1.5])


ONE_AND_A_HALF = [
    1.5,
    np.float32(1.5),
    np.float64(1.5),
    np.array(1.5),
    np.array([[1.5]], dtype=np.float16),
    [1.5],
    [[np.array([1.5])]],
    (1.5,),
    Fraction(3, 2),
    Decimal("1.5"),
    torch.tensor(1.5),
    torch.tensor([[1.5]], requires_grad=True),
    torch.tensor(1.5, dtype=torch.bfloat16),
    torch.nn.Parameter(torch.tensor([1.5], dtype=torch.half)),
    np.array([1.5], dtype=ml_dtypes.bfloat16),
    TensorFlowLike([1.5]),
]


@pytest.mark.parametrize("value", ONE_AND_A_HALF, ids=kind)
def test_one_number_from_anything(value):
    result = to_float(value, WHERE)
    assert result == 1.5
    assert type(result) is float


@pytest.mark.parametrize("value", [7, True, np.int8(7), np.uint64(2**63), np.True_])
def test_whole_numbers_and_bools(value):
    assert to_float(value, WHERE) == float(value)


JAX = """
import jax
import jax.numpy as jnp
from tbhub.writer.arrays import to_array, to_float, to_step
with jax.default_device(jax.devices("cpu")[0]):
    assert to_float(jnp.array([2.5]), "here") == 2.5
    assert to_step(jnp.array(3), "here") == 3
    array = to_array(jnp.ones((2, 2), dtype=jnp.bfloat16), "here")
assert array.dtype == "float32", array.dtype
assert array.tolist() == [[1, 1], [1, 1]]
"""


def test_jax_arrays():
    """In a process of its own: JAX's threads would forbid every other test to fork."""
    if find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    done = subprocess.run([sys.executable, "-c", JAX], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, torch.tensor(math.inf)])
def test_special_values_are_kept(value):
    assert np.array_equal(to_float(value, WHERE), float(value), equal_nan=True)


@pytest.mark.parametrize(
    "value",
    ["1.5", b"1.5", None, 1j, np.complex64(1j), {}, object(), ["1"], np.str_("1"), np.array(["1"])],
    ids=kind,
)
def test_what_is_no_number_is_refused_by_name(value):
    with pytest.raises(TypeError, match=r"^add_scalar\('loss'\): expected one number, got "):
        to_float(value, WHERE)


@pytest.mark.parametrize("value", [[1, 2], (), np.zeros(2), torch.zeros(0), torch.zeros(3, 1)])
def test_more_or_less_than_one_number_is_refused(value):
    with pytest.raises(ValueError, match=r"^add_scalar\('loss'\): expected one number, got an? "):
        to_float(value, WHERE)


def test_the_error_names_the_shape():
    with pytest.raises(ValueError, match=r"got an array of shape \(2,\)$"):
        to_float(torch.zeros(2), WHERE)


def test_a_number_beyond_floats_is_refused():
    with pytest.raises(ValueError, match="too large"):
        to_float(10**400, WHERE)


def test_a_tensor_without_data_is_refused():
    with pytest.raises(TypeError, match="cannot read Tensor"):
        to_float(torch.zeros(1, device="meta"), WHERE)
    with pytest.raises(TypeError, match="cannot read Tensor"):
        to_array(torch.zeros(1, device="meta"), WHERE)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (None, 0),
        (5, 5),
        (-3, -3),
        (2.9, 2),
        ("7", 7),
        (True, 1),
        (np.int32(4), 4),
        (np.array([4]), 4),
        (torch.tensor(6), 6),
        (torch.tensor([6.7]), 6),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
    ],
    ids=kind,
)
def test_steps(step, expected):
    result = to_step(step, WHERE)
    assert result == expected
    assert type(result) is int


@pytest.mark.parametrize(
    "step", [2**63, -(2**63) - 1, math.nan, math.inf, "seven", "7.5", "", np.zeros(2), 1e30]
)
def test_impossible_steps_are_refused(step):
    with pytest.raises(ValueError, match=r"^add_scalar\('loss'\): "):
        to_step(step, WHERE)


@pytest.mark.parametrize("step", [[1], (1,), {}, 1j, object()], ids=kind)
def test_steps_of_the_wrong_type_are_refused(step):
    with pytest.raises(TypeError, match=r"^add_scalar\('loss'\): expected a whole number as step"):
        to_step(step, WHERE)


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_int64_step_survives_numpy_and_torch(step):
    assert to_step(np.int64(step), WHERE) == step
    assert to_step(torch.tensor(step), WHERE) == step
    assert to_step(str(step), WHERE) == step


@given(hnp.arrays(NUMERIC, hnp.array_shapes(min_dims=0, min_side=0)))
def test_numeric_arrays_pass_unchanged(array):
    assert to_array(array, WHERE) is array


@given(
    hnp.arrays(
        st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int64, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0),
    )
)
def test_tensors_and_lists_give_the_same_values(array):
    for same in (torch.tensor(array), TensorFlowLike(array), OnlyDLPack(torch.tensor(array))):
        result = to_array(same, WHERE)
        assert result.dtype == array.dtype
        assert np.array_equal(result, array, equal_nan=True)
    if array.size:
        assert np.array_equal(to_array(array.tolist(), WHERE), array, equal_nan=True)


@pytest.mark.parametrize(
    ("tensor", "dtype"),
    [
        (torch.tensor([1.5, 2], dtype=torch.bfloat16, requires_grad=True), np.float32),
        (torch.tensor([1.5, 2], dtype=torch.float8_e5m2), np.float32),
        (torch.tensor([1.5, 2]).to_sparse(), np.float32),
        (torch.tensor([1.5 + 1j, 2]).conj(), np.complex64),
        (torch.tensor([1.5 + 1j, 2]).conj().imag, np.float32),
        (np.array([1.5, 2], dtype=ml_dtypes.bfloat16), np.float32),
        (np.array([1.5, 2], dtype=ml_dtypes.float8_e4m3fn), np.float32),
        (np.array([1, 2], dtype=ml_dtypes.int4), np.int8),
        (np.array([1, 2], dtype=ml_dtypes.uint4), np.uint8),
    ],
    ids=str,
)
def test_types_numpy_lacks_are_widened(tensor, dtype):
    array = to_array(tensor, WHERE)
    assert array.dtype == dtype
    if isinstance(tensor, np.ndarray):
        assert array.tolist() == tensor.tolist()
    else:
        wide = torch.complex64 if tensor.is_complex() else torch.float32
        expected = tensor.detach().to_dense().to(wide).resolve_conj().resolve_neg()
        assert array.tolist() == expected.tolist()


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_half_precision_complex_tensors_are_widened():
    array = to_array(torch.tensor([1.5 + 1j, 2]).to(torch.complex32), WHERE)
    assert array.dtype == np.complex64
    assert array.tolist() == [1.5 + 1j, 2]


@pytest.mark.parametrize(
    "value",
    [
        [torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])],
        [torch.tensor([1, 2], dtype=torch.bfloat16), np.array([3, 4])],
        ((1, 2), (3, 4)),
        [[torch.tensor(1.0, requires_grad=True), 2.0], [3, 4]],
    ],
    ids=["grad", "bfloat16 and numpy", "tuples", "mixed"],
)
def test_lists_of_tensors(value):
    assert to_array(value, WHERE).tolist() == [[1, 2], [3, 4]]


def test_a_tensor_elsewhere_is_fetched():
    assert to_array(OnAnotherDevice(), WHERE).tolist() == [1.5]
    assert to_array([OnAnotherDevice(), OnAnotherDevice()], WHERE).tolist() == [[1.5], [1.5]]


@pytest.mark.parametrize("value", [3, 2.5, True, 1j, np.float32(2)], ids=kind)
def test_numbers_become_arrays_without_axes(value):
    array = to_array(value, WHERE)
    assert array.shape == ()
    assert array.item() == value


@pytest.mark.parametrize(
    "value",
    [
        None,
        "abc",
        b"abc",
        {"a": 1},
        {1, 2},
        object(),
        ["a", "b"],
        [1, None],
        [1, "a"],
        [[1, 2], [3]],
        [np.zeros(2), np.zeros(3)],
        np.array([1, None]),
        np.array(["a"]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.zeros(2, dtype=[("x", "f4")]),
    ],
    ids=kind,
)
def test_what_is_no_array_of_numbers_is_refused(value):
    with pytest.raises(TypeError, match=r"^add_scalar\('loss'\): "):
        to_array(value, WHERE)


def test_plain_numbers_do_not_load_numpy():
    code = (
        "import sys\n"
        "from tbhub.writer.arrays import to_float, to_step\n"
        "assert to_float(0.5, 'x') == 0.5 and to_float(1, 'x') == 1 and to_step(3, 'x') == 3\n"
        "assert 'numpy' not in sys.modules and 'torch' not in sys.modules\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
