"""Graphs of ONNX models, as both libraries' helper modules read them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tbhub.writer.graphs.onnx_graph import onnx_graph


def load_onnx_graph(fname: Any) -> Any:
    """The ``GraphDef`` of an ONNX file."""
    return onnx_graph(fname)


def parse(graph: Any) -> Any:
    """The ``GraphDef`` of the ``graph`` of an ONNX model."""
    return onnx_graph(SimpleNamespace(graph=graph))
