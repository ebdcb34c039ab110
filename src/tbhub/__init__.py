"""tbhub: what JupyterHub is to notebooks, for TensorBoard.

    from tbhub import SummaryWriter

    with SummaryWriter("runs/first") as writer:
        writer.add_scalar("loss", 0.5, 1)

    with tbhub.Run(experiment="resnet", hparams={"lr": 0.1}) as run:
        run.log_metrics({"epoch": 1, "loss": 0.5}, step_name="epoch")

    runs = tbhub.load("runs")
    runs["first"].scalars["loss"].values

    board = tbhub.TensorBoard.create(uri="runs")    # where a hub runs: `tbhub up`
    board.app_uri

Names are loaded when first used, so that a training script pays only for what it calls.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tbhub.api.problems import (
        Ambiguous,
        BadRequest,
        Conflict,
        Forbidden,
        NotAuthenticated,
        NotFound,
        Problem,
        TensorboardLimitExceeded,
        TooLarge,
        TooManyRequests,
        Unavailable,
    )
    from tbhub.client.errors import (
        HubUnreachable,
        SourceUnreadable,
        UnexpectedStatusException,
        WaitTimeout,
    )
    from tbhub.client.hub import AsyncHub, Hub
    from tbhub.client.tensorboard import AsyncTensorBoard, TensorBoard
    from tbhub.errors import NoEventsError, TbhubError, TbhubWarning, WriteError
    from tbhub.integrations.vertex import TensorboardCapability
    from tbhub.series.load import load
    from tbhub.series.run_data import RunData, ScalarSeries
    from tbhub.tracking.auxiliary import add_tensorboard, tensorboards_of
    from tbhub.tracking.board import tensorboard
    from tbhub.tracking.run import Run
    from tbhub.tracking.submit import Job, submit
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
    "TensorBoard": "tbhub.client.tensorboard",
    "AsyncTensorBoard": "tbhub.client.tensorboard",
    "Hub": "tbhub.client.hub",
    "AsyncHub": "tbhub.client.hub",
    "HubUnreachable": "tbhub.client.errors",
    "WaitTimeout": "tbhub.client.errors",
    "SourceUnreadable": "tbhub.client.errors",
    "UnexpectedStatusException": "tbhub.client.errors",
    "Problem": "tbhub.api.problems",
    "BadRequest": "tbhub.api.problems",
    "NotAuthenticated": "tbhub.api.problems",
    "Forbidden": "tbhub.api.problems",
    "NotFound": "tbhub.api.problems",
    "Ambiguous": "tbhub.api.problems",
    "Conflict": "tbhub.api.problems",
    "TensorboardLimitExceeded": "tbhub.api.problems",
    "TooManyRequests": "tbhub.api.problems",
    "TooLarge": "tbhub.api.problems",
    "Unavailable": "tbhub.api.problems",
    "Run": "tbhub.tracking.run",
    "Job": "tbhub.tracking.submit",
    "submit": "tbhub.tracking.submit",
    "tensorboard": "tbhub.tracking.board",
    "TensorboardCapability": "tbhub.integrations.vertex",
    "add_tensorboard": "tbhub.tracking.auxiliary",
    "tensorboards_of": "tbhub.tracking.auxiliary",
}

__all__ = [
    "Ambiguous",
    "AsyncHub",
    "AsyncTensorBoard",
    "BadRequest",
    "Conflict",
    "FileWriter",
    "Forbidden",
    "GlobalSummaryWriter",
    "Hub",
    "HubUnreachable",
    "Job",
    "NoEventsError",
    "NotAuthenticated",
    "NotFound",
    "Problem",
    "RecordWriter",
    "Run",
    "RunData",
    "ScalarSeries",
    "SourceUnreadable",
    "SummaryWriter",
    "TbhubError",
    "TbhubWarning",
    "TensorBoard",
    "TensorboardCapability",
    "TensorboardLimitExceeded",
    "TooLarge",
    "TooManyRequests",
    "Unavailable",
    "UnexpectedStatusException",
    "WaitTimeout",
    "WriteError",
    "add_tensorboard",
    "load",
    "register_writer_factory",
    "submit",
    "tensorboard",
    "tensorboards_of",
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
