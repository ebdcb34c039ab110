"""The same calls to tensorboardX and to its drop-in leave the same logs."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorboardX
import torch
from google.protobuf import text_format
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import SessionLog
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

import tbhub.compat.tensorboardX
from support.read_logs import Logged, assert_same, quiet, read_events, read_graphs, read_values
from tbhub._kernel import Sink
from tbhub.errors import TbhubWarning

compat = tbhub.compat.tensorboardX
Logs = tuple[Path, Path]


def play(tmp_path: Path, script: Any, **arguments: Any) -> Logs:
    """Runs a script with a writer of each kind: our log directory, and theirs."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with compat.SummaryWriter(str(ours), **arguments) as writer:
        script(writer)
    with quiet(), tensorboardX.SummaryWriter(str(theirs), **arguments) as writer:
        script(writer)
    return ours, theirs


def assert_same_values(logs: Logs) -> None:
    ours, theirs = map(read_values, logs)
    assert theirs
    assert_same(ours, theirs)


TAGS = ["loss", "train/loss", "a b", "/lead", "//x:y", "Größe", "a.b-c_d", "loss[0] (%)", "ä/ö"]


def test_scalar(tmp_path: Path) -> None:
    def script(writer: Any) -> None:
        for step, tag in enumerate(TAGS):
            writer.add_scalar(tag, step * 0.1, step)
        writer.add_scalar("none", 1)
        writer.add_scalar("numpy", np.float64(2.5), np.int64(7))
        writer.add_scalar("array", np.array([[3.5]]), 7.9)
        writer.add_scalar("torch", torch.tensor(4.5, requires_grad=True), torch.tensor(3))
        writer.add_scalar("list", [1.5], "12")
        writer.add_scalar("shown as", 1.0, 2, 1234.5, "Title", "*why*")
        writer.add_scalar("keywords", scalar_value=1, global_step=5, walltime=99)
        writer.add_scalar("described", 1.0, summary_description="text")

    logs = play(tmp_path, script)
    assert_same_values(logs)
    times = [[event.wall_time for event in read_events(log)["."]] for log in logs]
    assert 1234.5 in times[0]
    assert 99.0 in times[0]


def test_scalars(tmp_path: Path) -> None:
    def script(writer: Any) -> None:
        for step in range(3):
            writer.add_scalars("main", {"sin": step, "cos": 1 - step}, step)
        writer.add_scalars("group/inner", {"x": 1.0, "y z": np.float32(2)}, 4)
        writer.add_scalars("with space", {"a/b": torch.tensor(2.0)})

    logs = play(tmp_path, script)
    assert_same_values(logs)
    assert set(read_events(logs[0])) == {
        ".",
        "main/sin",
        "main/cos",
        "group/inner/x",
        "group/inner/y z",
        "with space/a/b",
    }


def test_scalars_stay_below_the_log_directory(tmp_path: Path) -> None:
    with compat.SummaryWriter(tmp_path / "log") as writer:
        writer.add_scalars("/abs", {"../../up": 1.0}, 0)
        with pytest.raises(TypeError, match=r"add_scalars\('main'\)"):
            writer.add_scalars("main", [1.0])  # type: ignore[arg-type]
    assert set(read_events(tmp_path)) == {"log", "log/abs/_/_/up"}


def test_export_scalars_to_json(tmp_path: Path) -> None:
    exported = []

    def script(writer: Any) -> None:
        writer.add_scalars("main", {"a": 1.0, "b": 2.5}, 1, 10.0)
        writer.add_scalars("main", {"a": 3.0}, 2, 11.0)
        path = tmp_path / f"{len(exported)}.json"
        writer.export_scalars_to_json(str(path))
        exported.append(json.loads(path.read_text()))

    ours, theirs = play(tmp_path, script)
    below = [
        {str(Path(key).relative_to(root)): points for key, points in each.items()}
        for each, root in zip(exported, (ours, theirs), strict=True)
    ]
    assert below[0] == below[1] == {"main/a": [[10, 1, 1], [11, 2, 3]], "main/b": [[10, 1, 2.5]]}


