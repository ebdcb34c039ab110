"""The same calls to torch.utils.tensorboard and to its drop-in leave the same logs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.tensorboard as torch_tensorboard
from google.protobuf import text_format
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import SessionLog
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

import tbhub.compat.torch as compat
from support.read_logs import assert_same, quiet, read_events, read_graphs, read_values

Logs = tuple[Path, Path]


def play(tmp_path: Path, script: Any, **arguments: Any) -> Logs:
    """Runs a script with a writer of each kind: our log directory, and theirs."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with compat.SummaryWriter(str(ours), **arguments) as writer:
        script(writer)
    with quiet(), torch_tensorboard.SummaryWriter(str(theirs), **arguments) as writer:
        script(writer)
    return ours, theirs


def assert_same_values(logs: Logs, audio_tolerance: int = 0) -> None:
    ours, theirs = map(read_values, logs)
    assert theirs
    assert_same(ours, theirs, audio_tolerance)


def test_scalar(tmp_path: Path) -> None:
    def script(writer: Any) -> None:
        for step, tag in enumerate(["loss", "/a b", "train/x:y", "loss (%)"]):
            writer.add_scalar(tag, step * 0.1, step)
        writer.add_scalar("none", 1)
        writer.add_scalar("numpy", np.float64(2.5), np.int64(7))
        writer.add_scalar("torch", torch.tensor([4.5], requires_grad=True), 7.9)
        writer.add_scalar("new", 0.1, 1, None, True)
        writer.add_scalar("double", 0.1, 1, None, True, True)
        writer.add_scalar("keywords", 0.1, new_style=True, double_precision=True)

    assert_same_values(play(tmp_path, script))


def test_double_precision_alone(tmp_path: Path) -> None:
    """torch ignores the wish without new_style; here it is granted."""
    with compat.SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", 0.1, 1, double_precision=True)
    (value,) = read_values(tmp_path)
    assert value.value[-1].item() == 0.1


def test_scalars(tmp_path: Path) -> None:
    def script(writer: Any) -> None:
        writer.add_scalars("main", {"sin": 1.0, "cos": 2.0}, 1)
        writer.add_scalars("group/inner tag", {"x": 1.0, "y z": np.float32(2)}, 4)

    logs = play(tmp_path, script)
    assert_same_values(logs)
    assert "group_inner tag_y z" in read_events(logs[0])


def test_histogram(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=1000)

    def script(writer: Any) -> None:
        writer.add_histogram("a dist", values, 1)
        writer.add_histogram("torch", torch.arange(6.0).reshape(2, 3), 2)
        writer.add_histogram("auto", values, 3, bins="auto")
        writer.add_histogram("few", values, 3, max_bins=40)
        writer.add_histogram_raw("raw", 0.0, 2.0, 3, 4.0, 5.0, [1.0, 2.0], [1, 2], 4)

    assert_same_values(play(tmp_path, script))


def test_images(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (3, 20, 30), dtype=np.uint8)
    floats = rng.random((3, 20, 30), dtype=np.float32) * 1.5 - 0.2
    batch = rng.random((10, 1, 6, 5))

    def script(writer: Any) -> None:
        writer.add_image("a picture", picture, 1)
        writer.add_image("/clipped", floats, 2)
        writer.add_image("torch", torch.from_numpy(floats), 2)
        writer.add_image("hwc", picture.transpose(1, 2, 0), 3, dataformats="HWC")
        writer.add_image("hw", floats[0], 4, dataformats="HW")
        writer.add_images("batch", batch, 5)
        writer.add_images("nhwc", batch.transpose(0, 2, 3, 1), 5, None, "NHWC")

    assert_same_values(play(tmp_path, script))


def test_image_with_boxes(tmp_path: Path) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (3, 60, 80), dtype=np.uint8)
    boxes = torch.tensor([[5, 5, 30, 40], [20.5, 10, 70, 50]])

    def script(writer: Any) -> None:
        writer.add_image_with_boxes("a tag", picture, boxes, 1)
        writer.add_image_with_boxes("labels", picture, boxes, 1, labels=["one", "two"])
        writer.add_image_with_boxes(
            "positions", picture.transpose(1, 2, 0), boxes, 2, None, 0.5, "HWC", ["one", "two"]
        )

    assert_same_values(play(tmp_path, script))


