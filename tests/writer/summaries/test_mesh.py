import numpy as np
import pytest
import tensorboardX.summary as tbx_summary
import torch
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.mesh import metadata
from tensorboard.util.tensor_util import make_ndarray
from torch.utils.tensorboard import summary as torch_summary

from tbhub.writer.summaries.mesh import mesh

RNG = np.random.default_rng(0)
VERTICES = RNG.random((1, 5, 3), dtype=np.float32)
COLORS = RNG.integers(0, 256, (1, 5, 3), dtype=np.uint8)
FACES = RNG.integers(0, 5, (1, 4, 3))
CONFIG = {"lights": [{"cls": "AmbientLight"}], "camera": {"fov": 75}}


def parse(summary):
    return list(Summary.FromString(summary.SerializeToString()).value)


def assert_same(ours, theirs):
    """Equal but for how the numbers are packed."""
    assert len(ours) == len(theirs)
    for our_value, their_value in zip(ours, theirs, strict=True):
        assert our_value.tag == their_value.tag
        assert our_value.metadata == their_value.metadata
        assert our_value.tensor.dtype == their_value.tensor.dtype
        assert np.array_equal(make_ndarray(our_value.tensor), make_ndarray(their_value.tensor))


@pytest.mark.parametrize("colors", [None, COLORS])
@pytest.mark.parametrize("faces", [None, FACES])
@pytest.mark.parametrize("config", [None, CONFIG])
def test_as_torch(colors, faces, config):
    theirs = torch_summary.mesh("m", VERTICES, colors, faces, config, "shown", "what")
    assert_same(parse(mesh("m", VERTICES, colors, faces, config, "shown", "what")), theirs.value)
    theirs = torch_summary.mesh("m", VERTICES, colors, faces, config)
    assert_same(parse(mesh("m", torch.tensor(VERTICES), colors, faces, config)), theirs.value)


def test_values_as_tensorboardx():
    ours = parse(mesh("m", VERTICES, COLORS, FACES))
    theirs = parse(tbx_summary.mesh("m", VERTICES, COLORS, FACES))
    for our_value, their_value in zip(ours, theirs, strict=True):
        assert np.array_equal(make_ndarray(our_value.tensor), make_ndarray(their_value.tensor))


def test_metadata_as_tensorboard():
    (value,) = parse(mesh("m", VERTICES[0].tolist(), display_name="d", description="e"))
    expected = metadata.create_summary_metadata("m", "d", 1, 2, (1, 5, 3), "e", "{}")
    assert value.metadata == expected
    assert value.tag == "m_VERTEX"


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        ({"vertices": np.zeros((5, 2))}, ValueError, r"vertices must have the shape"),
        ({"vertices": np.zeros(3)}, ValueError, r"vertices must have the shape .* got \(3,\)"),
        ({"vertices": None}, TypeError, "vertices"),
        ({"vertices": np.zeros((5, 3), dtype=complex)}, TypeError, "vertices must be real numbers"),
        ({"vertices": VERTICES, "faces": np.zeros((4, 4))}, ValueError, "faces must have"),
        ({"vertices": VERTICES, "colors": np.zeros((4, 3))}, ValueError, "colors of shape"),
        ({"vertices": VERTICES, "config_dict": "fov"}, TypeError, "config_dict must be a dict"),
    ],
)
def test_bad_meshes_are_refused(parts, error, message):
    with pytest.raises(error, match=rf"^add_mesh\('m'\): {message}"):
        mesh("m", **parts)
