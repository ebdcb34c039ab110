import io

import numpy as np
import pytest
from PIL import Image
from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard._utils import _prepare_video

from tbhub.writer.summaries.video import video

RNG = np.random.default_rng(0)


def parse(summary):
    """TensorBoard's view of our message, the GIF's frames and their durations."""
    (value,) = Summary.FromString(summary.SerializeToString()).value
    gif = Image.open(io.BytesIO(value.image.encoded_image_string))
    frames, durations = [], []
    for index in range(gif.n_frames):
        gif.seek(index)
        durations.append(gif.info["duration"])
        frames.append(np.asarray(gif.convert("RGB")))
    return value, gif, np.stack(frames), durations


def few_colors(shape):
    return RNG.integers(0, 3, shape).astype(np.uint8) * 100


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 8, 9, 16])
@pytest.mark.parametrize("channels", [1, 3])
def test_batches_lie_in_the_grid_of_the_libraries(batch, channels):
    array = few_colors((batch, 3, channels, 6, 8))
    value, gif, frames, _ = parse(video("clip", array))
    expected = _prepare_video(array.astype(np.float64)).astype(np.uint8)
    assert value.tag == "clip"
    image = value.image
    assert (image.height, image.width, image.colorspace) == expected.shape[1:]
    assert np.array_equal(frames, np.broadcast_to(expected, (*expected.shape[:3], 3)))
    assert gif.info["loop"] == 0


def test_grey_videos_keep_every_shade():
    array = RNG.integers(0, 256, (1, 4, 1, 16, 16), dtype=np.uint8)
    *_, frames, _ = parse(video("clip", array))
    assert np.array_equal(frames[..., 0], array[0, :, 0])


def test_many_colors_come_close():
    y, x = np.mgrid[0:64, 0:64] / 64
    frames = [np.stack([x, y, np.full_like(x, shade)]) for shade in (0.2, 0.5, 0.8)]
    *_, decoded, _ = parse(video("clip", np.stack(frames)[np.newaxis]))
    error = decoded.astype(float) - 255 * np.stack(frames).transpose(0, 2, 3, 1)
    assert np.sqrt((error**2).mean()) < 10


def test_floats_are_scaled_and_clipped():
    array = np.array([-1, 0, 0.5, 2, np.nan]).reshape(1, 1, 1, 1, 5)
    *_, frames, _ = parse(video("clip", array))
    assert frames[0, 0, :, 0].tolist() == [0, 0, 127, 255, 0]


def test_any_axis_order_and_a_dropped_alpha_channel():
    array = few_colors((2, 3, 4, 6, 8))
    *_, expected, _ = parse(video("clip", array[:, :, :3]))
    *_, reordered, _ = parse(video("clip", array.transpose(3, 4, 1, 0, 2), dataformats="hwtnc"))
    assert np.array_equal(reordered, expected)


@pytest.mark.parametrize(
    ("fps", "duration"), [(4, 250), (30, 30), (1, 1000), (0.5, 2000), (1000, 20)]
)
def test_frame_durations(fps, duration):
    *_, durations = parse(video("clip", few_colors((1, 3, 3, 8, 8)), fps=fps))
    assert durations == [duration] * 3


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (np.zeros((2, 3, 4, 4)), {}, "does not fit the format NTCHW"),
        (np.zeros((1, 2, 3, 4, 4)), {"dataformats": "NTCHX"}, "dataformats must be"),
        (np.zeros((1, 2, 2, 4, 4)), {}, "expected 1, 3 or 4 channels, got 2"),
        (np.zeros((1, 0, 3, 4, 4)), {}, "has no pixels"),
        (np.zeros((1, 2, 3, 4, 4)), {"fps": 0}, "fps must be above 0, got 0"),
    ],
)
def test_bad_videos_are_refused(array, options, message):
    with pytest.raises(ValueError, match=rf"^add_video\('clip'\): .*{message}"):
        video("clip", array, **options)
