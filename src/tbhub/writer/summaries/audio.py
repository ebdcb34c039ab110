"""Sound as 16-bit WAV, mono or stereo."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbhub.events import schema
from tbhub.writer.arrays import to_array
from tbhub.writer.event_file import warn

# Samples are scaled to 32 bits and cut to 16, as libsndfile does. The limits are the ends of
# that range; the upper one is the last number a float32 can tell from 2**31.
_SCALE = 2.0**31
_LOWEST, _HIGHEST = -(2.0**31), 2.0**31 - 2**7


def audio(tag: str, tensor: object, sample_rate: int = 44100) -> Any:
    """A summary with one clip: [frames], [frames, channels], or channels first.

    Samples from -1 to 1 are scaled to 16 bits, louder ones clipped with a warning; int16
    samples are taken as they are.
    """
    where = f"add_audio({tag!r})"
    if not sample_rate > 0:
        raise ValueError(f"{where}: sample_rate must be above 0, got {sample_rate}")
    samples = _to_pcm(_frames_first(to_array(tensor, where), where), where)
    frames, channels = samples.shape
    file = io.BytesIO()
    with wave.open(file, "wb") as output:
        output.setnchannels(channels)
        output.setsampwidth(2)
        output.setframerate(int(sample_rate))
        output.writeframes(np.ascontiguousarray(samples).data)
    message = schema.Summary.Audio(
        sample_rate=sample_rate,
        num_channels=channels,
        length_frames=frames,
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return schema.Summary(value=[schema.Summary.Value(tag=tag, audio=message)])


def _frames_first(array: NDArray[Any], where: str) -> NDArray[Any]:
    """[frames, channels], whichever way round it came; two frames of two channels are as is."""
    shape = array.shape
    if array.size == 0:
        raise ValueError(f"{where}: an array of shape {shape} has no samples")
    if array.ndim > 2:
        array = array.squeeze()
    if array.ndim < 2:
        array = array.reshape(-1, 1)
    elif array.ndim == 2 and array.shape[0] <= 2 < array.shape[1]:
        array = array.T
    if array.ndim != 2 or array.shape[1] > 2:
        raise ValueError(
            f"{where}: expected [frames] or [frames, channels] with 1 or 2 channels,"
            f" got shape {shape}"
        )
    return array


def _to_pcm(samples: NDArray[Any], where: str) -> NDArray[np.int16]:
    """Little-endian 16-bit samples; NaN is silence."""
    if samples.dtype.kind == "i" and samples.dtype.itemsize == 2:
        return samples.astype("<i2", copy=False)
    if samples.dtype.kind == "c":
        raise TypeError(f"{where}: expected real samples, got {samples.dtype}")
    peak = max(float(np.max(samples)), -float(np.min(samples)))  # NaN when there is one
    if samples.dtype.kind in "iu" and peak > 1:
        raise TypeError(
            f"{where}: whole-number samples must be int16, got {samples.dtype};"
            " convert them, or scale to floats from -1 to 1"
        )
    if not peak <= 1:
        samples = np.nan_to_num(samples, nan=0.0)
        if np.abs(samples).max() > 1:
            warn(f"{where}: samples beyond -1 to 1 were clipped")
            samples = samples.clip(-1, 1)
    precise = np.float64 if samples.dtype == np.float64 else np.float32
    scaled = np.multiply(samples, _SCALE, dtype=precise, casting="unsafe")
    np.clip(np.rint(scaled, out=scaled), _LOWEST, _HIGHEST, out=scaled)
    pcm: NDArray[np.int16] = (scaled.astype(np.int32) >> 16).astype("<i2")
    return pcm
