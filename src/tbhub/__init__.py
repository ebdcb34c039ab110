"""tbhub: what JupyterHub is to notebooks, for TensorBoard.

    from tbhub import SummaryWriter

    with SummaryWriter("runs/first") as writer:
        writer.add_scalar("loss", 0.5, 1)

    runs = tbhub.load("runs")
    runs["first"].scalars["loss"].values

Names are loaded when first used, so that a training script pays only for what it calls.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tbhub.errors import NoEventsError, TbhubError, TbhubWarning, WriteError
    from tbhub.series.load import load
    from tbhub.series.run_data import RunData, ScalarSeries
    from tbhub.writer.file_writer import FileWriter
    from tbhub.writer.global_writer import GlobalSummaryWriter
    from tbhub.writer.record_writer import RecordWriter, register_writer_factory
    from tbhub.writer.summary_writer import SummaryWriter

_HOMES = {
    "SummaryWriter": "tbhub.writer.summary_writer",
    "GlobalSummaryWriter": "tbhub.writer.global_writer",
    "FileWriter": "tbhub.writer.file_writer",
    "RecordWriter": "tbhub.writer.record_writer",
    "register_writer_factory": "tbhub.writer.record_writer",
    "load": "tbhub.series.load",
    "RunData": "tbhub.series.run_data",
    "ScalarSeries": "tbhub.series.run_data",
    "TbhubError": "tbhub.errors",
    "WriteError": "tbhub.errors",
    "NoEventsError": "tbhub.errors",
    "TbhubWarning": "tbhub.errors",
}

__all__ = [
    "FileWriter",
    "GlobalSummaryWriter",
    "NoEventsError",
    "RecordWriter",
    "RunData",
    "ScalarSeries",
    "SummaryWriter",
    "TbhubError",
    "TbhubWarning",
    "WriteError",
    "load",
    "register_writer_factory",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("tbhub")
    if name not in _HOMES:
        raise AttributeError(f"module 'tbhub' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, "__version__"])
