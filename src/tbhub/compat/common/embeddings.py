"""The files of an embedding one by one, as both libraries' helper modules write them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tbhub.events import schema
from tbhub.writer import embedding
from tbhub.writer.arrays import to_array
from tbhub.writer.summaries.image import arrange, encode_png, to_pixels

_Path = str | os.PathLike[str]


def make_tsv(
    metadata: Sequence[Any], save_path: _Path, metadata_header: Sequence[str] | None = None
) -> None:
    """Writes the labels of an embedding."""
    content = embedding.metadata_tsv(metadata, metadata_header, len(metadata), "make_tsv")
    embedding.replace_file(Path(save_path, "metadata.tsv"), content)


def make_mat(matlist: Any, save_path: _Path) -> None:
    """Writes the points of an embedding."""
    content = embedding.matrix_tsv(to_array(matlist, "make_mat"))
    embedding.replace_file(Path(save_path, "tensors.tsv"), content)


def make_sprite(label_img: Any, save_path: _Path) -> None:
    """Writes the thumbnails of an embedding, [n, channels, height, width]."""
    images = arrange(to_array(label_img, "make_sprite"), "NCHW", "NCHW", "make_sprite")
    sprite = embedding.sprite(to_pixels(images, "make_sprite"), len(images), "make_sprite")
    embedding.replace_file(Path(save_path, "sprite.png"), encode_png(sprite))


def get_embedding_info(
    metadata: Any, label_img: Any, subdir: str, global_step: Any, tag: str
) -> Any:
    """The entry of an embedding in the projector's configuration."""
    info = schema.ProjectorConfig().embeddings.add(
        tensor_name=f"{tag}:{str(global_step).zfill(5)}", tensor_path=f"{subdir}/tensors.tsv"
    )
    if metadata is not None:
        info.metadata_path = f"{subdir}/metadata.tsv"
    if label_img is not None:
        info.sprite.image_path = f"{subdir}/sprite.png"
        info.sprite.single_image_dim.extend([label_img.shape[3], label_img.shape[2]])
    return info


def append_pbtxt(
    metadata: Any, label_img: Any, save_path: _Path, subdir: str, global_step: Any, tag: str
) -> None:
    """Lists an embedding in the projector's configuration, beside those already there."""
    info = get_embedding_info(metadata, label_img, subdir, global_step, tag)
    root = Path(save_path)
    with embedding.locked(root):
        embedding.list_in_config(root / embedding.CONFIG_NAME, info, "append_pbtxt")


def write_pbtxt(save_path: _Path, contents: str) -> None:
    """Replaces the projector's configuration."""
    embedding.replace_file(Path(save_path, embedding.CONFIG_NAME), contents.encode())
