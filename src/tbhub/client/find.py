"""A board by what people call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tbhub.api.models import Board, Boards
from tbhub.client import calls
from tbhub.client.calls import Call
from tbhub.client.steps import Steps, ask

T = TypeVar("T")
Row = TypeVar("Row")
_PAGE = 500


def find_board(name: str, *, to_change: bool = True) -> Steps[Board]:
    """Return a board by its id, a unique prefix of that, or its name; the hub decides which.

    Of several boards of a name the hub prefers the caller's own, then live ones.

    Args:
        to_change: Several ended boards of a name are ambiguous, instead of meaning the newest.

    Raises:
        NotFound: There is none.
        Ambiguous: There are several; ``details["matches"]`` lists them.
    """
    found = yield from ask(calls.find_board(name, to_change=to_change))
    return found.boards[0]


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
