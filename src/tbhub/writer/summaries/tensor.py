"""Whole tensors, as raw bytes: no number is turned into a Python object on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbhub._kernel import MAX_RECORD_BYTES
from tbhub.events import schema
from tbhub.writer.arrays import to_array

_DATA_TYPES = {
    "bool": "DT_BOOL",
    "int8": "DT_INT8",
    "int16": "DT_INT16",
    "int32": "DT_INT32",
    "int64": "DT_INT64",
    "uint8": "DT_UINT8",
    "uint16": "DT_UINT16",
    "uint32": "DT_UINT32",
    "uint64": "DT_UINT64",
    "float16": "DT_HALF",
    "float32": "DT_FLOAT",
    "float64": "DT_DOUBLE",
    "complex64": "DT_COMPLEX64",
    "complex128": "DT_COMPLEX128",
}


def tensor(tag: str, tensor: object) -> Any:
    """A summary that holds the values, shape and type of ``tensor`` as they are.

    bfloat16 is stored as float32, which has all its values: TensorBoard's own reader cannot
    decode bfloat16.
    """
    where = f"add_tensor({tag!r})"
    array = to_array(tensor, where)
    metadata = schema.SummaryMetadata(
        plugin_data=schema.SummaryMetadata.PluginData(plugin_name="tensor")
    )
    value = schema.Summary.Value(tag=tag, metadata=metadata, tensor=tensor_proto(array, where))
    return schema.Summary(value=[value])


def tensor_proto(array: NDArray[Any], where: str) -> Any:
    """The TensorProto of a numeric array, little-endian in ``tensor_content``."""
    if array.dtype.kind in "fc" and array.dtype.name not in _DATA_TYPES:  # long double
        array = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    if array.nbytes > MAX_RECORD_BYTES:
        raise ValueError(
            f"{where}: a tensor of {array.nbytes >> 20} MB is too large; readers take up to "
            f"{MAX_RECORD_BYTES >> 20} MB"
        )
    little_endian = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return schema.TensorProto(
        dtype=_DATA_TYPES[array.dtype.name],
        tensor_shape=shape_proto(array.shape),
        tensor_content=little_endian.tobytes(),
    )


def shape_proto(shape: tuple[int, ...]) -> Any:
    """A shape as its message."""
    return schema.TensorShapeProto(dim=[schema.TensorShapeProto.Dim(size=size) for size in shape])
