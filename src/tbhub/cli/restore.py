"""How far the restore of a run's files is, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from tbhub.cli.event_files import errors
from tbhub.cli.text import plain
from tbhub.publisher.restorer import Progress as Restoring


@contextmanager
def shown_restore() -> Iterator[Callable[[Restoring], None]]:
    """Show a bar from the first report to the last; nothing where there is no terminal."""
    columns = (
        TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
        BarColumn(20),
        DownloadColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
    )
    bar = Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)
    task = bar.add_task("restoring")

    def show(found: Restoring) -> None:
        if found.files >= found.of_files:
            bar.stop()
            return
        text = f"restoring {found.files + 1} of {found.of_files}: {plain(found.path)}"
        bar.update(task, description=text, completed=found.bytes, total=found.of_bytes)
        if not bar.live.is_started:
            bar.start()

    try:
        yield show
    finally:
        bar.stop()
