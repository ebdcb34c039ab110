"""A board by what people call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tbhub.api.models import Board, Boards
from tbhub.api.problems import Ambiguous, NotFound
from tbhub.client import calls
from tbhub.client.calls import Call
from tbhub.client.steps import Steps, ask

T = TypeVar("T")
Row = TypeVar("Row")
_PAGE = 500


def find_board(name: str) -> Steps[Board]:
    """A board by its id, a unique prefix of that, or its name.

    Names that cannot stand in an address are looked up among all boards.

    Raises:
        NotFound: There is none.
        Ambiguous: There are several; ``details["matches"]`` lists them.
    """
    if name and "/" not in name and name not in (".", ".."):
        return (yield from ask(calls.board(name)))
    boards = yield from every_board(everyone=True)
    found = [board for board in boards if board.name == name]
    if not found:
        raise NotFound(f"no board {name!r}")
    if len(found) > 1:
        matches = [{"id": board.id, "name": board.name} for board in found]
        raise Ambiguous(f"{len(found)} boards are called {name!r}", matches=matches)
    return found[0]


def every_board(
    *, everyone: bool = False, live: bool = False, limit: int | None = None
) -> Steps[list[Board]]:
    """Boards, page by page: all of them, or as many as wanted."""

    def page(size: int, offset: int) -> Call[Boards]:
        return calls.boards(everyone=everyone, live=live, limit=size, offset=offset)

    return pages(page, lambda page: (page.boards, page.total), limit)


def pages(
    call: Callable[[int, int], Call[T]],
    content: Callable[[T], tuple[list[Row], int]],
    limit: int | None = None,
) -> Steps[list[Row]]:
    """The rows of a long list.

    Args:
        call: Asks for a page by its size and where it begins.
        content: A page's rows, and how many there are in all.
    """
    found: list[Row] = []
    while True:
        size = _PAGE if limit is None else min(_PAGE, limit - len(found))
        rows, total = content((yield from ask(call(size, len(found)))))
        found += rows
        if not rows or len(found) >= (total if limit is None else min(limit, total)):
            return found
