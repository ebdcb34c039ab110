"""What commands ask: the hub, and the person in front of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tbhub.cli.text import count, duration, is_text, plain, size

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tbhub.api.models import Board, Deleted, Run
    from tbhub.api.problems import NotFound
    from tbhub.client.hub import Hub

Model = TypeVar("Model", bound="BaseModel")
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]
NAMED = 5  # of what is to go


class Refused(Exception):  # noqa: N818
    """Somebody said no."""


def connect() -> Hub:
    """The hub that ``TBHUB_URL``, ``tbhub login`` or this machine's home names."""
    from tbhub.client.hub import Hub

    return Hub()


def find(hub: Hub, board: str, *, to_change: bool = False) -> Board:
    """Return a board by its id, a unique prefix of that, or its name; see `find_board`."""
    from tbhub.api.problems import NotFound
    from tbhub.client.find import find_board

    if not is_text(board):
        raise NotFound(f"There is no board {plain(board)}.")
    return hub.do(find_board(board, to_change=to_change))


def expiring(model: type[Model], expires: str | None, **fields: object) -> Model:
    """A request with the time of ``--expires``.

    Raises:
        ValueError: That is none, or cannot be.
    """
    from tbhub.api.problems import BadRequest
    from tbhub.client.calls import build

    try:
        return build(model, expires_in=None if expires is None else duration(expires), **fields)
    except BadRequest as error:
        raise ValueError(error.message.replace("expires_in", "--expires")) from None


def selector(words: Iterable[str] | None) -> str:
    """Return the words of a command line as one selector, with absolute paths.

    A word that looks like a path, or contains blanks and a slash, and that names something that
    exists is one path, whatever characters it contains.
    """
    from tbhub.catalog.selection import looks_like_path, quote
    from tbhub.client.paths import absolute, absolute_paths, is_path_here

    found = []
    for word in words or ():
        path = os.path.expanduser(word)
        is_explicit = "://" not in word and looks_like_path(word) and os.path.exists(path)
        if is_explicit or (" " in word and is_path_here(word)):
            found.append(quote(absolute(path)))
        else:
            found.append(word)
    return absolute_paths(" ".join(found))


def unknown_words(chosen: str, error: NotFound) -> list[str]:
    """Return the terms of a selector that the hub did not find, as they are written there."""
    from tbhub.catalog.selectors import parse

    unknown = error.details.get("terms") or ()
    return [
        term.typed for term in parse(chosen).terms if term.typed in unknown or str(term) in unknown
    ]


def confirm(question: str, yes: bool, about: Sequence[str] = ()) -> None:
    """Asks before something that cannot be undone.

    Args:
        about: Lines that say more, shown before the question.

    Raises:
        Refused: The answer is not yes.
        ValueError: There is nobody to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        refusal = f"{question} There is no terminal to answer on: say --yes"
        raise ValueError("\n".join([refusal, *about]))
    for line in about:
        print(line, file=sys.stderr)
    if not typer.confirm(question, err=True):
        raise Refused


def in_words(deleted: Deleted) -> str:
    """How much a deletion removes."""
    parts = []
    if deleted.experiments:
        parts.append(count(deleted.experiments, "experiment"))
    parts.append(count(deleted.runs, "run"))
    if deleted.files:
        parts.append(f"{count(deleted.files, 'file')} ({size(deleted.bytes)})")
    return ", ".join(parts)


def what_goes(deleted: Deleted, runs: Sequence[Run]) -> list[str]:
    """The first of the runs that a deletion removes, and of the files that are no event files."""
    lines = []
    if names := [f"{run.name} (#{run.id})" for run in runs]:
        lines.append(f"runs: {_and_more(names, deleted.runs)}")
    if live := [f"{run.name} (#{run.id})" for run in runs if run.status == "running"]:
        lines.append(f"still running, and not stopped by it: {plain(', '.join(live))}")
    if deleted.others:
        others = _and_more(deleted.others[:NAMED], deleted.other_files)
        lines.append(f"with files that are no event files: {others}")
    return lines


def what_stays(deleted: Deleted, runs: Sequence[Run]) -> list[str]:
    """Return where the files of the first of some deleted runs are, which were not deleted."""
    lines = [f"files of {plain(run.name)} stay in {plain(run.location)}" for run in runs]
    more = deleted.runs - len(runs)
    return [*lines, f"and those of {count(more, 'more run')}"] if more > 0 else lines


def _and_more(names: Sequence[str], total: int) -> str:
    more = total - len(names)
    return plain(", ".join(names)) + (f" and {more:,} more" if more > 0 else "")


def read_secret(prompt: str, from_stdin: bool, option: str, *, twice: bool = False) -> str:
    """A password or token: typed unseen, or a line of standard input; never an argument.

    Raises:
        ValueError: There is none.
    """
    if from_stdin:
        secret = sys.stdin.readline().rstrip("\r\n")
    elif not sys.stdin.isatty():
        raise ValueError(f"there is no terminal to ask for the {prompt.lower()} on: give {option}")
    else:
        import getpass

        secret = getpass.getpass(f"{prompt}: ", sys.stderr)
        if twice and getpass.getpass("Once more: ", sys.stderr) != secret:
            raise ValueError("the two are not the same; nothing was changed")
    if not secret:
        raise ValueError(f"the {prompt.lower()} is empty")
    return secret
