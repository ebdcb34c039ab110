"""``tbhub export`` of runs that a hub knows: where each is read, and what it is called."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tbhub.cli.asking import connect, selector
from tbhub.cli.named_paths import is_path, may_be_run
from tbhub.errors import NoEventsError

if TYPE_CHECKING:
    from tbhub.api.models import Run


class HubRun(NamedTuple):
    """Where a run of the hub is read.

    Attributes:
        uri: Its directory.
        is_alone: Whether what lies in directories below belongs to other runs.
    """

    uri: str
    is_alone: bool


def names_runs(text: str) -> bool:
    """Return whether a word of the command line selects runs of the hub, and is not a path."""
    return not is_path(text) or may_be_run(text)


def select_runs(words: list[str]) -> dict[str, HubRun]:
    """Return runs of the hub by their names.

    Raises:
        NoEventsError: No hub answers, so the words can only be paths that do not exist.
        NotFound: The hub has no such run.
        Ambiguous: A name is that of several runs.
    """
    from tbhub.client import calls
    from tbhub.client.errors import HubUnreachable
    from tbhub.client.find import pages

    chosen = selector(words)
    try:
        with connect() as hub:
            runs = hub.do(
                pages(
                    lambda size, offset: calls.runs(
                        chosen, limit=size, offset=offset, metrics=False
                    ),
                    lambda page: (page.runs, page.total),
                )
            )
    except HubUnreachable as error:
        raise NoEventsError(f"{words[0]} does not exist, and {error}") from None
    return {
        name: HubRun(f"hub://runs/{run.id}", is_alone=run.attempt == 0)
        for name, run in _named_apart(runs).items()
    }


def _named_apart(runs: list[Run]) -> dict[str, Run]:
    """Return runs by name; names that runs of several workspaces have begin with the workspace."""
    counts = Counter(run.name for run in runs)
    return {
        run.name if counts[run.name] == 1 else f"{run.workspace}/{run.name}": run for run in runs
    }
