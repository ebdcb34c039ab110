"""Small logs with data of every kind TensorBoard shows, by every library that writes them.

Each function fills a directory with a tree of runs. No tag has more than eight steps, so that no
plugin samples; ``long`` is one series of 3,000 points. Wall times and numbers are the same each
time where the library lets a caller choose.
"""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

WALL_TIME = 1_700_000_000.25
LONG = 3_000
TENSORFLOW = Path(__file__).parents[2] / ".venv-tf" / "bin" / "python"

LAYOUT = {
    "losses": {
        "both": ["Multiline", ["loss/train", "loss/eval"]],
        "bounds": ["Margin", ["loss/train", "loss/low", "loss/high"]],
    },
    "a pattern": {"everything": ["Multiline", ["loss/.*"]]},
}
TABLE = """# Results

| model | *loss* |
| --- | --- |
| small | 0.5 |
| large | 0.25 |

- a list, `code`, [a link](https://example.org)
"""
HTML = "<b>bold</b> <script>alert('never run')</script> &amp; <a href='javascript:x'>x</a>"
TETRAHEDRON = np.array([[[1, 1, 1], [-1, -1, 1], [1, -1, -1], [-1, 1, -1]]], np.float32)
TETRAHEDRON_FACES = np.array([[[0, 2, 3], [0, 3, 1], [0, 1, 2], [1, 3, 2]]], np.int32)
TETRAHEDRON_COLORS = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 0, 255]]], np.uint8)
SCENE = {"camera": {"cls": "PerspectiveCamera", "fov": 75}, "lights": []}


def write_with_tbhub(directory: Path | str) -> None:
    """A tree written by our own writer."""
    from tbhub import SummaryWriter

    root = Path(directory)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the values that are not finite
        _write_common(SummaryWriter, root)
        with SummaryWriter(root / "styled") as writer:
            for step in range(4):
                at = {"global_step": step, "walltime": WALL_TIME + step}
                writer.add_scalar("plain tensor", step / 3, **at, new_style=True)
                writer.add_scalar("double", step / 3, **at, new_style=True, double_precision=True)
                writer.add_scalar("named", step, **at, display_name="A *name*")
                writer.add_scalar("shared", step, **at, summary_description="as **styled**")
        with SummaryWriter(root / "styled" / "again") as writer:
            writer.add_scalar("shared", 1, 1, WALL_TIME, summary_description="as *again*")
        with SummaryWriter(root / "batch") as writer:
            writer.add_scalars_batch("batch", [3.0, 1.0, 2.0], [10, 20, 40], WALL_TIME)
        with SummaryWriter(root / "tensors") as writer:
            writer.add_tensor("matrix", np.eye(3), 1, WALL_TIME)
            writer.add_tensor("whole numbers", np.arange(4), 2, WALL_TIME)
    _add_bookmarks(root / "embeddings")


def write_with_torch(directory: Path | str) -> None:
    """A tree written by torch.utils.tensorboard."""
    root = Path(directory)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        from torch.utils.tensorboard import SummaryWriter

        _write_common(SummaryWriter, root)
        with SummaryWriter(root / "styled") as writer:
            for step in range(4):
                at = {"global_step": step, "walltime": WALL_TIME + step}
                writer.add_scalar("plain tensor", step / 3, **at, new_style=True)
                writer.add_scalar("double", step / 3, **at, new_style=True, double_precision=True)
        with SummaryWriter(root / "tensors") as writer:
            writer.add_tensor("matrix", torch.eye(3), 1, WALL_TIME)
    _add_bookmarks(root / "embeddings")


def write_with_tensorboardX(directory: Path | str) -> None:  # noqa: N802
    """A tree written by tensorboardX."""
    root = Path(directory)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboardX import SummaryWriter

        _write_common(SummaryWriter, root, session="name")
        with SummaryWriter(str(root / "styled")) as writer:
            for step in range(4):
                at = {"global_step": step, "walltime": WALL_TIME + step}
                writer.add_scalar("named", step, **at, display_name="A *name*")
                writer.add_scalar("shared", step, **at, summary_description="as **styled**")
        with SummaryWriter(str(root / "styled" / "again")) as writer:
            writer.add_scalar("shared", 1, 1, WALL_TIME, summary_description="as *again*")
    _add_bookmarks(root / "embeddings")