def test_figure(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    def script(writer: Any) -> None:
        figure, axes = pyplot.subplots(figsize=(2, 2))
        axes.plot([1, 3, 2])
        writer.add_figure("a figure", figure, 1)

    assert_same_values(play(tmp_path, script))


def test_video(tmp_path: Path) -> None:
    """torch's own writes nothing with moviepy 2, so there is nothing to compare with."""
    with compat.SummaryWriter(tmp_path) as writer:
        writer.add_video("a video", torch.rand(2, 5, 3, 16, 12), 1, 10, None)
    (value,) = read_values(tmp_path)
    assert (value.tag, value.step, value.value[3].shape) == ("a video", 1, (5, 16, 24, 3))


def test_audio(tmp_path: Path) -> None:
    sound = np.sin(np.linspace(0, 440, 4000)).astype(np.float32)

    def script(writer: Any) -> None:
        writer.add_audio("a sound", sound, 1, 4000)
        writer.add_audio("torch", torch.from_numpy(sound)[None], 2, sample_rate=8000)

    # torch scales by 32767 and cuts towards 0, we by 32768 and downwards, as libsndfile does.
    assert_same_values(play(tmp_path, script), audio_tolerance=2)


def test_text_curves_and_layouts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(0, 2, 100), rng.random(100)

    def script(writer: Any) -> None:
        writer.add_text("a tag", "# Größe", 3)
        writer.add_pr_curve("a curve", labels, predictions, 0)
        writer.add_pr_curve("few", torch.tensor(labels), torch.tensor(predictions), 1, 20)
        writer.add_pr_curve_raw("raw", *(np.arange(5.0) + row for row in range(6)), 2, 5)
        writer.add_custom_scalars({"USA": {"dow": ["Margin", ["a", "b", "c"]]}})
        writer.add_custom_scalars_multilinechart(["a", "b"])
        writer.add_custom_scalars_marginchart(["a", "b", "c"], "category", title="title")

    assert_same_values(play(tmp_path, script))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.int32, torch.int64, torch.bool, torch.complex64]
)
def test_tensor(dtype: torch.dtype, tmp_path: Path) -> None:
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    assert_same_values(play(tmp_path, lambda writer: writer.add_tensor("a tensor", tensor, 2)))


def test_hparams(tmp_path: Path) -> None:
    def script(writer: Any) -> None:
        writer.add_hparams(
            {"lr": 0.1, "layers": 3, "opt": "sgd", "rate": torch.tensor([0.5]), "none": None},
            {"my accuracy": 10, "loss": torch.tensor(0.5)},
            {"lr": [0.1, 0.2], "opt": ["sgd", "adam"]},
            "first",
            5,
        )
        writer.add_hparams({"lr": 0.2}, {"accuracy": 1}, run_name="second")

    assert_same_values(play(tmp_path, script))


def test_hparams_more_than_torch_takes(tmp_path: Path) -> None:
    """A bool stays a bool; numpy scalars and lists are taken."""
    with compat.SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"deep": True, "n": np.int64(3), "sizes": [1, 2]}, {}, run_name="run")
    start = read_values(tmp_path)[1].value[0].session_start_info.hparams
    assert start["deep"].bool_value is True
    assert start["n"].number_value == 3
    assert start["sizes"].string_value == "[1, 2]"


