"""`TbhubLogger`: Lightning's logger that writes to a run.

    from tbhub.integrations.lightning import TbhubLogger

    trainer = Trainer(logger=TbhubLogger())

Metrics keep the names they are logged under. Lightning comes as ``lightning`` and as
``pytorch_lightning``, with a base class each; where both are installed the one counts that the
program has imported.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tbhub.integrations.ownership import Ownership

if "pytorch_lightning" in sys.modules or find_spec("lightning") is None:
    from pytorch_lightning.loggers.logger import Logger, rank_zero_experiment
    from pytorch_lightning.utilities.rank_zero import rank_zero_only
else:
    from lightning.pytorch.loggers.logger import Logger, rank_zero_experiment
    from lightning.pytorch.utilities.rank_zero import rank_zero_only

if TYPE_CHECKING:
    from tbhub.tracking.run import Run
    from tbhub.writer.summary_writer import SummaryWriter

_STEP = "trainer/global_step"


class TbhubLogger(Logger):  # type: ignore[misc]  # checked without Lightning's types
    """Logs to a run from the process of rank 0.

    Args:
        run: The run to log to. Without one the run of `tbhub run`, or else a new one.
        save_dir: What Lightning keeps checkpoints below. Not the run's directory, which is for what
            is published and then emptied.

    A run that is made here ends as failed when training fails, and else with the program: after
    ``fit`` often comes ``test``. `run.finish` ends it sooner.
    """

    def __init__(self, run: Run | None = None, save_dir: str | os.PathLike[str] = ".") -> None:
        super().__init__()
        self._ownership = Ownership(run)
        self._save_dir = os.fspath(save_dir)

    @property
    def run(self) -> Run:
        """The run that is logged to."""
        return self._ownership.run

    @property
    @rank_zero_experiment  # type: ignore[untyped-decorator]
    def experiment(self) -> SummaryWriter:
        """The run's SummaryWriter, for images and whatever else TensorBoard can show."""
        return self.run.writer()

    @property
    def name(self) -> str:
        """The directory of checkpoints below `save_dir`."""
        return "tbhub"

    @property
    def version(self) -> str | None:
        """The run's name, in the process of rank 0; the others are told by Lightning."""
        return self.run.name if rank_zero_only.rank == 0 else None

    @property
    def save_dir(self) -> str:
        """What Lightning keeps checkpoints below."""
        return self._save_dir

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Logs numbers of one step; without a step they are counted."""
        if step is None:
            self.run.log_metrics(metrics)
        else:
            self.run.log_metrics({**metrics, _STEP: step}, _STEP)

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_hyperparams(self, params: Mapping[str, Any] | Namespace) -> None:
        """Logs hyperparameters, as ``save_hyperparameters`` has collected them."""
        self.run.log_hparams(vars(params) if isinstance(params, Namespace) else params)

    @rank_zero_only  # type: ignore[untyped-decorator]
    def save(self) -> None:
        """Writes out what has been logged."""
        self.experiment.flush()

    @rank_zero_only  # type: ignore[untyped-decorator]
    def finalize(self, status: str) -> None:
        """Writes out what has been logged; a training that has failed is over."""
        from tbhub.tracking.run import RunOverError

        with suppress(RunOverError):  # Lightning finalizes again, or its user has ended the run
            self.save()
        if status != "success":
            self._ownership.finish("failed")
