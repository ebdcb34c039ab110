"""tensorboardX's helper modules, classes beside SummaryWriter included."""

from __future__ import annotations

import io
import logging
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorboardX.crc32c
import tensorboardX.embedding
import tensorboardX.record_writer
import tensorboardX.summary
import tensorboardX.utils
import torch
from google.protobuf import text_format
from PIL import Image
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

import tbhub.compat.tensorboardX
from support.read_logs import pixels, quiet, read_events, read_graphs, read_values
from tbhub.compat.tensorboardX import (
    crc32c,
    embedding,
    event_file_writer,
    onnx_graph,
    openvino_graph,
    record_writer,
    summary,
    utils,
    x2num,
)

compat = tbhub.compat.tensorboardX
RNG = np.random.default_rng(0)


def values(message: Any) -> list[Any]:
    return list(Summary.FromString(message.SerializeToString()).value)


# ---------------------------------------------------------------------- summary


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("scalar", ("a b", 0.5)),
        ("scalar", ("a b", np.array([2.0]), "title", "text")),
        ("histogram", ("/a b", np.arange(10.0), "auto")),
        ("histogram", ("a", np.arange(10.0), [0, 2, 4, 8], 2)),
        ("histogram_raw", ("a b", 0.0, 1.0, 2, 3.0, 4.0, [1.0], [2.0])),
        ("custom_scalars", ({"c": {"m": ["Margin", ["a", "b", "c"]], "l": ["Multiline", ["a"]]}},)),
        ("text", ("a b", "Größe")),
        ("pr_curve", ("a b", np.array([0, 1, 1]), np.array([0.1, 0.6, 0.9]), 10)),
        ("pr_curve_raw", ("a", *([float(row)] * 3 for row in range(6)), 3)),
    ],
)
def test_same_messages(name: str, arguments: Any) -> None:
    ours = getattr(summary, name)(*arguments)
    theirs = getattr(tensorboardX.summary, name)(*arguments)
    assert ours.SerializeToString() == theirs.SerializeToString()


def test_hparams_messages() -> None:
    arguments = {"lr": 0.1, "opt": "sgd", "deep": True}, {"accuracy": 1.0}
    ours, theirs = summary.hparams(*arguments), tensorboardX.summary.hparams(*arguments)
    for our, their in zip(ours, theirs, strict=True):
        assert values(our)[0].tag == values(their)[0].tag
    assert ours[0].SerializeToString() == theirs[0].SerializeToString()
    assert len(summary.hparams()) == 3


def test_histogram_proto() -> None:
    data = RNG.normal(size=100)
    ours = summary.make_histogram(data, "auto")
    theirs = tensorboardX.summary.make_histogram(data, "auto")
    assert list(ours.bucket) == list(theirs.bucket)
    assert list(ours.bucket_limit) == list(theirs.bucket_limit)


def test_compute_curve() -> None:
    labels, predictions = RNG.integers(0, 2, 50), RNG.random(50)
    ours = summary.compute_curve(labels, predictions, 20, None)
    np.testing.assert_array_equal(
        ours, tensorboardX.summary.compute_curve(labels, predictions, 20, None)
    )
    assert summary.compute_curve(labels, predictions).shape == (6, 127)


def decoded(message: Any) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(message.encoded_image_string)))


def test_images() -> None:
    picture = RNG.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    boxes = np.array([[2, 2, 20, 15]])
    for arguments in ((picture,), (picture, 0.5), (picture, 1, boxes), (picture, 1, boxes, ["x"])):
        ours = summary.make_image(*arguments)
        theirs = tensorboardX.summary.make_image(*arguments)
        assert (ours.height, ours.width, ours.colorspace) == (20, 30, 3)
        np.testing.assert_array_equal(decoded(ours), decoded(theirs))
    (ours,) = values(summary.image("a b", picture, 2, "HWC"))
    (theirs,) = values(tensorboardX.summary.image("a b", picture, 2, "HWC"))
    assert ours.tag == theirs.tag == "a_b"
    np.testing.assert_array_equal(pixels(ours), pixels(theirs))
    (ours,) = values(summary.image_boxes("a b", picture, boxes, dataformats="HWC"))
    assert ours.tag == "a b"