def test_histogram(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=1000)

    def script(writer: Any) -> None:
        writer.add_histogram("dist a", values, 1)
        writer.add_histogram("dist/int", np.arange(10), 2)
        writer.add_histogram("torch", torch.arange(6.0).reshape(2, 3), 2)
        writer.add_histogram("auto", values, 3, bins="auto")
        writer.add_histogram("doane", values, 3, "doane")
        writer.add_histogram("edges", values, 3, bins=np.linspace(-2, 2, 7))
        writer.add_histogram("few", values, 3, max_bins=40)
        writer.add_histogram_raw(
            "raw tag", 0.0, 2.0, 3, 4.0, 5.0, [1.0, 2.0], [1, 2], global_step=4
        )

    assert_same_values(play(tmp_path, script))


def test_images(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (3, 20, 30), dtype=np.uint8)
    floats = rng.random((3, 20, 30), dtype=np.float32)
    batch = rng.random((10, 3, 6, 5), dtype=np.float32)

    def script(writer: Any) -> None:
        writer.add_image("a picture", picture, 1)
        writer.add_image("/float", floats, 2)
        writer.add_image("torch", torch.from_numpy(floats), 2)
        writer.add_image("hwc", picture.transpose(1, 2, 0), 3, dataformats="HWC")
        writer.add_image("hw", floats[0], 4, dataformats="HW")
        writer.add_image("grey", floats[:1], 4)
        writer.add_image("alpha", np.full((4, 4, 4), 7, np.uint8), 4)
        writer.add_images("a batch", batch, 5)
        writer.add_images("nhwc", batch.transpose(0, 2, 3, 1), 5, dataformats="NHWC")
        writer.add_images("list", [floats, floats], 5, dataformats="CHW")

    assert_same_values(play(tmp_path, script))


def test_image_with_boxes(tmp_path: Path) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (3, 60, 80), dtype=np.uint8)
    boxes = np.array([[5, 5, 30, 40], [20.5, 10, 70, 50]])

    def script(writer: Any) -> None:
        writer.add_image_with_boxes("a tag", picture, boxes, 1)
        writer.add_image_with_boxes("labels", picture, boxes, 1, labels=["one", "two"])
        writer.add_image_with_boxes(
            "positions", picture.transpose(1, 2, 0), boxes[:1], 2, None, "HWC", "one"
        )
        writer.add_image_with_boxes("smaller", torch.tensor(picture), boxes, 3, rescale=0.5)

    assert_same_values(play(tmp_path, script))
    with (
        compat.SummaryWriter(tmp_path / "more") as writer,
        pytest.raises(TypeError, match="thickness"),
    ):
        writer.add_image_with_boxes("x", picture, boxes, thickness=3)


