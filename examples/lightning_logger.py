"""A Lightning training that logs with `TbhubLogger`.

``python examples/lightning_logger.py`` makes a run of its own, ``tbhub run -- python …`` has it log
to that of the command.
"""

from __future__ import annotations

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from tbhub.integrations.lightning import TbhubLogger


class Line(pl.LightningModule):  # type: ignore[misc]
    """A line, and how it is fitted."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.line = torch.nn.Linear(1, 1)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """The loss of a batch."""
        x, y = batch
        loss = (self.line(x) - y).square().mean()
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        """The loss of a batch that is not learnt from."""
        x, y = batch
        self.log("val_loss", (self.line(x) - y).square().mean())

    def test_step(self, batch: list[torch.Tensor], index: int) -> None:
        """The loss in the end."""
        x, y = batch
        self.log("test_loss", (self.line(x) - y).square().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Plain descent."""
        return torch.optim.SGD(self.parameters(), lr=self.hparams["lr"])


def main() -> None:
    """Fits a line."""
    pl.seed_everything(0, verbose=False)
    x = torch.linspace(-1, 1, 32).unsqueeze(1)
    data = DataLoader(TensorDataset(x, 2 * x + 1), batch_size=8)
    logger = TbhubLogger()
    trainer = pl.Trainer(
        logger=logger,
        accelerator="cpu",
        max_epochs=3,
        log_every_n_steps=1,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Line(lr=0.1)
    trainer.fit(model, data, data)
    trainer.test(model, data, verbose=False)
    print(f"logged to {logger.run.logdir}")


if __name__ == "__main__":
    main()