def test_draw_boxes() -> None:
    picture = RNG.integers(0, 256, (40, 50, 3), dtype=np.uint8)
    boxes = np.array([[2, 2, 30, 25], [5, 5, 45, 35]])
    ours = summary.draw_boxes(Image.fromarray(picture), boxes, labels=["one", "two"])
    theirs = tensorboardX.summary.draw_boxes(Image.fromarray(picture), boxes, ["one", "two"])
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_videos_sounds_and_meshes() -> None:
    frames = RNG.integers(0, 256, (4, 8, 6, 3), dtype=np.uint8)
    message = summary.make_video(frames, 4)
    assert (message.height, message.width, message.colorspace) == (8, 6, 3)
    (video,) = values(summary.video("a b", frames.transpose(0, 3, 1, 2)[None], 4))
    assert video.tag == "a_b"
    assert pixels(video).shape == (4, 8, 6, 3)
    sound = np.sin(np.arange(100.0))
    (ours,), (theirs,) = (
        values(summary.audio("a", sound)),
        values(tensorboardX.summary.audio("a", sound)),
    )
    assert ours == theirs
    mesh = values(summary.mesh("a_FACE", np.zeros((1, 4, 3)), None, np.zeros((1, 2, 3))))
    assert [each.tag for each in mesh] == ["a_FACE_1", "a_FACE_2"]


@pytest.mark.parametrize("tag", ["plain", "a b", "///x", "Größe", "a:b%c", "", "a/b.c-d_e", "/ /"])
def test_clean_tag(tag: str) -> None:
    assert summary._clean_tag(tag) == tensorboardX.summary._clean_tag(tag)


# ---------------------------------------------------------------------- arrays and pixels


def test_make_np() -> None:
    for each in (3, 2.5, [1, 2], np.arange(3), torch.ones(2, requires_grad=True)):
        np.testing.assert_array_equal(x2num.make_np(each), tensorboardX.x2num.make_np(each))
        assert x2num.make_np(each).shape == tensorboardX.x2num.make_np(each).shape
    with pytest.raises(TypeError):
        x2num.make_np("text")


def test_nan_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        x2num.check_nan(np.ones(3))
        assert not caplog.records
        x2num.make_np(np.array([1.0, np.nan]))
        x2num.make_np([np.inf])
    assert len(caplog.records) == 2


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_make_grid(dtype: Any) -> None:
    for shape in ((1, 3, 4, 5), (10, 1, 4, 5), (7, 4, 2, 3)):
        images = (RNG.random(shape) * 200).astype(dtype)
        for columns in (8, 3):
            ours = utils.make_grid(images, columns)
            np.testing.assert_array_equal(ours, tensorboardX.utils.make_grid(images, columns))
            assert ours.dtype == dtype


@pytest.mark.parametrize("axes", ["CHW", "hwc", "HW", "WH", "NCHW", "NHWC"])
def test_convert_to_hwc(axes: str) -> None:
    sizes = {"N": 9, "C": 3, "H": 4, "W": 5}
    image = RNG.random([sizes[axis] for axis in axes.upper()])
    ours = utils.convert_to_HWC(image, axes)
    np.testing.assert_array_equal(ours, tensorboardX.utils.convert_to_HWC(image, axes))
    with pytest.raises(ValueError, match="convert_to_HWC"):
        utils.convert_to_HWC(image[..., None], axes)


def test_videos() -> None:
    for batch in range(1, 7):
        video = RNG.integers(0, 256, (batch, 2, 3, 4, 5), dtype=np.uint8)
        for each in (video, video.astype(np.float32)):
            np.testing.assert_allclose(
                utils._prepare_video(each), tensorboardX.utils._prepare_video(each)
            )
    swapped = video.transpose(1, 0, 4, 3, 2)
    np.testing.assert_array_equal(utils.convert_to_NTCHW(swapped, "tnWHc"), video)
    with pytest.raises(ValueError, match="NTCH"):
        utils.convert_to_NTCHW(swapped, "NTCH")


def test_figure_to_image() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(1, 1))
    assert utils.figure_to_image(figure).shape == (3, 100, 100)
    assert utils.figure_to_image([figure, figure], close=False).shape == (2, 3, 100, 100)


# ---------------------------------------------------------------------- records and files


def test_crc32c() -> None:
    for data in (b"", b"123456789", os.urandom(1000)):
        assert crc32c.crc32c(data) == tensorboardX.crc32c._crc32c(data)
        assert record_writer.masked_crc32c(data) == tensorboardX.record_writer.masked_crc32c(data)
    crc = crc32c.crc_update(crc32c.crc_update(crc32c.CRC_INIT, b"1234"), list(b"56789"))
    assert crc32c.crc_finalize(crc) == 0xE3069283
    assert crc32c.CRC_TABLE == tensorboardX.crc32c.CRC_TABLE


def test_small_functions() -> None:
    assert record_writer.u32(2**32 + 5) == 5
    for name in ("ok/name", " spaced name", "_x", "", "a$b$c"):
        theirs = tensorboardX.record_writer.make_valid_tf_name(name)
        assert record_writer.make_valid_tf_name(name) == theirs