def test_figure(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    def figure() -> Any:
        drawn, axes = pyplot.subplots(figsize=(2, 2))
        axes.plot([1, 3, 2])
        return drawn

    def script(writer: Any) -> None:
        writer.add_figure("a figure", figure(), 1)
        writer.add_figure("list", [figure(), figure()], 2)
        kept = figure()
        writer.add_figure("kept", kept, 2, close=False)
        assert pyplot.get_fignums()
        pyplot.close(kept)

    assert_same_values(play(tmp_path, script))
    assert not pyplot.get_fignums()


def test_video(tmp_path: Path) -> None:
    video = np.random.default_rng(0).integers(0, 256, (3, 5, 3, 16, 12), dtype=np.uint8)

    def script(writer: Any) -> None:
        writer.add_video("a video", video, 1, fps=10)
        writer.add_video("axes", video.transpose(0, 1, 3, 4, 2), 2, 10, None, "NTHWC")

    ours, theirs = map(read_values, play(tmp_path, script))
    for our, their in zip(ours, theirs, strict=True):
        assert (our.tag, our.step, our.kind) == (their.tag, their.step, their.kind)
        assert our.value[:3] == their.value[:3]
        assert our.value[3].shape == their.value[3].shape


def test_audio(tmp_path: Path) -> None:
    time = np.linspace(0, 1, 4000)
    mono = np.sin(time * 440).astype(np.float32)
    stereo = np.stack([mono, -mono], axis=1)

    def script(writer: Any) -> None:
        writer.add_audio("a sound", mono, 1, 4000)
        writer.add_audio("torch", torch.from_numpy(stereo), 2, sample_rate=8000)
        writer.add_audio("double", stereo.astype(np.float64))

    assert_same_values(play(tmp_path, script))


def test_text(tmp_path: Path) -> None:
    def script(writer: Any) -> None:
        writer.add_text("a tag", "# Größe\n* one", 3)
        writer.add_text("/lead", "", None, 12.5)

    assert_same_values(play(tmp_path, script))


def test_pr_curve(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(0, 2, 100), rng.random(100)

    def script(writer: Any) -> None:
        writer.add_pr_curve("a curve", labels, predictions, 0)
        writer.add_pr_curve("few", torch.tensor(labels), torch.tensor(predictions), 1, 20)
        writer.add_pr_curve("weights", labels, predictions, 1, weights=np.full(100, 0.5))
        writer.add_pr_curve_raw(
            "raw", *(np.arange(5.0) + row for row in range(6)), 2, num_thresholds=5
        )

    assert_same_values(play(tmp_path, script))


def test_custom_scalars(tmp_path: Path) -> None:
    layout = {
        "Taiwan": {"twse": ["Multiline", ["twse/0050", "twse/2330"]]},
        "USA": {"dow": ["Margin", ["dow/aaa", "dow/bbb", "dow/ccc"]]},
    }

    def script(writer: Any) -> None:
        writer.add_custom_scalars(layout)
        writer.add_custom_scalars_multilinechart(["a", "b"])
        writer.add_custom_scalars_marginchart(["a", "b", "c"], "category", title="title")

    assert_same_values(play(tmp_path, script))


def test_hparams(tmp_path: Path) -> None:
    def script(writer: Any) -> None:
        writer.add_hparams(
            {"lr": 0.1, "layers": 3, "opt": "sgd", "deep": True, "none": None, "fn": np.sin},
            {"accuracy": 10, "loss": torch.tensor(0.5)},
            "first",
        )
        writer.add_hparams({"lr": 0.2}, {"accuracy": 1}, name="second")

    assert_same_values(play(tmp_path, script))


def test_hparams_at_a_step(tmp_path: Path) -> None:
    """tensorboardX puts only the metrics at the step; where the rest stands has no effect."""

    def script(writer: Any) -> None:
        writer.add_hparams({"lr": 0.1}, {"my metric": 2}, "run", 5)

    ours, theirs = map(read_values, play(tmp_path, script))
    assert (ours[-1].tag, ours[-1].step) == (theirs[-1].tag, theirs[-1].step) == ("my_metric", 5)
    # The dashboard finds the metric, which tensorboardX announces by a name nothing has.
    announced = [each.value[0].experiment.metric_infos[0].name.tag for each in (ours[0], theirs[0])]
    assert announced == ["my_metric", "my metric"]


def test_hparams_in_a_run_named_by_the_time(tmp_path: Path) -> None:
    with compat.SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"list": [1, 2], "numpy": np.int64(3)}, {})
    (run,) = (each for each in read_events(tmp_path) if each != ".")
    float(run)


