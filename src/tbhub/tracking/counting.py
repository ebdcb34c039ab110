"""Where the steps of a run have come to, so that counting goes on behind that.

The logs themselves are read: the catalog may not have read yet what an earlier attempt has logged,
which may have ended a moment ago.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tbhub.client.hub import Hub
from tbhub.errors import TbhubWarning
from tbhub.events.names import is_event_file
from tbhub.series.load import load
from tbhub.storage.open import open_store
from tbhub.storage.store import Patience
from tbhub.tracking.owed import hub_credentials
from tbhub.tracking.waiting import within

if TYPE_CHECKING:
    from tbhub.api.models import Run as KnownRun

_SECONDS = 10.0  # that a training waits to know where it had come to
_MOST = 64 << 20  # bytes; what has logged more is known to the catalog but for its last second
_PATIENCE = Patience(timeout=_SECONDS, connect_timeout=3.0, retries=2, total=_SECONDS)


def counted_here(files: Iterable[Path]) -> int:
    """The step behind the last one that event files have; 0 without any."""
    return max(map(_counted, files), default=0)


def _counted(file: Path) -> int:
    try:
        found = load(file)
    except OSError:  # gone, or nothing is in it
        return 0
    series = (each for run in found.values() for each in run.scalars.values() if len(each))
    return max((int(each.steps.max()) for each in series), default=-1) + 1


def counted_before(hub: Hub, run: KnownRun, attempt: int, directory: str) -> int:
    """The same of what earlier attempts have published below a directory of the run."""
    try:
        found = within(_SECONDS, lambda: _counted_there(hub, run.id, attempt, directory))
    except OSError as error:
        found = _counted_by_catalog(run, directory)
        warnings.warn(
            f"what {run.name} has logged before cannot be read ({error}): steps below {directory} "
            f"are counted from {found}, where the hub knows of",
            TbhubWarning,
            stacklevel=2,
        )
    return found


def _counted_there(hub: Hub, run: int, attempt: int, directory: str) -> int:
    store, top = open_store(f"hub://runs/{run}", hub_credentials(hub, attempt), patience=_PATIENCE)
    try:
        files = [each for each in store.list(f"{top}/{directory}") if is_event_file(each.path)]
        if sum(each.size for each in files) > _MOST:
            raise OSError(f"it is more than {_MOST >> 20} MB")
        with TemporaryDirectory(prefix="tbhub-steps-") as copies:
            for number, entry in enumerate(files):
                # Not named like an event file, which `tbhub run` would take for the command's.
                Path(copies, f"{number}.copy").write_bytes(store.read(entry.path))
            return counted_here(Path(copies).iterdir())
    finally:
        store.close()


def _counted_by_catalog(run: KnownRun, directory: str) -> int:
    below = f"{directory}/"
    steps = (metric.last_step for tag, metric in run.metrics.items() if tag.startswith(below))
    return max(steps, default=-1) + 1
