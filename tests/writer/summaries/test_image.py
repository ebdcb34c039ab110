import io
import itertools
import math

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import tensorboardX.summary as tbx_summary
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import summary as torch_summary

from tbhub.writer.summaries.image import encode_png, image, image_boxes

RNG = np.random.default_rng(0)
BOXES = np.array([[3, 4, 30, 20], [10.5, 8.25, 39, 29], [0, 0, 5, 5]])
ORDERS = [
    "".join(order) for axes in ("HW", "CHW", "NCHW") for order in itertools.permutations(axes)
]


def parse(summary):
    """Our message as TensorBoard's, with the pixels taken out of it."""
    (value,) = Summary.FromString(summary.SerializeToString()).value
    pixels = np.asarray(Image.open(io.BytesIO(value.image.encoded_image_string)))
    value.image.encoded_image_string = b""
    return value, pixels


def assert_same(ours, theirs):
    our_value, our_pixels = parse(ours)
    their_value, their_pixels = parse(theirs)
    assert our_value == their_value
    assert np.array_equal(our_pixels, their_pixels)


def random_image(shape, dtype):
    if dtype == "uint8":
        return RNG.integers(0, 256, shape, dtype=np.uint8)
    if dtype == "bool":
        return RNG.random(shape) > 0.5
    if np.issubdtype(dtype, np.integer):
        return RNG.integers(-2, 4, shape).astype(dtype)
    return RNG.normal(0.5, 0.5, shape).astype(dtype)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_axis_order_as_torch(order, channels):
    sizes = {"N": 11, "C": channels, "H": 5, "W": 7}
    array = random_image([sizes[axis] for axis in order], "float32")
    expected = torch_summary.image("a b/c", array, dataformats=order)
    assert_same(image("a b/c", array, dataformats=order), expected)
    assert_same(image("a b/c", torch.tensor(array), dataformats=order.lower()), expected)


@pytest.mark.parametrize(
    "dtype", ["uint8", "bool", "int8", "int64", "uint16", "float16", "float32", "float64"]
)
@pytest.mark.parametrize("shape", [(3, 9, 6), (1, 9, 6), (4, 9, 6)])
def test_every_number_type_as_torch(dtype, shape):
    array = random_image(shape, dtype)
    assert_same(image("x", array), torch_summary.image("x", array, dataformats="CHW"))


def test_images_within_range_as_tensorboardx():
    array = RNG.random((9, 4, 6, 5), dtype=np.float32)  # torch refuses batches with alpha
    ours, theirs = (
        image("x", array, dataformats="NCHW"),
        tbx_summary.image("x", array, dataformats="NCHW"),
    )
    assert_same(ours, Summary.FromString(theirs.SerializeToString()))


def test_values_out_of_range_are_clipped_and_nan_is_black():
    array = np.array([[[-math.inf, -1, 0, 0.5, 1, 1e300, math.inf, math.nan]]])
    _, pixels = parse(image("x", array))
    assert pixels[0, :, 0].tolist() == [0, 0, 0, 127, 255, 255, 255, 0]


def test_the_input_is_left_alone():
    array = np.full((1, 2, 2), np.nan, dtype=np.float32)
    image("x", array)
    assert np.isnan(array).all()


def test_a_list_of_images_is_a_batch():
    images = [torch.rand(3, 4, 5, requires_grad=True) for _ in range(9)]
    expected = torch_summary.image("x", torch.stack(images))
    assert_same(image("x", images, dataformats="CHW"), expected)
    assert_same(image("x", images, dataformats="NCHW"), expected)


def test_bfloat16():
    tensor = torch.rand(3, 4, 4, dtype=torch.bfloat16)
    assert_same(image("x", tensor), image("x", tensor.float()))


@pytest.mark.parametrize("rescale", [0.5, 1, 2, 1.37])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_rescaling_as_torch(rescale, channels):
    array = random_image((channels, 21, 18), "float32")
    expected = torch_summary.image("x", array, rescale=rescale, dataformats="CHW")
    assert_same(image("x", array, rescale=rescale), expected)


