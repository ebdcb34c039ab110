"""torch.utils.tensorboard's helpers for the files of an embedding."""

from __future__ import annotations

from tbhub.compat.common.embeddings import (
    get_embedding_info,
    make_mat,
    make_sprite,
    make_tsv,
    write_pbtxt,
)

__all__ = ["get_embedding_info", "make_mat", "make_sprite", "make_tsv", "write_pbtxt"]
