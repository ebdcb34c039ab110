"""`TorchWriter`: a writer that knows where the current run logs; as Determined's users know it.

    from tbhub.integrations.torch import TorchWriter

    writer = TorchWriter()
    writer.add_scalar("loss", loss, step)
    writer.writer.add_graph(model, example)

torch itself is not imported: our SummaryWriter takes its tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tbhub.integrations.ownership import Ownership

if TYPE_CHECKING:
    from tbhub.tracking.run import Run
    from tbhub.writer.summary_writer import SummaryWriter


class TorchWriter:
    """Every call of a SummaryWriter, writing to the current run.

    Args:
        run: The run to log to. Without one the run of `tbhub run`, or else a new one, which ends
            with `close` or with the program.
    """

    def __init__(self, run: Run | None = None) -> None:
        self._ownership = Ownership(run)
        self.writer: SummaryWriter = self.run.writer()

    @property
    def run(self) -> Run:
        """The run that is logged to."""
        return self._ownership.run

    def add_scalar(self, name: str, value: Any, step: int, *args: Any, **options: Any) -> None:
        """Logs one number."""
        self.writer.add_scalar(name, value, step, *args, **options)

    def reset(self) -> None:
        """Closes the file that is written to; the next call begins another."""
        self.writer.close()

    def close(self) -> None:
        """Closes the writer, and ends the run if it was made here."""
        self.writer.close()
        self._ownership.finish()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "writer":  # not yet there, as in a copy being made
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.writer, name)
