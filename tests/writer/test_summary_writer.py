"""SummaryWriter: every call, read back by TensorBoard's own reader."""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.util import tensor_util

from support.oracle import event_files, read_events, read_scalars, read_values, same_points
from tbhub import SummaryWriter, TbhubWarning


def only_value(directory: Path) -> tuple[int, Any]:
    values = read_values(directory)
    assert len(values) == 1
    return values[0]


# ------------------------------------------------------------------ files and names


def test_the_default_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="-lr.1") as writer:
        writer.add_scalar("a", 1, 1)
    (directory,) = (tmp_path / "runs").iterdir()
    assert directory.name.endswith(f"_{os.uname().nodename}-lr.1")
    time.strptime(directory.name.split(f"_{os.uname().nodename}")[0], "%b%d_%H-%M-%S")


def test_logdir_wins_over_log_dir_and_comment(tmp_path: Path) -> None:
    writer = SummaryWriter(tmp_path / "x", comment="unused", log_dir=str(tmp_path / "t"))
    assert writer.logdir == writer.log_dir == writer.get_logdir() == str(tmp_path / "x")
    assert SummaryWriter(log_dir=tmp_path / "t").logdir == str(tmp_path / "t")
    assert not (tmp_path / "unused").exists()


def test_every_file_starts_with_the_version(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path, filename_suffix=".mine"):
        pass
    (event,) = read_events(tmp_path)
    assert event.file_version == "brain.Event:2"
    (name,) = event_files(tmp_path)
    assert Path(name).name.startswith("events.out.tfevents.")
    assert name.endswith(".mine")


def test_two_writers_in_one_second_do_not_share_a_file(tmp_path: Path) -> None:
    writers = [SummaryWriter(tmp_path) for _ in range(5)]
    for number, writer in enumerate(writers):
        writer.add_scalar("a", number, number)
        writer.close()
    assert len(event_files(tmp_path)) == 5
    assert read_scalars(tmp_path)["a"] == [(n, float(n)) for n in range(5)]


def test_use_after_close_opens_a_new_file(tmp_path: Path) -> None:
    writer = SummaryWriter(tmp_path)
    for step in range(3):
        writer.add_scalar("a", step, step)
        writer.close()
    writer.close()
    assert len(event_files(tmp_path)) == 3
    assert [step for step, _ in read_scalars(tmp_path)["a"]] == [0, 1, 2]


def test_purge_step_is_written_once(tmp_path: Path) -> None:
    writer = SummaryWriter(tmp_path, purge_step=7)
    writer.add_scalar("a", 1, 7)
    writer.close()
    writer.add_scalar("a", 1, 8)
    writer.close()
    starts = [event for event in read_events(tmp_path) if event.HasField("session_log")]
    assert [event.step for event in starts] == [7]


def test_attributes_people_read(tmp_path: Path) -> None:
    writer = SummaryWriter(tmp_path, max_queue=3, flush_secs=9, purge_step=2, filename_suffix=".s")
    assert (writer.max_queue, writer.flush_secs, writer.purge_step) == (3, 9, 2)
    assert writer.filename_suffix == ".s"
    assert writer.file_writer.get_logdir() == str(tmp_path)
    assert list(writer.all_writers) == [str(tmp_path)]
    assert len(writer.default_bins) == 1549