def write_with_tensorflow(directory: Path | str) -> None:
    """A tree written by TensorFlow, of both generations, in an environment of its own."""
    if not TENSORFLOW.exists():
        raise RuntimeError("no TensorFlow environment: `make .venv-tf/.ready` makes it")
    done = subprocess.run(
        [TENSORFLOW, "-c", IN_TENSORFLOW, directory],
        capture_output=True,
        text=True,
        env={"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin"},
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    _add_bookmarks(Path(directory) / "embeddings")


def _write_common(make_writer: Callable[..., Any], root: Path, session: str = "run_name") -> None:
    """What all SummaryWriters can do, with the calls they share."""

    def open_run(*names: str) -> Any:
        return make_writer(str(root.joinpath(*names)))

    _write_scalars(open_run, root)
    with open_run("media") as writer:
        _write_media(writer)
    with open_run("distributions") as writer:
        _write_distributions(writer)
    with open_run("meshes") as writer:
        _write_meshes(writer)
    with open_run("graph") as writer:
        _write_graph(writer)
    with open_run("embeddings") as writer:
        _write_embeddings(writer)
    with open_run("sweep") as writer:
        for number in range(4):
            hparams = {"lr": 0.1 / 2**number, "layers": number, "optimizer": "ab"[number % 2]}
            hparams["warm"] = number > 1
            metrics = {"hparam/loss": 1 / (number + 1), "hparam/accuracy": number / 4}
            writer.add_hparams(hparams, metrics, **{session: f"session{number}"})
    for number in range(2):  # metrics below a session make a group of their own
        with open_run("sweep", f"session{number}", "eval") as writer:
            for step in range(3):
                writer.add_scalar("hparam/loss", number + step, step, WALL_TIME + step)


def _write_scalars(open_run: Callable[..., Any], root: Path) -> None:
    random = np.random.default_rng(0)
    with open_run() as writer:  # the run "."
        writer.add_scalar("loss/train", 1.5, 1, WALL_TIME - 5)
    for name in ("train", "deep/er/run", "läufe/η=0.1 & more"):
        with open_run(name) as writer:
            for step, value in enumerate(random.standard_normal(8).tolist()):
                at = (step, WALL_TIME + step / 3)
                writer.add_scalar("loss/train", value, *at)
                writer.add_scalar("loss/low", value - 1, *at)
                writer.add_scalar("loss/high", value + 1, *at)
            writer.add_scalar("a/deeply/nested/tag", 1, 5, WALL_TIME)
            writer.add_scalar("spaces & signs: 100 %, η+1?", 1, 5, WALL_TIME)
            writer.add_custom_scalars(LAYOUT)
    with open_run("eval") as writer:
        for step in (7, 3, 3, 1_000_000_000_000, 0, 20):  # neither rising nor unique
            writer.add_scalar("loss/eval", step / 3, step, WALL_TIME - step % 5)
        for step, value in enumerate([1.0, np.nan, np.inf, -np.inf, 1e-30, -0.0, 3e38]):
            writer.add_scalar("extremes", value, step, WALL_TIME + step)
        writer.add_scalar("single", 1, None, WALL_TIME)
        writer.add_custom_scalars({"losses": {"one": ["Multiline", ["loss/eval"]]}})
        writer.add_scalars("several", {"one": 1.0, "two": 2.0}, 1, WALL_TIME)
    with open_run("long") as writer:
        values = random.standard_normal(LONG).cumsum().tolist()
        for step, value in enumerate(values):
            writer.add_scalar("walk", value, step, WALL_TIME + step)
    for part in range(2):  # a run of two files, the second going on where the first ended
        with open_run("resumed") as writer:
            for step in range(4 * part, 4 * part + 4):
                writer.add_scalar("loss/train", step, step, WALL_TIME + step)
        for file in (root / "resumed").iterdir():  # names sort as the parts, whatever the clock
            if not file.name.endswith(".part"):
                file.rename(file.with_name(f"events.out.tfevents.{1_700_000_000 + part}.part"))
    with open_run("empty") as writer:
        writer.flush()


def _write_media(writer: Any) -> None:
    random = np.random.default_rng(1)
    for step in (0, 1, 5):
        at = (step, WALL_TIME + step)
        writer.add_image("one", random.random((3, 6, 4)), *at)
        writer.add_image("grey/of bytes", random.integers(0, 255, (1, 5, 5), np.uint8), *at)
        writer.add_images("several", random.random((3, 3, 4, 4)), *at)
        sound = np.sin(np.arange(400) * (step + 1) / 9)[:, None].astype(np.float32)
        writer.add_audio("sound/mono", sound, step, 8000, WALL_TIME + step)
    for step, text in enumerate([TABLE, HTML, "", "plain\n\nη ≤ 1"]):
        writer.add_text("notes/all", text, step, WALL_TIME + step)
    writer.add_text("single", "*one*", 3, WALL_TIME)


def _write_distributions(writer: Any) -> None:
    random = np.random.default_rng(2)
    for step in (0, 1, 2, 10):
        values = random.standard_normal(500) * (step + 1)
        writer.add_histogram("weights/normal", values, step, walltime=WALL_TIME + step)
        writer.add_histogram("equal", np.full(20, 3.5), step, walltime=WALL_TIME + step)
    writer.add_histogram("zeros", np.zeros(5), 1, walltime=WALL_TIME)
    writer.add_histogram("one value", np.array([-2.0]), 1, walltime=WALL_TIME)
    writer.add_histogram("ten bins", random.random(100), 1, 10, WALL_TIME)
    counted = {"min": 0.0, "max": 2.0, "num": 3, "sum": 4.0, "sum_squares": 6.0}
    limits = [1.0, 2.0]
    writer.add_histogram_raw("counted", **counted, bucket_limits=limits, bucket_counts=[1, 2])
    nothing = dict.fromkeys(counted, 0)
    writer.add_histogram_raw("nothing", **nothing, bucket_limits=limits, bucket_counts=[0, 0])
    for number in range(3):
        for step in (0, 4):
            labels = random.integers(0, 2, 100)
            scores = np.clip(labels * 0.4 + random.random(100) * 0.6, 0, 1)
            tag = f"class/{number}"
            writer.add_pr_curve(tag, labels, scores, step, 11, None, WALL_TIME + step)


def _write_meshes(writer: Any) -> None:
    for step in (0, 1, 3):
        writer.add_mesh(
            "solid",
            TETRAHEDRON * (step + 1),
            TETRAHEDRON_COLORS,
            TETRAHEDRON_FACES,
            SCENE,
            step,
            WALL_TIME + step,
        )
    cloud = np.random.default_rng(3).random((2, 10, 3)).astype(np.float32)
    writer.add_mesh("cloud/of two", cloud, global_step=2, walltime=WALL_TIME)


def _write_graph(writer: Any) -> None:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    writer.add_graph(model, torch.ones(1, 3))
    writer.add_scalar("loss/train", 1, 1, WALL_TIME)


def _write_embeddings(writer: Any) -> None:
    import torch

    random = np.random.default_rng(4)
    points = torch.from_numpy(random.standard_normal((6, 4)))
    pictures = torch.from_numpy(random.random((6, 3, 8, 8)))
    labels = [f"point {number}" for number in range(6)]
    rows = [[label, str(number)] for number, label in enumerate(labels)]
    writer.add_embedding(points, labels, pictures, 1, "pictured")
    writer.add_embedding(points * 2, rows, None, 2, "headed", ["label", "number"])
    writer.add_embedding(points * 3, global_step=3, tag="bare")
    writer.add_scalar("loss/train", 1, 1, WALL_TIME)


def _add_bookmarks(run: Path) -> None:
    """Gives an embedding the bookmarks that the projector reads and no writer writes."""
    path = run / "projector_config.pbtxt"
    config = text_format.Parse(path.read_text(), ProjectorConfig())
    config.embeddings[0].bookmarks_path = "bookmarks.txt"
    path.write_text(text_format.MessageToString(config))
    (run / "bookmarks.txt").write_text(json.dumps([{"label": "a view", "projections": []}]))


IN_TENSORFLOW = r"""
import sys
import numpy as np
import tensorflow as tf
from tensorboard.plugins.custom_scalar import layout_pb2, summary as custom_scalars
from tensorboard.plugins.hparams import api as hp
from tensorboard.plugins.mesh import summary_v2 as meshes
from tensorboard.plugins.pr_curve import summary as pr_curves

root = sys.argv[1]
random = np.random.default_rng(0)
v1 = tf.compat.v1

def open_run(name):
    return tf.summary.create_file_writer(root + "/" + name).as_default()

def write_pb(message, step=0):
    tf.summary.experimental.write_raw_pb(message.SerializeToString(), step=step)

# ---------------------------------------------------------------- scalars
for name in ("train", "eval/deeper"):
    with open_run(name):
        for step in range(8):
            tf.summary.scalar("loss/train", 1 / (step + 1), step, description=f"in *{name}*")
            tf.summary.scalar("double", tf.constant(step / 3, tf.float64), step)
            tf.summary.scalar("whole", step, step)
            tf.summary.scalar("half", tf.constant(step / 3, tf.float16), step)
        for step, value in enumerate([1.0, np.nan, np.inf, -np.inf, 1e-30, -0.0]):
            tf.summary.scalar("extremes", value, step)
        for step in (7, 3, 3, 1_000_000_000_000, 0, 20):
            tf.summary.scalar("back and forth", step / 3, step)
        tf.summary.scalar("spaces & signs: 100 %, η+1?", 1.0, 1)
        multiline = layout_pb2.Chart(
            title="both", multiline=layout_pb2.MultilineChartContent(tag=["loss/.*", "double"]))
        series = layout_pb2.MarginChartContent.Series(value="double", lower="whole", upper="half")
        margin = layout_pb2.Chart(
            title="bounds", margin=layout_pb2.MarginChartContent(series=[series]))
        category = layout_pb2.Category(title="losses", chart=[multiline, margin], closed=True)
        write_pb(custom_scalars.pb(layout_pb2.Layout(category=[category])))
with open_run("long"):
    for step, value in enumerate(random.standard_normal(3000).cumsum()):
        tf.summary.scalar("walk", value, step)

# ---------------------------------------------------------------- media
with open_run("media"):
    for step in (0, 1, 5):
        pixels = random.integers(0, 255, (4, 6, 5, 3), np.uint8)
        tf.summary.image("several", pixels, step, max_outputs=4, description="four")
        tf.summary.image("growing", pixels[: step + 1], step, max_outputs=4)
        sounds = np.sin(np.arange(800) / 9).reshape(2, 400, 1).astype(np.float32)
        tf.summary.audio("two", sounds, 8000, step, description="two clips")
        tf.summary.text("notes/all", "| a | b |\n| --- | --- |\n| 1 | *2* |", step)
    # One clip fewer at a later step: stock fails when asked for the second.
    tf.summary.audio("fewer", sounds, 8000, 0)
    tf.summary.audio("fewer", sounds[:1], 8000, 1)
    tf.summary.text("table", [["a", "**b**"], ["<i>c</i>", "<script>d</script>"]], 1)
    tf.summary.text("vector", ["one", "two"], 1)
    tf.summary.write("raw", tf.constant([[1.0, 2.0]]), 5)

# ---------------------------------------------------------------- distributions
with open_run("distributions"):
    for step in (0, 1, 10):
        tf.summary.histogram("weights/normal", random.standard_normal(500) * (step + 1), step)
        tf.summary.histogram("equal", np.full(20, 3.5), step)
        tf.summary.histogram("few", random.random(10), step, buckets=3)
    tf.summary.histogram("nothing", np.zeros(0), 1)
    tf.summary.histogram("no buckets", np.ones(3), 1, buckets=0)
    for number in range(3):
        for step in (0, 4):
            labels = random.integers(0, 2, 100)
            scores = np.clip(labels * 0.4 + random.random(100) * 0.6, 0, 1)
            curve = pr_curves.pb(f"class/{number}", labels.astype(bool), scores, 11,
                                 display_name="A class", description="*one*")
            write_pb(curve, step)

# ---------------------------------------------------------------- meshes
with open_run("meshes"):
    corners = np.array([[[1, 1, 1], [-1, -1, 1], [1, -1, -1], [-1, 1, -1]]], np.float32)
    colors = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 0, 255]]], np.uint8)
    faces = np.array([[[0, 2, 3], [0, 3, 1], [0, 1, 2], [1, 3, 2]]], np.int32)
    for step in (0, 2):
        meshes.mesh("solid", corners * (step + 1), faces, colors, {"lights": []}, step=step)
    meshes.mesh("cloud", np.repeat(corners, 2, 0), step=1)

# ---------------------------------------------------------------- hyperparameters
rate = hp.HParam("lr", hp.RealInterval(0.001, 0.1), "learning rate", "how *fast*")
layers = hp.HParam("layers", hp.IntInterval(1, 8))
optimizer = hp.HParam("optimizer", hp.Discrete(["adam", "sgd"]))
warm = hp.HParam("warm", hp.Discrete([False, True]))
with open_run("sweep"):
    hp.hparams_config(
        [rate, layers, optimizer, warm],
        [hp.Metric("accuracy", display_name="Accuracy"), hp.Metric("loss", group="eval")])
for number in range(4):
    with open_run(f"sweep/session{number}"):
        hp.hparams({rate: 0.1 / 2**number, layers: number, optimizer: ["adam", "sgd"][number % 2],
                    warm: number > 1}, trial_id=f"trial{number // 2}")
        for step in range(3):
            tf.summary.scalar("accuracy", number + step / 4, step)
    if number != 3:  # a session lacks a metric
        with open_run(f"sweep/session{number}/eval"):
            tf.summary.scalar("loss", 1 / (number + 1), 1)

# ---------------------------------------------------------------- graphs
@tf.function
def double(x):
    return tf.nn.relu(x) * 2

with open_run("graph/traced"):
    tf.summary.trace_on(graph=True)
    double(tf.constant([1.0]))
    tf.summary.trace_export("trace", step=1)
with open_run("graph/whole"):
    tf.summary.graph(double.get_concrete_function(tf.constant([1.0])).graph)
model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.zeros((8, 2)), np.zeros(8), epochs=3, verbose=0,
          callbacks=[tf.keras.callbacks.TensorBoard(root + "/keras", histogram_freq=1)])

# ---------------------------------------------------------------- embeddings
import os
os.makedirs(root + "/embeddings")
np.savetxt(root + "/embeddings/points.tsv", random.random((5, 3)), delimiter="\t")
with open(root + "/embeddings/labels.tsv", "w") as file:
    file.write("".join(f"point {number}\n" for number in range(5)))
with open(root + "/embeddings/projector_config.pbtxt", "w") as file:
    file.write('embeddings { tensor_name: "points:0" tensor_path: "points.tsv"'
               ' metadata_path: "labels.tsv" }')
with open_run("embeddings"):
    tf.summary.scalar("loss/train", 1.0, 1)

# ---------------------------------------------------------------- the first generation
with tf.Graph().as_default():
    number = v1.placeholder(tf.float32, [], "number")
    v1.summary.scalar("loss/train", number)
    v1.summary.histogram("weights", tf.range(10.0) * number)
    v1.summary.image("pictures", tf.ones((4, 3, 5, 1)) * number, max_outputs=3)
    v1.summary.audio("sounds", tf.zeros((2, 100, 1)) * number, 8000, max_outputs=2)
    v1.summary.text("notes", tf.constant("*text*"))
    v1.summary.tensor_summary("tensor", tf.range(3.0) * number)
    merged = v1.summary.merge_all()
    with v1.Session() as session:
        writer = v1.summary.FileWriter(root + "/first", session.graph)
        for step in range(4):
            metadata = v1.RunMetadata()
            options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
            summary = session.run(merged, {number: step}, options, metadata)
            writer.add_summary(summary, step)
            if step < 2:
                writer.add_run_metadata(metadata, f"step {step}", step)
        writer.close()
        writer = v1.summary.FileWriter(root + "/first/meta")
        writer.add_meta_graph(v1.train.export_meta_graph(), 1)
        writer.close()
"""
