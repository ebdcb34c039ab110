"""What a shell offers after TAB: boards, by asking the hub; nothing where none answers."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer


def complete_boards(incomplete: str) -> list[tuple[str, str]]:
    """Ids and names of boards that begin like this, with what they are."""
    try:
        from tbhub.client.hub import Hub

        with Hub(timeout=2.0) as hub:
            boards = hub.boards(limit=100).boards
    except Exception:  # a shell is no place for complaints
        return []
    found = []
    for board in boards:
        about = f"{board.name}, {board.state}"
        fits = board.name.startswith(incomplete)
        # A shell takes what it is offered as it stands: it must not be more than a word there.
        is_word = shlex.quote(board.name) == board.name
        if fits and is_word:
            found.append((board.name, board.state.value))
        if (incomplete and board.id.startswith(incomplete)) or (fits and not is_word):
            found.append((board.id, about if about.isprintable() else board.state.value))
    return found


BoardArgument = Annotated[
    str,
    typer.Argument(
        metavar="BOARD",
        help="A board: its id, the beginning of that, or its name.",
        autocompletion=complete_boards,
    ),
]
BoardArguments = Annotated[
    list[str],
    typer.Argument(
        metavar="BOARD",
        help="Boards: their ids, the beginnings of these, or their names.",
        autocompletion=complete_boards,
    ),
]
