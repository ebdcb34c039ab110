"""`TbhubCallback`: has Hugging Face's Trainer log to a run.

    from tbhub.integrations.transformers import TbhubCallback

    trainer = Trainer(model, args, train_dataset=data, callbacks=[TbhubCallback()])

The arguments of the training are the hyperparameters. What comes from evaluation, which Trainer
calls ``eval_…``, goes to the stage ``eval`` without that prefix: both losses are in one chart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from tbhub.integrations.ownership import Ownership

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

    from tbhub.tracking.run import Run

_STEP = "global_step"
_EVAL = "eval_"


class TbhubCallback(TrainerCallback):  # type: ignore[misc]  # checked without their types
    """Logs from the first process of a training.

    Args:
        run: The run to log to. Without one the run of `tbhub run`, or else a new one, which ends
            with the program: after ``train`` often comes ``evaluate``. `run.finish` ends it sooner.
    """

    def __init__(self, run: Run | None = None) -> None:
        self._ownership = Ownership(run)

    @property
    def run(self) -> Run:
        """The run that is logged to."""
        return self._ownership.run

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: Any,
    ) -> None:
        """Logs the arguments of the training; secrets among them are left out by their maker."""
        if state.is_world_process_zero:
            self.run.log_hparams(args.to_dict())

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        """Logs what Trainer tells, at the step it has come to."""
        if not state.is_world_process_zero:
            return
        stages: dict[str, dict[str, Any]] = {}
        for name, value in (logs or {}).items():
            stage = "eval" if name.startswith(_EVAL) else "train"
            if isinstance(value, str):
                self.run.writer(stage).add_text(name, value, state.global_step)
            else:
                stages.setdefault(stage, {})[name.removeprefix(_EVAL)] = value
        for stage, metrics in stages.items():
            self.run.log_metrics({**metrics, _STEP: state.global_step}, _STEP, stage)
            self.run.writer(stage).flush()  # before a checkpoint of this step is saved

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: Any,
    ) -> None:
        """Writes out what has been logged."""
        if state.is_world_process_zero:
            self.run.writer("train").flush()
