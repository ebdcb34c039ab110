"""Files written by TensorFlow itself, read here and by TensorBoard."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import tbhub
from support.oracle import pairs, read_scalars, same_points

ENVIRONMENT = Path(__file__).parents[2] / ".venv-tf" / "bin" / "python"
SCRIPT = """
import sys
import numpy as np
import tensorflow as tf
logdir = sys.argv[1]
writer = tf.summary.create_file_writer(logdir + "/two")
with writer.as_default():
    for step in range(50):
        tf.summary.scalar("loss", 1 / (step + 1), step=step)
        tf.summary.scalar("double", tf.constant(step / 3, tf.float64), step=step)
        tf.summary.scalar("int", step, step=step, description="a count")
    tf.summary.histogram("weights", np.arange(100.0), step=1, buckets=10)
    pictures = np.arange(2 * 4 * 6 * 3, dtype=np.uint8).reshape(2, 4, 6, 3)
    tf.summary.image("pictures", pictures, step=2)
    tf.summary.audio("sound", np.zeros((1, 100, 1), np.float32), 8000, step=3)
    tf.summary.text("note", "hello", step=4)
    tf.summary.write("raw", tf.constant([[1.0, 2.0]]), step=5)
writer.close()
v1 = tf.compat.v1
with tf.Graph().as_default():
    holder = v1.placeholder(tf.float32, [])
    scalars = [v1.summary.scalar("loss", holder), v1.summary.scalar("twice", holder * 2)]
    merged = v1.summary.merge(scalars)
    histogram = v1.summary.histogram("h", tf.range(10))
    with v1.Session() as session:
        writer = v1.summary.FileWriter(logdir + "/one", session.graph)
        for step in range(20):
            writer.add_summary(session.run(merged, {holder: step}), step)
        writer.add_summary(session.run(histogram), 20)
        writer.close()
model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.zeros((8, 2)), np.zeros(8), epochs=3, verbose=0,
          callbacks=[tf.keras.callbacks.TensorBoard(logdir + "/keras", histogram_freq=1)])
"""


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not ENVIRONMENT.exists():
        pytest.fail("no TensorFlow environment: `make .venv-tf/.ready` makes it")
    directory = tmp_path_factory.mktemp("tensorflow")
    done = subprocess.run(
        [ENVIRONMENT, "-c", SCRIPT, directory],
        capture_output=True,
        text=True,
        env={"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return directory


pytestmark = pytest.mark.tensorflow


def test_scalars_are_tensorboards(logdir: Path) -> None:
    runs = tbhub.load(logdir)
    assert set(runs) == {"one", "two", "keras/train"}
    for name, run in runs.items():
        theirs = read_scalars(logdir / name)
        assert set(run.scalars) == set(theirs), name
        for tag, points in theirs.items():
            assert same_points(pairs(run.scalars[tag]), points), (name, tag)
    assert runs["two"].scalars["loss"].values.dtype == np.float32
    assert len(runs["one"].scalars["twice"]) == 20


def test_the_rest_is_decoded(logdir: Path) -> None:
    runs = tbhub.load(logdir)
    two = runs["two"]
    picture = two.images["pictures"][0]
    assert (picture.width, picture.height) == (6, 4)
    np.testing.assert_array_equal(picture.array, np.arange(72, dtype=np.uint8).reshape(4, 6, 3))
    histogram = two.histograms["weights"][0]
    assert histogram.num == 100
    assert len(histogram.edges) == 11
    assert two.text["note"][0] == "hello"
    assert two.audio["sound"][0].encoded[:4] == b"RIFF"
    np.testing.assert_array_equal(two.tensors["raw"][0], [[1.0, 2.0]])
    assert runs["one"].histograms["h"][0].num == 10
    assert runs["one"].graph is not None
    assert any("loss" in tag for tag in runs["keras/train"].scalars)
