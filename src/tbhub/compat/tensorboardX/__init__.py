"""tensorboardX's names over tbhub: ``import tbhub.compat.tensorboardX as tensorboardX``.

Submodules are loaded when first used, so that logging scalars loads neither numpy nor protobuf.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from tbhub.compat.tensorboardX.global_writer import GlobalSummaryWriter
from tbhub.compat.tensorboardX.record_writer import RecordWriter
from tbhub.compat.tensorboardX.torchvis import TorchVis
from tbhub.compat.tensorboardX.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "GlobalSummaryWriter", "RecordWriter", "SummaryWriter", "TorchVis"]

__version__ = "2.6.5"
"""The release of tensorboardX whose calls are understood."""

_SUBMODULES = frozenset(
    {
        "crc32c",
        "embedding",
        "event_file_writer",
        "onnx_graph",
        "openvino_graph",
        "proto",
        "summary",
        "utils",
        "x2num",
    }
)


def __getattr__(name: str) -> ModuleType:
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
