"""GlobalSummaryWriter: one writer for a whole tree of processes, which counts steps itself."""

from __future__ import annotations

import os
import threading
from typing import Any, Self

from tbhub._kernel import SharedCounters
from tbhub.writer.event_file import warn
from tbhub.writer.summary_writer import SummaryWriter

_instances: dict[type, Any] = {}
_making = threading.Lock()
os.register_at_fork(after_in_child=_making._at_fork_reinit)  # type: ignore[attr-defined]


class GlobalSummaryWriter:
    """A writer without steps: each kind and tag counts 0, 1, 2, … by itself.

    Processes forked from this one, and those it is pickled to, share the counters and write to
    files of their own in the same directory, so that together they make one series. Use
    ``getSummaryWriter`` to get hold of the same writer everywhere, as one does with loggers.
    """

    _writer_type: type[SummaryWriter] = SummaryWriter

    def __init__(
        self,
        logdir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int | None = None,
        flush_secs: float | None = None,
        filename_suffix: str = "",
        write_to_disk: bool = True,
        log_dir: str | os.PathLike[str] | None = None,
        coalesce_process: bool = True,
        **kwargs: Any,
    ) -> None:
        """Takes what SummaryWriter takes; ``coalesce_process`` is always on."""
        self.smw = self._writer_type(
            logdir,
            comment,
            purge_step,
            max_queue,
            flush_secs,
            filename_suffix,
            write_to_disk,
            log_dir,
        )
        self._counters = SharedCounters()

    def _next_step(self, kind: str, tag: Any) -> int:
        # A wrong tag does not use up a step: the writer refuses it with a proper error.
        return self._counters.next(f"{kind}\0{tag}") if isinstance(tag, str) else 0

    def add_scalar(self, tag: str, scalar_value: Any, walltime: float | None = None) -> None:
        """Logs one number at the tag's next step."""
        self.smw.add_scalar(tag, scalar_value, self._next_step("scalar", tag), walltime)

    def add_image(
        self, tag: str, img_tensor: Any, walltime: float | None = None, dataformats: str = "CHW"
    ) -> None:
        """Logs an image at the tag's next step."""
        step = self._next_step("image", tag)
        self.smw.add_image(tag, img_tensor, step, walltime, dataformats)

    def add_text(self, tag: str, text_string: str, walltime: float | None = None) -> None:
        """Logs text at the tag's next step."""
        self.smw.add_text(tag, text_string, self._next_step("text", tag), walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Logs a distribution at the tag's next step."""
        step = self._next_step("histogram", tag)
        self.smw.add_histogram(tag, values, step, bins, walltime, max_bins)

    def add_audio(
        self, tag: str, snd_tensor: Any, sample_rate: int = 44100, walltime: float | None = None
    ) -> None:
        """Logs sound at the tag's next step."""
        self.smw.add_audio(tag, snd_tensor, self._next_step("audio", tag), sample_rate, walltime)

    @classmethod
    def getSummaryWriter(cls) -> Self:  # noqa: N802
        """The process's one global writer, made at the first call."""
        with _making:
            if cls not in _instances:
                _instances[cls] = cls()
            instance: Self = _instances[cls]
            return instance

    @property
    def file_writer(self) -> Any:
        """The writer of the log directory."""
        return self.smw.file_writer

    def flush(self) -> None:
        """Hands every event to the operating system."""
        self.smw.flush()

    def close(self) -> None:
        """Flushes and closes the file of this process."""
        self.smw.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"smw": self.smw, "counters": self._counters.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.smw = state["smw"]
        try:
            self._counters = SharedCounters(state["counters"])
        except OSError:
            warn("GlobalSummaryWriter: the process it came from has ended; steps start at 0 again")
            self._counters = SharedCounters()
