"""torch.utils.tensorboard's builders of graph nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tbhub.writer.graphs.torch_graph import torch_node
from tbhub.writer.summaries.tensor import shape_proto


def tensor_shape_proto(outputsize: Sequence[int]) -> Any:
    """A shape as its message."""
    return shape_proto(tuple(outputsize))


def attr_value_proto(dtype: object, shape: Sequence[int] | None, s: str | None) -> dict[str, Any]:
    """The attributes of a node, by name; ``dtype`` has no effect."""
    attributes = dict(torch_node("", "", (), None if shape is None else [shape], s or "").attr)
    if s is None:
        del attributes["attr"]
    return attributes


def node_proto(
    name: str,
    op: str = "UnSpecified",
    input: list[str] | str | None = None,
    dtype: object = None,
    shape: Sequence[int] | None = None,
    outputsize: Sequence[int] | None = None,
    attributes: str = "",
) -> Any:
    """A ``NodeDef``; ``dtype`` and ``shape`` have no effect."""
    inputs = [input] if isinstance(input, str) else input or []
    return torch_node(name, op, inputs, None if outputsize is None else [outputsize], attributes)
