import io
import wave

import numpy as np
import pytest
import tensorboardX.summary as tbx_summary
import torch
from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import summary as torch_summary

from tbhub.writer.summaries.audio import audio

RNG = np.random.default_rng(0)


def parse(summary):
    """TensorBoard's view of our message without the file, the file's format, its samples."""
    (value,) = Summary.FromString(summary.SerializeToString()).value
    with wave.open(io.BytesIO(value.audio.encoded_audio_string)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        form = file.getnchannels(), file.getsampwidth(), file.getframerate()
    value.audio.encoded_audio_string = b""
    return value, form, samples.reshape(-1, form[0])


@pytest.mark.parametrize("shape", [(500,), (500, 1), (500, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_file_is_tensorboardxs(shape, dtype):
    clip = RNG.uniform(-1, 1, shape).astype(dtype)
    clip.flat[:4] = -1, 1, 0, 0.5
    value, form, samples = parse(audio("voice", clip, 16000))
    expected_value, expected_form, expected = parse(tbx_summary.audio("voice", clip, 16000))
    assert value == expected_value
    assert form == expected_form
    assert np.array_equal(samples, expected)


def test_mono_is_within_rounding_of_torch():
    clip = RNG.uniform(-1, 1, (1, 500))
    value, form, samples = parse(audio("voice", torch.tensor(clip)))
    expected_value, expected_form, expected = parse(torch_summary.audio("voice", clip))
    assert value == expected_value
    assert form == expected_form == (1, 2, 44100)
    # torch counts in 1/32767 and rounds towards zero, we and libsndfile in 1/32768 and down.
    assert np.abs(samples.astype(int) - expected).max() <= 2


@pytest.mark.parametrize(
    ("shape", "frames", "channels"),
    [
        ((1, 9), 9, 1),
        ((2, 9), 9, 2),
        ((1, 1, 9), 9, 1),
        ((2, 2), 2, 2),
        ((1, 2), 1, 2),
        ((1,), 1, 1),
    ],
)
def test_channels_may_come_first(shape, frames, channels):
    clip = RNG.uniform(-1, 1, shape)
    value, _, samples = parse(audio("voice", clip))
    assert (value.audio.length_frames, value.audio.num_channels) == (frames, channels)
    assert samples.shape == (frames, channels)
    if shape == (2, 9):
        assert np.array_equal(samples, np.floor(clip.T * 2**15))


def test_int16_samples_are_kept():
    clip = RNG.integers(-(2**15), 2**15, (50, 2)).astype(np.int16)
    assert np.array_equal(parse(audio("voice", clip))[2], clip)
    assert np.array_equal(parse(audio("voice", clip.astype(">i2")))[2], clip)


def test_loud_samples_are_clipped_with_a_warning():
    with pytest.warns(UserWarning, match=r"add_audio\('voice'\): samples beyond -1 to 1") as caught:
        samples = parse(audio("voice", [0.0, 2.0, -np.inf, np.nan]))[2]
    assert len(caught) == 1
    assert samples[:, 0].tolist() == [0, 32767, -32768, 0]


def test_nan_is_silence_and_small_whole_numbers_are_amplitudes():
    assert parse(audio("voice", np.array([np.nan, 0.5])))[2][:, 0].tolist() == [0, 16384]
    assert parse(audio("voice", [1, 0, -1]))[2][:, 0].tolist() == [32767, 0, -32768]


@pytest.mark.parametrize(
    ("clip", "options", "error", "message"),
    [
        (np.zeros((5, 3)), {}, ValueError, r"got shape \(5, 3\)"),
        (np.zeros((5, 5, 5)), {}, ValueError, r"got shape \(5, 5, 5\)"),
        (np.zeros(0), {}, ValueError, "has no samples"),
        (np.zeros(5), {"sample_rate": 0}, ValueError, "sample_rate must be above 0"),
        (np.arange(5), {}, TypeError, "must be int16, got int64"),
        (np.zeros(5, dtype=complex), {}, TypeError, "expected real samples"),
        ("noise", {}, TypeError, "expected an array of numbers"),
    ],
)
def test_bad_clips_are_refused(clip, options, error, message):
    with pytest.raises(error, match=rf"^add_audio\('voice'\): .*{message}"):
        audio("voice", clip, **options)