def test_record_writer(tmp_path: Path) -> None:
    for module, name in ((record_writer, "ours"), (tensorboardX.record_writer, "theirs")):
        writer = module.RecordWriter(str(tmp_path / name))
        writer.write(b"one")
        writer.write(b"")
        writer.flush()
        writer.close()
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


class Bucket:
    """A store in memory."""

    def __init__(self) -> None:
        self.checked: list[str] = []
        self.files: dict[str, io.BytesIO] = {}

    def open(self, path: str) -> io.BytesIO:
        self.files[path] = Kept()
        return self.files[path]

    def directory_check(self, path: str) -> None:
        self.checked.append(path)


class Kept(io.BytesIO):
    def close(self) -> None:
        """Keeps what was written."""


def test_writer_factory(tmp_path: Path) -> None:
    bucket = Bucket()
    record_writer.register_writer_factory("compat-test", bucket)
    try:
        assert record_writer.REGISTERED_FACTORIES["compat-test"] is bucket
        with compat.SummaryWriter("compat-test://bucket/run") as writer:
            writer.add_scalar("a b", 1.0, 3)
        record_writer.directory_check("compat-test://more")
        record_writer.open_file("compat-test://more/file").write(b"data")
    finally:
        del record_writer.REGISTERED_FACTORIES["compat-test"]
    assert bucket.checked == ["compat-test://bucket/run", "compat-test://more"]
    (path,) = (each for each in bucket.files if "tfevents" in each)
    assert b"a_b" in bucket.files[path].getvalue()
    record_writer.directory_check(str(tmp_path / "new" / "directory"))
    with record_writer.open_file(str(tmp_path / "new" / "directory" / "file")) as file:
        file.write(b"data")
    with pytest.raises(ValueError, match="colon"):
        record_writer.register_writer_factory("s3:", bucket)


def test_event_files(tmp_path: Path) -> None:
    from tbhub.compat.tensorboardX.proto.event_pb2 import Event

    with quiet():
        foreign = tensorboardX.writer.Event
    writer = event_file_writer.EventFileWriter(str(tmp_path / "queue"))
    assert writer.get_logdir() == str(tmp_path / "queue")
    writer.add_event(Event(step=1))
    writer.add_event(foreign(step=2))
    writer.close()
    writer.reopen()
    writer.add_event(Event(step=3))
    writer.close()
    with pytest.raises(TypeError, match="add_event"):
        writer.add_event("event")
    (tmp_path / "direct").mkdir()
    pair = [event_file_writer.EventsWriter(str(tmp_path / "direct/events"), ".x") for _ in "ab"]
    for each in pair:
        each.write_event(Event(step=4))
        assert each.flush() is True
        assert each.close() is True
    with pytest.raises(TypeError, match="write_event"):
        pair[0].write_event(b"event")
    runs = read_events(tmp_path)
    assert [event.step for event in runs["queue"] if event.step] == [1, 2, 3]
    assert [event.step for event in runs["direct"] if event.step] == [4, 4]


def test_file_writer(tmp_path: Path) -> None:
    from tbhub.compat.tensorboardX.proto.event_pb2 import Event

    writer = compat.FileWriter(tmp_path, 5, 30, ".end")
    assert writer.get_logdir() == str(tmp_path)
    writer.add_event(Event(), 3, 12.5)
    writer.add_summary(tensorboardX.summary.scalar("theirs", 1.0), 4)
    writer.add_summary(summary.scalar("ours", 1.0), np.int64(5))
    with writer.use_metadata(global_step=6):
        writer.add_summary(summary.scalar("default step", 1.0))
    writer.close()
    writer.reopen()
    writer.add_event(Event(), 7)
    writer.flush()
    writer.event_writer.add_event(Event(step=8))
    writer.close()
    steps = [event.step for event in read_events(tmp_path)["."] if event.step]
    assert steps == [3, 4, 5, 6, 7, 8]


