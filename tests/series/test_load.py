"""``tbhub.load`` against TensorBoard on the same files, good ones and bad ones."""

from __future__ import annotations

import importlib
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.util import tensor_util

import tbhub
from support.oracle import event_files, pairs, read_scalars, read_scalars_in_rust, same_points
from support.records import frame, write_events
from tbhub import NoEventsError, SummaryWriter, TbhubWarning

VERSION = Event(wall_time=1, file_version="brain.Event:2")


def scalar_event(tag: str, step: int, value: float, wall_time: float = 10) -> Event:
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
    return Event(wall_time=wall_time, step=step, summary=summary)


def text_event(step: int, wall_time: float) -> Event:
    value = Summary.Value(tag="t", tensor=tensor_util.make_tensor_proto(b"x"))
    value.metadata.plugin_data.plugin_name = "text"
    return Event(wall_time=wall_time, step=step, summary=Summary(value=[value]))


def test_a_tree_of_runs_is_named_as_tensorboard_names_it(tmp_path: Path) -> None:
    for name in ("b", "a/train", "a/test", "a"):
        with SummaryWriter(tmp_path / name) as writer:
            writer.add_scalar("loss", 1, 1)
    (tmp_path / "empty").mkdir()
    (tmp_path / "b" / "notes.txt").write_text("not an event file")
    assert list(tbhub.load(tmp_path)) == ["a", "a/test", "a/train", "b"]
    assert list(tbhub.load(tmp_path / "b")) == ["."]
    assert list(tbhub.load(event_files(tmp_path / "b")[0])) == ["."]


def test_every_point_comes_back(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((4000, 3)).astype(np.float32)
    with SummaryWriter(tmp_path) as writer:
        for step, row in enumerate(values.tolist()):
            for tag, value in zip("abc", row, strict=True):
                writer.add_scalar(tag, value, step * 10, 1e9 + step)
    run = tbhub.load(tmp_path)["."]
    for column, tag in enumerate("abc"):
        series = run.scalars[tag]
        assert series.values.dtype == np.float32
        np.testing.assert_array_equal(series.values, values[:, column])
        np.testing.assert_array_equal(series.steps, np.arange(4000) * 10)
        np.testing.assert_array_equal(series.wall_times, 1e9 + np.arange(4000))
        assert same_points(pairs(series), read_scalars(tmp_path)[tag])
        with pytest.raises(ValueError, match="read-only"):
            series.values[0] = 1


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.float16, np.float32),
        (np.int32, np.float64),
        (np.int64, np.float64),
        (np.uint8, np.float64),
        (np.bool_, np.float64),
    ],
)
@pytest.mark.parametrize("with_metadata", [True, False])
@pytest.mark.parametrize("by_content", [True, False])
def test_every_scalar_encoding(
    tmp_path: Path, dtype: type, expected: type, with_metadata: bool, by_content: bool
) -> None:
    array = np.array(1, dtype)
    proto = tensor_util.make_tensor_proto(array)
    if by_content:
        proto.ClearField("float_val")
        proto = type(proto)(
            dtype=proto.dtype, tensor_shape=proto.tensor_shape, tensor_content=array.tobytes()
        )
    value = Summary.Value(tag="x", tensor=proto)
    if with_metadata:
        value.metadata.plugin_data.plugin_name = "scalars"
    event = Event(wall_time=2, step=3, summary=Summary(value=[value]))
    write_events(tmp_path / "events.out.tfevents.1", VERSION, event, event)
    series = tbhub.load(tmp_path)["."].scalars["x"]
    assert series.values.dtype == expected
    assert pairs(series) == [(3, 1.0), (3, 1.0)]


def test_bfloat16_and_mixed_widths(tmp_path: Path) -> None:
    bfloat = Summary.Value(tag="x")
    bfloat.tensor.dtype = 14
    bfloat.tensor.half_val.append(0x3FC0)  # 1.5
    double = Summary.Value(tag="x")
    double.tensor.dtype = 2
    double.tensor.double_val.append(1e-300)
    events = [
        Event(step=step, summary=Summary(value=[value]))
        for step, value in enumerate(
            [Summary.Value(tag="x", simple_value=0.25), bfloat, double, bfloat]
        )
    ]
    write_events(tmp_path / "tfevents", VERSION, *events)
    series = tbhub.load(tmp_path)["."].scalars["x"]
    assert series.values.dtype == np.float64
    assert series.values.tolist() == [0.25, 1.5, 1e-300, 1.5]


