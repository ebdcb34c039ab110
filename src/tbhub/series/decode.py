"""Values that are not scalars, from the bytes they are stored in.

The same picture can be stored in two ways: in a message of its own (torch, tensorboardX, TensorFlow
1) or as a tensor of strings (TensorFlow 2). Both come out alike here.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbhub._kernel import MAX_RECORD_BYTES
from tbhub.events.schema import DataType, HParamsPluginData, Summary

# A few stored bytes may claim any shape; no tensor in a log is larger than its record may be.
_MAX_ELEMENTS = MAX_RECORD_BYTES


@dataclass(frozen=True)
class Image:
    """An encoded picture (PNG, GIF, …); ``array`` decodes it."""

    width: int
    height: int
    encoded: bytes

    @property
    def array(self) -> NDArray[np.uint8]:
        """The pixels: height by width, or by width by channels."""
        from PIL import Image as Pillow

        with Pillow.open(io.BytesIO(self.encoded)) as picture:
            return np.asarray(picture)


@dataclass(frozen=True)
class Audio:
    """An encoded sound."""

    sample_rate: float
    content_type: str
    encoded: bytes


@dataclass(frozen=True)
class Histogram:
    """A distribution: ``counts[i]`` values lie between ``edges[i]`` and ``edges[i + 1]``."""

    edges: NDArray[np.float64]
    counts: NDArray[np.float64]

    @property
    def num(self) -> float:
        """How many values were counted."""
        return float(self.counts.sum())


def decode_tensor(proto: Any) -> NDArray[Any]:
    """A TensorProto as an array; strings become an array of bytes objects."""
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    if proto.dtype == DataType.Value("DT_STRING"):
        strings = np.empty(len(proto.string_val), dtype=object)
        strings[:] = list(proto.string_val)
        return _shaped(strings, shape)
    name = DataType.Name(proto.dtype)
    if name not in _ELEMENTS:
        raise ValueError(f"tensors of {name} cannot be decoded")
    dtype, field_name, convert = _ELEMENTS[name]
    if proto.tensor_content:
        raw = np.frombuffer(proto.tensor_content, dtype)
        return _shaped(_from_bfloat16(raw) if name == "DT_BFLOAT16" else raw, shape)
    listed = np.array(getattr(proto, field_name))
    return _shaped(convert(listed), shape)


def _shaped(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Protobuf leaves out repeated trailing values: the last one fills what is missing."""
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count > _MAX_ELEMENTS:
        raise ValueError(f"a tensor of shape {shape} cannot be right")
    if 0 < len(values) < count:
        values = np.concatenate([values, np.repeat(values[-1:], count - len(values))])
    return values.reshape(shape)


def _from_bfloat16(bits: NDArray[Any]) -> NDArray[np.float32]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _complex(dtype: Any) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return lambda pairs: (pairs[0::2] + 1j * pairs[1::2]).astype(dtype)


def _cast(dtype: Any) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return lambda values: values.astype(dtype)


# Element type: dtype of tensor_content, the field of single values, and how to read that field.
_ELEMENTS: dict[str, tuple[Any, str, Callable[[NDArray[Any]], NDArray[Any]]]] = {
    "DT_FLOAT": ("<f4", "float_val", _cast(np.float32)),
    "DT_DOUBLE": ("<f8", "double_val", _cast(np.float64)),
    "DT_INT8": ("<i1", "int_val", _cast(np.int8)),
    "DT_INT16": ("<i2", "int_val", _cast(np.int16)),
    "DT_INT32": ("<i4", "int_val", _cast(np.int32)),
    "DT_INT64": ("<i8", "int64_val", _cast(np.int64)),
    "DT_UINT8": ("<u1", "int_val", _cast(np.uint8)),
    "DT_UINT16": ("<u2", "int_val", _cast(np.uint16)),
    "DT_UINT32": ("<u4", "uint32_val", _cast(np.uint32)),
    "DT_UINT64": ("<u8", "uint64_val", _cast(np.uint64)),
    "DT_BOOL": ("?", "bool_val", _cast(np.bool_)),
    "DT_HALF": ("<f2", "half_val", lambda bits: bits.astype(np.uint16).view(np.float16)),
    "DT_BFLOAT16": ("<u2", "half_val", _from_bfloat16),
    "DT_COMPLEX64": ("<c8", "scomplex_val", _complex(np.complex64)),
    "DT_COMPLEX128": ("<c16", "dcomplex_val", _complex(np.complex128)),
}


def _value(data: bytes) -> Any:
    return Summary.Value.FromString(data)


def tensor_from(data: bytes) -> NDArray[Any]:
    """The tensor of a stored value."""
    return decode_tensor(_value(data).tensor)


def image_from(data: bytes) -> Image:
    """The (first) picture of a stored value."""
    value = _value(data)
    if value.HasField("image"):
        return Image(value.image.width, value.image.height, value.image.encoded_image_string)
    strings = list(value.tensor.string_val)
    if len(strings) < 3:
        return Image(0, 0, b"")
    return Image(int(strings[0]), int(strings[1]), strings[2])


def audio_from(data: bytes) -> Audio:
    """The (first) sound of a stored value."""
    value = _value(data)
    if value.HasField("audio"):
        audio = value.audio
        return Audio(audio.sample_rate, audio.content_type, audio.encoded_audio_string)
    sounds = value.tensor.string_val
    return Audio(0, "audio/wav", sounds[0] if sounds else b"")


def histogram_from(data: bytes) -> Histogram:
    """The distribution of a stored value."""
    value = _value(data)
    if value.HasField("histo"):
        histo = value.histo
        limits, counts = np.array(histo.bucket_limit), np.array(histo.bucket)
        if len(limits) == 0:
            return Histogram(np.zeros(1), np.zeros(0))
        # Stored are right edges; the first bucket is open to the left and ends at the minimum.
        if counts[0] == 0:
            return Histogram(limits, counts[1:])
        left = min(histo.min, limits[0])
        return Histogram(np.concatenate([[left], limits]), counts)
    buckets = decode_tensor(value.tensor).reshape(-1, 3)
    if len(buckets) == 0:
        return Histogram(np.zeros(1), np.zeros(0))
    return Histogram(np.append(buckets[:, 0], buckets[-1, 1]), buckets[:, 2].astype(np.float64))


def text_from(data: bytes) -> str:
    """The text of a stored value; several strings come one to a line."""
    strings = _value(data).tensor.string_val
    return "\n".join(each.decode("utf-8", "replace") for each in strings)


def hparams_from(metadata: bytes) -> dict[str, Any]:
    """The hyperparameters in the metadata of a session start; empty for other metadata."""
    from tbhub.events.schema import SummaryMetadata

    content = SummaryMetadata.FromString(metadata).plugin_data.content
    start = HParamsPluginData.FromString(content).session_start_info
    return {name: _plain(value) for name, value in sorted(start.hparams.items())}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    return None if kind in (None, "null_value") else getattr(value, kind)