def test_mesh(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vertices = rng.random((1, 5, 3))
    colors = rng.integers(0, 256, (1, 5, 3))
    faces = rng.integers(0, 5, (1, 4, 3))

    def script(writer: Any) -> None:
        writer.add_mesh("a mesh", vertices, colors, faces, {"camera": {"fov": 75}}, 2)
        writer.add_mesh("points", torch.tensor(vertices))

    ours, theirs = map(read_values, play(tmp_path, script))
    assert [each.tag for each in ours] == ["a mesh_1", "a mesh_2", "a mesh_3", "points_1"]
    # Which parts belong together, and a valid configuration: without these the page shows nothing.
    assert [each.value[0].components for each in ours] == [14, 14, 14, 2]
    assert ours[-1].value[0].json_config == "{}"
    for each in [*ours, *theirs]:
        each.value[0].ClearField("components")
    theirs[-1].value[0].json_config = "{}"
    assert_same(ours, theirs)


def test_embedding(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(4, 3)).astype(np.float32)
    images = torch.from_numpy(rng.random((4, 3, 8, 8), dtype=np.float32))

    def script(writer: Any) -> None:
        writer.add_embedding(points)
        writer.add_embedding(torch.from_numpy(points), list("abcd"), images, 3, "my/tag")
        rows = [[str(row), row] for row in range(4)]
        writer.add_embedding(points, rows, None, 4, metadata_header=["name", "number"])

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
        if entry.sprite.image_path:
            sprites = [np.asarray(Image.open(log / entry.sprite.image_path)) for log in logs]
            np.testing.assert_array_equal(*sprites)


def test_graph(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())

    def script(writer: Any) -> None:
        with quiet():
            writer.add_graph(model, torch.zeros(1, 4))

    logs = play(tmp_path, script)
    (ours,), (theirs,) = map(read_graphs, logs)
    assert ours == theirs
    tagged = []
    for log in logs:
        (event,) = (e for e in read_events(log)["."] if e.HasField("tagged_run_metadata"))
        tagged.append(event.tagged_run_metadata)
    assert tagged[0] == tagged[1]
    assert tagged[0].tag == "profiler"


def test_onnx_graph(tmp_path: Path, onnx_file: str) -> None:
    (ours,), (theirs,) = map(
        read_graphs, play(tmp_path, lambda writer: writer.add_onnx_graph(onnx_file))
    )
    nodes = {node.name: (node.op, list(node.input)) for node in ours.node}
    for node in theirs.node:
        if node.op != "Variable":
            assert nodes[node.name] == (node.op, list(node.input))
    assert nodes["x"] == ("Variable", [])
    assert nodes["output/y"] == ("Variable", ["y"])  # tensorboardX has two nodes called y


def test_openvino_graph(tmp_path: Path, openvino_file: str) -> None:
    (ours,), (theirs,) = map(
        read_graphs, play(tmp_path, lambda writer: writer.add_openvino_graph(openvino_file))
    )
    inputs = {node.name: list(node.input) for node in ours.node}
    assert {node.name: list(node.input) for node in theirs.node}.items() <= inputs.items()


def test_metadata(tmp_path: Path) -> None:
    def script(writer: Any) -> None:
        with writer.use_metadata(global_step=7):
            writer.add_scalar("a b", 1.0)
            writer.add_text("text", "b")
            writer.add_scalar("own step", 1.0, 3)
        writer.add_scalar("after", 1.0)

    assert_same_values(play(tmp_path, script))


def test_tensorboard_sees_the_same(tmp_path: Path) -> None:
    def script(writer: Any) -> None:
        for step in range(5):
            writer.add_scalar("a loss", step, step)
            writer.add_histogram("weights", np.arange(step + 1.0), step)
            writer.add_image("picture", np.zeros((3, 4, 4), np.uint8), step)
            writer.add_text("notes", "text", step)

    seen = [EventAccumulator(str(log)).Reload() for log in play(tmp_path, script)]
    assert seen[0].Tags() == seen[1].Tags()
    scalars = [[(each.step, each.value) for each in log.Scalars("a_loss")] for log in seen]
    assert scalars[0] == scalars[1] == [(step, float(step)) for step in range(5)]


def test_purge_step(tmp_path: Path) -> None:
    ours, theirs = play(tmp_path, lambda writer: writer.add_scalar("a", 1.0, 7), purge_step=5)
    for log in (ours, theirs):
        starts = [e.step for e in read_events(log)["."] if e.session_log.status == SessionLog.START]
        assert starts == [5]


def test_arguments(tmp_path: Path) -> None:
    with compat.SummaryWriter(log_dir=tmp_path / "b", filename_suffix=".end") as writer:
        assert writer.logdir == str(tmp_path / "b")
        assert isinstance(writer.file_writer, compat.FileWriter)
        assert list(writer.all_writers) == [writer.logdir]
        assert (writer.max_queue, writer.flush_secs) == (10, 120)
        assert len(writer.default_bins) == 1549
    assert next((tmp_path / "b").iterdir()).name.endswith(".end")
    with compat.SummaryWriter(tmp_path / "a", log_dir=tmp_path / "b") as writer:
        assert writer.logdir == str(tmp_path / "a")
    with pytest.raises(TypeError, match="log_directory"):
        compat.SummaryWriter(log_directory=tmp_path)


def test_default_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with compat.SummaryWriter(comment="_note") as writer:
        assert writer.logdir.startswith("runs/")
        assert writer.logdir.endswith("_note")


def test_library_defaults_are_no_wish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def spy(directory: str, suffix: str, flush_seconds: float, max_queue: int) -> Any:
        asked.append((flush_seconds, max_queue))
        return Sink(directory, suffix, flush_seconds, max_queue)

    monkeypatch.setattr("tbhub.writer.event_file.Sink", spy)
    compat.SummaryWriter(tmp_path).close()
    compat.SummaryWriter(tmp_path, max_queue=3, flush_secs=30).close()
    compat.SummaryWriter(tmp_path, "", None, 0, 0).close()
    assert asked == [(0.5, 0), (30.0, 3), (0.0, 0)]


def test_nothing_on_disk(tmp_path: Path) -> None:
    with compat.SummaryWriter(tmp_path / "log", write_to_disk=False) as writer:
        writer.add_scalar("a", 1.0)
        writer.add_scalars("a", {"b": 1.0})
        writer.add_hparams({"a": 1}, {"b": 2})
        writer.add_text("a", "b")
        writer.add_mesh("a", np.zeros((1, 2, 3)))
        writer.add_embedding(np.zeros((2, 2)))
        assert isinstance(writer.file_writer, compat.writer.DummyFileWriter)
    assert not (tmp_path / "log").exists()


def test_comet_is_not_supported(tmp_path: Path) -> None:
    with pytest.warns(TbhubWarning, match="Comet") as warned:
        compat.SummaryWriter(tmp_path, comet_config={"disabled": False}).close()
    assert len(warned) == 1
    assert warned[0].filename == __file__
    compat.SummaryWriter(tmp_path, comet_config={"disabled": True}).close()
    compat.SummaryWriter(tmp_path, comet_config=None).close()


def test_nan_names_the_tag(tmp_path: Path) -> None:
    with (
        compat.SummaryWriter(tmp_path) as writer,
        pytest.warns(TbhubWarning, match=r"add_scalar\('a_b'\)"),
    ):
        writer.add_scalar("a b", float("nan"))


@pytest.mark.parametrize("tag", [None, 3, b"bytes", ["list"]])
def test_wrong_tags(tag: Any, tmp_path: Path) -> None:
    with compat.SummaryWriter(tmp_path) as writer:
        for call in (writer.add_scalar, writer.add_histogram, writer.add_image):
            with pytest.raises(TypeError):
                call(tag, 1.0)


def test_many_tags_are_not_kept() -> None:
    from tbhub.compat.tensorboardX.tags import clean_tag

    assert clean_tag.cache_info().maxsize == 4096


def test_after_close(tmp_path: Path) -> None:
    writer = compat.SummaryWriter(tmp_path)
    writer.add_scalar("a b", 1.0, 1)
    writer.close()
    writer.close()
    writer.add_scalar("a b", 2.0, 2)
    writer.add_scalars("m", {"x": 1.0}, 2)
    writer.close()
    values = [(each.run, each.tag, each.step) for each in read_values(tmp_path)]
    assert sorted(values) == [(".", "a_b", 1), (".", "a_b", 2), ("m/x", "m", 2)]


def test_pickle(tmp_path: Path) -> None:
    with compat.SummaryWriter(tmp_path) as writer:
        copy = pickle.loads(pickle.dumps(writer))
        assert type(copy) is compat.SummaryWriter
        copy.add_scalar("a b", 1.0)
        copy.close()
        file_copy = pickle.loads(pickle.dumps(writer.file_writer))
        assert type(file_copy) is compat.FileWriter
        file_copy.close()
    assert [each.tag for each in read_values(tmp_path)] == ["a_b"]


def test_threads(tmp_path: Path) -> None:
    with compat.SummaryWriter(tmp_path) as writer:

        def work(number: int) -> None:
            for step in range(200):
                writer.add_scalar(f"tag {number}", step, step)
                writer.add_scalars("all", {str(number): step}, step)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    values: list[Logged] = read_values(tmp_path)
    assert len(values) == 4 * 200 * 2
    assert {each.tag for each in values} == {"all", *(f"tag_{number}" for number in range(4))}
