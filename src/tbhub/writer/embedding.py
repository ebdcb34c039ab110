"""Embeddings for TensorBoard's projector: files beside the events, listed in one config.

The projector reads ``projector_config.pbtxt`` in the log directory and the files it names.
Invariants: a file is replaced whole or not at all; the config names only files that are
complete; entries of other writers, in this process or another, are never lost.
"""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from numpy.typing import NDArray

from tbhub.events import schema
from tbhub.writer.arrays import to_array, to_step
from tbhub.writer.summaries.image import arrange, grid, to_pixels
from tbhub.writer.summaries.png import Pixels, encode_png

CONFIG_NAME = "projector_config.pbtxt"
MAX_SPRITE_SIDE = 8192
"""The largest sprite the projector's page can load, in pixels."""

_LOCK_NAME = ".projector_config.lock"
_CHUNK_VALUES = 1 << 16  # numbers formatted at once, so memory stays flat
# What a cell of a tab-separated file cannot hold.
_CELL_BREAKERS = str.maketrans({"\t": " ", "\n": " ", "\r": " "})


def write_embedding(
    logdir: str | os.PathLike[str],
    mat: object,
    metadata: Sequence[Any] | None = None,
    label_img: object = None,
    global_step: object = None,
    tag: str = "default",
    metadata_header: Sequence[str] | None = None,
) -> None:
    """Write one matrix, its labels and its thumbnails, then list them in the config.

    Everything is checked before anything is written. Writing the same tag and step again
    replaces what was there.
    """
    where = f"add_embedding({tag!r})"
    step = to_step(global_step, where)
    matrix = to_array(mat, where)
    if matrix.ndim != 2 or matrix.dtype.kind == "c":
        raise ValueError(
            f"{where}: expected a real matrix of shape [points, features],"
            f" got {matrix.dtype} of shape {matrix.shape}"
        )
    directory = subdirectory(tag, step, where)
    entry = schema.ProjectorConfig().embeddings.add(
        tensor_name=f"{tag}:{step:05d}", tensor_path=f"{directory}/tensors.tsv"
    )
    files: dict[str, bytes | None] = {"metadata.tsv": None, "sprite.png": None}
    if metadata is not None:
        files["metadata.tsv"] = metadata_tsv(metadata, metadata_header, len(matrix), where)
        entry.metadata_path = f"{directory}/metadata.tsv"
    if label_img is not None:
        images = arrange(to_array(label_img, where), "NCHW", "NCHW", f"{where}: label_img")
        files["sprite.png"] = encode_png(sprite(to_pixels(images, where), len(matrix), where))
        entry.sprite.image_path = f"{directory}/sprite.png"
        entry.sprite.single_image_dim.extend([images.shape[3], images.shape[2]])
    files["tensors.tsv"] = matrix_tsv(matrix)

    root = Path(logdir)
    (root / directory).mkdir(parents=True, exist_ok=True)
    with locked(root):
        for name, content in files.items():
            path = root / directory / name
            if content is None:
                path.unlink(missing_ok=True)
            else:
                replace_file(path, content)
        list_in_config(root / CONFIG_NAME, entry, where)


def subdirectory(tag: str, step: int, where: str = "add_embedding") -> str:
    """Where a tag's files go below the log directory: always exactly two levels down.

    The escapes are those of the other libraries, plus two for names the file system gives a
    meaning of its own: those made of dots only, and the zero character.
    """
    if not isinstance(tag, str) or not tag:
        raise ValueError(f"{where}: the tag must be a non-empty str, got {tag!r:.40}")
    name = tag
    for character in "%/\\\0":  # the percent sign first, or it would escape the escapes
        name = name.replace(character, f"%{ord(character):02x}")
    if not name.strip("."):
        name = name.replace(".", "%2e")
    return f"{str(step).zfill(5)}/{name}"


def matrix_tsv(matrix: NDArray[Any]) -> bytes:
    """One line per row, as float32 or whole numbers: the projector reads no finer than float32.

    Nine digits tell any two float32 apart.
    """
    rows, columns = matrix.shape
    cell = "%d"
    if matrix.dtype.kind == "f":
        cell = "%.9g"
        with np.errstate(over="ignore"):  # beyond float32 is infinite, as the projector has it
            matrix = matrix.astype(np.float32, copy=False)
    line = "\t".join([cell] * columns) + "\n"
    step = max(1, _CHUNK_VALUES // max(1, columns))
    parts = []
    for start in range(0, rows, step):
        chunk = matrix[start : start + step]
        parts.append((line * len(chunk)) % tuple(chunk.ravel().tolist()))
    return "".join(parts).encode()


def metadata_tsv(
    metadata: Sequence[Any], header: Sequence[str] | None, points: int, where: str
) -> bytes:
    rows = metadata.tolist() if hasattr(metadata, "tolist") else list(metadata)
    if len(rows) != points:
        raise ValueError(f"{where}: got {points} points but metadata for {len(rows)}")
    if not header:
        lines = [_cell(row) for row in rows]
    else:
        for index, row in enumerate(rows):
            if not isinstance(row, list | tuple) or len(row) != len(header):
                raise ValueError(
                    f"{where}: metadata row {index} must have the {len(header)} columns"
                    f" of metadata_header, got {row!r:.80}"
                )
        lines = ["\t".join(map(_cell, row)) for row in [header, *rows]]
    return ("\n".join(lines) + "\n").encode()


def _cell(value: object) -> str:
    return str(value).translate(_CELL_BREAKERS)


def sprite(images: Pixels, points: int, where: str) -> Pixels:
    """All thumbnails on one square, as many columns as rows; the last places stay black."""
    count, channels, height, width = images.shape
    if count != points:
        raise ValueError(f"{where}: got {points} points but {count} images in label_img")
    if channels not in (1, 3, 4):
        raise ValueError(f"{where}: label_img must have 1, 3 or 4 channels, got {channels}")
    if height > width:
        raise ValueError(f"{where}: label_img must be square, got {height} rows of {width} pixels")
    columns = math.isqrt(count - 1) + 1
    side = columns * width
    if side > MAX_SPRITE_SIDE:
        raise ValueError(
            f"{where}: {count} images of width {width} make a sprite of {side} pixels,"
            f" more than the {MAX_SPRITE_SIDE} the projector can show; shrink the images"
        )
    tiles = grid(images, columns)
    square = np.zeros((side, side, tiles.shape[2]), np.uint8)
    square[: len(tiles)] = tiles
    return square


def list_in_config(path: Path, entry: Any, where: str) -> None:
    """Add ``entry`` to the config, in place of an earlier one for the same tensor."""
    config = schema.ProjectorConfig()
    if path.exists():
        try:
            text_format.Parse(path.read_text(encoding="utf-8"), config)
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise ValueError(
                f"{where}: cannot read {path}, repair or remove it: {error}"
            ) from error
    for existing in config.embeddings:
        if existing.tensor_name == entry.tensor_name:
            existing.CopyFrom(entry)
            break
    else:
        config.embeddings.append(entry)
    replace_file(path, text_format.MessageToString(config).encode())


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """One writer at a time per log directory, across threads and processes.

    The lock file stays: removing it would let two writers lock two different files.
    """
    with (root / _LOCK_NAME).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def replace_file(path: Path, content: bytes) -> None:
    """Put ``content`` at ``path`` such that a reader sees the old file or the new one.

    The temporary name is fixed, as the lock is held: what a killed writer left is overwritten.
    """
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_bytes(content)
    temporary.replace(path)