def test_embedding_files(tmp_path: Path) -> None:
    points = RNG.normal(size=(4, 3)).astype(np.float32)
    images = RNG.random((4, 3, 8, 8), dtype=np.float32)
    for module, name in ((embedding, "ours"), (tensorboardX.embedding, "theirs")):
        directory = tmp_path / name
        directory.mkdir()
        module.make_mat(points, str(directory))
        module.make_tsv([["a", 1]] * 4, str(directory), ["name", "number"])
        module.make_sprite(images, str(directory))
        for step in (0, 1):
            module.append_pbtxt([1], images, str(directory), "sub", step, "tag")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert (ours / "metadata.tsv").read_bytes() == (theirs / "metadata.tsv").read_bytes()
    loaded = [np.loadtxt(each / "tensors.tsv", np.float32) for each in (ours, theirs)]
    np.testing.assert_array_equal(*loaded)
    sprites = [np.asarray(Image.open(each / "sprite.png")) for each in (ours, theirs)]
    np.testing.assert_array_equal(*sprites)
    configs = [(each / "projector_config.pbtxt").read_text() for each in (ours, theirs)]
    parsed = [text_format.Parse(config, ProjectorConfig()) for config in configs]
    assert parsed[0] == parsed[1]


# ---------------------------------------------------------------------- graphs


def test_graphs(onnx_file: str, openvino_file: str) -> None:
    onnx = pytest.importorskip("onnx")
    loaded = onnx_graph.load_onnx_graph(onnx_file)
    assert {"x", "h", "y"} <= {node.name for node in loaded.node}
    assert onnx_graph.parse(onnx.load(onnx_file).graph) == loaded
    names = [node.name for node in openvino_graph.load_openvino_graph(openvino_file).node]
    assert names == ["x", "relu", "y"]


# ---------------------------------------------------------------------- TorchVis


def test_torchvis(tmp_path: Path) -> None:
    vis = compat.TorchVis("tensorboard", tensorboard={"logdir": str(tmp_path)})
    assert vis.add_scalar("a b", 1.0, 3) is None
    with pytest.raises(AttributeError, match="add_nothing"):
        vis.add_nothing("a")
    vis.register("tensorboard", "unheard of")
    assert list(vis.subscribers) == ["tensorboard"]
    vis.unregister("tensorboard")
    with pytest.raises(AttributeError):
        vis.add_scalar("a b", 1.0, 3)
    assert [(each.tag, each.step) for each in read_values(tmp_path)] == [("a_b", 3)]


def test_torchvis_closes_what_is_forgotten(tmp_path: Path) -> None:
    vis = compat.TorchVis(tensorboard={"logdir": str(tmp_path)})
    vis.add_text("a", "text")
    del vis
    assert len(read_values(tmp_path)) == 1


def test_visdom_is_not_supported() -> None:
    with pytest.raises(NotImplementedError, match="visdom"):
        compat.TorchVis("visdom")


# ---------------------------------------------------------------------- GlobalSummaryWriter


def test_global_writer(tmp_path: Path) -> None:
    writer = compat.GlobalSummaryWriter(str(tmp_path), coalesce_process=False, anything="goes")
    for _ in range(3):
        writer.add_scalar("a b", 1.0)
        writer.add_text("a b", "text")
    writer.add_image("a b", np.zeros((3, 4, 4), np.uint8))
    assert isinstance(writer.file_writer, compat.FileWriter)
    writer.close()
    logged = sorted((each.tag, each.step) for each in read_values(tmp_path))
    assert logged == sorted(
        [("a_b", step) for step in (0, 0, 1, 2)] + [("a b/text_summary", step) for step in range(3)]
    )


def test_one_global_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tbhub.writer.global_writer._instances", {})
    writer = compat.GlobalSummaryWriter.getSummaryWriter()
    assert compat.GlobalSummaryWriter.getSummaryWriter() is writer
    assert type(writer) is compat.GlobalSummaryWriter
    writer.close()


def _log_in_child(writer: Any) -> None:
    for _ in range(50):
        writer.add_scalar("a b", 1.0)


def test_global_writer_in_children(tmp_path: Path) -> None:
    writer = compat.GlobalSummaryWriter(str(tmp_path))
    with quiet():
        context = multiprocessing.get_context("fork")
        children = [context.Process(target=_log_in_child, args=(writer,)) for _ in range(4)]
        for child in children:
            child.start()
        for child in children:
            child.join()
    assert [child.exitcode for child in children] == [0] * 4
    writer.close()
    assert sorted(each.step for each in read_values(tmp_path)) == list(range(200))


def test_graph_events_of_file_writer(tmp_path: Path) -> None:
    from tbhub.compat.tensorboardX.proto.graph_pb2 import GraphDef
    from tbhub.compat.tensorboardX.proto.node_def_pb2 import NodeDef

    writer = compat.FileWriter(str(tmp_path))
    graph = GraphDef(node=[NodeDef(name="n", op="o")])
    writer.add_onnx_graph(graph)
    writer.add_openvino_graph(graph)
    writer.add_graph((graph, GraphDef()))
    writer.close()
    assert [each.node[0].name for each in read_graphs(tmp_path)] == ["n", "n", "n"]