def test_nothing_is_written_when_not_wanted(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "no", write_to_disk=False) as writer:
        writer.add_scalar("a", 1, 1)
        writer.add_scalars("b", {"c": 1})
        writer.add_text("t", "x")
        writer.add_hparams({"lr": 1}, {"m": 1})
        writer.add_scalars_batch("s", [1, 2])
        writer.add_embedding(np.eye(3))
        writer.export_scalars_to_json(tmp_path / "empty.json")
        writer.flush()
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    "arguments", [{"flush_secs": -1}, {"max_queue": -1}, {"filename_suffix": "/x"}]
)
def test_impossible_options(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        SummaryWriter(tmp_path, **arguments)


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        SummaryWriter(tmp_path / "file" / "run")


def test_a_scheme_that_nobody_knows() -> None:
    with pytest.raises(
        ValueError, match=r"no writer is registered for ftp://.*register_writer_factory"
    ):
        SummaryWriter("ftp://bucket/run")


def test_a_uri_that_is_none() -> None:
    with pytest.raises(ValueError, match="bucket/path"):
        SummaryWriter("s3:///run")


def test_a_file_uri_is_a_directory(tmp_path: Path) -> None:
    with SummaryWriter(f"file://{tmp_path}/run") as writer:
        writer.add_scalar("a", 1.0, 1)
    assert read_scalars(tmp_path / "run") == {"a": [(1, 1.0)]}


# ------------------------------------------------------------------ scalars


@settings(max_examples=200, deadline=None)
@given(
    tag=st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
    value=st.floats(width=32),
    step=st.integers(-(2**63), 2**63 - 1),
    wall_time=st.floats(allow_nan=False, allow_infinity=False),
)
def test_any_scalar_comes_back(
    tmp_path_factory: pytest.TempPathFactory, tag: str, value: float, step: int, wall_time: float
) -> None:
    directory = tmp_path_factory.mktemp("scalar")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with SummaryWriter(directory) as writer:
            writer.add_scalar(tag, value, step, wall_time)
    _, event = read_events(directory)
    (found,) = event.summary.value
    assert (found.tag, event.step, event.wall_time) == (tag, step, wall_time)
    assert found.simple_value == value or math.isnan(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        (True, 1.0),
        (np.float32(1.5), 1.5),
        (np.float64(2.5), 2.5),
        (np.int64(7), 7.0),
        (np.array(1.25), 1.25),
        (np.array([[4.0]]), 4.0),
        ([5.0], 5.0),
        (10**30, 1e30),
    ],
)
def test_what_counts_as_one_number(tmp_path: Path, value: object, expected: float) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", value, 1)
    assert only_value(tmp_path)[1].simple_value == np.float32(expected)


def test_tensors_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", torch.tensor(1.5, requires_grad=True), torch.tensor(3))
        writer.add_scalar("a", torch.tensor([2.5], dtype=torch.bfloat16), 4)
    assert read_scalars(tmp_path)["a"] == [(3, 1.5), (4, 2.5)]


@pytest.mark.parametrize(
    ("step", "expected"),
    [(None, 0), (3.7, 3), ("12", 12), (np.int32(5), 5), (np.array([6]), 6), (-1, -1), (True, 1)],
)
def test_what_counts_as_a_step(tmp_path: Path, step: object, expected: int) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", 1, step)
        writer.add_text("b", "x", step)
    assert [found for found, _ in read_values(tmp_path)] == [expected, expected]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("loss", "text", 1), TypeError),
        (("loss", None, 1), TypeError),
        (("loss", 1j, 1), TypeError),
        (("loss", np.zeros(2), 1), ValueError),
        (("loss", 10**400, 1), ValueError),
        (("loss", 1, 2**63), ValueError),
        (("loss", 1, "x"), ValueError),
        (("loss", 1, math.nan), ValueError),
        (("loss", 1, object()), TypeError),
        (("loss", 1, 1, "noon"), TypeError),
        ((b"loss", 1, 1), TypeError),
        ((None, 1, 1), TypeError),
        (("loss\udc80", 1, 1), ValueError),
    ],
)
def test_wrong_scalars_are_refused_at_the_call(
    tmp_path: Path, arguments: tuple[Any, ...], error: type[Exception]
) -> None:
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(error, match=r"add_scalar\("):
            writer.add_scalar(*arguments)
        writer.add_scalar("fine", 1, 1)
    assert only_value(tmp_path)[1].tag == "fine"


