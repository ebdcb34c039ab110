"""`TFKerasTensorBoard`: Keras's TensorBoard callback, writing to a run; with any backend.

    from tbhub.integrations.keras import TFKerasTensorBoard

    model.fit(x, y, epochs=3, validation_split=0.1, callbacks=[TFKerasTensorBoard(update_freq=100)])

Directories and tags are those of ``keras.callbacks.TensorBoard``, so that old and new runs share
their charts; TensorFlow is not needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from keras import ops
from keras.callbacks import Callback

from tbhub.integrations.ownership import Ownership

if TYPE_CHECKING:
    from tbhub.tracking.run import Run

_TRAIN, _VALIDATION = "train", "validation"
_PREFIX = "val_"  # Keras's own, of whatever comes from validation data


class TFKerasTensorBoard(Callback):  # type: ignore[misc]  # Keras has no types
    """Logs what training says of each epoch, and of batches if asked.

    Args:
        log_dir: The local directory to write to, if a run is made here; chosen without one.
        histogram_freq: Log the distribution of every weight each so many epochs; 0 for never.
        update_freq: "epoch", "batch", or a number: log each so many batches, too.
        run: The run to log to. Without one the run of `tbhub run`, or else a new one for each
            training, which ends with it.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        histogram_freq: int = 0,
        update_freq: Literal["epoch", "batch"] | int = "epoch",
        run: Run | None = None,
    ) -> None:
        super().__init__()
        self.histogram_freq = histogram_freq
        self.update_freq = 1 if update_freq == "batch" else update_freq
        self._ownership = Ownership(run, log_dir)
        self._batches = self._batches_before = 0

    @property
    def run(self) -> Run:
        """The run that is logged to."""
        return self._ownership.run

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Begins a run, if none was given, and logs how the model is trained."""
        self._ownership.renew()
        self._batches = int(_array(self.model.optimizer.iterations))
        optimizer = self.model.optimizer.get_config()
        lengths = {"epochs": self.params["epochs"], "steps": self.params["steps"]}
        self.run.log_hparams({"optimizer": optimizer.pop("name"), **optimizer, **lengths})

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Batches are counted on from epoch to epoch."""
        self._batches_before = self._batches

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Logs the metrics so far, at every so many batches."""
        # Several batches may be one execution, told of by its last.
        last, self._batches = self._batches, self._batches_before + batch + 1
        every = self.update_freq
        if isinstance(every, int) and self._batches // every > last // every:
            metrics = {f"batch_{name}": value for name, value in (logs or {}).items()}
            self.run.log_batch_metrics(metrics, self._batches, _TRAIN)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Logs the metrics of an epoch, and what its weights are like if asked."""
        rate = float(_array(self.model.optimizer.learning_rate))
        stages: dict[str, dict[str, Any]] = {_TRAIN: {"epoch_learning_rate": rate}}
        for name, value in (logs or {}).items():
            stage = _VALIDATION if name.startswith(_PREFIX) else _TRAIN
            stages.setdefault(stage, {})[f"epoch_{name.removeprefix(_PREFIX)}"] = value
        for stage, metrics in stages.items():
            self.run.log_metrics({**metrics, "epoch": epoch}, "epoch", stage)
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            for weight in self.model.weights:
                tag = f"{weight.path}/histogram"
                self.run.writer(_TRAIN).add_histogram(tag, _array(weight), epoch)
        for stage in stages:
            self.run.writer(stage).flush()  # before a checkpoint of this epoch is saved

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Ends the run, if it was made here."""
        self._ownership.finish()


def _array(variable: Any) -> Any:
    """What a variable holds; by way of a tensor, because numpy warns of variables."""
    return ops.convert_to_numpy(ops.convert_to_tensor(variable))
