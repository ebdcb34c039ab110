"""What callers hand us, turned into numbers and numpy arrays.

Inputs are told apart by what they can do (``item``, ``__array__``, ``detach``, ``__dlpack__``),
never by their library: naming a framework would mean importing it. numpy itself is imported
inside the functions that need it, because logging a plain float must not load it.

Every function takes ``where``, the call as the user wrote it (``add_scalar('loss')``), which
opens each error so that it can be found in a script with hundreds of calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
# Dtype kinds that hold numbers: bool, signed, unsigned, float, complex.
_NUMERIC_KINDS = "biufc"


def to_float(value: object, where: str) -> float:
    """One number from a number, a one-element array of any rank, or nested one-element lists."""
    if type(value) is float:
        return value
    number = _only_element(value, where)
    if not hasattr(number, "__float__") and not hasattr(number, "__index__"):
        raise TypeError(f"{where}: expected one number, got {_describe(value)}")
    try:
        return float(number)
    except OverflowError:
        raise ValueError(f"{where}: {number!r:.40} is too large for a float") from None
    except (TypeError, ValueError):
        raise TypeError(f"{where}: expected one number, got {_describe(value)}") from None


def to_step(step: object, where: str) -> int:
    """A global step as ``int(step)`` would read it; None means 0.

    Floats are cut, numeric strings read, one-element arrays opened. What does not fit the
    int64 field of an event is refused here rather than wrapped on disk.
    """
    if step is None:
        return 0
    if type(step) is not int:
        if isinstance(step, list | tuple):
            raise TypeError(f"{where}: expected a whole number as step, got {_describe(step)}")
        number = _only_element(step, where)
        try:
            step = int(number)
        except (ValueError, OverflowError):
            raise ValueError(
                f"{where}: expected a whole number as step, got {number!r:.40}"
            ) from None
        except TypeError:
            raise TypeError(
                f"{where}: expected a whole number as step, got {_describe(step)}"
            ) from None
    if not _INT64_MIN <= step <= _INT64_MAX:
        raise ValueError(f"{where}: step {step!r:.40} does not fit in 64 bits")
    return step


def to_array(value: object, where: str) -> NDArray[Any]:
    """A numeric numpy array from an array, a tensor, a number, or lists of any of these.

    The result may share memory with the input, so callers must not write to it. Types numpy
    has no name for come back in the next wider one: bfloat16 and float8 as float32.
    """
    import numpy as np

    array = _as_numpy(value, where)
    if array.dtype.kind not in _NUMERIC_KINDS:
        array = _widen_extension_type(array)
    if array.dtype.kind not in _NUMERIC_KINDS:
        raise TypeError(f"{where}: expected an array of numbers, got {_describe(value)}")
    return np.asarray(array)


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Errors from inside that do not say which call they belong to are told with it."""
    try:
        yield
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        if str(error).startswith(where.partition("(")[0]):
            raise
        kind = ValueError if isinstance(error, ArithmeticError | ValueError) else TypeError
        raise kind(f"{where}: {error}") from error


def _only_element(value: object, where: str) -> Any:
    """The Python object inside a one-element array or list; anything else unchanged."""
    while isinstance(value, list | tuple):
        if len(value) != 1:
            raise ValueError(
                f"{where}: expected one number, got a {type(value).__name__} of length {len(value)}"
            )
        value = value[0]
    shape = getattr(value, "shape", None)
    if shape is None:
        return value
    shape = tuple(shape)
    if math.prod(shape) != 1:
        raise ValueError(f"{where}: expected one number, got an array of shape {shape}")
    item = getattr(value, "item", None)
    try:
        return item() if callable(item) else to_array(value, where).item()
    except (RuntimeError, NotImplementedError) as error:
        raise TypeError(f"{where}: cannot read {_describe(value)}: {error}") from error


def _as_numpy(value: object, where: str) -> NDArray[Any]:
    """``value`` as an array of whatever type; `to_array` decides whether it will do."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return value
    if value is None or isinstance(value, str | bytes | dict | set):
        raise TypeError(f"{where}: expected an array of numbers, got {_describe(value)}")
    if isinstance(value, list | tuple):
        return _stack(value, where)
    try:
        if hasattr(value, "detach"):
            return _from_tensor(value)
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        return np.asarray(value)
    except (ValueError, RuntimeError, NotImplementedError, BufferError) as error:
        raise TypeError(f"{where}: cannot read {_describe(value)}: {error}") from error


def _from_tensor(tensor: Any) -> NDArray[Any]:
    """A torch-like tensor off its graph, its device and its private number types."""
    tensor = tensor.detach()
    if getattr(tensor, "is_sparse", False):
        tensor = tensor.to_dense()
    tensor = tensor.cpu()
    for settle in ("resolve_conj", "resolve_neg"):  # lazy views numpy cannot express
        if hasattr(tensor, settle):
            tensor = getattr(tensor, settle)()
    try:
        array: NDArray[Any] = tensor.numpy()
    except TypeError:  # bfloat16, float8, complex32
        wide = tensor.cfloat() if tensor.is_complex() else tensor.float()
        array = wide.numpy()
    return array


def _stack(values: list[Any] | tuple[Any, ...], where: str) -> NDArray[Any]:
    """A list as one array: at once where numpy can, else element by element."""
    import numpy as np

    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError):
        array = None
    if array is not None and array.dtype != object:
        return array
    rows = [to_array(each, where) for each in values]
    shapes = {row.shape for row in rows}
    if len(shapes) > 1:
        raise TypeError(
            f"{where}: expected rows of one shape, got a ragged {type(values).__name__}"
            f" with shapes {sorted(shapes)[:3]}"
        )
    return np.stack(rows)


def _widen_extension_type(array: NDArray[Any]) -> NDArray[Any]:
    """ml_dtypes numbers (jax, TensorFlow) as the numpy type that holds all their values."""
    import numpy as np

    kinds: dict[str, type[np.generic]] = {
        "bfloat": np.float32,
        "float": np.float32,
        "int": np.int8,
        "uint": np.uint8,
    }
    wide = kinds.get(array.dtype.name.partition("_")[0].rstrip("0123456789"))
    return array if wide is None else array.astype(wide)


def _describe(value: object) -> str:
    """The type of a rejected value, with enough of it to recognize."""
    shape = getattr(value, "shape", None)
    name = type(value).__name__
    if shape is not None:
        return f"{name} of shape {tuple(shape)} and type {getattr(value, 'dtype', 'unknown')}"
    if value is None:
        return "None"
    return f"{name} {value!r:.40}"
