"""torch.utils.tensorboard's graphs of torch models."""

from __future__ import annotations

from typing import Any

from tbhub.writer.graphs.torch_graph import torch_graph


def graph(
    model: Any, args: Any, verbose: bool = False, use_strict_trace: bool = True
) -> tuple[Any, Any]:
    """The ``GraphDef`` and ``RunMetadata`` of a model, traced with an example input."""
    return torch_graph(model, args, verbose, use_strict_trace)
