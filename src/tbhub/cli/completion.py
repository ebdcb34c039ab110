"""What a shell offers after TAB: boards, experiments and runs, by asking the hub.

Nothing where none answers: a shell is no place for complaints, nor to wait for long.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tbhub.api.models import Run
    from tbhub.client.hub import Hub

_TIMEOUT = 2.0
_OFFERED = 100
_EXPERIMENT = "exp:"


def complete_boards(incomplete: str) -> list[tuple[str, str]]:
    """Ids and names of boards that begin like this, with what they are."""
    try:
        from tbhub.client.hub import Hub

        with Hub(timeout=_TIMEOUT) as hub:
            boards = hub.boards(limit=_OFFERED).boards
    except Exception:
        return []
    found = []
    for board in boards:
        about = f"{board.name}, {board.state}"
        fits = board.name.startswith(incomplete)
        is_word = _is_word(board.name)
        if fits and is_word:
            found.append((board.name, board.state.value))
        if (incomplete and board.id.startswith(incomplete)) or (fits and not is_word):
            found.append((board.id, about if about.isprintable() else board.state.value))
    return found


def complete_experiments(incomplete: str) -> list[tuple[str, str]]:
    """Names of experiments that begin like this."""
    try:
        from tbhub.client.hub import Hub

        with Hub(timeout=_TIMEOUT) as hub:
            found = _experiments(hub, incomplete)
    except Exception:
        return []
    return [(name, number) for name, number in found if _is_word(name)]


def complete_selectors(incomplete: str) -> list[tuple[str, str]]:
    """Experiments and runs that begin like this, as selectors name them."""
    try:
        from tbhub.catalog.selection import ExperimentName
        from tbhub.client.hub import Hub

        cut = _cut_off()
        word = cut + incomplete
        found: list[tuple[str, str]] = []
        with Hub(timeout=_TIMEOUT) as hub:
            if word.startswith(_EXPERIMENT):
                names = _experiments(hub, word.removeprefix(_EXPERIMENT))
            else:
                names = _experiments(hub, "") if _EXPERIMENT.startswith(word) else []
                found = [(_run(run.name), f"#{run.id}") for run in _runs(hub, word)]
        found += [(str(ExperimentName(name)), number) for name, number in names]
    except Exception:
        return []
    return [
        (each.removeprefix(cut), about if about.isprintable() else "")
        for each, about in found
        if _is_word(each)
    ]


def _experiments(hub: Hub, beginning: str) -> list[tuple[str, str]]:
    """Names and numbers."""
    found = hub.experiments(beginning, limit=_OFFERED).experiments
    return [
        (each.name, f"experiment {each.id}") for each in found if each.name.startswith(beginning)
    ]


def _runs(hub: Hub, beginning: str) -> list[Run]:
    if beginning and not re.fullmatch(r"\w[\w./-]*", beginning):
        return []  # a path, a filter
    chosen = f'where name ~ "{beginning}"' if beginning else ""
    found = hub.runs(chosen, limit=_OFFERED, metrics=False).runs
    return [run for run in found if run.name.startswith(beginning)]


def _run(name: str) -> str:
    """A run as a selector names it; the end of a path needs no quotes."""
    from tbhub.catalog.selection import RunName

    return name if re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)+", name) else str(RunName(name))


def _is_word(text: str) -> bool:
    """A shell takes what it is offered as it stands: it must not be more than a word there."""
    return shlex.quote(text) == text


def _cut_off() -> str:
    """What bash has taken off the word: to it a colon begins another one."""
    before = os.environ.get("COMP_WORDS", "").split()[: int(os.environ.get("COMP_CWORD", "0"))]
    return _EXPERIMENT if before[-2:] == [_EXPERIMENT[:-1], ":"] else ""


BoardArgument = Annotated[
    str,
    typer.Argument(
        metavar="BOARD",
        help="A board: its id, the beginning of that, or its name.",
        autocompletion=complete_boards,
    ),
]
BoardArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="BOARD",
        help="Boards: their ids, the beginnings of these, or their names.",
        autocompletion=complete_boards,
    ),
]
