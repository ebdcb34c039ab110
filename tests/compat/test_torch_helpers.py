"""torch.utils.tensorboard's helper modules, and its FileWriter and RecordWriter."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.tensorboard as torch_tensorboard
from google.protobuf import text_format
from tensorboard.compat.proto import event_pb2
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.util.tensor_util import make_ndarray
from torch.utils.tensorboard import _convert_np as their_convert
from torch.utils.tensorboard import _embedding as their_embedding
from torch.utils.tensorboard import _proto_graph as their_proto_graph
from torch.utils.tensorboard import _pytorch_graph as their_pytorch_graph
from torch.utils.tensorboard import _utils as their_utils
from torch.utils.tensorboard import summary as their_summary

import tbhub.compat.torch as compat
from support.read_logs import pixels, quiet, read_events
from tbhub.compat.torch import (
    _convert_np,
    _embedding,
    _onnx_graph,
    _proto_graph,
    _pytorch_graph,
    _utils,
    summary,
)

RNG = np.random.default_rng(0)


def values(message: Any) -> list[Any]:
    return list(Summary.FromString(message.SerializeToString()).value)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("scalar", ("a b", 0.5)),
        ("scalar", ("a b", torch.tensor([2.0]), None, True)),
        ("scalar", ("a", 0.1, None, True, True)),
        ("histogram", ("/a b", np.arange(10.0), "auto")),
        ("histogram_raw", ("a b", 0.0, 1.0, 2, 3.0, 4.0, [1.0], [2.0])),
        ("custom_scalars", ({"c": {"m": ["Margin", ["a", "b", "c"]], "l": ["Multiline", ["a"]]}},)),
        ("text", ("a b", "Größe")),
        ("pr_curve", ("a b", np.array([0, 1, 1]), np.array([0.1, 0.6, 0.9]), 10)),
        ("pr_curve_raw", ("a", *([float(row)] * 3 for row in range(6)), 3)),
    ],
)
def test_same_messages(name: str, arguments: Any) -> None:
    ours = getattr(summary, name)(*arguments)
    theirs = getattr(their_summary, name)(*arguments)
    assert ours.SerializeToString() == theirs.SerializeToString()


def test_more_messages() -> None:
    batch = RNG.random((3, 3, 4, 5), dtype=np.float32)
    (ours,), (theirs,) = (
        values(summary.image("a b", batch)),
        their_summary.image("a b", batch).value,
    )
    assert ours.tag == "a b"
    np.testing.assert_array_equal(pixels(ours), pixels(theirs))
    tensor = torch.arange(4.0).reshape(2, 2)
    (ours,), (theirs,) = (
        values(summary.tensor_proto("a", tensor)),
        their_summary.tensor_proto("a", tensor).value,
    )
    assert ours.metadata == theirs.metadata
    np.testing.assert_array_equal(make_ndarray(ours.tensor), make_ndarray(theirs.tensor))
    (video,) = values(summary.video("v", torch.rand(1, 2, 3, 4, 5)))
    assert pixels(video).shape == (2, 4, 5, 3)
    vertices = torch.rand(1, 4, 3)
    ours = values(summary.mesh("m", vertices, None, None, None, "shown", None))
    theirs = their_summary.mesh("m", vertices, None, None, None, "shown", None).value
    assert [each.metadata for each in ours] == [each.metadata for each in theirs]
    start = [
        each.hparams({"lr": 0.1}, {"a": 1}, {"lr": [0.1]}) for each in (summary, their_summary)
    ]
    assert [each.SerializeToString() for each in start[0]] == [
        each.SerializeToString() for each in start[1]
    ]


def test_bits() -> None:
    for number in (0.0, 1.5, -2.25):
        assert summary.half_to_int(number) == their_summary.half_to_int(number)
        assert summary.int_to_half(summary.half_to_int(number)) == number


def test_make_np() -> None:
    for each in (3, 2.5, np.float32(1.5), np.arange(3), torch.ones(2, requires_grad=True)):
        ours, theirs = _convert_np.make_np(each), their_convert.make_np(each)
        np.testing.assert_array_equal(ours, theirs)
        assert ours.shape == theirs.shape


def test_pixels() -> None:
    batch = RNG.random((10, 1, 4, 5))
    np.testing.assert_array_equal(_utils.make_grid(batch, 4), their_utils.make_grid(batch, 4))
    np.testing.assert_array_equal(
        _utils.convert_to_HWC(batch, "NCHW"), their_utils.convert_to_HWC(batch, "NCHW")
    )
    video = RNG.random((3, 2, 3, 4, 5))
    np.testing.assert_array_equal(_utils._prepare_video(video), their_utils._prepare_video(video))


def test_embedding_files(tmp_path: Path) -> None:
    images = torch.rand(4, 3, 8, 8)
    info = _embedding.get_embedding_info([1], images, "00000/tag", 0, "tag")
    theirs = their_embedding.get_embedding_info([1], images, "00000/tag", 0, "tag")
    assert info.SerializeToString() == theirs.SerializeToString()
    _embedding.write_pbtxt(str(tmp_path), text_format.MessageToString(info))
    assert (
        text_format.Parse((tmp_path / "projector_config.pbtxt").read_text(), type(info)()) == info
    )
    for module, name in ((_embedding, "ours"), (their_embedding, "theirs")):
        (tmp_path / name).mkdir()
        module.make_mat(np.arange(6).reshape(2, 3), str(tmp_path / name))
        module.make_tsv(["a", "b"], str(tmp_path / name))
        module.make_sprite(images, str(tmp_path / name))
    for name in ("tensors.tsv", "metadata.tsv"):
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()


def test_nodes() -> None:
    for arguments in (("n",), ("n", "op", "a"), ("n", "op", ["a", "b"], None, None, [1, 2], "x")):
        ours, theirs = _proto_graph.node_proto(*arguments), their_proto_graph.node_proto(*arguments)
        assert type(theirs).FromString(ours.SerializeToString()) == theirs
    for arguments in ((None, None, None), (None, (1, 2), "text")):
        ours = _proto_graph.attr_value_proto(*arguments)
        theirs = their_proto_graph.attr_value_proto(*arguments)
        assert {key: each.SerializeToString() for key, each in ours.items()} == {
            key: each.SerializeToString() for key, each in theirs.items()
        }
    shape = _proto_graph.tensor_shape_proto([2, 3])
    assert [dim.size for dim in shape.dim] == [2, 3]


def test_graphs(onnx_file: str) -> None:
    model = torch.nn.Linear(4, 3)
    with quiet():
        ours, our_metadata = _pytorch_graph.graph(model, torch.zeros(1, 4))
        theirs, their_metadata = their_pytorch_graph.graph(model, torch.zeros(1, 4))
    assert type(theirs).FromString(ours.SerializeToString()) == theirs
    assert our_metadata.SerializeToString() == their_metadata.SerializeToString()
    assert {"x", "h"} <= {node.name for node in _onnx_graph.load_onnx_graph(onnx_file).node}


def test_record_writer() -> None:
    files = []
    for module in (compat, torch_tensorboard):
        file = io.BytesIO()
        writer = module.RecordWriter(file)
        writer.write(b"one")
        writer.flush()
        assert not writer.closed
        files.append(file.getvalue())
        writer.close()
        assert writer.closed
    assert files[0] == files[1]


def test_file_writer(tmp_path: Path) -> None:
    writer = compat.FileWriter(log_dir=tmp_path, max_queue=5)
    assert writer.get_logdir() == str(tmp_path)
    writer.add_event(event_pb2.Event(), 3, 12.5)
    writer.add_summary(their_summary.scalar("theirs", 1.0), 4)
    writer.add_summary(summary.scalar("ours", 1.0), np.int64(5))
    writer.close()
    writer.reopen()
    writer.add_event(event_pb2.Event(), 6)
    writer.close()
    assert [each.step for each in read_events(tmp_path)["."] if each.step] == [3, 4, 5, 6]
