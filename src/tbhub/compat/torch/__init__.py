"""torch.utils.tensorboard's names over tbhub: ``from tbhub.compat.torch import SummaryWriter``.

torch itself is imported only when a graph is drawn.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from tbhub.compat.torch.record_writer import RecordWriter
from tbhub.compat.torch.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]

_SUBMODULES = frozenset(
    {"_convert_np", "_embedding", "_onnx_graph", "_proto_graph", "_pytorch_graph", "_utils"}
    | {"summary"}
)


def __getattr__(name: str) -> ModuleType:
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
