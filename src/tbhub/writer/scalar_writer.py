"""ScalarWriter: the hot half of SummaryWriter. Files, scalars, flush and close.

``add_scalar`` calls the kernel and looks at its answer, which is 0 unless Python has something
to do. Nothing here loads numpy or protobuf for a plain float.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from tbhub._kernel import CONVERT, NON_FINITE, TROUBLED
from tbhub.events.names import default_logdir
from tbhub.writer.arrays import to_array, to_float, to_step
from tbhub.writer.event_file import DEFAULT_FLUSH_SECS
from tbhub.writer.file_writer import DiscardingFileWriter, FileWriter
from tbhub.writer.non_finite import MAX_FLOAT32, warn_non_finite
from tbhub.writer.publishing import publish
from tbhub.writer.record_writer import find_place


class ScalarWriter:
    """Writes numbers to event files in one directory, and owns those files."""

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
    ) -> None:
        """Opens an event file.

        Args:
            logdir: The directory, or a URI (``s3://bucket/run``) to which its files are published;
                ``runs/<time>_<host><comment>`` when none is given, inside a run the run's own.
            comment: The end of the default directory's name; unused when one is given.
            purge_step: Readers forget what was logged at this step and later by earlier writers
                in the same directory: for going on from a checkpoint.
            max_queue: Events that may wait before they are written ahead of time; no limit by
                default, as waiting events are bounded by their size.
            flush_secs: Seconds an event may wait in memory (2 by default).
            filename_suffix: The end of every event file's name.
            write_to_disk: With False nothing is written at all.
            log_dir: torch's name for ``logdir``, which wins when both are given.
        """
        directory = logdir if logdir else log_dir
        self.logdir = os.fspath(directory) if directory else default_logdir(comment)
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = DEFAULT_FLUSH_SECS if flush_secs is None else flush_secs
        self.filename_suffix = filename_suffix
        self._write_to_disk = write_to_disk
        self._must_purge = purge_step is not None
        # Later files belong beside the first, also when the program has moved by then.
        self._working_directory = "" if os.path.isabs(self.logdir) else os.getcwd()
        self._forget_files()
        self._open(now=True)

    # ------------------------------------------------------------------ files

    def _forget_files(self) -> None:
        self._file_writer: FileWriter | None = None
        self._sub_writers: dict[str, FileWriter] = {}
        # The kernel's function once a file is open; this is what makes add_scalar quick.
        self._add_scalar: Any = self._open_and_add_scalar

    def _open(self, now: bool = False) -> FileWriter:
        if self._file_writer is not None:
            return self._file_writer
        if not self._write_to_disk:
            self._file_writer = DiscardingFileWriter(self.logdir)
            self._add_scalar = lambda tag, value, step, walltime: 0
            return self._file_writer
        writer = self._new_file_writer(self.logdir, now)
        if self._must_purge:
            writer.event_writer.sink.add_session_start(to_step(self.purge_step, "purge_step"))
            self._must_purge = False
        self._file_writer = writer
        self._add_scalar = writer.event_writer.sink.add_scalar
        return writer

    _file_writer_type: type[FileWriter] = FileWriter

    def _new_file_writer(self, directory: str, now: bool = False) -> FileWriter:
        """Only what is opened now raises where the disk does not allow it."""
        if not self._write_to_disk:
            return DiscardingFileWriter(directory)
        make = self._file_writer_type if now else self._file_writer_type.unopened
        return make(
            self._absolute(directory), self.max_queue, self.flush_secs, self.filename_suffix
        )

    def _local(self, directory: str) -> str | None:
        """Where the files of a directory are on this machine; None where a factory has them."""
        place = find_place(self._absolute(directory))
        return place if isinstance(place, str) else None

    def _absolute(self, directory: str) -> str:
        """Where a directory was when the writer was made; the program may have moved since."""
        return directory if "://" in directory else os.path.join(self._working_directory, directory)

    def _open_and_add_scalar(self, tag: Any, value: Any, step: Any, walltime: Any) -> int:
        self._open()
        status: int = self._add_scalar(tag, value, step, walltime)
        return status

    @property
    def file_writer(self) -> FileWriter:
        """The writer of the log directory itself."""
        return self._open()

    @property
    def all_writers(self) -> dict[str, FileWriter]:
        """Every open writer by its directory: the main one and those of ``add_scalars``."""
        return {self.logdir: self._open(), **self._sub_writers}

    @property
    def log_dir(self) -> str:
        """The log directory, by torch's name."""
        return self.logdir

    def get_logdir(self) -> str:
        """The directory the event files are in."""
        return self.logdir

    def _get_file_writer(self) -> FileWriter:
        return self._open()

    def _add(self, summary: Any, global_step: Any, walltime: Any, where: str) -> None:
        step = to_step(global_step, where)
        wall_time = None if walltime is None else to_float(walltime, where)
        self._open().add_summary(
            summary.SerializeToString(), None if global_step is None else step, wall_time
        )

    # ------------------------------------------------------------------ scalars

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        display_name: str | bool = "",
        summary_description: str | bool = "",
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Logs one number.

        Args:
            tag: The series.
            scalar_value: A number, or anything that holds exactly one: a numpy scalar, a tensor.
            global_step: The step; anything ``int`` takes. None means 0.
            walltime: Seconds since the epoch, when not now.
            display_name: The chart's title.
            summary_description: Markdown shown with the chart.
            new_style: Store a tensor, as TensorFlow 2 does.
            double_precision: Store 64 bits (implies ``new_style``).

        torch's order (``new_style``, ``double_precision`` in fifth and sixth place) is understood.
        """
        if display_name or summary_description or new_style or double_precision:
            self._add_styled_scalar(
                tag,
                scalar_value,
                global_step,
                walltime,
                display_name,
                summary_description,
                new_style,
                double_precision,
            )
            return
        status = self._add_scalar(tag, scalar_value, global_step, walltime)
        if status:
            self._attend_to(status, tag, scalar_value, global_step, walltime)

    def _attend_to(self, status: int, tag: Any, value: Any, step: Any, walltime: Any) -> None:
        """What the quick path leaves to Python: conversions, warnings, and errors with the tag."""
        if status & CONVERT:
            where = f"add_scalar({tag!r:.80})"
            check_tag(tag, where)
            status = self._add_scalar(
                tag,
                to_float(value, where),
                to_step(step, where),
                None if walltime is None else to_float(walltime, where),
            )
        if status & NON_FINITE:
            warn_non_finite(tag, value, step)
        if status & TROUBLED:
            self._open().event_writer.report()

    def _add_styled_scalar(
        self,
        tag: str,
        value: Any,
        step: Any,
        walltime: Any,
        display_name: str | bool,
        description: str | bool,
        new_style: bool,
        double_precision: bool,
    ) -> None:
        from tbhub.writer.summaries.scalar import scalar

        if isinstance(display_name, bool):
            new_style, display_name = new_style or display_name, ""
        if isinstance(description, bool):
            double_precision, description = double_precision or description, ""
        where = f"add_scalar({tag!r:.80})"
        check_tag(tag, where)
        number = to_float(value, where)
        summary = scalar(
            tag, number, display_name, description, new_style or double_precision, double_precision
        )
        if number != number or number in (float("inf"), float("-inf")):
            warn_non_finite(tag, number, step)
        self._add(summary, step, walltime, where)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Logs several numbers under one tag, each as a run of its own below the log directory."""
        where = f"add_scalars({main_tag!r:.80})"
        check_tag(main_tag, where)
        if not isinstance(tag_scalar_dict, Mapping):
            raise TypeError(f"{where}: expected a dict of numbers, got {tag_scalar_dict!r:.80}")
        wall_time = time.time() if walltime is None else to_float(walltime, where)
        step = to_step(global_step, where)
        for tag, value in tag_scalar_dict.items():
            check_tag(tag, where)
            number = to_float(value, f"{where}[{tag!r:.80}]")
            directory = self._scalars_directory(main_tag, tag)
            writer = self._sub_writers.get(directory)
            if writer is None:
                writer = self._sub_writers[directory] = self._new_file_writer(directory)
            if not self._write_to_disk:
                continue
            status = writer.event_writer.sink.add_scalar(main_tag, number, step, wall_time)
            if status & NON_FINITE:
                warn_non_finite(f"{main_tag}/{tag}", number, step)
            if status & TROUBLED:
                writer.event_writer.report()

    def _scalars_directory(self, main_tag: str, tag: str) -> str:
        """``<logdir>/<main tag>_<tag>``, as torch names it; never outside the log directory."""
        return below(self.logdir, f"{main_tag.replace('/', '_')}_{tag}")

    def add_scalars_batch(
        self,
        tag: str,
        values: Any,
        steps: Any = None,
        wall_times: Any = None,
    ) -> None:
        """Logs a whole series at once, at a small fraction of the cost of single calls.

        Args:
            tag: The series.
            values: One-dimensional: an array, a tensor, a list.
            steps: As many whole numbers; 0, 1, 2, … when none are given.
            wall_times: As many seconds since the epoch, or one for all; now when none are given.
        """
        import numpy as np

        where = f"add_scalars_batch({tag!r:.80})"
        check_tag(tag, where)
        numbers = to_array(values, where)
        if numbers.ndim != 1 or np.iscomplexobj(numbers):
            raise ValueError(
                f"{where}: expected a one-dimensional array of real numbers, got "
                f"shape {numbers.shape} of {numbers.dtype}"
            )
        count = len(numbers)
        numbers = np.ascontiguousarray(numbers, np.float64)
        if steps is not None:
            steps = _batch_column(steps, count, np.int64, "steps", where)
        if wall_times is not None:
            wall_times = to_array(wall_times, where)
            if wall_times.ndim == 0:
                wall_times = np.full(count, wall_times)
            wall_times = _batch_column(wall_times, count, np.float64, "wall_times", where)
        file = self._open()
        if not self._write_to_disk or count == 0:
            return
        file.event_writer.sink.add_scalars(tag, numbers, steps, wall_times)
        bad = ~(np.abs(numbers) < MAX_FLOAT32)
        if bad.any():
            first = int(bad.argmax())
            step = first if steps is None else int(steps[first])
            warn_non_finite(tag, float(numbers[first]), step, "add_scalars_batch")
        if file.event_writer.sink.troubled:
            file.event_writer.report()

    @contextmanager
    def use_metadata(
        self, *, global_step: int | None = None, walltime: float | None = None
    ) -> Iterator[Self]:
        """Inside, calls without a step or wall time of their own get these."""
        writer = self._open()
        plain = self._add_scalar

        def add_with_metadata(tag: Any, value: Any, step: Any, wall_time: Any) -> int:
            status: int = plain(
                tag,
                value,
                global_step if step is None else step,
                walltime if wall_time is None else wall_time,
            )
            return status

        with writer.use_metadata(global_step=global_step, walltime=walltime):
            self._add_scalar = add_with_metadata
            try:
                yield self
            finally:
                self._add_scalar = plain

    def flush(self) -> None:
        """Hands every event to the operating system; raises WriteError where that fails."""
        self._on_each_writer(lambda writer: writer.flush())

    def close(self) -> None:
        """Flushes and closes every file. A later call opens new ones.

        Where the log directory is a URI this waits, a minute at most, until all is published. What
        is left then is kept, and published later.
        """
        self._on_each_writer(lambda writer: writer.close_file())
        publish(self.logdir)

    def wait_until_published(self, seconds: float) -> bool:
        """Waits, so long at most, until all that was logged is where it goes; whether it is.

        For log directories that are URIs; what is written to this machine is there at once.
        """
        self.flush()
        return publish(self.logdir, seconds)

    def _on_each_writer(self, action: Callable[[FileWriter], None]) -> None:
        """Runs an action on every file, all of them even when some fail."""
        writers = [self._file_writer] if self._file_writer else []
        errors = []
        for writer in [*writers, *self._sub_writers.values()]:
            try:
                action(writer)
            except OSError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        live = ("_file_writer", "_sub_writers", "_add_scalar")
        return {name: value for name, value in self.__dict__.items() if name not in live}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget_files()


def check_tag(tag: Any, where: str) -> None:
    if not isinstance(tag, str):
        raise TypeError(f"{where}: expected a string as tag, got {type(tag).__name__}")
    try:
        tag.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where}: the tag is not valid Unicode") from None


def _batch_column(values: Any, count: int, dtype: Any, name: str, where: str) -> Any:
    import numpy as np

    array = to_array(values, where)
    if array.shape != (count,):
        raise ValueError(f"{where}: expected {count} {name}, got shape {array.shape}")
    if array.dtype.kind == "c":
        raise TypeError(f"{where}: {name} must be real numbers, got {array.dtype}")
    if dtype is np.int64 and array.dtype.kind in "uf":
        fits = (array >= -(2.0**63)) & (array < 2.0**63)  # NaN does not
        if not fits.all():
            raise ValueError(f"{where}: {name} must be whole numbers of 64 bits")
    return np.ascontiguousarray(array, dtype)


def below(root: str, path: str) -> str:
    """``path`` below ``root``, with the parts that would lead out of it taken away."""
    parts = ["_" if part == ".." else part for part in path.split("/") if part not in ("", ".")]
    return os.path.join(root, *parts)
