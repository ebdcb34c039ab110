"""Videos as looping GIFs, which TensorBoard shows wherever it shows an image."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from tbhub.events import schema
from tbhub.writer.arrays import to_array
from tbhub.writer.summaries.image import Pixels, arrange, to_pixels

if TYPE_CHECKING:
    from PIL import Image

_AXES = "NTCHW"
_SHORTEST_FRAME = 20  # milliseconds; browsers slow anything shorter down to 100


def video(tag: str, tensor: object, fps: float = 4, dataformats: str = _AXES) -> Any:
    """A summary with one animation; ``dataformats`` names the five axes in any order and case.

    Bytes are taken as they are, other numbers scaled by 255 and clipped. The videos of a batch
    play side by side.
    """
    where = f"add_video({tag!r})"
    if sorted(dataformats.upper()) != sorted(_AXES):
        raise ValueError(
            f"{where}: dataformats must be the letters {_AXES} in any order, got {dataformats!r}"
        )
    if not fps > 0:
        raise ValueError(f"{where}: fps must be above 0, got {fps}")
    videos = arrange(to_array(tensor, where), dataformats.upper(), _AXES, where)
    if videos.shape[2] not in (1, 3, 4):
        raise ValueError(f"{where}: expected 1, 3 or 4 channels, got {videos.shape[2]}")
    frames = spread(to_pixels(videos, where))
    _, height, width, channels = frames.shape
    message = schema.Summary.Image(
        height=height,
        width=width,
        colorspace=channels,
        encoded_image_string=_encode_gif(frames, fps),
    )
    return schema.Summary(value=[schema.Summary.Value(tag=tag, image=message)])


def spread(videos: Pixels) -> Pixels:
    """A batch as frames [time, height, width, channels], in a grid whose sides are powers of two.

    The batch is filled up with black to the next power of two; of its exponent, rows get the
    smaller half.
    """
    batch, time, channels, height, width = videos.shape
    size = 1 << (batch - 1).bit_length()
    if size != batch:
        black = np.zeros((size - batch, *videos.shape[1:]), np.uint8)
        videos = np.concatenate((videos, black))
    rows = 1 << (batch.bit_length() - 1) // 2
    columns = size // rows
    tiles = videos.reshape(rows, columns, time, channels, height, width)
    return tiles.transpose(2, 0, 4, 1, 5, 3).reshape(time, rows * height, columns * width, channels)


def _encode_gif(frames: Pixels, fps: float) -> bytes:
    """A GIF that loops for ever. It has no half transparency, so an alpha channel is left out."""
    from PIL import Image

    colors = frames[..., 0] if frames.shape[3] == 1 else frames[..., :3]
    images = [_to_palette(Image.fromarray(np.ascontiguousarray(each))) for each in colors]
    # GIF counts time in hundredths of a second, in 16 bits.
    duration = min(max(_SHORTEST_FRAME, round(100 / fps) * 10), 655350)
    file = io.BytesIO()
    images[0].save(file, "GIF", save_all=True, append_images=images[1:], duration=duration, loop=0)
    return file.getvalue()


def _to_palette(image: Image.Image) -> Image.Image:
    """At most 256 colours: exact where the frame has no more, else by octree.

    The octree is thirty times as fast as Pillow's default, at 33 instead of 35 dB on photographs.
    """
    from PIL import Image

    if image.mode == "L":
        return image
    few = image.getcolors(256) is not None
    return image.quantize(256, Image.Quantize.MEDIANCUT if few else Image.Quantize.FASTOCTREE)