def test_a_model_that_diverges_is_warned_of_once(tmp_path: Path) -> None:
    with (
        SummaryWriter(tmp_path / "train") as train,
        SummaryWriter(tmp_path / "test") as test,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        for step, value in enumerate([1.0, math.nan, math.inf, -math.inf, np.float32("nan")]):
            for tag in ("loss", "acc", "grad"):
                train.add_scalar(tag, value, step)
                test.add_scalar(tag, value, step)
            train.add_scalars("both", {"a": value}, step)
        test.add_scalars_batch("many", [math.nan] * 3)
    (text,) = (str(each.message) for each in caught)
    assert "add_scalar('loss'): got nan at step 1;" in text
    for stage in ("train", "test"):
        points = read_scalars(tmp_path / stage)["loss"][1:]
        assert same_points(points, [(1, math.nan), (2, math.inf), (3, -math.inf), (4, math.nan)])


def test_a_number_too_large_for_a_float_is_warned_of_with_what_helps(tmp_path: Path) -> None:
    with (
        SummaryWriter(tmp_path) as writer,
        pytest.warns(TbhubWarning, match="1e\\+39, which float32 cannot hold .double_precision"),
    ):
        writer.add_scalar("big", 1e39, 1)


def test_new_style_and_double_precision(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", 0.1, 1, new_style=True)
        writer.add_scalar("b", 0.1, 1, None, True, True)  # torch's places
        writer.add_scalar("c", 0.1, 1, None, "title", "words")  # tensorboardX's
    (_, a), (_, b), (_, c) = read_values(tmp_path)
    assert tensor_util.make_ndarray(a.tensor) == np.float32(0.1)
    assert a.metadata.plugin_data.plugin_name == "scalars"
    assert tensor_util.make_ndarray(b.tensor) == 0.1
    assert (c.metadata.display_name, c.metadata.summary_description) == ("title", "words")
    assert c.simple_value == np.float32(0.1)


def test_add_scalars_makes_runs_as_torch_does(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalars("a/b", {"sin": step, "cos": -step}, step)
        assert len(writer.all_writers) == 3
    writer.export_scalars_to_json(tmp_path / "all.json")
    assert read_scalars(tmp_path / "a_b_sin")["a/b"] == [(0, 0.0), (1, 1.0), (2, 2.0)]
    exported = json.loads((tmp_path / "all.json").read_text())
    rows = exported[str(tmp_path / "a_b_cos")]
    assert [row[1:] for row in rows] == [[0, 0.0], [1, -1.0], [2, -2.0]]


def test_add_scalars_never_leaves_its_directory(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "logs") as writer:
        writer.add_scalars("m", {"/../../../out": 1, "..": 2, "": 3}, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_batches(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal(40_000)
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars_batch("plain", values)
        writer.add_scalars_batch("full", values[:5], np.arange(5) * 10, np.arange(5.0) + 100)
        writer.add_scalars_batch("one time", [1, 2], [1, 2], 5.0)
        writer.add_scalars_batch("empty", [])
        with pytest.warns(TbhubWarning, match="'gap'"):
            writer.add_scalars_batch("gap", [1, math.nan, 3])
    scalars = read_scalars(tmp_path)
    assert same_points(scalars["plain"], list(enumerate(values.astype(np.float32).tolist())))
    times = [event.wall_time for event in read_events(tmp_path)]
    assert times[-8 - 2 : -5 - 2 + 2] == [100, 101, 102, 103, 104][: len(times[-10:-5])]
    assert [step for step, _ in scalars["full"]] == [0, 10, 20, 30, 40]
    assert len(scalars["gap"]) == 3
    assert "empty" not in scalars


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (([[1, 2]],), ValueError),
        (([1, 2], [1]), ValueError),
        (([1, 2], None, [1.0]), ValueError),
        (([1, 2], [1, math.nan]), ValueError),
        (([1, 2], [1, 1e30]), ValueError),
        (([1], np.array([2**63], np.uint64)), ValueError),
        (([1], [1j]), TypeError),
        (([1], None, [1j]), TypeError),
        ((["a"],), TypeError),
        (([1j],), ValueError),
    ],
)
def test_wrong_batches(tmp_path: Path, arguments: Any, error: type[Exception]) -> None:
    with SummaryWriter(tmp_path) as writer, pytest.raises(error, match=r"add_scalars_batch\('a'\)"):
        writer.add_scalars_batch("a", *arguments)


def test_use_metadata(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        with writer.use_metadata(global_step=10, walltime=5.0):
            writer.add_scalar("a", 1)
            writer.add_text("t", "x")
            writer.add_scalar("a", 1, 3)
        writer.add_scalar("a", 1)
        with (
            pytest.raises(ValueError, match="global_step, walltime or both"),
            writer.use_metadata(),
        ):
            pass
    events = list(read_events(tmp_path))[1:]
    assert [(event.step, event.wall_time) for event in events[:3]] == [(10, 5), (10, 5), (3, 5)]
    assert events[3].step == 0
    assert events[3].wall_time > 1e9


# ------------------------------------------------------------------ histograms


def torch_histogram(values: Any, **options: Any) -> Any:
    from torch.utils.tensorboard.summary import make_histogram
    from torch.utils.tensorboard.writer import SummaryWriter as TorchWriter

    bins = options.pop("bins", "tensorflow")
    if bins == "tensorflow":
        edges = [0.0]
        edge = 1e-12
        while edge < 1e20:
            edges += [edge, -edge]
            edge *= 1.1
        bins = sorted(edges)
    assert TorchWriter
    return make_histogram(np.asarray(values).astype(float), bins, **options)


def our_histogram(values: Any, **options: Any) -> Any:
    from tbhub.writer.summaries.histogram import histogram

    return histogram("h", values, **options).value[0].histo


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).standard_normal(10_000),
        np.random.default_rng(1).standard_normal((10, 10, 100)).astype(np.float32),
        np.random.default_rng(2).integers(-1000, 1000, 500),
        np.zeros(10),
        np.array([1e-13, -1e-13, 0.0, -0.0]),
        np.array([1e19, -1e19, 1e25, -1e25, 5.0]),
        np.array([1.0]),
        np.linspace(-1, 1, 999).astype(np.float16),
        np.array([True, False, True]),
    ],
)
@pytest.mark.parametrize("options", [{}, {"max_bins": 30}, {"bins": "auto"}, {"bins": 7}])
def test_histograms_have_numpys_numbers(values: Any, options: dict[str, Any]) -> None:
    if options.get("bins") == "auto" and values.dtype == bool:
        pytest.skip("numpy's automatic bins do not take booleans")
    ours, theirs = our_histogram(values, **options), torch_histogram(values, **options)
    assert list(ours.bucket) == list(theirs.bucket)
    assert list(ours.bucket_limit) == list(theirs.bucket_limit)
    assert (ours.min, ours.max, ours.num) == (theirs.min, theirs.max, theirs.num)
    assert ours.sum == theirs.sum
    assert ours.sum_squares == pytest.approx(theirs.sum_squares, rel=1e-12)  # theirs is BLAS's


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(
        st.lists(st.floats(), min_size=1, max_size=200).map(np.float64),
        st.lists(st.floats(width=32), min_size=1, max_size=200).map(np.float32),
    )
)
def test_every_value_falls_where_numpy_puts_it(array: Any) -> None:
    from tbhub import _kernel

    edges = _kernel.histogram_edges()
    expected, _ = np.histogram(array[~np.isnan(array)].astype(np.float64), edges)
    *_, counts = _kernel.histogram(array)
    np.testing.assert_array_equal(counts, expected)