@pytest.mark.parametrize("labels", [None, ["one", "", "three"]])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("rescale", [1, 2])
def test_boxes_as_torch(labels, dtype, rescale):
    array = random_image((3, 32, 40), dtype)
    expected = torch_summary.image_boxes("x", array, BOXES, rescale=rescale, labels=labels)
    assert_same(image_boxes("x", array, BOXES, rescale=rescale, labels=labels), expected)
    as_lists = image_boxes("x", torch.tensor(array), BOXES.tolist(), rescale, labels=labels)
    assert_same(as_lists, expected)


def test_boxes_as_tensorboardx():
    array = random_image((32, 40, 3), "uint8")
    options = {"dataformats": "HWC", "labels": ["a", "b", "c"]}
    theirs = tbx_summary.image_boxes("x", array, BOXES, **options)
    ours = image_boxes("x", array, BOXES, **options)
    assert_same(ours, Summary.FromString(theirs.SerializeToString()))


def test_whole_number_boxes_one_label_and_no_boxes():
    array = random_image((3, 32, 40), "uint8")
    box = torch.tensor([[1, 2, 30, 20]])
    expected = torch_summary.image_boxes("x", array, box.numpy(), labels=["cat"])
    assert_same(image_boxes("x", array, box, labels="cat"), expected)
    assert_same(image_boxes("x", array, []), image("x", array))


def test_labels_that_do_not_match_the_boxes_are_left_out():
    array = random_image((3, 32, 40), "uint8")
    with pytest.warns(UserWarning, match=r"add_image_with_boxes\('x'\): got 3 boxes but 1 labels"):
        ours = image_boxes("x", array, BOXES, labels=["one"])
    assert_same(ours, image_boxes("x", array, BOXES))


@given(
    hnp.arrays(
        np.uint8,
        st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 4)),
        elements=st.one_of(st.integers(0, 3), st.integers(0, 255)),
    )
)
def test_pixels_survive_encoding(pixels):
    with Image.open(io.BytesIO(encode_png(pixels))) as decoded:
        decoded.load()
        assert np.array_equal(np.asarray(decoded).reshape(pixels.shape), pixels)


def textured(noise):
    y, x = np.mgrid[0:256, 0:256]
    smooth = np.stack([128 + 80 * np.sin(x / 40), 60 + 0.4 * x + 0.2 * y, 90 + 60 * np.cos(y / 30)])
    return (smooth + RNG.normal(0, noise, smooth.shape)).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("noise", [0, 1, 3, 8, 1000])
def test_files_are_about_as_small_as_pillows(noise):
    pixels = np.ascontiguousarray(textured(noise).transpose(1, 2, 0))
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    encoded = encode_png(pixels)
    assert len(encoded) < 1.25 * len(file.getvalue())
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(encoded))), pixels)


@pytest.mark.parametrize(
    ("shape", "dataformats", "message"),
    [
        ((3, 4), "CHW", r"shape \(3, 4\) does not fit the format CHW"),
        ((3, 4, 5), "NCHW", r"shape \(3, 4, 5\) does not fit the format NCHW"),
        ((3, 4, 5), "CHH", "dataformats must be the letters"),
        ((3, 4, 5), "CHX", "dataformats must be the letters"),
        ((3, 4, 5), "NHW", "dataformats must be the letters"),
        ((5, 4, 4), "CHW", "expected 1 to 4 channels, got 5"),
        ((2, 5, 4, 4), "NCHW", "expected 1 to 4 channels, got 5"),
        ((3, 0, 4), "CHW", "has no pixels"),
        ((0, 3, 4, 4), "NCHW", "has no pixels"),
    ],
)
def test_wrong_shapes_are_refused(shape, dataformats, message):
    with pytest.raises(ValueError, match=rf"^add_image\('pic'\): .*{message}"):
        image("pic", np.zeros(shape), dataformats=dataformats)


def test_wrong_types_and_scales_are_refused():
    with pytest.raises(TypeError, match=r"^add_image\('pic'\): "):
        image("pic", "blob")
    with pytest.raises(TypeError, match=r"^add_image\('pic'\): expected real numbers"):
        image("pic", np.zeros((1, 2, 2), dtype=complex))
    with pytest.raises(ValueError, match=r"^add_image\('pic'\): rescale=0.1 leaves no pixel"):
        image("pic", np.zeros((1, 2, 2)), rescale=0.1)
    with pytest.raises(ValueError, match=r"boxes must have the shape \[n, 4\], got \(4,\)"):
        image_boxes("pic", np.zeros((1, 2, 2)), [1, 2, 3, 4])
