"""torch.utils.tensorboard's reader of ONNX models."""

from __future__ import annotations

from tbhub.compat.common.graphs import load_onnx_graph, parse

__all__ = ["load_onnx_graph", "parse"]
