"""Images: any axis order, any numeric type, batches as a grid, boxes on request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbhub.events import schema
from tbhub.writer.arrays import to_array
from tbhub.writer.event_file import warn
from tbhub.writer.summaries.png import Pixels, encode_png

__all__ = ["Pixels", "arrange", "encode_png", "grid", "image", "image_boxes", "to_hwc", "to_pixels"]

_GRID_COLUMNS = 8
_LINE_WIDTH = 2


def image(tag: str, tensor: object, rescale: float = 1, dataformats: str = "CHW") -> Any:
    """A summary with one image.

    Bytes are taken as they are; every other type is scaled by 255 and clipped. ``dataformats``
    names the axes, in any order and case: HW, CHW or NCHW. A batch becomes a grid of eight
    columns, a single channel is repeated to RGB.
    """
    where = f"add_image({tag!r})"
    return _summary(tag, to_hwc(tensor, dataformats, where), rescale, where)


def image_boxes(
    tag: str,
    image: object,
    boxes: object,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: Sequence[str] | None = None,
) -> Any:
    """A summary with one image and red boxes on it, each ``xmin, ymin, xmax, ymax`` in pixels.

    ``labels`` has one text per box, written at its lower left corner; a list of another length
    is left out with a warning, since code that runs with the other libraries must run here.
    """
    where = f"add_image_with_boxes({tag!r})"
    pixels = to_hwc(image, dataformats, where)
    corners = to_array(boxes, where)
    if corners.size == 0:
        corners = corners.reshape(0, 4)
    if corners.ndim != 2 or corners.shape[1] != 4:
        raise ValueError(f"{where}: boxes must have the shape [n, 4], got {corners.shape}")
    if isinstance(labels, str):
        labels = [labels]
    if labels is not None and len(labels) != len(corners):
        warn(f"{where}: got {len(corners)} boxes but {len(labels)} labels, so none is drawn")
        labels = None
    return _summary(tag, _draw(pixels, corners, labels), rescale, where)


def to_hwc(tensor: object, dataformats: str, where: str) -> Pixels:
    """Bytes in the order height, width, channels, as they will be encoded."""
    array = to_array(tensor, where)
    axes = dataformats.upper()
    if isinstance(tensor, list | tuple) and array.ndim == len(axes) + 1 and "N" not in axes:
        axes = "N" + axes  # a list of images, each in the format given
    if sorted(axes) not in (["H", "W"], ["C", "H", "W"], ["C", "H", "N", "W"]):
        raise ValueError(
            f"{where}: dataformats must be the letters HW, CHW or NCHW in any order,"
            f" got {dataformats!r}"
        )
    planes = arrange(array, axes, "NCHW", where)
    if not 1 <= planes.shape[1] <= 4:
        raise ValueError(
            f"{where}: expected 1 to 4 channels, got {planes.shape[1]}"
            f" (shape {array.shape} read as {dataformats})"
        )
    return grid(to_pixels(planes, where), _GRID_COLUMNS)


def arrange(array: NDArray[Any], axes: str, wanted: str, where: str) -> NDArray[Any]:
    """``array`` with its named axes in the ``wanted`` order; a missing axis has length 1."""
    if array.ndim != len(axes):
        raise ValueError(
            f"{where}: an array of shape {array.shape} does not fit the format {axes},"
            f" which has {len(axes)} dimensions"
        )
    if array.size == 0:
        raise ValueError(f"{where}: an array of shape {array.shape} has no pixels")
    missing = "".join(axis for axis in wanted if axis not in axes)
    array = array.reshape((1,) * len(missing) + array.shape)
    return array.transpose([(missing + axes).index(axis) for axis in wanted])


def to_pixels(array: NDArray[Any], where: str) -> Pixels:
    """Bytes from any numbers: bytes stay, the rest is scaled by 255 and clipped, NaN is 0."""
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind == "c":
        raise TypeError(f"{where}: expected real numbers, got {array.dtype}")
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf, then 255
        scaled = np.multiply(array, 255, dtype=np.float32, casting="unsafe")
    np.clip(scaled, 0, 255, out=scaled)
    if np.isnan(scaled).any():
        np.nan_to_num(scaled, copy=False, nan=0)
    pixels: Pixels = scaled.astype(np.uint8)
    return pixels


def grid(images: Pixels, columns: int) -> Pixels:
    """[n, channels, height, width] as one [height, width, channels], filled row by row.

    One channel becomes three. Places without an image stay black.
    """
    count, channels, height, width = images.shape
    columns = min(columns, count)
    rows = -(-count // columns)
    depth = 3 if channels == 1 else channels
    canvas = (np.empty if rows * columns == count else np.zeros)(
        (rows * height, columns * width, depth), np.uint8
    )
    for index, planes in enumerate(images):
        top, left = index // columns * height, index % columns * width
        for channel in range(depth):
            canvas[top : top + height, left : left + width, channel] = planes[channel % channels]
    return canvas


def _summary(tag: str, pixels: Pixels, rescale: float, where: str) -> Any:
    """The message around the pixels; its size is that before rescaling, as elsewhere."""
    height, width, channels = pixels.shape
    encoded = encode_png(pixels if rescale == 1 else _rescale(pixels, rescale, where))
    message = schema.Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=encoded
    )
    return schema.Summary(value=[schema.Summary.Value(tag=tag, image=message)])


def _rescale(pixels: Pixels, rescale: float, where: str) -> Pixels:
    from PIL import Image

    height, width, channels = pixels.shape
    size = int(width * rescale), int(height * rescale)
    if min(size) < 1:
        raise ValueError(f"{where}: rescale={rescale} leaves no pixel of a {width}x{height} image")
    resized = Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS)
    return np.asarray(resized).reshape(size[1], size[0], channels)


def _draw(pixels: Pixels, boxes: NDArray[Any], labels: Sequence[str] | None) -> Pixels:
    """Boxes drawn in order, so that later ones cover earlier ones."""
    from PIL import Image, ImageDraw, ImageFont

    canvas = Image.fromarray(pixels)
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default() if labels else None
    for index, (left, top, right, bottom) in enumerate(boxes.tolist()):
        outline = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
        draw.line(outline, fill="red", width=_LINE_WIDTH)
        label = labels[index] if labels else ""
        if font is None or not label:
            continue
        box = font.getbbox(label)
        text_width, text_height = box[2] - box[0], box[3] - box[1]
        margin = float(np.ceil(text_height / 20))
        upper = bottom - text_height - 2 * margin
        draw.rectangle([(left, upper), (left + text_width, bottom)], fill="red")
        draw.text((left + margin, upper + margin), label, fill="black", font=font)
    return np.asarray(canvas)