def test_mesh(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vertices = torch.from_numpy(rng.random((1, 5, 3), dtype=np.float32))
    colors = torch.from_numpy(rng.integers(0, 256, (1, 5, 3)))
    faces = torch.from_numpy(rng.integers(0, 5, (1, 4, 3)))

    def script(writer: Any) -> None:
        writer.add_mesh("a mesh", vertices, colors, faces, {"camera": {"fov": 75}}, 2)
        writer.add_mesh("points", vertices)

    assert_same_values(play(tmp_path, script))


def test_embedding(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points = torch.from_numpy(rng.normal(size=(4, 3)).astype(np.float32))
    images = torch.from_numpy(rng.random((4, 3, 8, 8), dtype=np.float32))

    def script(writer: Any) -> None:
        writer.add_embedding(points)
        writer.add_embedding(points, list("abcd"), images, 3, "my/tag")

    logs = play(tmp_path, script)
    configs = []
    for log in logs:
        text = (log / "projector_config.pbtxt").read_text()
        configs.append(text_format.Parse(text, ProjectorConfig()))
    assert configs[0] == configs[1]
    for entry in configs[0].embeddings:
        points_read = [np.loadtxt(log / entry.tensor_path, np.float32) for log in logs]
        np.testing.assert_array_equal(*points_read)
        if entry.metadata_path:
            ours, theirs = ((log / entry.metadata_path).read_bytes() for log in logs)
            assert ours == theirs
            sprites = [np.asarray(Image.open(log / entry.sprite.image_path)) for log in logs]
            np.testing.assert_array_equal(*sprites)


def test_graph(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten())

    def script(writer: Any) -> None:
        with quiet():
            writer.add_graph(model, torch.zeros(1, 1, 8, 8))

    logs = play(tmp_path, script)
    (ours,), (theirs,) = map(read_graphs, logs)
    assert ours == theirs
    tagged = []
    for log in logs:
        (event,) = (e for e in read_events(log)["."] if e.HasField("tagged_run_metadata"))
        tagged.append(event.tagged_run_metadata)
    assert tagged[0] == tagged[1]


def test_onnx_graph(tmp_path: Path, onnx_file: str) -> None:
    (ours,), (theirs,) = map(
        read_graphs, play(tmp_path, lambda writer: writer.add_onnx_graph(onnx_file))
    )
    nodes = {node.name: (node.op, list(node.input)) for node in ours.node}
    for node in theirs.node:
        if node.op != "Variable":
            assert nodes[node.name] == (node.op, list(node.input))


def test_tensorboard_sees_the_same(tmp_path: Path) -> None:
    def script(writer: Any) -> None:
        for step in range(5):
            writer.add_scalar("a loss", step, step)
            writer.add_histogram("weights", np.arange(step + 1.0), step)
            writer.add_image("picture", np.zeros((3, 4, 4), np.uint8), step)
            writer.add_text("notes", "text", step)

    seen = [EventAccumulator(str(log)).Reload() for log in play(tmp_path, script)]
    assert seen[0].Tags() == seen[1].Tags()
    scalars = [[(each.step, each.value) for each in log.Scalars("a loss")] for log in seen]
    assert scalars[0] == scalars[1]


def test_purge_step(tmp_path: Path) -> None:
    for log in play(tmp_path, lambda writer: writer.add_scalar("a", 1.0, 7), purge_step=5):
        starts = [e.step for e in read_events(log)["."] if e.session_log.status == SessionLog.START]
        assert starts == [5]


def test_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with compat.SummaryWriter(tmp_path / "a", "ignored", filename_suffix=".end") as writer:
        assert writer.get_logdir() == writer.log_dir == str(tmp_path / "a")
        assert isinstance(writer.file_writer, compat.FileWriter)
        assert (writer.max_queue, writer.flush_secs) == (10, 120)
        assert len(writer.default_bins) == 1549
    assert next((tmp_path / "a").iterdir()).name.endswith(".end")
    with compat.SummaryWriter(comment="_note") as writer:
        assert writer.log_dir.endswith("_note")
    with pytest.raises(TypeError):
        compat.SummaryWriter(logdir=tmp_path)  # type: ignore[call-arg]


def test_pickle(tmp_path: Path) -> None:
    with compat.SummaryWriter(tmp_path) as writer:
        copy = pickle.loads(pickle.dumps(writer))
        assert type(copy) is compat.SummaryWriter
        copy.close()
        file_copy = pickle.loads(pickle.dumps(writer.file_writer))
        assert type(file_copy) is compat.FileWriter
        file_copy.close()
