"""tensorboardX's helpers for the files of an embedding."""

from __future__ import annotations

from tbhub.compat.common.embeddings import append_pbtxt, make_mat, make_sprite, make_tsv
from tbhub.writer.embedding import MAX_SPRITE_SIDE as TB_MAX_SPRITE_SIZE

__all__ = ["TB_MAX_SPRITE_SIZE", "append_pbtxt", "make_mat", "make_sprite", "make_tsv"]