def test_values_on_the_edges() -> None:
    from tbhub import _kernel

    edges = _kernel.histogram_edges()
    for dtype in (np.float64, np.float32):
        near = edges.astype(dtype)
        up, down = np.nextafter(near, dtype(1e30)), np.nextafter(near, dtype(-1e30))
        around = np.concatenate([near, up, down])
        *_, counts = _kernel.histogram(around)
        np.testing.assert_array_equal(counts, np.histogram(around.astype(np.float64), edges)[0])


def test_histograms_reach_the_file(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("h", np.arange(100), 5)
        writer.add_histogram_raw("raw", 0, 2, 3, 3, 5, [1, 2], [1, 2], 6)
        for bad in ([], [1j], "words"):
            with pytest.raises((ValueError, TypeError), match=r"add_histogram\('h'\)"):
                writer.add_histogram("h", bad)
        with pytest.raises(ValueError, match="as long as each other"):
            writer.add_histogram_raw("raw", 0, 2, 3, 3, 5, [1, 2], [1], 6)
    (step, value), (_, raw) = read_values(tmp_path)
    assert (step, value.tag, value.histo.num) == (5, "h", 100)
    assert list(raw.histo.bucket_limit) == [1, 2]


# ------------------------------------------------------------------ everything else


def test_every_other_call_writes_what_it_should(tmp_path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([1, 2])
    noise = np.random.default_rng(0).random((3, 16, 16), np.float32)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("image", noise, 1)
        writer.add_images("images", np.stack([noise] * 3), 2)
        writer.add_images("list", [noise, noise], 2, dataformats="CHW")
        writer.add_image_with_boxes("boxes", noise, [[1, 1, 8, 8]], 3, None, 1, "CHW", ["cat"])
        writer.add_image_with_boxes("boxes", noise, [[1, 1, 8, 8]], 3, None, "CHW", ["cat"])
        writer.add_figure("figure", figure, 4)
        writer.add_video("video", noise[None, None], 5)
        writer.add_audio("audio", np.zeros(50), 6)
        writer.add_text("text", "hello", 7)
        writer.add_tensor("tensor", np.eye(3), 8)
        writer.add_pr_curve("pr", [0, 1, 1], [0.1, 0.8, 0.9], 9)
        ones = np.ones(5)
        writer.add_pr_curve_raw("raw", ones, ones, ones, ones, ones, ones, 10, 5)
        writer.add_mesh("mesh", np.zeros((1, 3, 3)), None, np.zeros((1, 1, 3)), {"a": 1}, 11)
        writer.add_custom_scalars({"cat": {"chart": ["Multiline", ["a", "b"]]}})
        writer.add_custom_scalars_multilinechart(["a"], "c", "t")
        writer.add_custom_scalars_marginchart(["a", "b", "c"])
        with pytest.raises(ValueError, match="its lower and its upper bound, got 1"):
            writer.add_custom_scalars_marginchart(["a"])
    found = [(step, value.tag, value.WhichOneof("value")) for step, value in read_values(tmp_path)]
    assert found == [
        (1, "image", "image"),
        (2, "images", "image"),
        (2, "list", "image"),
        (3, "boxes", "image"),
        (3, "boxes", "image"),
        (4, "figure", "image"),
        (5, "video", "image"),
        (6, "audio", "audio"),
        (7, "text/text_summary", "tensor"),
        (8, "tensor", "tensor"),
        (9, "pr", "tensor"),
        (10, "raw", "tensor"),
        (11, "mesh_VERTEX", "tensor"),
        (11, "mesh_FACE", "tensor"),
        *[(0, "custom_scalars__config__", "tensor")] * 3,
    ]


def test_hparams_in_both_libraries_orders(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 1}, {"m": 1}, "x-name", 5)
        writer.add_hparams({"lr": 1}, {"m": 1}, {"lr": [1, 2]}, "t-name", 6)
        writer.add_hparams({"lr": 1}, {"m": 1}, run_name="kw", global_step=7)
        writer.add_hparams({"lr": 1}, {"m": 1}, name="kw-x")
        writer.add_hparams({"lr": 1}, {"m": 1})
        with pytest.raises(TypeError, match="dict"):
            writer.add_hparams([1], {"m": 1})  # type: ignore[arg-type]
        with pytest.warns(TbhubWarning, match=r"add_hparams\('m'\): got nan"):
            writer.add_hparams({"lr": 1}, {"m": math.nan}, run_name="kw-x")
        with pytest.raises(TypeError, match="metric 'm'"):
            writer.add_hparams({"lr": 1}, {"m": "x"})
    runs = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert {"x-name", "t-name", "kw", "kw-x"} < runs
    assert len(runs) == 5
    assert read_scalars(tmp_path / "x-name")["m"] == [(5, 1.0)]
    assert read_scalars(tmp_path / "t-name")["m"] == [(6, 1.0)]
    assert [value.tag for _, value in read_values(tmp_path / "kw")] == [
        "_hparams_/experiment",
        "_hparams_/session_start_info",
        "_hparams_/session_end_info",
        "m",
    ]


def test_graphs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import onnx
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    info = [onnx.helper.make_tensor_value_info(name, 1, [1]) for name in "xy"]
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", info[:1], info[1:]))
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "m.xml").write_text(
        '<net><layers><layer id="0" name="in" type="Parameter"/></layers><edges/></net>'
    )
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_graph(torch.nn.Linear(2, 1), torch.zeros(1, 2))
        writer.add_onnx_graph(tmp_path / "m.onnx")
        writer.add_onnx_graph(prototxt=str(tmp_path / "m.onnx"))
        writer.add_openvino_graph(tmp_path / "m.xml")
    graphs = [event.graph_def for event in read_events(tmp_path / "run") if event.graph_def]
    names = [[node.name for node in GraphDef.FromString(graph).node] for graph in graphs]
    assert "input/input" in names[0] or any("input" in name for name in names[0])
    assert names[1] == names[2]
    assert names[3] == ["in"]