def test_several_values_in_one_event_and_tags_in_any_order(tmp_path: Path) -> None:
    events = [VERSION]
    expected: dict[str, list[tuple[int, float]]] = {}
    rng = np.random.default_rng(1)
    for step in range(500):
        tags = rng.choice(list("abcdefg"), size=rng.integers(1, 5), replace=False)
        values = []
        for tag in map(str, tags):
            number = float(np.float32(rng.standard_normal()))
            values.append(Summary.Value(tag=tag, simple_value=number))
            expected.setdefault(tag, []).append((step, number))
        events.append(Event(wall_time=step, step=step, summary=Summary(value=values)))
    write_events(tmp_path / "tfevents", *events)
    run = tbhub.load(tmp_path)["."]
    assert {tag: pairs(series) for tag, series in run.scalars.items()} == expected


def test_session_start_forgets_what_lies_behind_it(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in range(10):
            writer.add_scalar("loss", step, step)
            writer.add_text("note", str(step), step)
    with SummaryWriter(tmp_path, purge_step=5) as writer:
        for step in range(5, 8):
            writer.add_scalar("loss", 100 + step, step)
    run = tbhub.load(tmp_path)["."]
    ours = pairs(run.scalars["loss"])
    assert ours == [(step, step) for step in range(5)] + [(5, 105), (6, 106), (7, 107)]
    assert same_points(ours, read_scalars(tmp_path)["loss"])
    assert run.text["note/text_summary"].steps.tolist() == [0, 1, 2, 3, 4]
    assert run.restarts[0] == 5


def test_session_start_within_one_file(tmp_path: Path) -> None:
    start = Event(wall_time=3, step=2, session_log=SessionLog(status=SessionLog.START))
    write_events(
        tmp_path / "tfevents",
        VERSION,
        *[scalar_event("a", step, step) for step in range(5)],
        start,
        *[scalar_event("a", step, -step) for step in range(2, 4)],
    )
    ours = pairs(tbhub.load(tmp_path)["."].scalars["a"])
    assert ours == [(0, 0), (1, 1), (2, -2), (3, -3)]
    assert same_points(ours, read_scalars(tmp_path)["a"])


def test_files_of_version_1_purge_by_step(tmp_path: Path) -> None:
    steps = [0, 1, 2, 3, 1, 2]
    write_events(
        tmp_path / "tfevents",
        Event(file_version="brain.Event:1"),
        *[scalar_event("a", step, index) for index, step in enumerate(steps)],
    )
    ours = pairs(tbhub.load(tmp_path)["."].scalars["a"])
    assert same_points(ours, read_scalars(tmp_path)["a"])


def test_a_restart_replaces_what_it_writes_again(tmp_path: Path) -> None:
    """As TensorBoard's own (Rust) reader shows a run that went back to a checkpoint."""
    write_events(
        tmp_path / "run" / "events.out.tfevents.100",
        VERSION,
        *[scalar_event("a", step, step, 100 + step) for step in range(10)],
        *[text_event(step, 100 + step) for step in range(10)],
    )
    write_events(
        tmp_path / "run" / "events.out.tfevents.200",
        VERSION,
        *[scalar_event("a", step, -step, 200 + step) for step in range(6, 12)],
        *[text_event(step, 200 + step) for step in range(8, 10)],
    )
    run = tbhub.load(tmp_path)["run"]
    ours = pairs(run.scalars["a"])
    assert ours == [(s, s) for s in range(6)] + [(s, -s) for s in range(6, 12)]
    assert same_points(ours, read_scalars_in_rust(tmp_path)["run"]["a"])
    assert run.restarts == [6]
    assert run.text["t"].steps.tolist() == list(range(10))
    assert run.text["t"].wall_times.tolist()[-2:] == [208, 209]


def test_writers_side_by_side_keep_all_their_points(tmp_path: Path) -> None:
    for number in range(2):
        write_events(
            tmp_path / f"events.out.tfevents.10{number}",
            VERSION,
            *[scalar_event("a", step, number, 100 + step) for step in range(10)],
        )
    series = tbhub.load(tmp_path)["."].scalars["a"]
    assert len(series) == 20
    assert same_points(pairs(series), read_scalars(tmp_path)["a"])


def test_a_short_writer_beside_a_long_one_takes_nothing_away(tmp_path: Path) -> None:
    """The third file begins after the second has ended, but while the first still goes on."""
    spans = {"100": (100, range(50)), "101": (101, range(10)), "120": (120, range(5, 15))}
    for name, (start, steps) in spans.items():
        write_events(
            tmp_path / f"events.out.tfevents.{name}",
            VERSION,
            *[scalar_event("a", step, step, start + index) for index, step in enumerate(steps)],
            *[text_event(step, start + index) for index, step in enumerate(steps)],
        )
    run = tbhub.load(tmp_path)["."]
    assert len(run.scalars["a"]) == len(run.text["t"]) == 70
    assert run.restarts == []


def test_what_is_not_a_scalar(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    pixels = rng.integers(0, 255, (3, 8, 12), np.uint8)
    sample = rng.standard_normal(1000)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("image", pixels, 1)
        writer.add_audio("audio", np.zeros(100, np.float32), 2)
        writer.add_histogram("histogram", sample, 3)
        writer.add_text("text", "hello **world**", 4)
        writer.add_tensor("tensor", sample.reshape(10, 100), 5)
        writer.add_pr_curve("curve", [0, 1], [0.2, 0.9], 6)
        writer.add_mesh("mesh", np.zeros((1, 4, 3), np.float32), global_step=7)
        writer.add_hparams({"lr": 0.1, "name": "x", "on": True}, {"acc": 1}, run_name="trial")
    runs = tbhub.load(tmp_path)
    run = runs["."]
    np.testing.assert_array_equal(run.images["image"][0].array, pixels.transpose(1, 2, 0))
    assert run.images["image"].steps.tolist() == [1]
    assert run.audio["audio"][0].sample_rate == 44100
    histogram = run.histograms["histogram"][0]
    assert histogram.num == 1000
    counts, _ = np.histogram(sample, histogram.edges)
    np.testing.assert_array_equal(counts, histogram.counts)
    assert run.text["text/text_summary"][:] == ["hello **world**"]
    np.testing.assert_array_equal(run.tensors["tensor"][0], sample.reshape(10, 100))
    assert set(run.tensors) == {"tensor", "curve", "mesh_VERTEX"}
    assert run.plugins["curve"] == "pr_curves"
    assert runs["trial"].hparams == {"lr": 0.1, "name": "x", "on": True}
    assert pairs(runs["trial"].scalars["acc"]) == [(0, 1.0)]
    assert run.hparams == {}
    assert run.graph is None
    assert "5 tensors" not in repr(run)
    assert "1 images" in repr(run)


def test_to_pandas(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with SummaryWriter(tmp_path / name) as writer:
            writer.add_scalars_batch("loss", [3, 2, 1])
    runs = tbhub.load(tmp_path)
    frame_ = runs.to_pandas()
    assert list(frame_.columns) == ["run", "tag", "step", "wall_time", "value"]
    assert frame_.groupby("run").value.sum().to_dict() == {"one": 6, "two": 6}
    assert runs["one"].scalars["loss"].to_pandas().loc[1].value == 2


@pytest.mark.filterwarnings("ignore")  # of the other libraries
@pytest.mark.parametrize("library", ["torch.utils.tensorboard", "tensorboardX"])
def test_files_of_other_writers(tmp_path: Path, library: str) -> None:
    rng = np.random.default_rng(3)
    with importlib.import_module(library).SummaryWriter(str(tmp_path)) as writer:
        for step in range(300):
            writer.add_scalar("loss", rng.standard_normal(), step)
            writer.add_scalar("deep/er", step * 1e-3, step * 7)
            if library.startswith("torch"):
                writer.add_scalar("new", step, step, new_style=True)
                writer.add_scalar("double", step / 3, step, new_style=True, double_precision=True)
        writer.add_scalars("group", {"a": 1, "b": 2}, 1)
        writer.add_histogram("weights", rng.standard_normal(100), 1)
        writer.add_text("note", "hello", 1)
        writer.add_image("picture", rng.random((3, 4, 5)), 1)
    runs = tbhub.load(tmp_path)
    for name, run in runs.items():
        theirs = read_scalars(tmp_path / name)
        assert set(run.scalars) == set(theirs)
        for tag, points in theirs.items():
            assert same_points(pairs(run.scalars[tag]), points), tag
    root = runs["."]
    assert len(runs) == 3
    assert root.histograms["weights"][0].num == 100
    assert root.text["note/text_summary"][0] == "hello"
    assert root.images["picture"][0].array.shape == (4, 5, 3)
    if library.startswith("torch"):
        assert root.scalars["double"].values.dtype == np.float64


def test_a_bar_shows_only_when_it_takes_long_and_someone_watches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tbhub.series import progress

    def work() -> str:
        with progress.Progress("loading", 3_000_000) as bar:
            for _ in range(3):
                bar.advance(1_000_000)
        return capsys.readouterr().err

    assert work() == ""
    monkeypatch.setattr(progress, "_SHOW_AFTER", 0)
    assert work() == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert "loading" in work()


# ------------------------------------------------------------------ bad input


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(NoEventsError, match="does not exist"):
        tbhub.load(tmp_path / "nowhere")


def test_a_directory_without_runs_is_empty(tmp_path: Path) -> None:
    assert dict(tbhub.load(tmp_path)) == {}


def test_a_file_that_is_no_event_file(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(os.urandom(10_000))
    with pytest.raises(NoEventsError, match="is not an event file"):
        tbhub.load(path)


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1").touch()
    assert dict(tbhub.load(tmp_path)["."].scalars) == {}


def test_a_half_written_record_is_waited_for_and_not_an_error(tmp_path: Path) -> None:
    path = write_events(tmp_path / "tfevents", VERSION, scalar_event("a", 1, 1))
    whole = path.read_bytes()
    path.write_bytes(whole + frame(scalar_event("a", 2, 2).SerializeToString())[:-3])
    run = tbhub.load(tmp_path)["."]
    assert pairs(run.scalars["a"]) == [(1, 1.0)]
    assert run.pending_bytes > 0
    assert run.damages == {}


def test_damage_is_skipped_counted_and_warned_of(tmp_path: Path) -> None:
    path = write_events(
        tmp_path / "tfevents", VERSION, *[scalar_event("a", step, step) for step in range(100)]
    )
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.warns(TbhubWarning, match=r"1 damaged places in 1 runs .*tbhub check"):
        run = tbhub.load(tmp_path)["."]
    assert len(run.scalars["a"]) == 99
    assert sum(run.damages.values()) == 1


def test_an_unreadable_file_does_not_hide_the_others(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "good") as writer:
        writer.add_scalar("a", 1, 1)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "events.out.tfevents.1").symlink_to(tmp_path / "missing")
    with pytest.warns(TbhubWarning, match="could not be read"):
        assert list(tbhub.load(tmp_path)) == ["good"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "good") as writer:
        writer.add_scalar("a", 1, 1)
    (tmp_path / "bad").mkdir()
    os.mkfifo(tmp_path / "bad" / "events.out.tfevents.1")
    with pytest.warns(TbhubWarning, match="could not be read"):
        assert list(tbhub.load(tmp_path)) == ["good"]


def test_zeros_that_become_records_are_read_again(tmp_path: Path) -> None:
    """As a network file system shows a file whose size has arrived before its bytes."""
    from tbhub._kernel import Decoder

    path = write_events(tmp_path / "tfevents", VERSION, scalar_event("a", 1, 1))
    late = frame(scalar_event("a", 2, 2).SerializeToString())
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(len(late)))
    decoder = Decoder()
    decoder.read_file(path)
    assert decoder.events == 2
    path.write_bytes(whole + late)
    decoder.read_file(path)
    assert decoder.events == 3
    assert decoder.damage_counts == {}
    assert decoder.pending == 0


def test_a_tensor_that_claims_too_much(tmp_path: Path) -> None:
    value = Summary.Value(tag="t")
    value.tensor.dtype = 1
    value.tensor.float_val.append(1)
    value.tensor.tensor_shape.dim.add(size=10**12)
    write_events(tmp_path / "tfevents", VERSION, Event(summary=Summary(value=[value])))
    with pytest.raises(ValueError, match="cannot be right"):
        _ = tbhub.load(tmp_path)["."].tensors["t"][0]


def test_links_in_a_circle(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_scalar("a", 1, 1)
    (tmp_path / "run" / "loop").symlink_to(tmp_path)
    assert list(tbhub.load(tmp_path)) == ["run"]


@pytest.mark.parametrize("tag", ["", "ü/ 漢字 🙂", "a\nb", "<script>", "x" * 1_000_000, "\0"])
def test_strange_tags(tmp_path: Path, tag: str) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar(tag, step, step)
    assert pairs(tbhub.load(tmp_path)["."].scalars[tag]) == [(0, 0), (1, 1), (2, 2)]


def test_invalid_utf8_is_counted_as_damage(tmp_path: Path) -> None:
    event = scalar_event("XXXX", 1, 1).SerializeToString().replace(b"XXXX", b"\xff\xfe\xfd\xfc")
    write_events(tmp_path / "tfevents", VERSION, event, scalar_event("good", 1, 1))
    with pytest.warns(TbhubWarning):
        run = tbhub.load(tmp_path)["."]
    assert list(run.scalars) == ["good"]
    assert run.damages == {"not an event": 1}


def test_more_tags_than_the_bound(tmp_path: Path) -> None:
    from tbhub._kernel import MAX_TAGS

    with SummaryWriter(tmp_path) as writer:
        values = [Summary.Value(tag=str(number), simple_value=1) for number in range(50_000)]
        for start in range(0, MAX_TAGS + 50_000, 50_000):
            for offset, value in enumerate(values):
                value.tag = str(start + offset)
            writer.file_writer.add_summary(Summary(value=values), 1)
    with pytest.warns(TbhubWarning, match="50000 values of tags beyond the first million"):
        run = tbhub.load(tmp_path)["."]
    assert len(run.scalars) == MAX_TAGS
    assert run.skipped_values == 50_000


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars_batch("a", np.arange(500_000.0))
    path = Path(event_files(tmp_path)[0])
    size = path.stat().st_size
    cut = threading.Thread(target=lambda: os.truncate(path, size // 3))
    cut.start()
    run = tbhub.load(tmp_path)["."]
    cut.join()
    values = run.scalars["a"].values
    np.testing.assert_array_equal(values, np.arange(len(values)))


@settings(max_examples=50, deadline=None)
@given(
    flips=st.lists(st.integers(0, 10_000), min_size=1, max_size=5),
    cut=st.integers(0, 200),
)
def test_any_damage_leaves_only_true_points(
    tmp_path_factory: pytest.TempPathFactory, flips: list[int], cut: int
) -> None:
    """Whatever happens to the bytes, no point is invented and none far from the damage is lost."""
    import warnings

    directory = tmp_path_factory.mktemp("damage")
    path = write_events(
        directory / "tfevents", VERSION, *[scalar_event("a", step, step) for step in range(200)]
    )
    data = bytearray(path.read_bytes())
    del data[len(data) - cut :]
    for position in flips:
        data[position % len(data)] ^= 1 << (position % 8)
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = tbhub.load(directory)
    found = pairs(runs["."].scalars["a"]) if runs["."].scalars else []
    assert all(step == value for step, value in found)
    assert len(found) >= 200 - 2 * len(flips) - cut // 20 - 2
