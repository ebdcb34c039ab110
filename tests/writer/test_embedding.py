import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorboardX
import torch
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboardX import embedding as tbx_embedding
from torch.utils.tensorboard import SummaryWriter as TorchWriter
from torch.utils.tensorboard import _embedding as torch_embedding

from tbhub.writer.embedding import subdirectory, write_embedding

RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(10, 4)).astype(np.float32)
LABELS = [f"label {index}" for index in range(10)]


def read_config(logdir):
    text = (Path(logdir) / "projector_config.pbtxt").read_text()
    return text_format.Parse(text, ProjectorConfig())


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def read_tsv(path, dtype=np.float64):
    return np.array([line.split("\t") for line in path.read_text().splitlines()], dtype=dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8", "bool"])
def test_the_matrix_survives_as_float32(tmp_path, dtype):
    matrix = (RNG.normal(size=(200, 7)) * 100).astype(dtype)
    write_embedding(tmp_path, matrix)
    read = read_tsv(tmp_path / "00000/default/tensors.tsv")
    assert np.array_equal(read.astype(np.float32), matrix.astype(np.float32))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1e-45, 3.4e38])
def test_special_values_survive(tmp_path, special):
    matrix = np.array([[special, 1]], dtype=np.float32)
    write_embedding(tmp_path, matrix)
    read = read_tsv(tmp_path / "00000/default/tensors.tsv").astype(np.float32)
    assert np.array_equal(read, matrix, equal_nan=True)


def test_long_matrices_are_written_in_full(tmp_path):
    matrix = RNG.integers(0, 1000, (70_000, 2))
    write_embedding(tmp_path, matrix)
    assert np.array_equal(read_tsv(tmp_path / "00000/default/tensors.tsv", int), matrix)


def test_files_and_config_as_torch(tmp_path, capsys):
    images = torch.rand(10, 3, 6, 6)
    rows = [[str(index), f"name {index}"] for index in range(10)]
    with TorchWriter(tmp_path / "torch") as writer:
        writer.add_embedding(MATRIX, rows, images, 7, "a/b", ["id", "name"])
    write_embedding(tmp_path / "ours", torch.tensor(MATRIX), rows, images, 7, "a/b", ["id", "name"])
    assert read_config(tmp_path / "ours") == read_config(tmp_path / "torch")
    ours, theirs = tmp_path / "ours/00007/a%2fb", tmp_path / "torch/00007/a%2fb"
    assert names(ours) == names(theirs)
    assert (ours / "metadata.tsv").read_bytes() == (theirs / "metadata.tsv").read_bytes()
    assert np.array_equal(
        read_tsv(ours / "tensors.tsv", np.float32), read_tsv(theirs / "tensors.tsv", np.float32)
    )
    with Image.open(ours / "sprite.png") as a, Image.open(theirs / "sprite.png") as b:
        assert np.array_equal(np.asarray(a), np.asarray(b))


def test_entries_of_tensorboardx_are_kept(tmp_path):
    with tensorboardX.SummaryWriter(str(tmp_path)) as writer:
        writer.add_embedding(MATRIX, LABELS, None, 1, "theirs")
    write_embedding(tmp_path, MATRIX, LABELS, None, 2, "ours")
    names = [entry.tensor_name for entry in read_config(tmp_path).embeddings]
    assert names == ["theirs:00001", "ours:00002"]


@pytest.mark.parametrize("count", [1, 2, 5, 9, 10])
@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 6, 6), (3, 4, 6)])
def test_sprites_as_both_libraries(tmp_path, count, shape):
    images = torch.rand(count, *shape)
    write_embedding(tmp_path, np.zeros((count, 2)), None, images)
    ours = np.asarray(Image.open(tmp_path / "00000/default/sprite.png"))
    torch_embedding.make_sprite(images, str(tmp_path))
    assert np.array_equal(ours, np.asarray(Image.open(tmp_path / "sprite.png")))
    if shape[1] == shape[2]:  # tensorboardX leaves the padding uninitialized, and casts it
        with np.errstate(invalid="ignore", over="ignore"):
            tbx_embedding.make_sprite(images, str(tmp_path))
        theirs = np.asarray(Image.open(tmp_path / "sprite.png"))
        assert theirs.shape == ours.shape
        full_rows = count // (ours.shape[1] // shape[2]) * shape[1]
        assert np.array_equal(ours[:full_rows], theirs[:full_rows])


def test_byte_images_are_taken_as_they_are(tmp_path):
    images = RNG.integers(0, 256, (4, 3, 5, 5), dtype=np.uint8)
    write_embedding(tmp_path, np.zeros((4, 2)), None, images)
    sprite = np.asarray(Image.open(tmp_path / "00000/default/sprite.png"))
    assert np.array_equal(sprite[:5, :5], images[0].transpose(1, 2, 0))