@pytest.mark.parametrize(
    "call",
    [
        lambda writer, tag: writer.add_image(tag, np.zeros((3, 4, 4))),
        lambda writer, tag: writer.add_text(tag, "x"),
        lambda writer, tag: writer.add_histogram(tag, [1]),
        lambda writer, tag: writer.add_audio(tag, [0.0]),
        lambda writer, tag: writer.add_scalars(tag, {"a": 1}),
        lambda writer, tag: writer.add_tensor(tag, [1]),
    ],
)
@pytest.mark.parametrize("tag", [None, 5, b"x"])
def test_tags_must_be_strings(tmp_path: Path, call: Any, tag: Any) -> None:
    with SummaryWriter(tmp_path) as writer, pytest.raises(TypeError, match="string as tag"):
        call(writer, tag)


@pytest.mark.parametrize(
    "call",
    [
        lambda writer: writer.add_image("bad tag", np.zeros((3, 4, 4)), dataformats=None),
        lambda writer: writer.add_image("bad tag", np.zeros((3, 4, 4)), dataformats="XYZ"),
        lambda writer: writer.add_histogram("bad tag", [1, 2], bins="foo"),
        lambda writer: writer.add_histogram("bad tag", [1, 2], max_bins=0),
        lambda writer: writer.add_mesh("bad tag", np.zeros((1, 2, 3)), config_dict={"a": object()}),
        lambda writer: writer.add_audio("bad tag", [0.0], sample_rate="x"),
        lambda writer: writer.add_video("bad tag", np.zeros((1, 1, 3, 4, 4)), fps="x"),
        lambda writer: writer.add_pr_curve("bad tag", [0, 1], [0.1, 0.2], num_thresholds="x"),
        lambda writer: writer.add_text("bad tag", "\ud800"),
        lambda writer: writer.add_tensor("bad tag", object()),
        lambda writer: writer.add_figure("bad tag", object()),
        lambda writer: writer.add_embedding(object(), tag="bad tag"),
        lambda writer: writer.add_image_with_boxes("bad tag", np.zeros((3, 4, 4)), "boxes"),
    ],
)
def test_wrong_arguments_are_told_with_the_tag(tmp_path: Path, call: Any) -> None:
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises((TypeError, ValueError), match="bad tag"):
            call(writer)
        writer.add_scalar("fine", 1, 1)
    assert [value.tag for _, value in read_values(tmp_path)] == ["fine"]


def test_everything_stays_where_the_writer_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    writer = SummaryWriter("logs")
    monkeypatch.chdir(tmp_path / "there")
    writer.add_embedding(np.eye(3))
    writer.add_scalars("m", {"a": 1}, 1)
    writer.close()
    writer.export_scalars_to_json("all.json")
    assert (tmp_path / "logs" / "projector_config.pbtxt").exists()
    assert len(json.loads(Path("all.json").read_text())) == 1
    assert [path.name for path in Path().iterdir()] == ["all.json"]