def test_the_same_tag_and_step_is_replaced(tmp_path):
    write_embedding(tmp_path, MATRIX, LABELS, RNG.random((10, 1, 2, 2)), 3, "t")
    write_embedding(tmp_path, MATRIX, LABELS, None, 4, "t")
    write_embedding(tmp_path, MATRIX[:2], None, None, 3, "t")
    first, second = read_config(tmp_path).embeddings
    assert (first.tensor_name, second.tensor_name) == ("t:00003", "t:00004")
    assert not first.metadata_path
    assert not first.HasField("sprite")
    assert names(tmp_path / "00003/t") == ["tensors.tsv"]
    assert len(read_tsv(tmp_path / "00003/t/tensors.tsv")) == 2


def test_processes_do_not_lose_each_others_entries(tmp_path):
    code = (
        "import sys\n"
        "from tbhub.writer.embedding import write_embedding\n"
        "for step in range(20):\n"
        "    write_embedding(sys.argv[1], [[1, 2]], ['x'], None, step, sys.argv[2])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name], env=environment)
        for name in ("one", "two", "three")
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(read_config(tmp_path).embeddings) == 60


def test_labels_cannot_break_rows(tmp_path):
    write_embedding(tmp_path, MATRIX[:3], ["a\tb", "c\nd", "e\r\nf"])
    text = (tmp_path / "00000/default/metadata.tsv").read_bytes()
    assert text == b"a b\nc d\ne  f\n"
    rows = [["a\tb", 1], ["c\nd", 2], [None, 3]]
    write_embedding(tmp_path, MATRIX[:3], rows, metadata_header=["na\tme", "n"])
    text = (tmp_path / "00000/default/metadata.tsv").read_bytes()
    assert text == b"na me\tn\na b\t1\nc d\t2\nNone\t3\n"


def test_labels_may_be_arrays(tmp_path):
    write_embedding(tmp_path, MATRIX[:2], torch.tensor([4, 5]))
    assert (tmp_path / "00000/default/metadata.tsv").read_text() == "4\n5\n"


TAGS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)


@given(TAGS | st.text("./%\\\0a", min_size=1, max_size=8), st.integers(-10, 10**6))
def test_a_tag_never_leaves_its_directory(tag, step):
    first, _, name = subdirectory(tag, step).partition("/")
    assert first == str(step).zfill(5)
    assert name not in ("", ".", "..")
    assert not set(name) & set("/\\\0")


@given(TAGS, TAGS)
def test_two_tags_never_share_a_directory(one, other):
    assert (subdirectory(one, 0) == subdirectory(other, 0)) == (one == other)


@given(TAGS.filter(lambda tag: tag.strip(".") and "\0" not in tag))
def test_names_are_those_of_torch(tag):
    assert subdirectory(tag, 12) == f"00012/{TorchWriter._encode(tag)}"


@pytest.mark.parametrize("tag", ["..", ".", "../../x", "/abs", "a b", "ünï", 'quo"te', "new\nline"])
def test_odd_tags_are_written_and_listed(tmp_path, tag):
    logdir = tmp_path / "logdir"
    write_embedding(logdir, MATRIX, LABELS, tag=tag)
    assert names(tmp_path) == ["logdir"]
    (entry,) = read_config(logdir).embeddings
    assert entry.tensor_name == f"{tag}:00000"
    assert len(Path(entry.tensor_path).parts) == 3
    assert (logdir / entry.tensor_path).is_file()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mat": np.zeros(3)}, r"expected a real matrix .* of shape \(3,\)"),
        ({"mat": np.zeros((2, 2), dtype=complex)}, "expected a real matrix"),
        ({"metadata": LABELS[1:]}, "got 10 points but metadata for 9"),
        ({"metadata": LABELS, "metadata_header": ["a", "b"]}, "metadata row 0 must have the 2"),
        ({"metadata": [["a"]] * 10, "metadata_header": ["a", "b"]}, "metadata row 0 must have"),
        ({"label_img": np.zeros((9, 3, 2, 2))}, "got 10 points but 9 images"),
        ({"label_img": np.zeros((10, 3, 4, 2))}, "label_img must be square"),
        ({"label_img": np.zeros((10, 2, 2, 2))}, "label_img must have 1, 3 or 4 channels"),
        ({"label_img": np.zeros((10, 2, 2))}, "label_img: .* does not fit the format NCHW"),
        ({"label_img": np.zeros((10, 1, 1, 2049), np.uint8)}, ".*a sprite of 8196 pixels"),
        ({"global_step": "soon"}, "expected a whole number as step"),
    ],
)
def test_bad_embeddings_are_refused_before_writing(tmp_path, options, message):
    with pytest.raises(ValueError, match=rf"^add_embedding\('words'\): {message}"):
        write_embedding(**{"logdir": tmp_path, "mat": MATRIX, "tag": "words", **options})
    assert not names(tmp_path)


@pytest.mark.parametrize("tag", ["", None, 3])
def test_a_tag_must_be_text(tmp_path, tag):
    with pytest.raises(ValueError, match="the tag must be a non-empty str"):
        write_embedding(tmp_path, MATRIX, tag=tag)


def test_a_broken_config_is_named_and_kept(tmp_path):
    path = tmp_path / "projector_config.pbtxt"
    path.write_text("embeddings {")
    with pytest.raises(ValueError, match=r"cannot read .*projector_config.pbtxt, repair or remove"):
        write_embedding(tmp_path, MATRIX)
    assert path.read_text() == "embeddings {"
